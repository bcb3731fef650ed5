#include "record.h"

bool sc__record_signal_valid(const sc_record_t *r) {
  if (r->kind == SC_RECORD_WATERMARK)
    return r->flags == SC_RECORD_HAS_TIMESTAMP && r->value.len == 0;
  return r->kind == SC_RECORD_STATUS && r->flags == 0 && r->value.len == 1 &&
         (r->value.data[0] == 0xc2 || r->value.data[0] == 0xc3);
}
