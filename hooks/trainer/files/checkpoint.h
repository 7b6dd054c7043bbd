/**
 * A checkpoint: all that a training needs to go on with the same bits. One
 * safetensors file.
 *
 * Tensors, all F32: the arrays of the model under the names and in the shapes
 * of model/params.h (SNorm's u and v too), and for each trainable
 * one NAME the moments of AdamW, `optimizer.m.NAME` and `optimizer.v.NAME`.
 * Every number is finite. Files of before the logarithms of temperatures were
 * learnt have h.L.attn.t instead of h.L.attn.log_t, and are read:
 * temperatures.h.
 *
 * Texts of __metadata__ (a file of ours is one that has the first):
 *
 *     entropy_train_checkpoint  version of this list, "1"
 *     program     what wrote it: "entropy-train 0.1.0"
 *     config      es_settings_json: one object, "tokens_checksum" included
 *     step        steps done, which is the number of the next one
 *     updates     of the optimiser
 *     run         the run's uuid
 *     name        the run's name
 *     threads     that worked; another number gives other bits
 *     loss, ce, ereg                 of the last step
 *     eval_loss, eval_ce, eval_ereg  of the last evaluation, if there was one
 *     loss_scale, good_steps         of loss_scale.h, where the loss is scaled
 *     checksum    16 hexadecimal digits over all of the above; see below
 *
 * There is no generator to keep: batches and the start of the parameters are
 * drawn by counter from the seed, which is part of the configuration.
 *
 * checksum: with h(bytes) = es_tokens_hash, sum = 0; then for each part
 * sum = h(sum, h(part)) as two little-endian words. Parts: key and text of
 * each entry but the checksum, in the order above; then of each tensor in the
 * order of the file its name, its extents as 64-bit words, its numbers.
 */
#ifndef ES_CHECKPOINT_H
#define ES_CHECKPOINT_H

#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/model/loss_scale.h"
#include "hooks/trainer/model/model.h"
#include "hooks/trainer/settings/settings.h"
#include "store/run.h"
#include <stdbool.h>

#define ES_CHECKPOINT_VERSION 1

/** How far a training has come. */
typedef struct es_checkpoint_state {
    int64_t step;            /* steps done */
    char uuid[ES_UUID_SIZE]; /* of the run */
    char name[ES_RUN_NAME_SIZE];
    uint64_t tokens_checksum; /* of the data */
    int threads;              /* that worked */
    es_loss_scale loss_scale; /* of the next step; 0: it is not scaled */
    es_losses last;           /* of the last step; NaN: there was none */
    es_losses eval;           /* of the last evaluation; NaN likewise */
} es_checkpoint_state;

/** A checkpoint that is open; to be read alone. */
typedef struct es_checkpoint {
    es_safetensors *file;
    es_settings settings; /* the run's, its name included */
    es_checkpoint_state state;
    int64_t n_updates; /* of the optimiser */
} es_checkpoint;

/** True if a safetensors file says that it is a checkpoint of ours. */
bool es_checkpoint_is_ours(const es_safetensors *file);

/** True if a tensor of a checkpoint is a moment of AdamW, no parameter. */
bool es_checkpoint_is_moment(const char *name);

/**
 * Writes a checkpoint; it appears whole or not at all.
 *
 *   settings  resolved; kept as "config"
 *
 * ES_OK; ES_EIO; ES_ENOMEM; ES_EFORMAT if a number of the model is not
 * finite: a model that is lost never becomes a checkpoint.
 */
es_status es_checkpoint_write(const char *path, es_model *model,
                              const es_settings *settings,
                              const es_checkpoint_state *state) ES_MUST_USE;

/**
 * Opens a checkpoint and reads all of it once, to check it.
 * ES_OK; ES_EIO; ES_EFORMAT (damaged, or not a checkpoint of ours);
 * ES_EVERSION; ES_ENOMEM.
 */
es_status es_checkpoint_open(es_checkpoint **out, const char *path) ES_MUST_USE;
void es_checkpoint_close(es_checkpoint *checkpoint); /* NULL is fine */

/**
 * Fills a model of the same configuration: arrays, moments, number of
 * updates. ES_OK; ES_EFORMAT naming the first array that is missing, too
 * many, or of another shape; ES_EIO; ES_ENOMEM. After a failure the model is
 * of no use.
 */
es_status es_checkpoint_load(es_model *model,
                             const es_checkpoint *checkpoint) ES_MUST_USE;

#endif
