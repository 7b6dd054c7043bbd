/* Draws the micro-batches of training and evaluation, and prepares their
 * targets for the model's family: next tokens, masked tokens, or classes of
 * images. */
#include "hooks/trainer/batches.h"

#include "hooks/trainer/masking.h"

#include <math.h>

/* Numbers of the random streams for masks. The masks of training depend on the
 * run's seed. The masks of evaluations do not depend on it, so that every run
 * hides the same tokens. */
enum { MASKS_OF_TRAINING = 1, MASKS_OF_EVALUATION = 2 };

/* Draws sequences that start at random positions of the file. If the data have
 * padding or are images, the file consists of separate sequences, and each
 * drawn sequence is one of them. */
static es_status draw_random(const es_data *data, int32_t *tokens,
                             int32_t *targets, es_token_split split,
                             uint64_t index)
{
    const es_model_config *config = &data->settings->model;
    const bool is_whole =
        config->padding >= 0 || es_families[config->family].has_images;
    return (is_whole ? es_tokens_whole_batch : es_tokens_random_batch)(
        data->tokens, tokens, targets, split, config->seed, index,
        config->batch, es_model_config_n_inputs(config));
}

/* Moves the class of each image, which was read as the last of the image's
 * targets (one target per input pixel), to the target of the class token, which
 * is the first of the n_ctx targets of the image. Clears the other targets. */
static void label_images(const es_model_config *config, int32_t *targets)
{
    const size_t n_inputs = (size_t)es_model_config_n_inputs(config);
    const size_t n_batch = (size_t)config->batch, n_ctx = (size_t)config->ctx;
    for (size_t b = 0; b < n_batch; b++)
        targets[b] = targets[(b + 1) * n_inputs - 1];
    for (size_t b = n_batch; b-- > 0;) {
        const int32_t class = targets[b];
        for (size_t i = 0; i < n_ctx; i++)
            targets[b * n_ctx + i] = ES_NO_TARGET;
        targets[b * n_ctx] = class;
    }
}

/* Hides some tokens for families that predict masked tokens, and sets the
 * targets of images to their classes. */
static es_status prepare_batch(const es_data *data, int32_t *tokens,
                               int32_t *targets, uint64_t seed, uint64_t index,
                               uint32_t stream)
{
    const es_model_config *config = &data->settings->model;
    const es_masking how = {.mask = config->mask,
                            .padding = config->padding,
                            .vocab = (int)data->tokens->vocab,
                            .seed = seed,
                            .index = index,
                            .stream = stream,
                            .path = data->settings->data};
    if (es_families[config->family].has_images)
        label_images(config, targets);
    if (!es_families[config->family].masks)
        return ES_OK;
    return es_mask_tokens(tokens, targets,
                          (size_t)config->batch * (size_t)config->ctx, &how);
}

es_status es_batch_train(const es_data *data, int32_t *tokens, int32_t *targets,
                         int64_t step, int i)
{
    const es_settings *settings = data->settings;
    const es_model_config *config = &settings->model;
    const uint64_t world = (uint64_t)settings->world;
    const uint64_t n = (uint64_t)settings->train.accumulate * world;
    /* Micro-batches are distributed in turn: each rank gets one before any rank
     * gets its second. */
    const uint64_t index =
        (uint64_t)step * n + (uint64_t)i * world + (uint64_t)settings->rank;
    es_status status =
        draw_random(data, tokens, targets, ES_SPLIT_TRAIN, index);
    return status == ES_OK ? prepare_batch(data, tokens, targets, config->seed,
                                           index, MASKS_OF_TRAINING)
                           : status;
}

/**
 * Draws micro-batch `index` of the held-out data.
 */
es_status es_batch_held_out(const es_data *data, int32_t *inputs,
                            int32_t *targets, int64_t index)
{
    const es_model_config *config = &data->settings->model;
    es_status status =
        data->settings->random
            ? draw_random(data, inputs, targets, ES_SPLIT_HELD_OUT,
                          (uint64_t)index)
            : es_tokens_fixed_batch(data->tokens, inputs, targets,
                                    ES_SPLIT_HELD_OUT, (uint64_t)index,
                                    config->batch,
                                    es_model_config_n_inputs(config));
    return status == ES_OK ? prepare_batch(data, inputs, targets, 0,
                                           (uint64_t)index, MASKS_OF_EVALUATION)
                           : status;
}
