/* Reading a checkpoint: a safetensors file whose metadata hold the settings,
   the state of the training and a checksum over all, which is compared before
   anything else but the version is believed. For --resume and --init. */
#include "hooks/trainer/files/checkpoint_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct es_checkpoint {
    es_safetensors *file;
    es_settings settings;
    es_checkpoint_state state;
    int64_t n_updates;
};

const char *es_checkpoint_path(const es_checkpoint *checkpoint)
{
    return es_safetensors_path(checkpoint->file);
}

const es_checkpoint_state *
es_checkpoint_state_of(const es_checkpoint *checkpoint)
{
    return &checkpoint->state;
}

const es_settings *es_checkpoint_settings(const es_checkpoint *checkpoint)
{
    return &checkpoint->settings;
}

bool es_checkpoint_is_ours(const es_safetensors *file)
{
    return es_safetensors_metadata(file, ES_CHECKPOINT_KEY) != NULL;
}

/* --- texts --------------------------------------------------------------- */

static const char *text_of(const es_checkpoint *checkpoint,
                           es_checkpoint_text entry)
{
    return es_safetensors_metadata(checkpoint->file, es_checkpoint_keys[entry]);
}

static es_status wrong_text(const es_checkpoint *checkpoint,
                            es_checkpoint_text entry)
{
    return es_fail(ES_EFORMAT, "%s: damaged: no usable '%s' in its header",
                   es_checkpoint_path(checkpoint), es_checkpoint_keys[entry]);
}

static es_status take_whole(int64_t *out, const es_checkpoint *checkpoint,
                            es_checkpoint_text entry, int64_t low, int64_t high)
{
    const char *text = text_of(checkpoint, entry);
    if (!text || es_int_parse(out, text, low, high) != ES_OK)
        return wrong_text(checkpoint, entry);
    return ES_OK;
}

static es_status take_losses(es_losses *out, const es_checkpoint *checkpoint,
                             int first)
{
    double *const numbers[] = {&out->loss, &out->ce, &out->ereg};
    for (int i = 0; i < 3; i++) {
        es_checkpoint_text entry = (es_checkpoint_text)(first + i);
        const char *text = text_of(checkpoint, entry);
        *numbers[i] = (double)NAN;
        if (text && es_double_parse(numbers[i], text) != ES_OK)
            return wrong_text(checkpoint, entry);
    }
    return ES_OK;
}

/** A scale and good steps, both or neither. */
static es_status take_loss_scale(es_loss_scale *out,
                                 const es_checkpoint *checkpoint)
{
    int64_t scale = 0;
    *out = (es_loss_scale){0};
    if (!text_of(checkpoint, ES_CHECKPOINT_LOSS_SCALE))
        return ES_OK;
    es_status status = take_whole(&scale, checkpoint, ES_CHECKPOINT_LOSS_SCALE,
                                  (int64_t)ES_LOSS_SCALE_LEAST,
                                  (int64_t)ES_LOSS_SCALE_LARGEST);
    out->scale = (double)scale;
    return status < 0 ? status
                      : take_whole(&out->good_steps, checkpoint,
                                   ES_CHECKPOINT_GOOD_STEPS, 0,
                                   ES_LOSS_SCALE_PATIENCE);
}

static es_status take_text(char *out, size_t size,
                           const es_checkpoint *checkpoint,
                           es_checkpoint_text entry)
{
    const char *text = text_of(checkpoint, entry);
    if (!text || strlen(text) >= size)
        return wrong_text(checkpoint, entry);
    strcpy(out, text);
    return ES_OK;
}

static es_status check_version(const es_checkpoint *checkpoint)
{
    const char *path = es_checkpoint_path(checkpoint);
    int64_t version = 0;
    if (!es_checkpoint_is_ours(checkpoint->file))
        return es_fail(ES_EFORMAT,
                       "%s: not a checkpoint of entropy-train, which alone"
                       " can be resumed",
                       path);
    es_status status;
    if ((status = take_whole(&version, checkpoint, ES_CHECKPOINT_VERSION_TEXT,
                             1, INT_MAX)) < 0)
        return status;
    if (version > ES_CHECKPOINT_VERSION)
        return es_fail(ES_EVERSION,
                       "%s: version %" PRId64 " is newer than this program's"
                       " %d: upgrade entropy-train",
                       path, version, ES_CHECKPOINT_VERSION);
    return ES_OK;
}

static es_status take_config(es_checkpoint *checkpoint)
{
    const char *config = text_of(checkpoint, ES_CHECKPOINT_CONFIG);
    if (!config)
        return wrong_text(checkpoint, ES_CHECKPOINT_CONFIG);
    es_settings_default(&checkpoint->settings, ES_VERB_TRAIN);
    es_status status = es_settings_read_json(
        &checkpoint->settings, &checkpoint->state.tokens_checksum, config,
        es_checkpoint_path(checkpoint));
    snprintf(checkpoint->settings.name, sizeof checkpoint->settings.name, "%s",
             checkpoint->state.name);
    return status;
}

static es_status take_texts(es_checkpoint *checkpoint)
{
    es_checkpoint_state *state = &checkpoint->state;
    int64_t threads = 0;
    es_status status;
    if ((status = take_whole(&state->step, checkpoint, ES_CHECKPOINT_STEP, 0,
                             ES_MAX_STEP)) < 0 ||
        (status = take_whole(&checkpoint->n_updates, checkpoint,
                             ES_CHECKPOINT_UPDATES, 0, ES_MAX_STEP)) < 0 ||
        (status = take_whole(&threads, checkpoint, ES_CHECKPOINT_THREADS, 1,
                             INT_MAX)) < 0 ||
        (status = take_text(state->uuid, sizeof state->uuid, checkpoint,
                            ES_CHECKPOINT_RUN)) < 0)
        return status;
    state->threads = (int)threads;
    if (!es_uuid_is(state->uuid))
        return wrong_text(checkpoint, ES_CHECKPOINT_RUN);
    if ((status = take_text(state->name, sizeof state->name, checkpoint,
                            ES_CHECKPOINT_NAME)) < 0 ||
        (status = take_losses(&state->last, checkpoint, ES_CHECKPOINT_LOSSES)) <
            0 ||
        (status = take_losses(&state->eval, checkpoint,
                              ES_CHECKPOINT_LOSSES + 3)) < 0 ||
        (status = take_loss_scale(&state->loss_scale, checkpoint)) < 0)
        return status;
    return take_config(checkpoint);
}

/* --- all of it, once ----------------------------------------------------- */

static es_status read_tensor(float **values, const es_checkpoint *checkpoint,
                             const es_tensor *tensor)
{
    es_status status = es_grow(values, tensor->n, sizeof **values, "a tensor");
    return status < 0 ? status
                      : es_safetensors_read(checkpoint->file, tensor, *values,
                                            0, tensor->n);
}

static es_status sum_tensors(const es_checkpoint *checkpoint, uint64_t *sum)
{
    float *values = NULL;
    es_status status = ES_OK;
    size_t n = es_safetensors_count(checkpoint->file);
    for (size_t i = 0; i < n; i++) {
        const es_tensor *tensor = es_safetensors_at(checkpoint->file, i);
        if ((status = read_tensor(&values, checkpoint, tensor)) < 0)
            break;
        *sum = es_checkpoint_sum_tensor(*sum, tensor->name, tensor->n_dims,
                                        tensor->dims, values, tensor->n);
    }
    free(values);
    return status;
}

/** Before anything else but the version is believed. */
static es_status check_sum(const es_checkpoint *checkpoint)
{
    char want[17];
    uint64_t sum = 0;
    for (int i = 0; i < ES_CHECKPOINT_CHECKSUM; i++)
        sum =
            es_checkpoint_sum_text(sum, (es_checkpoint_text)i,
                                   text_of(checkpoint, (es_checkpoint_text)i));
    es_status status = sum_tensors(checkpoint, &sum);
    const char *have = text_of(checkpoint, ES_CHECKPOINT_CHECKSUM);
    snprintf(want, sizeof want, "%016" PRIx64, sum);
    if (status == ES_OK && (!have || strcmp(have, want) != 0))
        status =
            es_fail(ES_EFORMAT, "%s: damaged: its checksum is not what it says",
                    es_checkpoint_path(checkpoint));
    return status;
}

es_status es_checkpoint_open(es_checkpoint **out, const char *path)
{
    es_checkpoint *checkpoint;
    es_status status = es_alloc(out, 1, sizeof **out, "a checkpoint");
    if (status < 0)
        return status;
    checkpoint = *out;
    if ((status = es_safetensors_open(&checkpoint->file, path)) < 0 ||
        (status = check_version(checkpoint)) < 0 ||
        (status = check_sum(checkpoint)) < 0 ||
        (status = take_texts(checkpoint)) < 0) {
        es_checkpoint_close(checkpoint);
        *out = NULL;
    }
    return status;
}

void es_checkpoint_close(es_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    es_safetensors_close(checkpoint->file);
    free(checkpoint);
}

/* --- into a model -------------------------------------------------------- */

/** The tensor of a parameter's part, of the parameter's shape. */
static es_status find_tensor(const es_tensor **out,
                             const es_checkpoint *checkpoint,
                             const es_parameter *parameter,
                             es_checkpoint_part part)
{
    char name[ES_CHECKPOINT_NAME_MAX];
    es_checkpoint_tensor_name(name, part, parameter->name);
    const es_tensor *tensor = es_safetensors_find(checkpoint->file, name);
    if (!tensor)
        return es_fail(ES_EFORMAT, "%s: has no tensor %s",
                       es_checkpoint_path(checkpoint), name);
    bool same = tensor->n_dims == parameter->n_dims;
    for (int i = 0; same && i < tensor->n_dims; i++)
        same = tensor->dims[i] == parameter->dims[i];
    if (!same)
        return es_fail(ES_EFORMAT, "%s: tensor %s has another shape",
                       es_checkpoint_path(checkpoint), name);
    *out = tensor;
    return ES_OK;
}

static es_status load_part(es_model *model, float **values,
                           const es_checkpoint *checkpoint, size_t array,
                           es_checkpoint_part part)
{
    es_parameter parameter = es_model_parameter(model, array);
    const es_tensor *tensor = NULL;
    es_status status;
    if ((status = find_tensor(&tensor, checkpoint, &parameter, part)) < 0 ||
        (status = read_tensor(values, checkpoint, tensor)) < 0 ||
        (status =
             es_checkpoint_check_finite(es_checkpoint_path(checkpoint),
                                        tensor->name, *values, tensor->n)) < 0)
        return status;
    if (part == ES_PART_VALUE)
        return es_model_set(model, array, *values, tensor->n);
    return es_model_set_moment(model,
                               part == ES_PART_MOMENT_FIRST ? ES_MOMENT_FIRST
                                                            : ES_MOMENT_SECOND,
                               array, *values, tensor->n);
}

es_status es_checkpoint_load(es_model *model, const es_checkpoint *checkpoint)
{
    float *values = NULL;
    size_t n_tensors = 0;
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < es_model_n_arrays(model); i++) {
        int n_parts = es_model_parameter(model, i).trainable ? ES_N_PARTS : 1;
        for (int part = 0; status == ES_OK && part < n_parts; part++) {
            status = load_part(model, &values, checkpoint, i,
                               (es_checkpoint_part)part);
            n_tensors++;
        }
    }
    free(values);
    size_t have = es_safetensors_count(checkpoint->file);
    if (status == ES_OK && n_tensors != have)
        status = es_fail(ES_EFORMAT, "%s: has %zu tensors, the model has %zu",
                         es_checkpoint_path(checkpoint), have, n_tensors);
    if (status == ES_OK)
        es_model_set_n_updates(model, checkpoint->n_updates);
    return status;
}
