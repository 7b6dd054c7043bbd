/**
 * Draws micro-batches from a token file, and prepares them for the model's
 * family.
 */
#ifndef ES_BATCHES_H
#define ES_BATCHES_H

#include "hooks/trainer/files/tokens.h"
#include "hooks/trainer/settings/settings.h"

/**
 * The source of micro-batches; its members are borrowed.
 */
typedef struct es_data {
    const es_settings *settings;
    const es_tokens *tokens;
} es_data;

/**
 * Draws micro-batch i of this rank in a training step. Its number among the
 * micro-batches of all ranks and steps is (step * accumulate + i) * world +
 * rank.
 *
 *   inputs   (B,I) written, I = es_model_config_n_inputs
 *   targets  (B,T) written; the memory must hold (B,I)
 *
 * Returns ES_OK; ES_EIO or ES_EFORMAT for an error in the token file.
 */
es_status es_batch_train(const es_data *data, int32_t *inputs, int32_t *targets,
                         int64_t step, int i) ES_MUST_USE;

/**
 * Same as es_batch_train, for micro-batch `index` of the held-out data.
 */
es_status es_batch_held_out(const es_data *data, int32_t *inputs,
                            int32_t *targets, int64_t index) ES_MUST_USE;

#endif
