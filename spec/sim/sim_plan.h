/*
 * sim_plan: everything that a seed decides about a run, before it runs: a graph, the settings of
 * the job, how fast things are, and what goes wrong when.
 *
 * A plan can be made smaller (sim_cut_t) without losing what else the seed decided: disturbances
 * left out, operators left out, fewer and shorter splits, a lower parallelism. That is how a
 * failing run is shrunk.
 *
 * Threads: one. Ownership: a plan is a value without pointers.
 */
#ifndef SPEC_SIM_PLAN_H
#define SPEC_SIM_PLAN_H

#include "../../core/base/buf.h"
#include "../../core/exchange/debloater.h"
#include "../../core/exchange/partitioner.h"

#define SIM_NODES 24
#define SIM_INPUTS 3
#define SIM_DISTURBANCES 12
#define SIM_CLASSES 4
#define SIM_SPLITS 5 /* of a source, at most */

typedef enum { SIM_SOURCE, SIM_MAP, SIM_BUFFER, SIM_SHARE, SIM_KEYED, SIM_SINK } sim_kind_t;
typedef enum { SIM_SAME, SIM_FILTER, SIM_FLAT, SIM_REKEY } sim_map_t;

typedef struct sim_input {
  int from;  /* node */
  bool side; /* its output "pt" instead of "main" */
  sc_partitioner_kind_t edge;
  bool unnamed; /* a rebalance that nobody asked for: forward where the parallelism is the same */
} sim_input_t;

typedef struct sim_node {
  sim_kind_t kind;
  char uid[8];
  int64_t salt;   /* what it mixes into lanes */
  uint32_t class; /* operators of one class have one parallelism */
  sim_input_t inputs[SIM_INPUTS];
  uint32_t n_inputs;
  bool left_out; /* by a cut */
  int region;    /* the least node that it is connected with: what fails over together */
  bool ordered;  /* records of one lane and key leave in order */
  bool new_chain;
  sim_map_t map;            /* MAP */
  uint32_t splits, records; /* SOURCE: records of each split */
  int64_t pause_ms;         /* SOURCE: at some records */
  uint32_t keys;            /* SOURCE */
  bool timed;               /* SOURCE: the native operator makes its watermarks */
  int64_t window_ms;        /* KEYED */
  bool pt;                  /* KEYED: has processing-time timers */
  uint32_t hold;            /* BUFFER: records held back at most */
  int64_t slow_ns;          /* what a record takes, so that the queues before it fill */
} sim_node_t;

typedef enum {
  SIM_CRASH_TURN, /* the process dies between two turns of the scheduler */
  SIM_CRASH_OP,   /* the process dies at an operation of the storage */
  SIM_CRASH_DONE, /* the process dies between two turns, after a checkpoint */
  SIM_FAULT,      /* operations of the storage fail */
  SIM_RAISE,      /* an operator fails once */
  SIM_CANCEL,     /* the user cancels, and starts again */
  SIM_ASK,        /* the user asks for a checkpoint */
  SIM_STOP,       /* the user stops the job, without drain, and starts it again */
  SIM_DRAIN       /* the user stops the job with drain: it is complete with what it has read */
} sim_disturbance_kind_t;

typedef struct sim_disturbance {
  sim_disturbance_kind_t kind;
  uint64_t after; /* checkpoints were told complete in the whole run: not before */
  bool writing;   /* after so many have begun to be written */
  uint64_t at;    /* turns, operations, or calls of operators: over the whole run, or from the
                     moment when `after` is reached */
  uint32_t mask;  /* of operations */
  uint32_t times; /* FAULT */
  int code;       /* FAULT */
  bool power;     /* CRASH: what was not synced is lost */
  bool left_out;
} sim_disturbance_t;

typedef struct sim_cut {
  uint32_t no_disturbance, no_node;                  /* bits */
  uint32_t max_splits, max_records, max_parallelism; /* 0: as they are */
  uint32_t schedule;                                 /* another order of turns */
} sim_cut_t;

typedef enum { SIM_ALIGNED, SIM_OVERTAKING, SIM_TIMED, SIM_AT_LEAST_ONCE } sim_mode_t;

/* What may differ from one life to the next, beside parallelism and slots. */
typedef struct sim_settings {
  sim_mode_t mode;
  int64_t aligned_timeout_ms; /* TIMED */
  uint32_t max_concurrent;    /* checkpoints */
  uint32_t segment_size, exclusive, floating, overdraft;
  sc_debloat_t debloat;       /* buffers that change their size all the time, or not */
  int64_t buffer_timeout_ms;
} sim_settings_t;

typedef struct sim_plan {
  uint64_t seed;
  sim_cut_t cut;
  sim_node_t nodes[SIM_NODES];
  uint32_t n_nodes;
  sim_disturbance_t disturbances[SIM_DISTURBANCES];
  uint32_t n_disturbances;
  uint32_t max_parallelism;
  int64_t interval_ms, timeout_ms, min_pause_ms, restart_ms, restarts, tolerable;
  uint32_t retain;
  bool all_or_none;      /* checkpoints of tasks that have not all ended, or all */
  sim_settings_t first;  /* of the first life */
  bool modes, networks;  /* each life draws its mode, its buffers */
  bool at_least_once;    /* if each draws its mode, this may be one */
  bool alternates;       /* and each second life is at least once, the others are as the first */
  int64_t look_ns, latency_ns;
  uint32_t stall_one_in; /* writes of files take 50 times as long; 0: as many as usual */
  uint32_t pool_threads;
  int64_t clock_set_ms;  /* now and then the wall clock is set by up to so much; 0: never */
  bool from_path;        /* some starts name the path of the newest checkpoint */
  bool older;            /* some name that of an older one */
  bool moves;            /* one begins another job from a checkpoint of this one, and goes on so */
  bool idles;            /* a source's reader without a split says that it is idle */
  bool no_checkpoints;   /* by themselves, and nothing goes wrong */
  bool no_dir;           /* nor can any be asked for */
} sim_plan_t;

void sim_plan_make(sim_plan_t *p, uint64_t seed, const sim_cut_t *cut);
/* Settings, parallelism of a class, and slots in the n-th life of the process. */
void sim_plan_settings(const sim_plan_t *p, uint32_t life, sim_settings_t *out);
const char *sim_mode_name(sim_mode_t mode);
uint32_t sim_plan_parallelism(const sim_plan_t *p, uint32_t class, uint32_t life);
uint32_t sim_plan_slots(const sim_plan_t *p, uint32_t life);
/* The graph and the disturbances, some ten lines. */
void sim_plan_print(const sim_plan_t *p, sc_buf_t *out);

/* 31 bits of a hash: what everything deterministic about records is drawn from. */
int64_t sim_mix(int64_t a, int64_t b);

/* The timestamp of a record of a source: they do not fall within a split, and those of a split lie
 * before those of the next one. */
int64_t sim_timestamp(const sim_node_t *source, int64_t split, int64_t seq);
#define SIM_SPLIT_MS 1000

#endif
