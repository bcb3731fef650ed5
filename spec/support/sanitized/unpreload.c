// Loaded beside a sanitizer's library, it takes LD_PRELOAD out of the environment again, so that
// what a spec starts (a shell, say) runs without it: Debian's dash crashes under ThreadSanitizer,
// which made os.execute, io.popen and busted's own restart end without a word.
#include <setjmp.h>
#include <stdlib.h>

__attribute__((constructor)) static void forget_preload(void) {
  unsetenv("LD_PRELOAD");
}

// Debian's Lua is built with _FORTIFY_SOURCE, so that an error or a yield leaves C functions by
// __longjmp_chk, which ThreadSanitizer does not know: it took those functions for running still,
// and gave up when 65,536 of them had come together, a second into a pipeline. (AddressSanitizer
// has a __longjmp_chk of its own, which is found before this one.)
__attribute__((noreturn)) void __longjmp_chk(jmp_buf where, int value) {
  longjmp(where, value);
}
