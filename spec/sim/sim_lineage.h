/*
 * sim_lineage: which checkpoints belong to the history that a job lives in now. Whoever begins from
 * an older checkpoint leaves what came after it: its output is another history's, though it lies in
 * the same folder.
 *
 *   1 - 2 - 3 - 4        life 0
 *        \- 1001         life 1, which began from 2: its history is 1, 2, 1001
 *
 * It holds since ids only grow: each life's are above all that were there before.
 *
 * Threads: one. Ownership: a value.
 */
#ifndef SPEC_SIM_LINEAGE_H
#define SPEC_SIM_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_LIVES 32

typedef struct sim_lineage {
  uint32_t n; /* lives; the last one is this */
  struct {
    uint64_t first; /* checkpoint that it took; 0: none */
    uint64_t from;  /* where it began; 0: anew */
  } lives[SIM_LIVES];
} sim_lineage_t;

void sim_lineage_life(sim_lineage_t *l, uint64_t from); /* a life begins */
void sim_lineage_from(sim_lineage_t *l, uint64_t from); /* and is known to have begun there */
void sim_lineage_taken(sim_lineage_t *l, uint64_t id);  /* a checkpoint, by this life */
uint32_t sim_lineage_life_of(const sim_lineage_t *l, uint64_t id);
/* Where this life is: at the newest safe checkpoint if that is its own, else where it began. */
uint64_t sim_lineage_tip(const sim_lineage_t *l, uint64_t newest_safe);
/* Does what checkpoint `id` committed belong to the history that ends at `tip`? */
bool sim_lineage_holds(const sim_lineage_t *l, uint64_t tip, uint64_t id);

#endif
