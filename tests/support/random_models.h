/** Random architectures, drawn from the grammar of analyzer/arch, with sizes,
 *  parameters and a micro-batch to go with them. */
#ifndef ES_TESTS_RANDOM_MODELS_H
#define ES_TESTS_RANDOM_MODELS_H

#include "tests/support/reference_case.h"

/**
 * A model and its micro-batch; the same seed draws the same one.
 *
 * Small (L, H <= 3), parameters of a size that leaves no saturation, rounded to
 * float32, and drawn again until no ReLU, no deviation of the regulariser, and
 * no number that float32 cannot resolve is near its kink.
 *
 *   arch  (ES_ARCH_TEXT_MAX) the architecture as it was drawn, blanks and
 *         order of its parts included
 */
es_ref_case es_random_case(char *arch, uint64_t seed);

/** The same for a configuration that is given. */
es_ref_case es_random_case_of(const es_model_config *config, uint64_t seed);

#endif
