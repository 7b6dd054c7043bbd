/**
 * Random architectures from the grammar of analyzer/arch, with sizes,
 * parameters and a micro-batch.
 */
#ifndef ES_TESTS_RANDOM_MODELS_H
#define ES_TESTS_RANDOM_MODELS_H

#include "tests/support/reference_case.h"

/**
 * Returns a model and its micro-batch; the same seed draws the same one.
 *
 * The model is small (L, H <= 3) and its parameters are of a size at which
 * nothing saturates, rounded to float32. They are drawn again until no ReLU,
 * no deviation of the regulariser, and no number that float32 cannot resolve
 * is near its kink.
 *
 *   arch  (ES_ARCH_TEXT_MAX) the architecture as it was drawn, with its blanks
 *         and the order of its parts
 */
es_ref_case es_random_case(char *arch, uint64_t seed);

/** Does the same for a given configuration. */
es_ref_case es_random_case_of(const es_model_config *config, uint64_t seed);

#endif
