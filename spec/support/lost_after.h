/*
 * lost_after: how long specs wait for what a working engine does within milliseconds, before they
 * say that it is lost. Nothing is measured by it: it only has to be longer than the slowest machine
 * under the slowest sanitizer, and the one in spec/support/lost_after.lua is the same.
 */
#ifndef SC_SPEC_LOST_AFTER_H
#define SC_SPEC_LOST_AFTER_H

#define LOST_AFTER_S 120

#endif
