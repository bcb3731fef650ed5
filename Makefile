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
DESTDIR     ?=
# Where objects and modules go; a build with other flags wants another folder.
B           ?= build
# Optimizing across files when the module is linked, where the compiler can; `LTO=` does without.
ifeq ($(origin LTO),undefined)
LTO := $(shell echo 'int x;' | $(CC) -flto=auto -ffat-lto-objects -Werror -x c -c -o /dev/null - \
         2>/dev/null && echo -flto=auto)
endif
# How many spec files run at once, and how many seconds one may take.
JOBS        ?= $(shell nproc)
LIMIT       ?= 600
# The specs that test, asan and tsan run: files or folders.
PART        ?= $(wildcard spec/core spec/lua spec/api spec/e2e spec/sim)

# ---- nothing to change below ----

WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
       -Wwrite-strings -Wvla -Wno-unused-parameter
INCLUDE = $(addprefix -I,$(MSGPACK_INCDIR) $(XXHASH_INCDIR))
# Fat objects: the probe, the simulator and the bench's module are linked from the same ones without
# it, the last two because --wrap does not reach into code that is optimized while it is linked.
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread -fvisibility=hidden $(WARN) $(INCLUDE) $(CFLAGS) \
             $(LTO) $(if $(LTO),-ffat-lto-objects)
LUA_CFLAGS = $(ALL_CFLAGS) -I$(LUA_INCDIR)
LIBS = $(addprefix -L,$(MSGPACK_LIBDIR) $(XXHASH_LIBDIR)) -lmsgpackc -lxxhash -lm -pthread
# Never unloaded: engine threads may still run the module's code when a Lua state closes.
LINK = $(CC) $(CFLAGS) $(LIBFLAG) -Wl,-z,nodelete
NO_LTO = $(if $(LTO),-fno-lto)

CORE_SRC    := $(wildcard core/*/*.c)
BINDING_SRC := $(wildcard lua/binding/*.c)
PROBE_SRC   := $(wildcard spec/support/*.c)
CORE_OBJ    := $(CORE_SRC:%.c=$(B)/%.o)
BINDING_OBJ := $(BINDING_SRC:%.c=$(B)/%.o)
# The probe drives the binding's rooms too, but not the module's entry and what only it needs.
PROBE_BINDING_OBJ := $(filter-out %/module.o %/plan.o %/job_handle.o %/simulate.o \
                       %/simulate_run.o,$(BINDING_OBJ))
PROBE_OBJ   := $(PROBE_SRC:%.c=$(B)/%.o)
LUA_FILES   := $(shell find lua/streamckpt -name '*.lua' 2>/dev/null)

MODULE = $(B)/streamckpt/core.so
PROBE  = $(B)/streamckpt/probe.so
SIM    = $(B)/sim

Q = $(if $(V),,@)
say = $(if $(V),,@echo "  $(1) $(2)")

# Interpreters older than 5.4 do not read these names, so their own scripts keep working.
export LUA_PATH_5_4 = $(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$(CURDIR)/spec/?.lua;;
export LUA_CPATH_5_4 = $(abspath $(B))/?.so;;
# As many compilers at once as there are processors, unless somebody said otherwise.
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
RUN = $(LUA) spec/support/run.lua --limit $(LIMIT)

.DEFAULT_GOAL = build

build: $(MODULE)                 ## compile the module (the default); V=1 shows the commands
	@:

probe: $(PROBE)                  ## compile the module that lets specs drive the core
	@:

simulator: $(SIM)                ## compile the program behind `make sim`
	@:

$(MODULE): $(CORE_OBJ) $(BINDING_OBJ)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LTO) -o $@ $(filter %.o,$^) $(LIBS)

$(PROBE): $(CORE_OBJ) $(PROBE_BINDING_OBJ) $(PROBE_OBJ)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(NO_LTO) -o $@ $(filter %.o,$^) $(LIBS)

# Objects depend on the flags that made them: this file changes only when they do.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(LUA_CFLAGS) $(LINK)' | cmp -s - $@ || echo '$(LUA_CFLAGS) $(LINK)' > $@

$(B)/core/%.o: core/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/lua/binding/%.o: lua/binding/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/spec/support/%.o: spec/support/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

# What `make bench` runs beside the module; built with the same flags.
# What it measures, a script of spec/bench each.
BENCHES  ?= codec lua_path count peers checkpoints storm backpressure in_flight process visits
BENCH     = $(B)/bench/count $(B)/bench/hop $(B)/bench/streamckpt/core.so
BENCH_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard spec/bench/*.c))

$(B)/bench/count: $(CORE_OBJ) $(B)/spec/bench/count.o $(B)/spec/bench/count_work.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LTO) -o $@ $^ $(LIBS)

$(B)/bench/hop: $(CORE_OBJ) $(B)/spec/bench/hop.o $(B)/spec/bench/count_work.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LTO) -o $@ $^ $(LIBS)

# The module, with native operators that graphs in Lua may name.
$(B)/bench/streamckpt/core.so: $(CORE_OBJ) $(BINDING_OBJ) $(B)/spec/bench/bench_module.o \
                               $(B)/spec/bench/count_work.o $(B)/spec/bench/pressure_work.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(NO_LTO) -Wl,--wrap=sc_operator_type_find -o $@ $^ $(LIBS)

$(B)/spec/bench/%.o: spec/bench/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

# The simulator: all its fibers are one thread, so its program watches who holds a mutex when.
SEEDS   ?= 300
FIRST   ?= 1
SIM_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard spec/sim/*.c))

$(SIM): $(CORE_OBJ) $(SIM_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(NO_LTO) -Wl,--wrap=pthread_mutex_lock -o $@ $^ $(LIBS)

$(B)/spec/sim/%.o: spec/sim/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

-include $(SIM_OBJ:.o=.d) $(BENCH_OBJ:.o=.d) $(CORE_OBJ:.o=.d) $(BINDING_OBJ:.o=.d) $(PROBE_OBJ:.o=.d)

deps:                            ## install what building, running and testing need, or name it
	@CC="$(CC)" LUA_INCDIR="$(LUA_INCDIR)" rocks/deps.sh build run test lint

deps-run:
	@CC="$(CC)" LUA_INCDIR="$(LUA_INCDIR)" rocks/deps.sh build run

deps-test:
	@CC="$(CC)" LUA_INCDIR="$(LUA_INCDIR)" rocks/deps.sh build run test

# A second make: it looks for headers and compilers that the first had to install.
test: deps-test                  ## all of it: packages, build, every spec; PART=... runs a part
	@+$(SUBMAKE) build probe simulator
	@$(RUN) --jobs $(JOBS) $(PART)

demo: deps-run                   ## the main job, killed twice and restarted; LOG=... reads a log of yours
	@+$(SUBMAKE) build
	@$(LUA) examples/demo.lua $(if $(LOG),"$(LOG)")

# PEERS names the folder of other engines (PEERS/ENGINE/run WORK OPTIONS), where they are to run beside.
bench: deps-test                 ## how fast it is, as ratios to references measured in the same run
	@+$(SUBMAKE) build probe $(BENCH)
	@for script in $(BENCHES); do echo "== $$script"; \
	  PEERS="$(PEERS)" BENCH_PROGRAMS=$(abspath $(B))/bench $(LUA) spec/bench/$$script.lua || exit 1; done

SANITIZE_asan = -fsanitize=address,undefined
SANITIZE_tsan = -fsanitize=thread
sanitize = CFLAGS="-O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=undefined $(SANITIZE_$(1))" \
           LIBFLAG="-shared $(SANITIZE_$(1))" LTO=

asan: deps-test                  ## the specs under AddressSanitizer and UBSan; PART=... runs a part
	@+$(SUBMAKE) B=build/asan $(call sanitize,asan) build probe simulator
	@CC="$(CC)" spec/support/sanitized/run $@ $(RUN) --jobs $(JOBS) $(PART)

tsan: deps-test                  ## the specs under ThreadSanitizer; PART=... runs a part
	@+$(SUBMAKE) B=build/tsan $(call sanitize,tsan) build probe
	@CC="$(CC)" spec/support/sanitized/run $@ $(RUN) --jobs $(JOBS) $(PART)

sim: deps-run                    ## simulated runs with crashes: SEEDS=300 of them from FIRST=1 on
	@+$(SUBMAKE) $(SIM)
	@$(SIM) --seeds $(SEEDS) --first $(FIRST) --count

sim-faults: deps-run             ## for each planted fault the first simulated run that finds it
	@+$(SUBMAKE) B=build/planted CFLAGS="$(CFLAGS) -DSC_PLANT" LTO= build/planted/sim
	@build/planted/sim --all-faults --seeds 2000

# Not a part of `make test`: it takes minutes.
kill: deps-run                   ## kill the main job 50 times, compare its output; KILLS, SEED, LINES
	@+$(SUBMAKE) build
	@$(LUA) spec/e2e/kill.lua "$(KILLS)" "$(SEED)" "$(LINES)"

lint:                            ## luacheck, the house rules (spec/support/tidy.lua), the rockspec
	@CC="$(CC)" LUA_INCDIR="$(LUA_INCDIR)" rocks/deps.sh build run lint
	@luacheck -q lua spec examples
	@$(LUA) spec/support/tidy.lua
	@luarocks --lua-version 5.4 lint streamckpt-scm-1.rockspec

format:                          ## clang-format over the C files given as FILES="..."
	@rocks/deps.sh format
	@test -n "$(FILES)" || { echo 'make format wants FILES="core/x/y.c ...":' \
	  'it formats what you changed, not the tree'; exit 1; }
	clang-format -i $(FILES)

install: $(MODULE)               ## copy module and Lua files to DESTDIR, LUADIR, LIBDIR
	$(Q)install -D -m 755 $(MODULE) $(DESTDIR)$(LIBDIR)/streamckpt/core.so
	$(Q)for file in $(LUA_FILES:lua/%=%); do \
	  install -D -m 644 lua/$$file $(DESTDIR)$(LUADIR)/$$file || exit 1; done

clean:                           ## remove everything that was built
	rm -rf build $(B)

help:                            ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

FORCE:

.PHONY: build probe simulator deps deps-run deps-test test demo bench asan tsan sim sim-faults kill lint format install clean help \
        FORCE
