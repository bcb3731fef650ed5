#include "sim_lineage.h"

#include "../../core/base/error.h"

void sim_lineage_life(sim_lineage_t *l, uint64_t from) {
  sc_assert(l->n < SIM_LIVES);
  l->lives[l->n].from = from;
  l->lives[l->n++].first = 0;
}

void sim_lineage_from(sim_lineage_t *l, uint64_t from) { l->lives[l->n - 1].from = from; }

void sim_lineage_taken(sim_lineage_t *l, uint64_t id) {
  uint64_t *first = &l->lives[l->n - 1].first;
  *first = *first ? *first : id;
}

uint32_t sim_lineage_life_of(const sim_lineage_t *l, uint64_t id) {
  uint32_t life = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (l->lives[i].first && l->lives[i].first <= id)
      life = i;
  return life;
}

uint64_t sim_lineage_tip(const sim_lineage_t *l, uint64_t newest_safe) {
  uint32_t now = l->n - 1;
  bool own = l->lives[now].first && l->lives[now].first <= newest_safe;
  return own ? newest_safe : l->lives[now].from;
}

bool sim_lineage_holds(const sim_lineage_t *l, uint64_t tip, uint64_t id) {
  while (tip && id <= tip) {
    uint32_t life = sim_lineage_life_of(l, tip);
    if (sim_lineage_life_of(l, id) == life)
      return true;
    tip = l->lives[life].from;
  }
  return id == 0;
}
