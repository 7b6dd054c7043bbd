/* Fuzzes the reader of checkpoints, hooks/trainer/files/checkpoint.h. Most
 * inputs get a correct checksum, so that the code after the checksum test is
 * reached. Opens each checkpoint, prints its settings, and loads it into a
 * model with these settings. */
#include "hooks/trainer/cpu/cpu.h"
#include "hooks/trainer/files/checkpoint.h"
#include "hooks/trainer/files/tokens.h"
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16, DIGITS = 16 };

/* All keys that checkpoint.h defines, except the checksum. */
static const char *const keys[] = {
    "entropy_train_checkpoint",
    "program",
    "config",
    "step",
    "updates",
    "run",
    "name",
    "threads",
    "loss",
    "ce",
    "ereg",
    "eval_loss",
    "eval_ce",
    "eval_ereg",
    "loss_scale",
    "good_steps",
    "range",
    "eval_range",
};

static uint64_t add(uint64_t sum, const void *bytes, size_t n)
{
    const uint64_t both[2] = {sum, es_tokens_hash(bytes, n)};
    return es_tokens_hash(both, sizeof both);
}

/** Returns the correct checksum of a file; 0 if it cannot be computed. */
static uint64_t sum_of(const es_safetensors *file)
{
    static float values[MOST];
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = es_safetensors_metadata(file, keys[i]);
        if (!text)
            continue;
        sum = add(sum, keys[i], strlen(keys[i]));
        sum = add(sum, text, strlen(text));
    }
    for (size_t i = 0; i < file->n; i++) {
        const es_tensor *t = &file->tensors[i];
        if (t->n > MOST ||
            es_safetensors_read(file, t, values, 0, t->n) != ES_OK)
            return 0;
        sum = add(sum, t->name, strlen(t->name));
        sum = add(sum, t->dims, (size_t)t->n_dims * sizeof *t->dims);
        sum = add(sum, values, t->n * sizeof *values);
    }
    return sum;
}

/**
 * Stores the correct checksum in the file bytes (n), if they have a checksum
 * field.
 */
static void seal(uint8_t *bytes, size_t n)
{
    es_safetensors *file = NULL;
    char digits[DIGITS + 1];
    if (es_safetensors_open(&file, fuzz_file(bytes, n)) != ES_OK)
        return;
    const char *have = es_safetensors_metadata(file, "checksum");
    uint8_t *place =
        have && strlen(have) == DIGITS ? memmem(bytes, n, have, DIGITS) : NULL;
    snprintf(digits, sizeof digits, "%016" PRIx64, sum_of(file));
    if (place)
        memcpy(place, digits, DIGITS);
    es_safetensors_close(file);
}

static bool is_small(const es_model_config *config)
{
    const double width =
        (double)config->d_model * config->mlp_mult + config->d_ff +
        (double)config->d_head * (config->n_head + config->n_kv_head);
    return config->n_layer * width * width < 1e5 &&
           (double)config->vocab * width < 1e5 &&
           (double)config->ctx * config->ctx * config->batch * config->n_head *
                   config->n_layer <
               1e6 &&
           (double)config->ctx * config->batch * width < 1e5 &&
           (double)config->ctx * config->batch * config->vocab < 1e6;
}

/**
 * Loads the checkpoint into a model with its settings, unless the model would
 * be too large.
 */
static void load(const es_checkpoint *checkpoint)
{
    es_model *model = NULL;
    const es_model_config *config = &checkpoint->settings.model;
    if (es_settings_check(&checkpoint->settings) != ES_OK ||
        !is_small(config) ||
        !fuzz_succeeded(es_model_new(&model, config, &es_cpu_ops, 1)))
        return;
    if (fuzz_succeeded(es_checkpoint_load(model, checkpoint)))
        fuzz_require(es_model_n_updates(model) == checkpoint->n_updates);
    es_model_free(model);
}

static void check(const es_checkpoint *checkpoint)
{
    const es_checkpoint_state *state = &checkpoint->state;
    fuzz_require(state->step >= 0 && state->step <= ES_MAX_STEP);
    fuzz_require(checkpoint->n_updates >= 0 && state->threads >= 1);
    fuzz_require(es_uuid_is(state->uuid));
    fuzz_require(memchr(state->name, 0, sizeof state->name));
    fuzz_require(isnan(state->last.loss) || isfinite(state->last.loss));
    char *text = es_settings_json(&checkpoint->settings, 1);
    fuzz_require(text);
    free(text);
    load(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static uint8_t file[MOST];
    es_checkpoint *checkpoint = NULL;
    if (n < 2 || n > MOST)
        return 0;
    memcpy(file, bytes + 1, n - 1);
    if (bytes[0] % 8)
        seal(file, n - 1);
    if (!fuzz_succeeded(
            es_checkpoint_open(&checkpoint, fuzz_file(file, n - 1)))) {
        fuzz_require(!checkpoint);
        return 0;
    }
    check(checkpoint);
    es_checkpoint_close(checkpoint);
    return 0;
}
