/*
 * hop: what a record of 64 bytes costs from the output of one thread through a channel to the input
 * of another, beside the same bytes written to and read from one buffer by one thread.
 *
 *   hop [records]      prints JSON: CPU and wall time, ns a record, and the reference's
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "../../core/exchange/input.h"
#include "../../core/exchange/output.h"
#include "count_work.h"

#define RECORD 64 /* bytes on the way: head, timestamp, value */

typedef struct bell {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool rung;
} bell_t;

static bell_t sender_bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
static bell_t receiver_bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void ring(void *arg) {
  bell_t *b = arg;
  pthread_mutex_lock(&b->lock);
  b->rung = true;
  pthread_cond_signal(&b->cond);
  pthread_mutex_unlock(&b->lock);
}

static void wait_for(bell_t *b) {
  pthread_mutex_lock(&b->lock);
  while (!b->rung)
    pthread_cond_wait(&b->cond, &b->lock);
  b->rung = false;
  pthread_mutex_unlock(&b->lock);
}

static uint64_t records = 10000000;
static sc_output_t *output;
static sc_channel_t *channel;

static sc_record_t make_record(uint8_t *value, uint64_t i) {
  memcpy(value, &i, sizeof i);
  return (sc_record_t){.flags = SC_RECORD_HAS_TIMESTAMP, .timestamp = (int64_t)i,
                       .value = sc_bytes(value, RECORD - SC_RECORD_HEAD - 8)};
}

static void *send_all(void *arg) {
  uint8_t value[RECORD] = {0};
  for (uint64_t i = 0; i < records; i++) {
    sc_record_t r = make_record(value, i);
    if (sc_output_emit(output, &r))
      while (!sc_output_has_room(output))
        wait_for(&sender_bell);
  }
  sc_output_end(output);
  sc_output_close(output);
  return NULL;
}

/* As a task reads its input (task.c). */
static uint64_t receive_ahead(sc_input_t *in) {
  uint64_t sum = 0;
  sc_record_t *ahead;
  const sc_record_t *r;
  uint32_t n, port;
  while (sc_input_ahead(in, &ahead) > 0)
    ;
  while ((n = sc_input_records(in, &r, &port)) > 0) {
    for (uint32_t i = 0; i < n; i++)
      sum += sc_load_u64(r[i].value.data);
    sc_input_took(in, n);
    sc_input_ahead(in, &ahead);
  }
  return sum;
}

static uint64_t receive_all(void) {
  const uint32_t port = 0;
  sc_input_t *in = sc_input_create(&channel, &port, 1);
  sc_input_event_t e;
  uint64_t sum = 0;
  do {
    sum += receive_ahead(in);
    if (sc_input_next(in, &e, NULL) < 0)
      abort();
    if (e.kind == SC_INPUT_RECORD)
      sum += sc_load_u64(e.record.value.data);
    else if (e.kind == SC_INPUT_NONE)
      wait_for(&receiver_bell);
  } while (e.kind != SC_INPUT_CLOSED);
  sc_input_destroy(in);
  return sum;
}

static uint64_t through_channel(void) {
  sc_partitioner_t p;
  sc_partitioner_init(&p, SC_FORWARD, 1, 1, 0);
  sc_pool_t *pool = sc_pool_create(0);
  sc_floating_t *floating = sc_floating_create(8);
  sc_channel_ends_t ends = {ring, &sender_bell, &receiver_bell};
  channel = sc_channel_create(2, floating, &ends);
  output = sc_output_create(&p, &channel, pool);
  pthread_t sender;
  if (pthread_create(&sender, NULL, send_all, NULL))
    abort();
  uint64_t sum = receive_all();
  pthread_join(sender, NULL);
  sc_output_destroy(output);
  sc_channel_destroy(channel);
  sc_floating_unref(floating);
  sc_pool_destroy(pool);
  return sum;
}

static uint64_t through_buffer(void) {
  static uint8_t buffer[SC_SEGMENT_SIZE_DEFAULT];
  uint8_t value[RECORD] = {0};
  uint64_t sum = 0, i = 0;
  while (i < records) {
    size_t len = 0;
    for (; i < records && len + RECORD <= sizeof buffer; i++, len += RECORD) {
      memcpy(value, &i, sizeof i);
      memcpy(buffer + len, value, RECORD);
      __asm__ volatile("" ::: "memory"); /* or nothing is written at all */
    }
    for (size_t at = 0; at < len; at += RECORD)
      sum += sc_load_u64(buffer + at);
  }
  return sum;
}

int main(int argc, char **argv) {
  if (argc > 1)
    records = strtoull(argv[1], NULL, 10);
  double cpu = sc_count_cpu(), wall = sc_count_now();
  uint64_t sum = through_channel();
  cpu = sc_count_cpu() - cpu;
  wall = sc_count_now() - wall;
  double plain = sc_count_cpu();
  if (through_buffer() != sum || sum != records * (records - 1) / 2)
    return 1;
  plain = sc_count_cpu() - plain;
  printf("{\"records\":%" PRIu64 ",\"cpu_s\":%.3f,\"wall_s\":%.3f,\"cpu_ns\":%.1f,\"wall_ns\":%.1f,"
         "\"plain_ns\":%.1f}\n", records, cpu, wall, cpu / (double)records * 1e9,
         wall / (double)records * 1e9, plain / (double)records * 1e9);
  return 0;
}
