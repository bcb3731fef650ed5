#include "mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void *checked(void *p, size_t size) {
  if (p)
    return p;
  fprintf(stderr, "streamckpt: out of memory (%zu bytes)\n", size);
  abort();
}

void *sc_malloc(size_t size) {
  return checked(malloc(size ? size : 1), size);
}

void *sc_calloc(size_t count, size_t size) {
  if (size && count > SIZE_MAX / size)
    return checked(NULL, SIZE_MAX);
  return checked(calloc(count ? count : 1, size ? size : 1), count * size);
}

void *sc_realloc(void *old, size_t size) {
  return checked(realloc(old, size ? size : 1), size);
}

void *sc_huge_alloc(size_t size) {
  void *p = checked(aligned_alloc(SC_HUGE_BYTES, size), size);
  madvise(p, size, MADV_HUGEPAGE); /* a hint: where there are none it stays as it is */
  return p;
}

char *sc_strdup(const char *text) {
  return text ? sc_strndup(text, strlen(text)) : NULL;
}

char *sc_strndup(const char *text, size_t n) {
  char *copy = sc_malloc(n + 1);
  if (n)
    memcpy(copy, text, n);
  copy[n] = 0;
  return copy;
}

char *sc_format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = sc_malloc((size_t)n + 1);
  va_start(args, format);
  vsnprintf(text, (size_t)n + 1, format, args);
  va_end(args);
  return text;
}
