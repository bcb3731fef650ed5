// Loaded beside a sanitizer's library, it takes LD_PRELOAD out of the environment again, so that
// what a spec starts (a shell, say) runs without it: Debian's dash crashes under ThreadSanitizer,
// which made os.execute, io.popen and busted's own restart end without a word.
#include <stdlib.h>

__attribute__((constructor)) static void forget_preload(void) {
  unsetenv("LD_PRELOAD");
}
