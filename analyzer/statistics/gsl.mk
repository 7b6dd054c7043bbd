# Included by the Makefile. GSL is under GPL-3, so only entropy-scan and the
# tests link it; with GSL=0, without_gsl.c is compiled instead of the folder
# gsl. GSL and its BLAS are linked statically, which adds only the functions
# that are called; the shared libraries would load a BLAS at every start of the
# program.
GSL = 1
GSL_LIBS := $(or $(wildcard $(addprefix $(call pkg,--variable=libdir,gsl)/,libgsl.a libgslcblas.a)),-lgsl -lgslcblas)
GSL_SRC = $(filter analyzer/statistics/gsl/%,$(STATS_ALL))
WITHOUT_GSL = analyzer/statistics/without_gsl.c
STATS_SRC = $(filter-out $(if $(filter 0,$(GSL)),$(GSL_SRC),$(WITHOUT_GSL)),$(STATS_ALL))
STATS_LIBS = $(if $(filter 0,$(GSL)),,$(GSL_LIBS))

# Rebuilds the objects if the value of GSL has changed since the last build.
GSL_STAMP = $(BUILD)/gsl
ifneq ($(GSL),$(shell cat $(GSL_STAMP) 2>/dev/null))
.PHONY: $(GSL_STAMP)
endif
$(GSL_STAMP):
	@mkdir -p $(@D)
	@echo $(GSL) >$@
$(call objects,$(GSL_SRC) $(WITHOUT_GSL)): $(GSL_STAMP)
