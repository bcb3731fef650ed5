/*
 * planted: faults that a test build can switch on, one at a time, to see that the simulator finds
 * them (make sim-faults). In every other build SC_PLANTED is false and costs nothing.
 *
 * The list is the whole of them; a name stands at one place in the code, where the right thing is
 * left out or done wrongly. `sc__planted` belongs to the simulator's program (spec/sim).
 *
 * Two faults of a barrier's life have no place here. An end of input cannot be kept with the
 * in-flight data: it is no part of a buffer, and their files hold nothing but what is. A mailed
 * trigger cannot come too early: it is sent only where every sender has left, and a sender leaves
 * when its queues are empty.
 */
#ifndef SC_BASE_PLANTED_H
#define SC_BASE_PLANTED_H

#include <stdbool.h>

#define SC_PLANT_MAP(XX)                                                                           \
  XX(BARRIER_OVERTAKES, "a barrier overtakes the records of a half-filled buffer")                 \
  XX(HELD_READ, "a channel that is held back is read")                                             \
  XX(LOST_PART, "a task whose write failed acknowledges")                                          \
  XX(UNSAFE_METADATA, "operators commit before the name of the metadata is durable")               \
  XX(FINISHED_DROPPED, "a finished task's state is dropped from later checkpoints")                \
  XX(OLD_ACK, "an acknowledgement of an aborted checkpoint counts for the next one")               \
  XX(SPLIT_TWICE, "a split that was dealt is dealt again after a restore")                         \
  XX(TIMERS_LOST, "the timers of one key group are not restored")                                  \
  XX(OVERLAY_LEAKS, "what is written after the barrier leaks into the snapshot")                   \
  XX(LISTED_DELETED, "files that a retained checkpoint lists are deleted")                         \
  XX(PENDING_SWEPT, "a start sweeps parts that a newer checkpoint than its own promises")          \
  XX(NOT_COPIED, "what another job's snapshot has in flight is not copied")                        \
  XX(PART_UNSYNCED, "a sink's part is acknowledged without a sync")                                \
  XX(WATERMARK_AHEAD, "a rescaled operator begins with the greatest watermark")                    \
  XX(OWN_WATERMARK, "a rescaled task begins with the watermark of the old one of its number")      \
  XX(TURNED_AHEAD, "tasks that are dealt what came straight on begin with their own watermarks")   \
  XX(FINISH_UNACKED, "a task may leave while a checkpoint still waits for it")                     \
  XX(ID_AGAIN, "ids begin above what was found, not above what was reserved")                      \
  XX(LEFT_UNCOMMITTED, "a job that is stopped ends before its sinks have committed")               \
  XX(ACK_EARLY, "a task acknowledges before its output barriers are taken or moved")               \
  XX(CAPTURE_OPEN, "a barrier at the head closes no capture")                                      \
  XX(HALF_READ, "the rest of a half-read buffer is not kept")                                      \
  XX(OVERTAKE_ALL, "a moved barrier keeps the buffers behind it too")                              \
  XX(NO_OVERDRAFT, "a task that waits to start a checkpoint waits for room, too")                  \
  XX(SETTLE_GONE, "a barrier for a finished receiver stays unsettled")                             \
  XX(NO_GENERATIONS, "what was in flight is read in another order than it was sent")               \
  XX(NO_TAG, "what is kept again is kept without its holder's key groups")                         \
  XX(SENDER_FIRST, "a virtual channel begins with the sender's part")                              \
  XX(REST_NOT_HELD, "a checkpoint does not hold the files of which it keeps a rest")               \
  XX(REGION_EARLY, "a region goes back before the checkpoint that was decided is written")         \
  XX(REGION_SWEEPS, "a region that goes back sweeps what the sinks of others have pending")        \
  XX(REGION_SPLITS, "a region that goes back sets back the enumerators of others")                 \
  XX(REGION_FINALS, "a region that goes back empties the final snapshots of others")               \
  XX(REGION_TOGETHER, "a region that fails takes the others along")                                \
  XX(DRAIN_HALF, "checkpoints begin while a job is drained, when some sources have ended")         \
  XX(COUNTED_EARLY, "at least once, a task takes its snapshot at the first barrier")               \
  XX(COUNTED_END, "at least once, an end counts before the snapshot")                              \
  XX(MODE_FORGETS, "a job whose barriers may not overtake restores nothing that was in flight")    \
  XX(STOP_ANSWER, "a stop is answered with the first of two final checkpoints")

#ifdef SC_PLANT
#define SC__PLANT_NAME(name, text) SC_PLANT_##name,
enum { SC_PLANT_NOTHING, SC_PLANT_MAP(SC__PLANT_NAME) SC_PLANT_COUNT };
#undef SC__PLANT_NAME
extern int sc__planted; /* which, or SC_PLANT_NOTHING */
#define SC_PLANTED(name) (sc__planted == SC_PLANT_##name)
#else
#define SC_PLANTED(name) false
#endif

#endif
