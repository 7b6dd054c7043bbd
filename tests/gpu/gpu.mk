# Targets that run on a machine with a GPU, or that prepare files for such a
# machine.

ARCH = SM+LN+G
MINUTES = 1
BUNDLE = $(BUILD)/gpu-bundle.tar.gz
# The bundle supports one kind of card, because each further kind would make
# the bundle larger.
BUNDLE_ARCH = sm_90

$(BUILD)/gpu-bench-attention: LDFLAGS += $(EXPORTS)
$(BUILD)/gpu-bench-attention: $(call objects,tests/gpu/bench_attention.c) \
    $(call archives,trainer recorder store analyzer)
	$(call link,$(BLAS_LIBS) $(JSON_LIBS))

gpu-programs: $(PROGRAMS) $(PLUGIN) $(BUILD)/gpu-bench-attention \
    $(filter $(BUILD)/tests/test_cuda_%,$(TESTS)) $(TEST_PLUGINS)

gpu-check:
	@BUILD=$(BUILD) OUT=$(OUT) tests/gpu/check.sh

gpu-bundle: gpu-programs
	@$(MAKE) -s --no-print-directory gpu-plugins \
	    CUDA_LIB=$(BUILD)/$(BUNDLE_ARCH) CUDA_OBJ=build/cuda/$(BUNDLE_ARCH) \
	    CUDA_ARCHS='-gencode arch=$(BUNDLE_ARCH:sm_%=compute_%),code=$(BUNDLE_ARCH)'
	@BUILD=$(BUILD) PLUGINS=$(BUILD)/$(BUNDLE_ARCH) tests/gpu/bundle.sh $(BUNDLE)

gpu-plugins: $(PLUGIN) $(PROBE)

gpu-replicate: $(if $(filter 1,$(PREBUILT)),,programs $(PLUGIN))
	@BUILD=$(BUILD) OUT=$(if $(OUT),$(OUT),$(BUILD)/gpu) \
	    samples/gpu-replicate.sh '$(ARCH)' $(MINUTES)

gpu-results:
	@BUILD=$(BUILD) OUT=$(OUT) samples/gpu-results.sh
