# streamckpt: a C11 core wrapped as a Lua 5.4 module. `make help` says what each target does.
# Every variable may be given on the command line or in the environment.

CC          ?= cc
CFLAGS      ?= -O2 -g
LIBFLAG     ?= -shared
LUA         ?= lua5.4
LUA_INCDIR  ?= $(or $(wildcard /usr/include/lua5.4),/usr/include)
PREFIX      ?= /usr/local
LUADIR      ?= $(PREFIX)/share/lua/5.4
LIBDIR      ?= $(PREFIX)/lib/lua/5.4
BUSTED      ?= $(or $(shell command -v busted),/usr/bin/busted)
B           ?= build

# ---- nothing to change below ----

WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
       -Wwrite-strings -Wvla -Wno-unused-parameter
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread -fvisibility=hidden $(WARN) $(CFLAGS)
LIBS = -lmsgpackc -lxxhash -pthread

CORE_SRC    := $(wildcard core/*/*.c)
BINDING_SRC := $(wildcard lua/binding/*.c)
PROBE_SRC   := $(wildcard spec/support/*.c)
CORE_OBJ    := $(CORE_SRC:%.c=$(B)/%.o)
BINDING_OBJ := $(BINDING_SRC:%.c=$(B)/%.o)
# The probe drives the binding's rooms too, but not the module's entry and what only it needs.
PROBE_BINDING_OBJ := $(filter-out %/module.o %/plan.o %/job_handle.o,$(BINDING_OBJ))
PROBE_OBJ   := $(PROBE_SRC:%.c=$(B)/%.o)
LUA_FILES   := $(shell find lua/streamckpt -name '*.lua' 2>/dev/null)

MODULE = $(B)/streamckpt/core.so
PROBE  = $(B)/streamckpt/probe.so

all: $(MODULE)

$(MODULE): $(CORE_OBJ) $(BINDING_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LIBFLAG) -Wl,-z,nodelete -o $@ $^ $(LIBS)

$(PROBE): $(CORE_OBJ) $(PROBE_BINDING_OBJ) $(PROBE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LIBFLAG) -Wl,-z,nodelete -o $@ $^ $(LIBS)

$(B)/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/lua/binding/%.o: lua/binding/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -I$(LUA_INCDIR) -MMD -MP -c -o $@ $<

$(B)/spec/support/%.o: spec/support/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -I$(LUA_INCDIR) -MMD -MP -c -o $@ $<

# What `make bench` runs beside the module; built with the same flags.
BENCH     = $(B)/bench/count $(B)/bench/hop
BENCH_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard spec/bench/*.c))

$(B)/bench/count: $(CORE_OBJ) $(B)/spec/bench/count.o $(B)/spec/bench/count_work.o
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $^ $(LIBS) -lm

$(B)/bench/hop: $(CORE_OBJ) $(B)/spec/bench/hop.o $(B)/spec/bench/count_work.o
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $^ $(LIBS) -lm

$(B)/spec/bench/%.o: spec/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

-include $(BENCH_OBJ:.o=.d) $(CORE_OBJ:.o=.d) $(BINDING_OBJ:.o=.d) $(PROBE_OBJ:.o=.d)

# Ratios against references of the same run; FLOOR names the folder of the peers' plain programs.
bench: $(MODULE) $(PROBE) $(BENCH)
	@for script in codec lua_path count checkpoints process visits; do echo "== $$script"; \
	  BENCH_PROGRAMS=$(B)/bench LUA_PATH_5_4="lua/?.lua;lua/?/init.lua;spec/?.lua;;" \
	  LUA_CPATH_5_4="$(B)/?.so;;" $(LUA) spec/bench/$$script.lua || exit 1; done

.PHONY: all bench
