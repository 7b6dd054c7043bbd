# entropy-scan. `make help` lists the targets.
#
#   CC=clang              another compiler
#   SAN=address,undefined sanitizers, in a separate build folder
#   LINKER=gold           another linker (default for tests: gold, if it is installed)
#   CARDS=one             compile kernels for one kind of GPU (default: all)
#   CUDA=0                build without the CUDA back-end (default: with it if nvcc is installed)
#   GSL=0                 build without GSL
#   MICROHTTPD=0          build without the page of entropy-scan serve (default: with it if libmicrohttpd-dev is installed)
#   BUILD=DIR             the build folder (default build)
#   DESTDIR= PREFIX=      folders for make install
#   V=1                   print every command

# make uses all processors unless -j is given.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif

VERSION = 0.1.0
SOVERSION = 0

CC = gcc
PREFIX = /usr/local
SAN =
COMPILER = $(lastword $(filter-out -%,$(notdir $(CC)))) # also if CC begins with ccache
BUILD = build$(patsubst %,-%,$(filter-out gcc cc,$(COMPILER)))$(if $(SAN),-san)

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla \
    -Wstrict-prototypes -Wmissing-prototypes -Werror
# Sanitizers need only line numbers (-g1); a debugger also needs variables (-g).
SYMBOLS ?= $(if $(SAN),-g1,-g)
# With sanitizers -O2 makes programs hardly faster than -O1, which compiles in three
# fifths of the time.
OPTIMISE = $(if $(SAN),-O1,-O2) $(SYMBOLS)
OPENMP = -fopenmp
CFLAGS = $(OPTIMISE)
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) -I. -fPIC \
    -fvisibility=hidden $(OPENMP) -pthread -MMD -MP \
    -DES_VERSION='"$(VERSION)"' $(PACKAGE_CFLAGS) $(CFLAGS) $(SANITIZE)
ifneq ($(SAN),)
# The checks of sanitizers keep clang from vectorising loops; -Wno-pass-failed turns off clang's
# warning about this.
SANITIZE = -fsanitize=$(SAN) -fno-sanitize-recover=all \
    -fno-omit-frame-pointer -Wno-pass-failed
# clang's runtime for C lacks the check `function`, which is only for C++.
SANITIZE_CXX = $(if $(findstring clang,$(CXX)),-fno-sanitize=function)
endif

# Flags of the packages, one group for each folder that may use them; pkg-config runs once for each group.
# Packages that only tests use are a separate group, because pkg-config prints nothing if one package of a
# group is missing.
pkg = $(shell pkg-config $(1) $(2) 2>/dev/null)
PACKAGES = sqlite3 libpng zlib cairo freetype2 fribidi openblas jansson libcurl inih
PACKAGE_CFLAGS := $(call pkg,--cflags,$(PACKAGES))
SQLITE_LIBS := $(call pkg,--libs,sqlite3)
RENDER_LIBS := $(call pkg,--libs,cairo libpng freetype2 fribidi zlib)
BLAS_LIBS := $(call pkg,--libs,openblas)
JSON_LIBS := $(call pkg,--libs,jansson)
INI_LIBS := $(call pkg,--libs,inih)
YAML_LIBS := $(call pkg,--libs,yaml-0.1)
CMOCKA_CFLAGS := $(call pkg,--cflags,cmocka)
CMOCKA_LIBS := $(call pkg,--libs,cmocka)

# The CUDA back-end is a plugin of entropy-train; tests compile its sources for the host. All build folders
# share the objects of nvcc, which do not depend on CC or SAN.
NVCC := $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA = $(if $(NVCC),1,0)
CUDA_HOME = $(abspath $(dir $(lastword $(NVCC)))..)
CUDA_OBJ = build/cuda
CUDA_LIB = $(BUILD)
# CARDS=one compiles the kernels for one kind of GPU, in half the time. Tests on machines without a GPU
# need only these kernels. CARDS=one does not replace objects that were compiled for all kinds.
TEST_CARDS = $(if $(wildcard /dev/nvidiactl),all,one)
CARDS ?= $(if $(T),$(TEST_CARDS),all)
CARDS_BUILT := $(shell cat $(CUDA_OBJ)/cards 2>/dev/null)
CARDS_USED = $(if $(filter all,$(CARDS_BUILT)),all,$(CARDS))
CUDA_ARCHS_one = -gencode arch=compute_90,code=sm_90
CUDA_ARCHS_all = -gencode arch=compute_80,code=sm_80 \
    $(CUDA_ARCHS_one) -gencode arch=compute_90,code=compute_90
CUDA_ARCHS = $(CUDA_ARCHS_$(CARDS_USED))
# Compression makes the plugin small. Builds for tests do not compress, which saves a sixth of nvcc's time.
COMPRESS_all = --compress-mode=size
NVCC_FLAGS = -std=c++17 -O3 -lineinfo $(COMPRESS_$(CARDS_USED)) -I. -Werror all-warnings \
    -Xcompiler -Wall,-fPIC,-fvisibility=hidden $(CUDA_ARCHS)
CXX = $(patsubst cc,c++,$(patsubst %clang,%clang++,$(patsubst %gcc,%g++,$(CC))))
CXX_WARNINGS = $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARNINGS)) \
    -Wno-unknown-pragmas -Wno-pass-failed -Wno-sign-conversion
ALL_CXXFLAGS = -std=c++17 -D_GNU_SOURCE $(CXX_WARNINGS) -I. \
    -isystem $(CUDA_HOME)/include -fPIC -fvisibility=hidden -MMD -MP \
    $(CFLAGS) $(SANITIZE) $(SANITIZE_CXX)

# Commands are printed only with V=1.
Q = $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)  $@';)

# One archive per module. Wildcards find the sources, so a new file needs no line here.
in = $(sort $(shell find $(1) -name '*.c'))
STATS_ALL = $(call in,analyzer/statistics)
ANALYZER_SRC = $(filter-out $(STATS_ALL),$(call in,analyzer))
# This file belongs to the SQL extension, which uses the SQLite functions of the program that loads it.
SQL_EXTENSION_SRC = store/sql/extension.c
STORE_SRC = $(filter-out $(SQL_EXTENSION_SRC),$(call in,store))
RENDER_SRC = $(call in,render)
PROCESS_SRC = $(call in,hooks/recorder/process)
RECORDER_SRC = $(filter-out $(PROCESS_SRC),$(call in,hooks/recorder))
TRAINER_SRC = $(filter-out hooks/trainer/main.c,$(call in,hooks/trainer))
# 0: the headers of libmicrohttpd are missing, and `entropy-scan serve` only says what to install. 1: the
# program loads the library when `serve` is used. static: the library is linked in.
MICROHTTPD := $(if $(shell pkg-config --exists libmicrohttpd 2>/dev/null && echo 1),1,0)
MICROHTTPD_NOT_0 = cli/serve/http/without_gnutls.c cli/serve/http/%
MICROHTTPD_NOT_1 = cli/serve/http/without_gnutls.c cli/serve/without_microhttpd.c
MICROHTTPD_NOT_static = cli/serve/without_microhttpd.c
CLI_SRC = $(filter-out cli/program/main.c $(MICROHTTPD_NOT_$(MICROHTTPD)),$(call in,cli))
SYNTHETIC_SRC = $(wildcard samples/alerts/synthetic*.c)
CUDA_SRC = $(wildcard hooks/trainer/cuda/*.cu)
CUDA_HOST_SRC = $(wildcard tests/emulation/*.cc)

# The object that embeds the table of presets (--preset).
PRESETS = $(BUILD)/obj/hooks/trainer/settings/presets.S.o

# The object that embeds the report page, and the page's scripts in the order of their dependencies.
REPORT_PAGE = $(BUILD)/obj/cli/report/page.S.o
REPORT_SCRIPTS = $(patsubst %,cli/report/%.js,inflate values plot dom data state server live scale save steps \
    heatmap limit chart curves maps csv spark fold runs parallel table flags timeline groups figures \
    config link keys report)

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
host_objects = $(patsubst %,$(BUILD)/obj/%.o,$(1))
device_objects = $(patsubst %,$(CUDA_OBJ)/%.o,$(1))
archive = $(BUILD)/lib/$(1).a
MODULES = analyzer stats store render recorder process trainer cli
ARCHIVES = $(foreach module,$(MODULES),$(call archive,$(module)))
archives = $(foreach module,$(1),$(call archive,$(module)))

PROGRAMS = $(addprefix $(BUILD)/,entropy-scan entropy-recorder entropy-train \
    entropy-corpus)
LIBRARY_NAMES = libentropyrecord libentropyscan
LIBRARIES = $(LIBRARY_NAMES:%=$(BUILD)/%.so.$(SOVERSION))
STATIC_LIBRARIES = $(LIBRARY_NAMES:%=$(BUILD)/%.a)
PUBLIC_HEADER = $(BUILD)/include/entropyscan.h
LLAMA_SAMPLE = $(call objects,samples/llama/attention.c samples/llama/main.c)
SQL_EXTENSION = $(BUILD)/entropyscan_sqlite.so
# The emulation replaces the sources that call the CUDA runtime and cuBLAS.
ON_DEVICE = $(addprefix hooks/trainer/cuda/,device.cu gemm.cu)
DEVICE_ONLY = $(ON_DEVICE) hooks/trainer/cuda/ranks.cu
PROBE_SRC = tests/gpu/probe.cu
ifeq ($(CUDA),1)
PLUGIN = $(CUDA_LIB)/libentropytrain_cuda.so
PROBE = $(CUDA_LIB)/tests/libcuda_probe.so
TEST_PLUGINS = $(PROBE) $(addprefix $(BUILD)/tests/,libentropytrain_cuda_host.so \
    libcuda_probe_host.so)
endif
TESTS_SRC = $(sort $(wildcard tests/*/test_*.c))
TESTS = $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(TESTS_SRC)))
BENCHES = $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
SCRIPTS = $(sort $(wildcard tests/*/test_*.sh))
# Scripts that the pass with sanitizers runs in addition to the test programs, because they confront the
# programs with broken files, options and peers.
SANITIZED = cli cli_errors fragments salvage salvage_fragment merge_fragments \
    watch_rules train_cli probe fuse sweep_command sql soak
SANITIZED_SCRIPTS = $(foreach name,$(SANITIZED),$(filter %/test_$(name).sh,$(SCRIPTS)))
SUPPORT_SRC = $(call in,tests/support) $(SYNTHETIC_SRC)

.PHONY: all help deps test-deps test test-under-load test-python test-python-versions quick coverage coverage-here check-tests check-objects demo figures paper-figures manual corpus-debian replicate replicate-quick thresholds alerts cost-fit bench lint \
    format cuda-objects cuda-spills install \
    gpu-programs gpu-plugins gpu-check gpu-bundle gpu-replicate gpu-results \
    uninstall clean programs libraries portable portable-here \
    portable-programs portable-programs-here package wheel samples soak fuzzers fuzzers-here
.DELETE_ON_ERROR:
.SECONDARY:

all: programs libraries $(PLUGIN) $(LLAMA_SAMPLE)

programs: $(PROGRAMS)

libraries: $(LIBRARIES) $(STATIC_LIBRARIES) $(PUBLIC_HEADER) $(SQL_EXTENSION)

help:
	@echo 'make            build the programs and libraries into $(BUILD)/'
	@echo 'make portable   libraries and recorder for glibc 2.28, SQLite inside (needs ziglang);'
	@echo '                portable-programs: entropy-scan and entropy-train, too'
	@echo 'make wheel      both as a Python wheel for manylinux_2_28, into $(BUILD)/wheel;'
	@echo '                ARCH=aarch64, for all three: for aarch64 machines'
	@echo 'make deps       install the Debian packages that build and demo need'
	@echo 'make test-deps  also the packages for tests and lint'
	@echo 'make demo       corpus, two training runs, table, heatmap, curves'
	@echo 'make figures    every figure, light and dark, on one page (two minutes)'
	@echo "make paper-figures  the papers' figures from our runs, on one page (a minute)"
	@echo 'make manual     the guides and manual pages as HTML, into $(BUILD)/manual'
	@echo 'make test       every test; ends with "N passed, N failed"; T=NAME: one'
	@echo 'make test-under-load  every test three times next to six busy processes (an hour)'
	@echo 'make test-python  the Python package, with PyTorch from PyPI; K=NAME: some'
	@echo 'make test-python-versions  with older versions of PyTorch and transformers (5 GB each)'
	@echo 'make quick      the fast tests of every area, without nvcc'
	@echo 'make coverage   lines and branches that the tests reach (needs gcovr)'
	@echo 'make bench      speeds as ratios, side by side in one run'
	@echo 'make gpu-check  every check on a GPU: parity, speed, a short training; CALL=2 repeats'
	@echo '                failed checks and runs the remaining ones (tests/gpu/check.sh)'
	@echo 'make gpu-replicate ARCH=SM+LN+G MINUTES=10   GPT-2 small on the GPU'
	@echo 'make gpu-results  tables of gpu-check into samples/results; OUT=its output folder'
	@echo 'make gpu-bundle $(BUNDLE), for a machine without our packages'
	@echo 'make soak       kills, power losses, failing calls, broken files, fuzzing: two hours, into'
	@echo '                tests/RELIABILITY.md; SHORT=1: three minutes; ONLY=kill: some rows'
	@echo 'make cuda-spills  registers and spills of each CUDA kernel, as nvcc reports them'
	@echo 'make lint       layering, naming, size of files and functions, format'
	@echo 'make format     clang-format over the sources'
	@echo 'make corpus-debian  200 MB of Python from Debian packages as $(BUILD)/debian.tok'
	@echo 'make samples    record samples/runs again (about ten minutes)'
	@echo "make replicate  train and judge the papers' claims, into samples/results (a night)"
	@echo 'make replicate-quick  the same machinery on a few small runs (minutes)'
	@echo 'make thresholds train and show where thresholds of EReg stop, into samples/results'
	@echo 'make alerts     compare alerts with known truths, into samples/results (minutes)'
	@echo 'make cost-fit   fit the costs of private inference to published tables'
	@echo 'make install    programs, library, headers, manual pages, completions'
	@echo 'make deb        Debian packages of them (needs debhelper), into $(BUILD)/deb'

deps:
	@tests/tools/deps.sh

test-deps:
	@tests/tools/deps.sh tests

# --- programs --------------------------------------------------------------

# There are many test programs, so the fastest linker links them.
TEST_LINKER := $(if $(shell command -v ld.gold),gold)
$(BUILD)/tests/% $(BUILD)/bench/%: LINKER ?= $(TEST_LINKER)

# Sanitizers store an address for each source location that they check. Without relocations of these
# addresses (no PIE) a program links in half the time and starts sooner.
FIXED = $(if $(SAN),-no-pie)

link = $(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(FIXED) $(LINKER:%=-fuse-ld=%) -o $@ $(filter %.o,$^) \
    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -Wl,--as-needed $(1) -lm -ldl

$(BUILD)/entropy-scan: $(call objects,cli/program/main.c) \
    $(call archives,cli render store stats analyzer)
	$(call link,$(RENDER_LIBS) $(SQLITE_LIBS) $(JSON_LIBS) $(INI_LIBS) $(YAML_LIBS) $(STATS_LIBS) $(MICROHTTPD_LIBS))

$(BUILD)/entropy-recorder: $(call archives,process recorder store analyzer)
	$(call link,$(SQLITE_LIBS))

# The trainer does not link SQLite, because it records through a ring buffer to entropy-recorder.
$(BUILD)/entropy-train: $(call objects,hooks/trainer/main.c) \
    $(call archives,trainer recorder store analyzer)
	$(call link,$(BLAS_LIBS) $(JSON_LIBS) -ldl)

# The sample for llama.cpp, compiled with its headers or, if they are missing, with a stub.
LLAMA_CFLAGS := $(if $(shell pkg-config --exists llama 2>/dev/null && echo 1),$(patsubst \
    -I%,-isystem %,$(call pkg,--cflags,llama)),-Isamples/llama/stub)
$(LLAMA_SAMPLE): $(PUBLIC_HEADER)
$(LLAMA_SAMPLE): PACKAGE_CFLAGS += -I$(BUILD)/include $(LLAMA_CFLAGS)

# Only `make alerts` builds this program.
$(BUILD)/entropy-histories: $(call objects,samples/alerts/main.c $(SYNTHETIC_SRC)) \
    $(call archives,store analyzer)
	$(call link,$(SQLITE_LIBS))

$(BUILD)/entropy-corpus: samples/corpus/entropy-corpus Makefile
	@mkdir -p $(@D)
	$(Q)sed 's/@VERSION@/$(VERSION)/' $< >$@ && chmod 755 $@

# --- libraries -------------------------------------------------------------

# Each library exports its public functions. All other functions are linked from the archive `inner` and
# hidden. libentropyscan uses the error and run functions of libentropyrecord, so a thread has only one
# error message even if a process uses both libraries. Both libraries use POSIX threads instead of OpenMP.
RECORD_SRC = $(RECORDER_SRC) $(call in,analyzer/entropy) analyzer/base/status.c \
    store/run.c
READ_SRC = store/reader.c store/row_checksum.c
INNER_SRC = $(filter-out $(RECORD_SRC) $(READ_SRC),$(ANALYZER_SRC) $(STORE_SRC))
OBJCOPY = objcopy

RPATH = -Wl,-rpath,'$$ORIGIN'
RECORD_SO = $(BUILD)/libentropyrecord.so.$(SOVERSION)
READ_SO = $(BUILD)/libentropyscan.so.$(SOVERSION)
share = $(call say,LD)$(CC) $(filter-out $(OPENMP),$(ALL_CFLAGS)) $(LDFLAGS) -shared \
    $(if $(SAN),,-Wl,-z,defs) -Wl,-z,nodelete -Wl,-soname,$(notdir $@) \
    -Wl,--version-script=$(filter %.map,$^) $(RPATH) -o $@ \
    $(filter %.o,$^) $(filter %.so.$(SOVERSION),$^) $(filter %.a,$^) \
    -Wl,--as-needed $(1) -lm -ldl
$(RECORD_SO): $(call objects,$(RECORD_SRC)) $(call archive,inner) \
    hooks/entropyrecord.map
	$(call share)
	$(Q)ln -sf $(notdir $@) $(basename $@)
$(READ_SO): $(call objects,$(READ_SRC)) $(RECORD_SO) $(call archive,inner) \
    hooks/entropyscan.map
	$(call share,$(SQLITE_LIBS))
	$(Q)ln -sf $(notdir $@) $(basename $@)

# The extension for sqlite3's .load command does not link SQLite, and exports only its entry point.
$(SQL_EXTENSION): $(call objects,$(SQL_EXTENSION_SRC)) $(call archives,store analyzer)
	$(call say,LD)$(CC) $(filter-out $(OPENMP),$(ALL_CFLAGS)) $(LDFLAGS) -shared \
	    $(if $(SAN),,-Wl,-z,defs) -Wl,--exclude-libs,ALL -o $@ \
	    $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lm

# Each static library is one object, in which all symbols except exported functions are local.
$(BUILD)/libentropyrecord.a: $(call objects,$(RECORD_SRC)) $(call archive,inner)
$(BUILD)/libentropyscan.a: $(call objects,$(READ_SRC)) $(call archive,inner)
$(STATIC_LIBRARIES):
	$(call say,AR)$(CC) -r -nostdlib -o $(@:.a=.o) $^
	$(Q)$(OBJCOPY) --localize-hidden $(@:.a=.o)
	$(Q)rm -f $@ && ar rcs $@ $(@:.a=.o) && rm $(@:.a=.o)

PUBLIC_HEADERS = hooks/entropyscan.h analyzer/base/status.h \
    analyzer/base/severity.h analyzer/base/value.h analyzer/entropy/entropy.h \
    store/run.h store/reader.h hooks/recorder/recorder.h
$(PUBLIC_HEADER): tests/tools/header.sh $(PUBLIC_HEADERS)
	@mkdir -p $(@D)
	$(Q)tests/tools/header.sh >$@

include hooks/portable.mk analyzer/statistics/gsl.mk

# --- archives and objects --------------------------------------------------

define archive_rule
$(call archive,$(1)): $(call objects,$(2))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR)ar rcs $$@ $$^
endef
$(eval $(call archive_rule,analyzer,$(ANALYZER_SRC)))
$(eval $(call archive_rule,stats,$(STATS_SRC)))
$(eval $(call archive_rule,store,$(STORE_SRC)))
$(eval $(call archive_rule,inner,$(INNER_SRC)))
$(eval $(call archive_rule,render,$(RENDER_SRC)))
$(eval $(call archive_rule,recorder,$(RECORDER_SRC)))
$(eval $(call archive_rule,process,$(PROCESS_SRC)))
$(eval $(call archive_rule,trainer,$(TRAINER_SRC) $(PRESETS)))
$(eval $(call archive_rule,cli,$(CLI_SRC) $(REPORT_PAGE)))

# Test programs need little optimisation, because they spend their time in the code under test. -O1 gives
# more warnings than -O0, but would double their compile time with sanitizers. tests/support contains
# computations and is therefore optimised.
$(BUILD)/obj/tests/%: OPTIMISE = $(if $(SAN),-O0,-O1) $(SYMBOLS)
$(BUILD)/obj/tests/%: PACKAGE_CFLAGS += $(CMOCKA_CFLAGS)
$(BUILD)/obj/cli/serve/http/microhttpd.o: PACKAGE_CFLAGS += $(if $(filter static,$(MICROHTTPD)),-DES_MICROHTTPD_IS_LINKED)
$(BUILD)/obj/tests/support/% $(BUILD)/obj/tests/bench/%: OPTIMISE = \
    $(if $(SAN),-O1,-O2) $(SYMBOLS)
$(BUILD)/obj/tests/emulation/%: OPTIMISE = -O2 $(SYMBOLS)

# A file's name says which vector instructions of x86-64 it may use. -O3 is left out with sanitizers, whose
# checks prevent vectorised loops anyway.
VECTOR_OPTIMISE = $(if $(SAN),,-O3)
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
ifeq ($(filter-out x86_64-%,$(MACHINE)),)
$(BUILD)/obj/%_avx512.o: VECTOR = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma \
    $(VECTOR_OPTIMISE)
$(BUILD)/obj/%_amx.o: VECTOR = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma \
    -mavx512bf16 -mavx512vbmi -mamx-tile -mamx-bf16 -mamx-int8 $(VECTOR_OPTIMISE)
$(BUILD)/obj/%_avx2.o: VECTOR = -mavx2 -mfma $(VECTOR_OPTIMISE)
$(BUILD)/obj/%_x86.o: VECTOR = $(VECTOR_OPTIMISE)
endif
# -ffp-contract=fast lets the compiler use fused multiply-adds in loops. The flags are the same with
# sanitizers, so that sums keep their order. A square root that may set errno would not be vectorised.
$(BUILD)/obj/hooks/trainer/cpu/%: VECTOR += -ffp-contract=fast -fno-math-errno
$(BUILD)/obj/hooks/trainer/cpu/%: OPTIMISE = -O2 $(SYMBOLS)

$(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) $(VECTOR) -c -o $@ $<

# --- CUDA ------------------------------------------------------------------

# The plugin calls es_fail and similar functions of the program that loads it.
EXPORTS = -Wl,--export-dynamic-symbol=es_fail,--export-dynamic-symbol=es_message
$(BUILD)/entropy-train: LDFLAGS += $(EXPORTS)
$(BUILD)/tests/%: LDFLAGS += $(EXPORTS)
$(BUILD)/bench/%: LDFLAGS += $(EXPORTS)

$(CUDA_LIB)/libentropytrain_cuda.so: $(call device_objects,$(CUDA_SRC))
$(CUDA_LIB)/tests/libcuda_probe.so: \
    $(call device_objects,$(ON_DEVICE) $(PROBE_SRC))
$(BUILD)/tests/libentropytrain_cuda_host.so: \
    $(call host_objects,$(filter-out $(DEVICE_ONLY),$(CUDA_SRC)) $(CUDA_HOST_SRC))
$(BUILD)/tests/libcuda_probe_host.so: \
    $(call host_objects,$(PROBE_SRC) $(filter-out %/ranks_host.cc,$(CUDA_HOST_SRC)))

$(CUDA_LIB)/libentropytrain_cuda.so $(CUDA_LIB)/tests/libcuda_probe.so:
	@mkdir -p $(@D)
	$(call say,LD)$(NVCC) -shared -cudart static $(CUDA_ARCHS) -o $@ $^ \
	    -Xlinker -rpath,$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib64 -lcublasLt

$(BUILD)/tests/lib%_host.so:
	@mkdir -p $(@D)
	$(call say,LD)$(CXX) $(ALL_CXXFLAGS) -shared -o $@ $^ -lm

ifneq ($(CARDS_BUILT),$(CARDS_USED))
.PHONY: $(CUDA_OBJ)/cards
endif
$(CUDA_OBJ)/cards:
	@mkdir -p $(@D)
	@echo $(CARDS_USED) >$@

# The report of ptxas about registers and spills is kept next to the object.
$(CUDA_OBJ)/%.cu.o: %.cu Makefile $(CUDA_OBJ)/cards
	@mkdir -p $(@D)
	$(call say,NVCC)$(NVCC) $(NVCC_FLAGS) -Xptxas -v -MD -MP -c -o $@ $< \
	    2>$(@:.o=.log) || { cat $(@:.o=.log) >&2; rm -f $@; exit 1; }

cuda-objects: $(call device_objects,$(if $(NVCC),$(CUDA_SRC) $(PROBE_SRC)))

cuda-spills: $(call device_objects,$(CUDA_SRC))
	@tests/gpu/spills.sh $(^:.o=.log)

# Kernels are templates of unrolled loops. With sanitizers, and with clang, which unrolls for the
# host as well, optimising them would take minutes, so they are compiled with -O0.
ifneq ($(SAN)$(findstring clang,$(CXX)),)
$(BUILD)/obj/%.cu.o: OPTIMISE = -O0 $(SYMBOLS)
# The tests spend most of their time in these kernels. Optimising them takes seven seconds and makes the tests
# twenty seconds faster.
$(BUILD)/obj/hooks/trainer/cuda/attention_exact.cu.o: OPTIMISE = $(if $(SAN),-Og,-O0) $(SYMBOLS) -DES_NOT_INLINED
# Inlining in these files would take a fifth of the build's time without making
# the kernels faster.
$(BUILD)/obj/hooks/trainer/cuda/attention_mma.cu.o \
$(BUILD)/obj/hooks/trainer/cuda/attention_mma_backward.cu.o: OPTIMISE = -O0 $(SYMBOLS) -DES_NOT_INLINED
endif
$(BUILD)/obj/%.cu.o: %.cu Makefile
	@mkdir -p $(@D)
	$(call say,CXX)$(CXX) $(ALL_CXXFLAGS) -x c++ -c -o $@ $<

$(BUILD)/obj/%.cc.o: %.cc Makefile
	@mkdir -p $(@D)
	$(call say,CXX)$(CXX) $(ALL_CXXFLAGS) -c -o $@ $<

# The page of `entropy-scan report` is embedded in the program.
$(REPORT_PAGE): cli/report/page.S cli/report/page.sh \
    $(REPORT_SCRIPTS) cli/report/report.html cli/report/report.css Makefile
	@mkdir -p $(@D)
	$(Q)cli/report/page.sh $(BUILD)/page $(REPORT_SCRIPTS)
	$(call say,AS)$(CC) -Wa,-I$(BUILD)/page -c -o $@ $<

# The table of presets is embedded in entropy-train.
$(PRESETS): hooks/trainer/settings/presets.S hooks/trainer/settings/presets.txt Makefile
	@mkdir -p $(@D)
	$(call say,AS)$(CC) -Wa,-I$(dir $<) -c -o $@ $<

# --- tests -----------------------------------------------------------------

TEST_LIBS = $(RENDER_LIBS) $(SQLITE_LIBS) $(BLAS_LIBS) \
    $(JSON_LIBS) $(INI_LIBS) $(YAML_LIBS) $(CMOCKA_LIBS) $(STATS_LIBS)

define test_rule
$(BUILD)/tests/$(notdir $(1)): $(call objects,$(1).c $(SUPPORT_SRC)) \
    $(filter-out $(call archive,process),$(ARCHIVES))
	@mkdir -p $$(@D)
	$$(call link,$$(TEST_LIBS))
endef
$(foreach test,$(TESTS_SRC:.c=),$(eval $(call test_rule,$(test))))

$(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))

SOAK_HELPERS = $(addprefix $(BUILD)/tests/,named_run record alloc_shim.so clock_shim.so)
check-tests: all $(TESTS) $(SOAK_HELPERS) $(BUILD)/tests/replay $(TEST_PLUGINS) $(BUILD)/gpu-bench-attention

# Compiles all sources of the tests, for the compiler's warnings.
check-objects: all $(call objects,$(TESTS_SRC) $(SUPPORT_SRC)) $(TEST_PLUGINS) \
    $(BUILD)/gpu-bench-attention

RUN_CARDS = $(CARDS)
RUN_TESTS = env -u MAKEFLAGS CUDA=$(CUDA) CARDS=$(RUN_CARDS) BUILD=$(BUILD) CC="$(CC)" \
    SAN="$(SAN)" CUDA_HOME=$(CUDA_HOME) tests/tools/run.sh

# T=NAME... selects test_NAME.c or test_NAME.sh; NAME may also include "test_".
CHOSEN = $(foreach name,$(patsubst test_%,%,$(basename $(T))),$(or $(strip \
    $(filter %/test_$(name),$(TESTS)) $(filter %/test_$(name).sh,$(SCRIPTS))), \
    $(error T=$(name): no such test: see tests/*/test_*)))
ifneq ($(T),)
test: $(filter $(TESTS),$(CHOSEN)) \
    $(if $(filter %.sh,$(CHOSEN))$(findstring cuda,$(CHOSEN)),all $(TEST_PLUGINS) \
    $(BUILD)/gpu-bench-attention)
	@$(RUN_TESTS) $(CHOSEN)
else
test: RUN_CARDS = $(TEST_CARDS)
test: test-deps
	@$(MAKE) --no-print-directory check-tests CARDS=$(TEST_CARDS)
	@$(RUN_TESTS) $(TESTS) $(if $(SAN),$(SANITIZED_SCRIPTS),$(SCRIPTS))
endif

# Runs all tests three times next to six processes that keep the processors busy, because no test may
# depend on the speed of the machine.
test-under-load:
	@tests/tools/under_load.sh 6 $(MAKE) --no-print-directory test
	@tests/tools/under_load.sh 6 $(MAKE) --no-print-directory test
	@tests/tools/under_load.sh 6 $(MAKE) --no-print-directory test

# `make quick` runs the fast tests of every area. It leaves out kernels, scripts and these slow tests.
SLOW = cases checkpoint emulate_model entropy_kernels entropy_memory \
    entropy_random figures_extreme follow gradients labelled ledger model \
    model_weights property pythia recorder_faults recorder_overwritten \
    recorder_trouble reference_model render_bars render_memory render_same \
    resume rules_random store_checksum store_esf store_killed store_power \
    store_faults terminal text \
    train_memory weights_own
QUICK = $(filter-out $(BUILD)/tests/test_cuda_% $(SLOW:%=$(BUILD)/tests/test_%), \
    $(TESTS))
# Tests of the Python package, in a venv with PyTorch below $(BUILD).
test-python: programs libraries
	@BUILD=$(abspath $(BUILD)) tests/python/run.sh $(if $(K),-k '$(K)' tests/python)

# Runs the tests of the Python package with the oldest supported versions of PyTorch and other packages,
# and with later versions.
test-python-versions: programs libraries
	@bad=0; for list in tests/python/requirements-*.txt; do echo "== $$list"; \
	    LIST=$$list BUILD=$(abspath $(BUILD)) tests/python/run.sh \
	    $(if $(K),-k '$(K)' tests/python) || bad=1; done; exit $$bad

quick: programs $(QUICK)
	@$(RUN_TESTS) $(QUICK)

# Tests that fail in a build for coverage or contribute nothing to it, because they copy the sources,
# measure speeds, or need other compilers or a GPU.
NO_COVERAGE = cuda_% gpu_% deb readme% soak install% slurm tuners quick lint recorder_old_kernel%
COVERED = $(filter-out $(foreach name,$(NO_COVERAGE),$(BUILD)/tests/test_$(name)), \
    $(TESTS)) $(foreach script,$(SCRIPTS),$(if $(filter $(NO_COVERAGE:%=test_%), \
    $(basename $(notdir $(script)))),,$(script)))

coverage:
	@$(MAKE) --no-print-directory coverage-here BUILD=build-coverage CUDA=0 \
	    OPTIMISE='-O0 -g --coverage -fprofile-update=atomic' \
	    LDFLAGS=--coverage LINKER=gold

coverage-here: check-tests
	@find $(BUILD) -name '*.gcda' -delete
	@$(RUN_TESTS) $(COVERED); code=$$?; gcovr --exclude tests --sort uncovered-number \
	    --gcov-ignore-parse-errors suspicious_hits.warn_once_per_file \
	    --txt $(BUILD)/coverage.txt --json-summary $(BUILD)/coverage.json \
	    --print-summary $(BUILD) && exit $$code

bench: all $(BENCHES)
	@BUILD=$(BUILD) tests/bench/run.sh $(BENCHES)

include tests/gpu/gpu.mk

# Attacks the programs (tests/soak/soak.py). ONLY='WORD ...' selects attacks by name, PART=20 makes
# only a twentieth of the repetitions of each attack, and SHORT=1 selects the short version, which CI
# runs.
SOAK_OPTIONS = $(ONLY:%=--only '%') $(PART:%=--part %)
ifeq ($(SHORT),)
soak: check-tests
	@$(MAKE) --no-print-directory SAN=address,undefined LINKER=gold CUDA=0 check-tests
	@$(MAKE) --no-print-directory fuzzers
	@BUILD=$(BUILD) tests/soak/soak.py --long $(SOAK_OPTIONS); code=$$?; \
	    BUILD=$(BUILD) tests/soak/soak.py --long --report tests/RELIABILITY.md; exit $$code
else
soak: check-tests
	@BUILD=$(BUILD) tests/soak/soak.py $(SOAK_OPTIONS)
endif

# The targets of tests/fuzz. clang builds one program with libFuzzer for each target, in a separate build
# folder. A build without libFuzzer links all targets into one program, replay, and therefore renames
# their entry points.
FUZZ_CC = clang
FUZZ_OPTIMISE = -O1 -g
FUZZ_TARGETS = $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZERS = $(FUZZ_TARGETS:%=$(BUILD)/fuzz_%)
FUZZ_SHARED = $(call objects,$(addprefix tests/fuzz/,fuzz.c mutation.c reading.c))
FUZZ_ARCHIVES = $(filter-out $(call archive,process),$(ARCHIVES))

fuzzers:
	@$(MAKE) --no-print-directory fuzzers-here BUILD=$(BUILD)/fuzz \
	    CC="$(FUZZ_CC)" OPTIMISE='$(FUZZ_OPTIMISE)' CUDA=0 \
	    SAN=fuzzer-no-link,address,undefined

# These files contain no parser, and clang would take minutes to compile them with all
# checks.
ifneq ($(findstring fuzzer,$(SAN)),)
$(BUILD)/obj/analyzer/entropy/% $(BUILD)/obj/hooks/trainer/cpu/% $(BUILD)/obj/hooks/trainer/model/%: SANITIZE =
$(BUILD)/obj/analyzer/entropy/% $(BUILD)/obj/hooks/trainer/cpu/%: OPTIMISE = -O0 $(SYMBOLS)
$(BUILD)/obj/analyzer/entropy/% $(BUILD)/obj/hooks/trainer/cpu/%: VECTOR_OPTIMISE =
endif

fuzzers-here: $(FUZZERS)

$(FUZZERS): LDFLAGS += -fsanitize=fuzzer
$(FUZZERS): $(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(FUZZ_SHARED) $(FUZZ_ARCHIVES)
	$(call link,$(TEST_LIBS))

$(BUILD)/obj/tests/replayed/%.o: tests/fuzz/fuzz_%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -DLLVMFuzzerTestOneInput=fuzz_$*_input -c -o $@ $<

# The scripts tests/soak/*.py use the following programs.
$(BUILD)/tests/named_run: $(call objects,tests/soak/named_run.c) \
    $(call archives,store analyzer)
	@mkdir -p $(@D)
	$(call link,$(SQLITE_LIBS))

$(BUILD)/tests/record: $(call objects,tests/soak/record.c) \
    $(call archives,recorder store analyzer)
	@mkdir -p $(@D)
	$(call link,$(SQLITE_LIBS))

$(BUILD)/tests/%.so: tests/soak/%.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -fvisibility=default -shared -o $@ $<

$(BUILD)/tests/replay: $(call objects,tests/soak/replay.c tests/support/chance.c) \
    $(FUZZ_TARGETS:%=$(BUILD)/obj/tests/replayed/%.o) $(FUZZ_SHARED) $(FUZZ_ARCHIVES)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))

lint:
	@tests/tools/lint.sh

format:
	@clang-format -i $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cc')

# --- main job --------------------------------------------------------------

demo: deps
	@$(MAKE) --no-print-directory programs
	@BUILD=$(BUILD) samples/demo.sh

figures: programs
	@BUILD=$(BUILD) samples/figures.sh

paper-figures: programs
	@BUILD=$(BUILD) samples/paper-figures.sh

# Writes the manual as HTML into build/manual, with pandoc and mandoc.
manual: programs
	@BUILD=$(BUILD) samples/packaging/manual/build.sh $(BUILD)/manual

corpus-debian: programs
	@BUILD=$(BUILD) samples/corpus/debian.sh -o $(BUILD)/debian.tok

samples: programs
	@BUILD=$(BUILD) samples/runs/make.sh

alerts: programs $(BUILD)/entropy-histories
	@BUILD=$(BUILD) samples/alerts/alerts.sh

replicate: programs
	@BUILD=$(BUILD) samples/truth/replicate.py

replicate-quick: programs
	@BUILD=$(BUILD) samples/truth/replicate.py --quick

thresholds: programs
	@BUILD=$(BUILD) samples/truth/thresholds.py

cost-fit: programs
	@analyzer/cost/fit.py $(BUILD)/entropy-scan samples/private-inference/aero_tables.csv \
	    -o analyzer/cost/coefficients.inc.h

include samples/packaging/packaging.mk

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(CUDA_OBJ) -name '*.d' 2>/dev/null)
