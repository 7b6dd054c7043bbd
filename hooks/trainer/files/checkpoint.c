/* Writes and reads checkpoints: safetensors files whose metadata hold the
 * settings, the state of the training run and a checksum over everything. A
 * reader verifies the checksum before it uses anything except the version. The
 * checksum precedes the tensors in the file, so a writer fetches the tensors
 * from the model twice. */
#include "hooks/trainer/files/checkpoint.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/files/tokens.h"
#include "hooks/trainer/model/params.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Entries of __metadata__, in the order of the checksum. */
typedef enum text_entry {
    VERSION,
    PROGRAM,
    CONFIG,
    STEP,
    UPDATES,
    RUN,
    NAME,
    THREADS,
    LOSSES, /* first of six entries: loss, ce and ereg of the last step and of
               the evaluation */
    LOSS_SCALE = LOSSES + 6,
    GOOD_STEPS,
    RANGES, /* range losses of the last step and of the evaluation; only if the
               model has range losses */
    CHECKSUM = RANGES + 2,
    N_TEXTS
} text_entry;

static const char *const keys[N_TEXTS] = {"entropy_train_checkpoint",
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
                                          "checksum"};

/** The tensors stored for a parameter: its value and, if it is trained, its
 *  moments. */
typedef enum tensor_part {
    VALUE,
    MOMENT_FIRST,
    MOMENT_SECOND,
    N_PARTS
} tensor_part;

static const char *const prefixes[N_PARTS] = {"", "optimizer.m.",
                                              "optimizer.v."};

#define TENSOR_NAME_MAX (ES_PARAM_NAME_MAX + 16)

bool es_checkpoint_is_moment(const char *name)
{
    for (int part = MOMENT_FIRST; part < N_PARTS; part++)
        if (strncmp(name, prefixes[part], strlen(prefixes[part])) == 0)
            return true;
    return false;
}

static void tensor_name(char out[TENSOR_NAME_MAX], tensor_part part,
                        const char *parameter)
{
    snprintf(out, TENSOR_NAME_MAX, "%s%s", prefixes[part], parameter);
}

/* --- checksum ------------------------------------------------------------ */

static uint64_t add_part(uint64_t sum, const void *bytes, size_t n)
{
    const uint64_t both[2] = {sum, es_tokens_hash(bytes, n)};
    return es_tokens_hash(both, sizeof both);
}

static uint64_t sum_text(uint64_t sum, text_entry entry, const char *text)
{
    const char *key = keys[entry];
    if (!text)
        return sum;
    sum = add_part(sum, key, strlen(key));
    return add_part(sum, text, strlen(text));
}

static uint64_t sum_tensor(uint64_t sum, const char *name, int n_dims,
                           const int64_t *dims, const float *values, size_t n)
{
    sum = add_part(sum, name, strlen(name));
    sum = add_part(sum, dims, (size_t)n_dims * sizeof *dims);
    return add_part(sum, values, n * sizeof *values);
}

static es_status check_finite(const char *path, const char *name,
                              const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return es_fail(ES_EFORMAT, "%s: number %zu of %s is not finite",
                           path, i, name);
    return ES_OK;
}

static es_moment moment_of(tensor_part part)
{
    return part == MOMENT_FIRST ? ES_MOMENT_FIRST : ES_MOMENT_SECOND;
}

/* --- writing: tensors ---------------------------------------------------- */

/** Everything needed to write a checkpoint. */
typedef struct writing {
    const char *path;
    es_model *model;
    es_tensor_source *tensors;
    char (*names)[TENSOR_NAME_MAX];
    size_t n;
} writing;

/** Fetches a tensor from the model. For `index` = a * N_PARTS + p, this is part
 *  p (the value or a moment) of array a. */
static es_status fetch_tensor(void *user, size_t index, float *out, size_t n)
{
    const writing *w = user;
    size_t array = index / N_PARTS;
    tensor_part part = (tensor_part)(index % N_PARTS);
    es_status status =
        part == VALUE
            ? es_model_get(w->model, array, out, n)
            : es_model_get_moment(w->model, moment_of(part), array, out, n);
    if (status < 0)
        return status;
    return check_finite(w->path, es_model_parameter(w->model, array).name, out,
                        n);
}

static void add_tensor(writing *w, const es_parameter *parameter, size_t array,
                       tensor_part part)
{
    es_tensor_source *tensor = &w->tensors[w->n];
    *tensor = (es_tensor_source){.name = w->names[w->n],
                                 .n_dims = parameter->n_dims,
                                 .fill = fetch_tensor,
                                 .user = w,
                                 .index = array * N_PARTS + part};
    for (int i = 0; i < parameter->n_dims; i++)
        tensor->dims[i] = parameter->dims[i];
    tensor_name(w->names[w->n], part, parameter->name);
    w->n++;
}

/** Computes the checksum of all tensors. The tensors are fetched from the model
 *  for the checksum and again for the file; fetching costs far less than
 *  writing. */
static es_status sum_model(const writing *w, uint64_t *sum)
{
    float *values = NULL;
    es_status status = ES_OK;
    for (size_t i = 0; i < w->n; i++) {
        const es_tensor_source *tensor = &w->tensors[i];
        size_t n = es_model_parameter(w->model, tensor->index / N_PARTS).n;
        if ((status = es_grow(&values, n, sizeof *values, "a tensor")) < 0 ||
            (status = fetch_tensor(tensor->user, tensor->index, values, n)) < 0)
            break;
        *sum = sum_tensor(*sum, tensor->name, tensor->n_dims, tensor->dims,
                          values, n);
    }
    free(values);
    return status;
}

/* --- writing: texts ------------------------------------------------------ */

typedef struct texts {
    char *config;
    char numbers[N_TEXTS][ES_FLOAT_TEXT_MAX];
    /* values of the metadata entries; NULL for entries that are left out */
    const char *all[N_TEXTS];
} texts;

static void print_whole(texts *out, text_entry entry, int64_t number)
{
    snprintf(out->numbers[entry], ES_FLOAT_TEXT_MAX, "%" PRId64, number);
    out->all[entry] = out->numbers[entry];
}

static void print_losses(texts *out, int first, int range,
                         const es_losses *losses)
{
    const double numbers[] = {losses->loss, losses->ce, losses->ereg};
    for (int i = 0; i < 3; i++)
        if (isfinite(numbers[i]))
            out->all[first + i] =
                es_double_print(out->numbers[first + i], numbers[i]);
    if (losses->range > 0 && isfinite(losses->range))
        out->all[range] = es_double_print(out->numbers[range], losses->range);
}

static es_status print_texts(texts *out, const writing *w,
                             const es_settings *settings,
                             const es_checkpoint_state *state)
{
    out->config = es_settings_json(settings, state->tokens_checksum);
    if (!out->config)
        return es_fail(ES_ENOMEM, "%s: out of memory", w->path);
    print_whole(out, VERSION, ES_CHECKPOINT_VERSION);
    out->all[PROGRAM] = "entropy-train " ES_VERSION;
    out->all[CONFIG] = out->config;
    print_whole(out, STEP, state->step);
    print_whole(out, UPDATES, es_model_n_updates(w->model));
    out->all[RUN] = state->uuid;
    out->all[NAME] = state->name;
    print_whole(out, THREADS, es_model_n_threads(w->model));
    print_losses(out, LOSSES, RANGES, &state->last);
    print_losses(out, LOSSES + 3, RANGES + 1, &state->eval);
    if (es_model_scales_loss(w->model)) {
        print_whole(out, LOSS_SCALE, (int64_t)state->loss_scale.scale);
        print_whole(out, GOOD_STEPS, state->loss_scale.good_steps);
    }
    return ES_OK;
}

static es_status write_file(const writing *w, texts *from, uint64_t sum)
{
    es_tensor_note notes[N_TEXTS + 1];
    size_t n = 0;
    /* The library transformers reads a file only if it has this entry. */
    if (es_families[es_model_config_of(w->model)->family].is_of_transformers)
        notes[n++] = (es_tensor_note){"format", "pt"};
    snprintf(from->numbers[CHECKSUM], ES_FLOAT_TEXT_MAX, "%016" PRIx64, sum);
    from->all[CHECKSUM] = from->numbers[CHECKSUM];
    for (int i = 0; i < N_TEXTS; i++)
        if (from->all[i])
            notes[n++] = (es_tensor_note){keys[i], from->all[i]};
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
    /* The values of all arrays precede all moments, so that a reader that only
     * needs the model reads only the first third of the file. */
    size_t n = es_model_n_arrays(w.model);
    if ((status = es_alloc(&w.tensors, n * N_PARTS, sizeof *w.tensors,
                           "a checkpoint's tensors")) < 0 ||
        (status = es_alloc(&w.names, n * N_PARTS, sizeof *w.names,
                           "a checkpoint's names")) < 0)
        goto done;
    for (int part = 0; part < N_PARTS; part++)
        for (size_t i = 0; i < n; i++) {
            es_parameter parameter = es_model_parameter(w.model, i);
            if (part == VALUE || parameter.trainable)
                add_tensor(&w, &parameter, i, (tensor_part)part);
        }
    if ((status = print_texts(&from, &w, settings, state)) < 0)
        goto done;
    for (int i = 0; i < CHECKSUM; i++)
        sum = sum_text(sum, (text_entry)i, from.all[i]);
    if ((status = sum_model(&w, &sum)) == ES_OK)
        status = write_file(&w, &from, sum);
done:
    free(from.config);
    free(w.tensors);
    free(w.names);
    return status;
}

bool es_checkpoint_is_ours(const es_safetensors *file)
{
    return es_safetensors_metadata(file, keys[VERSION]) != NULL;
}

/* --- reading: texts ------------------------------------------------------ */

static const char *text_of(const es_checkpoint *checkpoint, text_entry entry)
{
    return es_safetensors_metadata(checkpoint->file, keys[entry]);
}

static es_status wrong_text(const es_checkpoint *checkpoint, text_entry entry)
{
    return es_fail(ES_EFORMAT, "%s: damaged: no valid '%s' in the header",
                   checkpoint->file->path, keys[entry]);
}

static es_status take_whole(int64_t *out, const es_checkpoint *checkpoint,
                            text_entry entry, int64_t low, int64_t high)
{
    const char *text = text_of(checkpoint, entry);
    if (!text || es_int_parse(out, text, low, high) != ES_OK)
        return wrong_text(checkpoint, entry);
    return ES_OK;
}

static es_status take_losses(es_losses *out, const es_checkpoint *checkpoint,
                             int first, int range)
{
    double *const numbers[] = {&out->loss, &out->ce, &out->ereg, &out->range};
    for (int i = 0; i < 4; i++) {
        text_entry entry = (text_entry)(i < 3 ? first + i : range);
        const char *text = text_of(checkpoint, entry);
        *numbers[i] = (double)NAN;
        if (text && es_double_parse(numbers[i], text) != ES_OK)
            return wrong_text(checkpoint, entry);
    }
    if (isnan(out->range) && !isnan(out->loss))
        out->range = 0;
    return ES_OK;
}

/** Reads the loss scale and the number of steps without overflow since the
 *  scale last changed; the checkpoint must have both or neither. */
static es_status take_loss_scale(es_loss_scale *out,
                                 const es_checkpoint *checkpoint)
{
    int64_t scale = 0;
    *out = (es_loss_scale){0};
    if (!text_of(checkpoint, LOSS_SCALE))
        return ES_OK;
    es_status status =
        take_whole(&scale, checkpoint, LOSS_SCALE, (int64_t)ES_LOSS_SCALE_LEAST,
                   (int64_t)ES_LOSS_SCALE_LARGEST);
    out->scale = (double)scale;
    return status < 0 ? status
                      : take_whole(&out->good_steps, checkpoint, GOOD_STEPS, 0,
                                   ES_LOSS_SCALE_PATIENCE);
}

static es_status take_text(char *out, size_t size,
                           const es_checkpoint *checkpoint, text_entry entry)
{
    const char *text = text_of(checkpoint, entry);
    if (!text || strlen(text) >= size)
        return wrong_text(checkpoint, entry);
    strcpy(out, text);
    return ES_OK;
}

static es_status check_version(const es_checkpoint *checkpoint)
{
    const char *path = checkpoint->file->path;
    int64_t version = 0;
    if (!es_checkpoint_is_ours(checkpoint->file))
        return es_fail(ES_EFORMAT,
                       "%s: not a checkpoint of entropy-train: give a "
                       "checkpoint to resume from",
                       path);
    es_status status;
    if ((status = take_whole(&version, checkpoint, VERSION, 1, INT_MAX)) < 0)
        return status;
    if (version > ES_CHECKPOINT_VERSION)
        return es_fail(ES_EVERSION,
                       "%s: checkpoint version %" PRId64
                       ": this program reads versions up to %d: upgrade "
                       "entropy-train",
                       path, version, ES_CHECKPOINT_VERSION);
    return ES_OK;
}

static es_status take_texts(es_checkpoint *checkpoint)
{
    es_checkpoint_state *state = &checkpoint->state;
    int64_t threads = 0;
    const struct {
        int64_t *number;
        text_entry entry;
        int64_t low, high;
    } wholes[] = {{&state->step, STEP, 0, ES_MAX_STEP},
                  {&checkpoint->n_updates, UPDATES, 0, ES_MAX_STEP},
                  {&threads, THREADS, 1, INT_MAX}};
    es_status status = ES_OK;
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
        if ((status = take_whole(wholes[i].number, checkpoint, wholes[i].entry,
                                 wholes[i].low, wholes[i].high)) < 0)
            return status;
    state->threads = (int)threads;
    status = take_text(state->uuid, sizeof state->uuid, checkpoint, RUN);
    if (status == ES_OK && !es_uuid_is(state->uuid))
        return wrong_text(checkpoint, RUN);
    if (status < 0 ||
        (status = take_text(state->name, sizeof state->name, checkpoint,
                            NAME)) < 0 ||
        (status = take_losses(&state->last, checkpoint, LOSSES, RANGES)) < 0 ||
        (status = take_losses(&state->eval, checkpoint, LOSSES + 3,
                              RANGES + 1)) < 0 ||
        (status = take_loss_scale(&state->loss_scale, checkpoint)) < 0)
        return status;
    const char *config = text_of(checkpoint, CONFIG);
    if (!config)
        return wrong_text(checkpoint, CONFIG);
    es_settings_default(&checkpoint->settings, ES_VERB_TRAIN);
    status =
        es_settings_read_json(&checkpoint->settings, &state->tokens_checksum,
                              config, checkpoint->file->path);
    snprintf(checkpoint->settings.name, sizeof checkpoint->settings.name, "%s",
             state->name);
    return status;
}

/* --- checksum of an open file -------------------------------------------- */

static es_status read_tensor(float **values, const es_checkpoint *checkpoint,
                             const es_tensor *tensor)
{
    es_status status = es_grow(values, tensor->n, sizeof **values, "a tensor");
    return status < 0 ? status
                      : es_safetensors_read(checkpoint->file, tensor, *values,
                                            0, tensor->n);
}

/** Verifies the checksum; called before anything except the version is used. */
static es_status check_sum(const es_checkpoint *checkpoint)
{
    char want[17];
    uint64_t sum = 0;
    for (int i = 0; i < CHECKSUM; i++)
        sum = sum_text(sum, (text_entry)i, text_of(checkpoint, (text_entry)i));
    float *values = NULL;
    es_status status = ES_OK;
    size_t n = checkpoint->file->n;
    for (size_t i = 0; i < n; i++) {
        const es_tensor *tensor = &checkpoint->file->tensors[i];
        if ((status = read_tensor(&values, checkpoint, tensor)) < 0)
            break;
        sum = sum_tensor(sum, tensor->name, tensor->n_dims, tensor->dims,
                         values, tensor->n);
    }
    free(values);

    const char *have = text_of(checkpoint, CHECKSUM);
    snprintf(want, sizeof want, "%016" PRIx64, sum);
    if (status == ES_OK && (!have || strcmp(have, want) != 0))
        status = es_fail(
            ES_EFORMAT, "%s: damaged: the checksum does not match the contents",
            checkpoint->file->path);
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

/** Finds the tensor that stores a parameter's value or one of its moments, and
 *  checks its shape. Sets *is_old if the file holds temperatures instead of
 *  their logarithms. */
static es_status find_tensor(const es_tensor **out, bool *is_old,
                             const es_checkpoint *checkpoint,
                             const es_parameter *parameter, tensor_part part)
{
    char name[TENSOR_NAME_MAX], old[TENSOR_NAME_MAX];
    tensor_name(name, part, parameter->name);
    const es_tensor *tensor = es_safetensors_find(checkpoint->file, name);
    *is_old = !tensor && es_temperatures_name(old, sizeof old, name);
    if (*is_old)
        tensor = es_safetensors_find(checkpoint->file, old);
    if (!tensor)
        return es_fail(ES_EFORMAT, "%s: tensor %s is missing",
                       checkpoint->file->path, name);
    bool same = tensor->n_dims == parameter->n_dims;
    for (int i = 0; same && i < tensor->n_dims; i++)
        same = tensor->dims[i] == parameter->dims[i];
    if (!same)
        return es_fail(ES_EFORMAT,
                       "%s: tensor %s does not have the model's shape",
                       checkpoint->file->path, name);
    *out = tensor;
    return ES_OK;
}

/** Converts values from temperatures t to ln t, or AdamW's moments from
 *  derivatives with respect to t to derivatives with respect to ln t. */
static es_status convert_old(float *values, const es_checkpoint *checkpoint,
                             const es_parameter *parameter, tensor_part part)
{
    const es_tensor *tensor = NULL;
    float *t = NULL;
    bool is_old;
    es_status status = ES_OK;
    if (part == VALUE)
        es_temperatures_to_logs(values, parameter->n, ES_LEAST_TEMPERATURE);
    else if ((status = find_tensor(&tensor, &is_old, checkpoint, parameter,
                                   VALUE)) == ES_OK &&
             (status = read_tensor(&t, checkpoint, tensor)) == ES_OK)
        es_temperatures_to_log_gradients(values, t, parameter->n,
                                         part == MOMENT_FIRST ? 1 : 2);
    free(t);
    return status;
}

static es_status load_part(es_model *model, float **values,
                           const es_checkpoint *checkpoint, size_t array,
                           tensor_part part)
{
    es_parameter parameter = es_model_parameter(model, array);
    const es_tensor *tensor = NULL;
    bool is_old;
    es_status status;
    if ((status = find_tensor(&tensor, &is_old, checkpoint, &parameter, part)) <
            0 ||
        (status = read_tensor(values, checkpoint, tensor)) < 0 ||
        (status = check_finite(checkpoint->file->path, tensor->name, *values,
                               tensor->n)) < 0 ||
        (is_old &&
         (status = convert_old(*values, checkpoint, &parameter, part)) < 0))
        return status;
    if (part == VALUE)
        return es_model_set(model, array, *values, tensor->n);
    return es_model_set_moment(model, moment_of(part), array, *values,
                               tensor->n);
}

es_status es_checkpoint_load(es_model *model, const es_checkpoint *checkpoint)
{
    float *values = NULL;
    size_t n_tensors = 0;
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < es_model_n_arrays(model); i++) {
        int n_parts = es_model_parameter(model, i).trainable ? N_PARTS : 1;
        for (int part = 0; status == ES_OK && part < n_parts; part++) {
            status =
                load_part(model, &values, checkpoint, i, (tensor_part)part);
            n_tensors++;
        }
    }
    free(values);
    size_t have = checkpoint->file->n;
    if (status == ES_OK && n_tensors != have)
        status = es_fail(ES_EFORMAT,
                         "%s: contains %zu tensors, but the model has %zu",
                         checkpoint->file->path, have, n_tensors);
    if (status == ES_OK)
        es_model_set_n_updates(model, checkpoint->n_updates);
    return status;
}
