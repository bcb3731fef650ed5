/*
 * splits: the splits that one reader has, and how far it is in each, as list state.
 *
 * State: list "splits" (split mode), an item {position, split} for each split that is not read to
 * its end, in the order they came. A position is any value; absent is the beginning.
 * Threads: the slot's. Ownership: owns copies of the bytes.
 */
#ifndef LSC_SPLITS_H
#define LSC_SPLITS_H

#include "../../core/runtime/operator.h"

typedef struct lsc_split {
  sc_buf_t split;       /* as the enumerator dealt it, msgpack */
  sc_buf_t position;    /* msgpack; empty at the beginning */
  int64_t wake_at_ms;   /* nothing to read before this wall-clock time */
  int64_t first, step;  /* generator: its indices, read from `split` once */
  int64_t next;         /* generator: the next index */
  int64_t given;        /* generator: how many since this reader began with it */
  int64_t began_ms;     /* generator: when that was; its pace counts from here */
} lsc_split_t;

typedef struct lsc_splits {
  lsc_split_t *items;   /* in the order they came */
  uint32_t n, cap;      /* how many, and room for how many */
  bool no_more;         /* the enumerator has none left */
} lsc_splits_t;

/* A new last split. The pointer lives until the next change. */
lsc_split_t *lsc__splits_add(lsc_splits_t *s, sc_bytes_t split, sc_bytes_t position);
void lsc__splits_remove(lsc_splits_t *s, uint32_t i);
/* The wall-clock time of the earliest split, INT64_MAX without any. */
int64_t lsc__splits_wake(const lsc_splits_t *s);
int lsc__splits_restore(lsc_splits_t *s, sc_bytes_t lists, sc_error_t *err);
void lsc__splits_snapshot(const lsc_splits_t *s, sc_snapshot_parts_t *parts);
void lsc__splits_free(lsc_splits_t *s);

#endif
