/* Writing a checkpoint, and what its reader shares: keys, names of tensors, the
   checksum. Numbers are fetched from the model twice, for the checksum comes
   before them in the file. */
#include "hooks/trainer/files/checkpoint_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/files/tokens.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const es_checkpoint_keys[ES_CHECKPOINT_N_TEXTS] = {
    ES_CHECKPOINT_KEY,
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
    "checksum"};

static const char *const prefixes[ES_N_PARTS] = {"", "optimizer.m.",
                                                 "optimizer.v."};

bool es_checkpoint_is_moment(const char *name)
{
    for (int part = ES_PART_MOMENT_FIRST; part < ES_N_PARTS; part++)
        if (strncmp(name, prefixes[part], strlen(prefixes[part])) == 0)
            return true;
    return false;
}

void es_checkpoint_tensor_name(char out[ES_CHECKPOINT_NAME_MAX],
                               es_checkpoint_part part, const char *parameter)
{
    snprintf(out, ES_CHECKPOINT_NAME_MAX, "%s%s", prefixes[part], parameter);
}

/* --- checksum ------------------------------------------------------------ */

static uint64_t add_part(uint64_t sum, const void *bytes, size_t n)
{
    const uint64_t both[2] = {sum, es_tokens_hash(bytes, n)};
    return es_tokens_hash(both, sizeof both);
}

uint64_t es_checkpoint_sum_text(uint64_t sum, es_checkpoint_text entry,
                                const char *text)
{
    const char *key = es_checkpoint_keys[entry];
    if (!text)
        return sum;
    sum = add_part(sum, key, strlen(key));
    return add_part(sum, text, strlen(text));
}

uint64_t es_checkpoint_sum_tensor(uint64_t sum, const char *name, int n_dims,
                                  const int64_t *dims, const float *values,
                                  size_t n)
{
    sum = add_part(sum, name, strlen(name));
    sum = add_part(sum, dims, (size_t)n_dims * sizeof *dims);
    return add_part(sum, values, n * sizeof *values);
}

es_status es_checkpoint_check_finite(const char *path, const char *name,
                                     const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return es_fail(ES_EFORMAT, "%s: number %zu of %s is not finite",
                           path, i, name);
    return ES_OK;
}

/* --- tensors ------------------------------------------------------------- */

/** What is about to be written. */
typedef struct writing {
    const char *path;
    es_model *model;
    es_tensor_source *tensors;
    char (*names)[ES_CHECKPOINT_NAME_MAX];
    size_t n;
} writing;

/** `index` numbers part p of array a as a * ES_N_PARTS + p. */
static es_status fill(void *user, size_t index, float *out, size_t n)
{
    const writing *w = user;
    size_t array = index / ES_N_PARTS;
    es_checkpoint_part part = (es_checkpoint_part)(index % ES_N_PARTS);
    es_moment moment =
        part == ES_PART_MOMENT_FIRST ? ES_MOMENT_FIRST : ES_MOMENT_SECOND;
    es_status status =
        part == ES_PART_VALUE
            ? es_model_get(w->model, array, out, n)
            : es_model_get_moment(w->model, moment, array, out, n);
    if (status < 0)
        return status;
    return es_checkpoint_check_finite(
        w->path, es_model_parameter(w->model, array).name, out, n);
}

static void add_tensor(writing *w, const es_parameter *parameter, size_t array,
                       es_checkpoint_part part)
{
    es_tensor_source *tensor = &w->tensors[w->n];
    *tensor = (es_tensor_source){.name = w->names[w->n],
                                 .n_dims = parameter->n_dims,
                                 .fill = fill,
                                 .user = w,
                                 .index = array * ES_N_PARTS + part};
    for (int i = 0; i < parameter->n_dims; i++)
        tensor->dims[i] = parameter->dims[i];
    es_checkpoint_tensor_name(w->names[w->n], part, parameter->name);
    w->n++;
}

/** All arrays, then all moments: who wants the model alone reads the first
 *  third of the file. */
static es_status list_tensors(writing *w)
{
    size_t n = es_model_n_arrays(w->model);
    es_status status;
    if ((status = es_alloc(&w->tensors, n * ES_N_PARTS, sizeof *w->tensors,
                           "a checkpoint's tensors")) < 0 ||
        (status = es_alloc(&w->names, n * ES_N_PARTS, sizeof *w->names,
                           "a checkpoint's names")) < 0)
        return status;
    for (int part = 0; part < ES_N_PARTS; part++)
        for (size_t i = 0; i < n; i++) {
            es_parameter parameter = es_model_parameter(w->model, i);
            if (part == ES_PART_VALUE || parameter.trainable)
                add_tensor(w, &parameter, i, (es_checkpoint_part)part);
        }
    return ES_OK;
}

/** The checksum comes before the numbers in the file, so they are fetched
 *  twice: that costs far less than writing them. */
static es_status sum_tensors(const writing *w, uint64_t *sum)
{
    float *values = NULL;
    es_status status = ES_OK;
    for (size_t i = 0; i < w->n; i++) {
        const es_tensor_source *tensor = &w->tensors[i];
        size_t n = es_model_parameter(w->model, tensor->index / ES_N_PARTS).n;
        if ((status = es_grow(&values, n, sizeof *values, "a tensor")) < 0 ||
            (status = fill(tensor->user, tensor->index, values, n)) < 0)
            break;
        *sum = es_checkpoint_sum_tensor(*sum, tensor->name, tensor->n_dims,
                                        tensor->dims, values, n);
    }
    free(values);
    return status;
}

/* --- texts --------------------------------------------------------------- */

typedef struct texts {
    char *config;
    char numbers[ES_CHECKPOINT_N_TEXTS][ES_FLOAT_TEXT_MAX];
    const char *all[ES_CHECKPOINT_N_TEXTS]; /* NULL: left out */
} texts;

static void print_whole(texts *out, es_checkpoint_text entry, int64_t number)
{
    snprintf(out->numbers[entry], ES_FLOAT_TEXT_MAX, "%" PRId64, number);
    out->all[entry] = out->numbers[entry];
}

static void print_losses(texts *out, int first, const es_losses *losses)
{
    const double numbers[] = {losses->loss, losses->ce, losses->ereg};
    for (int i = 0; i < 3; i++)
        if (isfinite(numbers[i]))
            out->all[first + i] =
                es_double_print(out->numbers[first + i], numbers[i]);
}

static es_status print_texts(texts *out, const writing *w,
                             const es_settings *settings,
                             const es_checkpoint_state *state)
{
    out->config = es_settings_json(settings, state->tokens_checksum);
    if (!out->config)
        return es_fail(ES_ENOMEM, "%s: out of memory", w->path);
    print_whole(out, ES_CHECKPOINT_VERSION_TEXT, ES_CHECKPOINT_VERSION);
    out->all[ES_CHECKPOINT_PROGRAM] = "entropy-train " ES_VERSION;
    out->all[ES_CHECKPOINT_CONFIG] = out->config;
    print_whole(out, ES_CHECKPOINT_STEP, state->step);
    print_whole(out, ES_CHECKPOINT_UPDATES, es_model_n_updates(w->model));
    out->all[ES_CHECKPOINT_RUN] = state->uuid;
    out->all[ES_CHECKPOINT_NAME] = state->name;
    print_whole(out, ES_CHECKPOINT_THREADS, es_model_n_threads(w->model));
    print_losses(out, ES_CHECKPOINT_LOSSES, &state->last);
    print_losses(out, ES_CHECKPOINT_LOSSES + 3, &state->eval);
    if (es_model_scales_loss(w->model)) {
        print_whole(out, ES_CHECKPOINT_LOSS_SCALE,
                    (int64_t)state->loss_scale.scale);
        print_whole(out, ES_CHECKPOINT_GOOD_STEPS,
                    state->loss_scale.good_steps);
    }
    return ES_OK;
}

static es_status write_file(const writing *w, texts *from, uint64_t sum)
{
    es_tensor_note notes[ES_CHECKPOINT_N_TEXTS];
    size_t n = 0;
    snprintf(from->numbers[ES_CHECKPOINT_CHECKSUM], ES_FLOAT_TEXT_MAX,
             "%016" PRIx64, sum);
    from->all[ES_CHECKPOINT_CHECKSUM] = from->numbers[ES_CHECKPOINT_CHECKSUM];
    for (int i = 0; i < ES_CHECKPOINT_N_TEXTS; i++)
        if (from->all[i])
            notes[n++] = (es_tensor_note){es_checkpoint_keys[i], from->all[i]};
    return es_safetensors_write(w->path, w->tensors, w->n, notes, n);
}

es_status es_checkpoint_write(const char *path, es_model *model,
                              const es_settings *settings,
                              const es_checkpoint_state *state)
{
    writing w = {.path = path, .model = model};
    texts from = {0};
    uint64_t sum = 0;
    es_status status;
    if ((status = list_tensors(&w)) < 0 ||
        (status = print_texts(&from, &w, settings, state)) < 0)
        goto done;
    for (int i = 0; i < ES_CHECKPOINT_CHECKSUM; i++)
        sum = es_checkpoint_sum_text(sum, (es_checkpoint_text)i, from.all[i]);
    if ((status = sum_tensors(&w, &sum)) == ES_OK)
        status = write_file(&w, &from, sum);
done:
    free(from.config);
    free(w.tensors);
    free(w.names);
    return status;
}
