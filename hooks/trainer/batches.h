/** Micro-batches, drawn and prepared as the model's family wants them. */
#ifndef ES_BATCHES_H
#define ES_BATCHES_H

#include "hooks/trainer/files/tokens.h"
#include "hooks/trainer/settings/settings.h"

/** What they are drawn from; borrowed. */
typedef struct es_data {
    const es_settings *settings;
    const es_tokens *tokens;
} es_data;

/**
 * Micro-batch i of this rank in a step of the training: of all, number
 * (step x accumulate + i) x world + rank.
 *
 *   inputs   (B,I) written, es_model_config_n_inputs each
 *   targets  (B,T) written; capacity for (B,I)
 *
 * ES_OK; ES_EIO, ES_EFORMAT of the token file.
 */
es_status es_batch_train(const es_data *data, int32_t *inputs, int32_t *targets,
                         int64_t step, int i) ES_MUST_USE;

/** Micro-batch `index` of the held-out data, likewise. */
es_status es_batch_held_out(const es_data *data, int32_t *inputs,
                            int32_t *targets, int64_t index) ES_MUST_USE;

#endif
