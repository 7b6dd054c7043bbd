/**
 * Writes and reads checkpoints. A checkpoint holds everything that a training
 * run needs to continue with bit-identical results, in one safetensors file.
 *
 * Tensors, all F32: the arrays of the model with the names and shapes of
 * model/params.h (including SNorm's u and v), and for each trainable array NAME
 * the moments of AdamW, `optimizer.m.NAME` and `optimizer.v.NAME`. Every value
 * is finite. Older files have temperatures h.L.attn.t instead of their
 * logarithms h.L.attn.log_t and are converted (temperatures.h).
 *
 * Entries of __metadata__ (the first one identifies a checkpoint):
 *
 *     entropy_train_checkpoint  version of this list, "1"
 *     program     the writer: "entropy-train 0.1.0"
 *     config      es_settings_json: one object, "tokens_checksum" included
 *     step        number of steps done, which is the number of the next step
 *     updates     number of updates of the optimiser
 *     run         the run's uuid
 *     name        the run's name
 *     threads     number of threads; another number changes the bits of results
 *     loss, ce, ereg                 losses of the last step
 *     eval_loss, eval_ce, eval_ereg  losses of the last evaluation, if any
 *     loss_scale, good_steps         see loss_scale.h; if the loss is scaled
 *     checksum    16 hexadecimal digits over all entries above; see below
 *
 * No state of a random generator is kept: batches and initial parameters are
 * drawn by counter from the seed, which is part of the configuration.
 *
 * checksum: with h(bytes) = es_tokens_hash, start with sum = 0; then for each
 * part sum = h(sum, h(part)) as two little-endian words. The parts are the key
 * and the value of each entry except the checksum, in the order above; then,
 * for each tensor in the order of the file, its name, its extents as 64-bit
 * words and its data.
 */
#ifndef ES_CHECKPOINT_H
#define ES_CHECKPOINT_H

#include "hooks/entropyscan.h"
#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/model/loss_scale.h"
#include "hooks/trainer/model/model.h"
#include "hooks/trainer/settings/settings.h"
#include <stdbool.h>

#define ES_CHECKPOINT_VERSION 1

/** The progress of a training run. */
typedef struct es_checkpoint_state {
    int64_t step;            /* steps done */
    char uuid[ES_UUID_SIZE]; /* uuid of the run */
    char name[ES_RUN_NAME_SIZE];
    uint64_t tokens_checksum; /* checksum of the data */
    int threads;              /* number of threads */
    es_loss_scale loss_scale; /* scale of the loss for the next step; 0: the
                                 loss is not scaled */
    es_losses last; /* losses of the last step; NaN if no step was taken */
    /* losses of the last evaluation; NaN if no evaluation was made */
    es_losses eval;
} es_checkpoint_state;

/** An open checkpoint; all members are read-only. */
typedef struct es_checkpoint {
    es_safetensors *file;
    es_settings settings; /* settings of the run, including its name */
    es_checkpoint_state state;
    int64_t n_updates; /* number of updates of the optimiser */
} es_checkpoint;

/** Returns true if a safetensors file is a checkpoint of entropy-train. */
bool es_checkpoint_is_ours(const es_safetensors *file);

/** Returns true if a tensor of a checkpoint is a moment of AdamW and not a
 *  parameter. */
bool es_checkpoint_is_moment(const char *name);

/**
 * Writes a checkpoint. The file appears complete or not at all.
 *
 *   settings  resolved settings; stored as "config"
 *
 * Returns ES_OK; ES_EIO; ES_ENOMEM; ES_EFORMAT if a value of the model is not
 * finite, because a diverged model must not become a checkpoint.
 */
es_status es_checkpoint_write(const char *path, es_model *model,
                              const es_settings *settings,
                              const es_checkpoint_state *state) ES_MUST_USE;

/**
 * Opens a checkpoint and reads all of it once to verify it. Returns ES_OK;
 * ES_EIO; ES_EFORMAT (damaged, or not a checkpoint of entropy-train);
 * ES_EVERSION; ES_ENOMEM.
 */
es_status es_checkpoint_open(es_checkpoint **out, const char *path) ES_MUST_USE;
/* `checkpoint` may be NULL */
void es_checkpoint_close(es_checkpoint *checkpoint);

/**
 * Stores the checkpoint's arrays, moments and number of updates in a model of
 * the same configuration. Returns ES_OK; ES_EFORMAT, naming the first array
 * that is missing, unexpected, or of a different shape; ES_EIO; ES_ENOMEM.
 * After a failure the model must not be used.
 */
es_status es_checkpoint_load(es_model *model,
                             const es_checkpoint *checkpoint) ES_MUST_USE;

#endif
