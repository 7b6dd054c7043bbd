/** Between the writer and the reader of checkpoints. */
#ifndef ES_CHECKPOINT_INTERNAL_H
#define ES_CHECKPOINT_INTERNAL_H

#include "hooks/trainer/files/checkpoint.h"

/** The texts of __metadata__, in the order of the checksum. */
typedef enum es_checkpoint_text {
    ES_CHECKPOINT_VERSION_TEXT,
    ES_CHECKPOINT_PROGRAM,
    ES_CHECKPOINT_CONFIG,
    ES_CHECKPOINT_STEP,
    ES_CHECKPOINT_UPDATES,
    ES_CHECKPOINT_RUN,
    ES_CHECKPOINT_NAME,
    ES_CHECKPOINT_THREADS,
    ES_CHECKPOINT_LOSSES, /* the first of six numbers, es_losses twice */
    ES_CHECKPOINT_LOSS_SCALE = ES_CHECKPOINT_LOSSES + 6,
    ES_CHECKPOINT_GOOD_STEPS,
    ES_CHECKPOINT_CHECKSUM,
    ES_CHECKPOINT_N_TEXTS
} es_checkpoint_text;

extern const char *const es_checkpoint_keys[ES_CHECKPOINT_N_TEXTS];

/** What is kept of a parameter: itself, and the moments if it trains. */
typedef enum es_checkpoint_part {
    ES_PART_VALUE,
    ES_PART_MOMENT_FIRST,
    ES_PART_MOMENT_SECOND,
    ES_N_PARTS
} es_checkpoint_part;

#define ES_CHECKPOINT_NAME_MAX 64 /* of a tensor */

void es_checkpoint_tensor_name(char out[ES_CHECKPOINT_NAME_MAX],
                               es_checkpoint_part part, const char *parameter);

/** Goes on with the checksum, checkpoint.h; `text` may be NULL. */
uint64_t es_checkpoint_sum_text(uint64_t sum, es_checkpoint_text entry,
                                const char *text);
uint64_t es_checkpoint_sum_tensor(uint64_t sum, const char *name, int n_dims,
                                  const int64_t *dims, const float *values,
                                  size_t n);

/** ES_OK, or ES_EFORMAT: `path` holds a number that is not finite. */
es_status es_checkpoint_check_finite(const char *path, const char *name,
                                     const float *values, size_t n) ES_MUST_USE;

#endif
