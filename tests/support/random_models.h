/**
 * Creates random models. An architecture is generated from the grammar of
 * analyzer/arch, with random sizes, parameters and a micro-batch.
 */
#ifndef ES_TESTS_RANDOM_MODELS_H
#define ES_TESTS_RANDOM_MODELS_H

#include "tests/support/reference_case.h"

/**
 * Returns a random model and its micro-batch, determined by the seed.
 *
 * The model is small (L, H <= 3). The parameters are rounded to float32 and so
 * small that no function saturates. Parameters are drawn again until no ReLU
 * and no threshold of the regulariser is near its kink, and no result depends
 * on digits that float32 does not have.
 *
 *   arch  (ES_ARCH_TEXT_MAX) receives the drawn architecture, with random
 *         blanks and a random order of its parts
 */
es_ref_case es_random_case(char *arch, uint64_t seed);

/** Same as es_random_case, but for a given configuration. */
es_ref_case es_random_case_of(const es_model_config *config, uint64_t seed);

#endif
