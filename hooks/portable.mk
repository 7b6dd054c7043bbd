# Included by the Makefile: builds libraries, recorder and programs for other machines
# (make portable, portable-programs), and the Python wheel (make wheel). ARCH=aarch64
# builds them for aarch64.

# zig (PyPI's ziglang) links for any machine type and glibc version. Libraries that
# clusters may lack are linked statically. PORTABLE_PACKAGES is the folder with their
# headers and archives for TARGET; PORTABLE_SQLITE the folder with sqlite3.h and
# libsqlite3.a, which suffices for the libraries and the recorder.
ZIG = python3 -m ziglang
TARGET = $(or $(filter aarch64,$(ARCH)),x86_64)-linux-gnu.2.28
TARGET_MACHINE = $(firstword $(subst -, ,$(TARGET)))
PORTABLE = build/portable/$(TARGET)
PORTABLE_PACKAGES = $(PORTABLE)/packages
PORTABLE_SQLITE = $(PORTABLE_PACKAGES)
PORTABLE_ARCHIVES = cairo pixman-1 fontconfig freetype png16 expat brotlidec \
    brotlicommon z fribidi
packaged = $(patsubst %,$(PORTABLE_PACKAGES)/lib%.a,$(1))
portable: $(PORTABLE_SQLITE)/sqlite3.h
	+@$(portable_make) portable-here
portable-programs: portable $(PORTABLE_PACKAGES)/sqlite3.h
	+@$(portable_make) portable-programs-here
portable_make = $(MAKE) --no-print-directory CC='$(ZIG) cc -target $(TARGET)' \
    CUDA=0 GSL=0 BUILD=$(PORTABLE) WARNINGS= OPENMP=-fopenmp-simd LDFLAGS='$(LDFLAGS) -s' \
    PACKAGE_CFLAGS='$(patsubst %,-isystem %,$(sort $(PORTABLE_SQLITE) $(PORTABLE_PACKAGES)))' \
    SQLITE_LIBS='$(PORTABLE_SQLITE)/libsqlite3.a' \
    RENDER_LIBS='$(call packaged,$(PORTABLE_ARCHIVES))' \
    JSON_LIBS='$(call packaged,jansson)' INI_LIBS='$(call packaged,inih)' \
    YAML_LIBS='$(call packaged,yaml)' MICROHTTPD=static MICROHTTPD_LIBS='$(call packaged,microhttpd)' \
    BLAS_LIBS='$(call packaged,openblas)'

portable-here: $(LIBRARIES) $(PUBLIC_HEADER) $(BUILD)/entropy-recorder
portable-programs-here: $(BUILD)/entropy-scan $(BUILD)/entropy-train

# Copies headers and archives from Debian's packages. These are the installed packages
# or, for another machine type, downloaded packages.
$(PORTABLE)/packages/sqlite3.h: tests/tools/packages.sh
	$(Q)tests/tools/packages.sh $(@D) $(TARGET_MACHINE) sqlite3 $(PORTABLE_ARCHIVES) jansson inih yaml openblas microhttpd

# The programs and libraries that `pip install ./hooks/python` needs.
package: $(LIBRARIES) $(BUILD)/entropy-recorder $(BUILD)/entropy-scan

# The Python wheel, which pip installs without a compiler.
WHEEL_PYTHON = python3
WHEEL = $(BUILD)/wheel
WHEEL_GLIBC = $(subst $(TARGET_MACHINE)-linux-gnu.,,$(TARGET))
wheel: portable-programs
	$(if $(V),,@echo '  WHEEL  $(WHEEL)';) ENTROPYSCAN_BUILD=$(abspath $(PORTABLE)) \
	    ENTROPYSCAN_TRAINER=1 ENTROPYSCAN_PACKAGES=$(abspath $(PORTABLE_PACKAGES)) \
	    ENTROPYSCAN_PLATFORM=manylinux_$(subst .,_,$(WHEEL_GLIBC))_$(TARGET_MACHINE) \
	    $(WHEEL_PYTHON) -m pip wheel -q --no-deps --disable-pip-version-check \
	    -w $(WHEEL) hooks/python
