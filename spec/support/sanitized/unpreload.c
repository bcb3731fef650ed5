// Loaded beside a sanitizer's library, it takes LD_PRELOAD out of the environment again, so that
// what a spec starts (a shell, say) runs without it: Debian's dash crashes under ThreadSanitizer,
// which made os.execute, io.popen and busted's own restart end without a word.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../../../core/runtime/host_watch.h"

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

// ThreadSanitizer keeps a signal back until its thread calls something that it watches, so a loop
// of plain Lua would never be interrupted, nor a call that blocks be seen to. This sigaction is
// found before its own: the handler of SIGURG and of the signal of core/runtime/host_watch.h, which
// calls nothing that is watched (lua/binding/interrupt.c), is called at once.
int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  typedef int (*sigaction_t)(int, const struct sigaction *, struct sigaction *);
  bool ours = number == SIGURG || number == SC_SIGNAL_SAMPLE;
  void *libc = ours ? dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD) : NULL;
  sigaction_t f = (sigaction_t)dlsym(libc ? libc : RTLD_NEXT, "sigaction");
  return f(number, action, old);
}
