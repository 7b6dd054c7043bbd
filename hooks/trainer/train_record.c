/*
 * The series of a training or a probe: declared once, pushed step by step. A
 * failure of the recorder is kept and reported; the training goes on.
 */
#include "hooks/trainer/train_record.h"

#include "analyzer/base/checked.h"
#include "hooks/recorder/recorder.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum run_series {
    SERIES_LOSS,
    SERIES_CE,
    SERIES_EREG,
    SERIES_LR,
    SERIES_GRAD_NORM,
    SERIES_TOKENS_PER_S,
    SERIES_LOSS_SCALE,
    N_RUN_SERIES
} run_series;

static const char *const run_series_names[N_RUN_SERIES] = {
    "loss", "ce", "ereg", "lr", "grad_norm", "tokens_per_s", "loss_scale"};

#define N_PHASES 2

struct es_train_record {
    es_recorder *recorder;
    bool ereg, probes, scales;
    size_t n_layers, n_heads; /* n_heads: of the whole model */
    int heads[N_PHASES][ES_N_HEAD_SERIES];
    int layers[N_PHASES][ES_N_LAYER_SERIES];
    int run[N_PHASES][N_RUN_SERIES];
    es_model_config config;
    int parameters[ES_N_PARAMETER_SERIES]; /* of training, or of a probe */
    es_status trouble;                     /* the first one */
    char message[ES_MESSAGE_MAX];
    char path[ES_PATH_SIZE];
};

static void note(es_train_record *record, es_status status)
{
    if (status >= ES_OK || record->trouble != ES_OK)
        return;
    record->trouble = status;
    snprintf(record->message, sizeof record->message, "%s", es_message());
}

static void declare(es_train_record *record, int *number, const char *name,
                    es_phase phase)
{
    es_shape shape;
    const char *unit;
    *number = -1; /* refused by push, should the declaration fail */
    es_series_standard(&shape, &unit, name);
    note(record, es_recorder_series(record->recorder, number, name, shape,
                                    phase, unit));
}

/** Learning rate, gradient and speed belong to training alone. */
static bool has_series(const es_train_record *record, es_phase phase,
                       int series)
{
    if (series == SERIES_EREG)
        return record->ereg;
    if (series == SERIES_LOSS_SCALE && !record->scales)
        return false;
    return phase == ES_PHASE_TRAIN || series <= SERIES_CE;
}

static bool has_head_series(const es_train_record *record, int series)
{
    return es_head_series_exists((es_head_series)series,
                                 record->config.arch.attention);
}

static void declare_all(es_train_record *record, es_phase phase)
{
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (has_head_series(record, i))
            declare(record, &record->heads[phase][i],
                    es_head_statistics[i].name, phase);
    for (int i = 0; i < ES_N_LAYER_SERIES; i++)
        declare(record, &record->layers[phase][i], es_layer_series_names[i],
                phase);
    for (int i = 0; i < N_RUN_SERIES; i++)
        if (has_series(record, phase, i))
            declare(record, &record->run[phase][i], run_series_names[i], phase);
}

/** Evaluations have nothing to add: the same parameters, a step earlier. */
static void declare_parameters(es_train_record *record)
{
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++)
        if (es_parameter_series_exists(&record->config, (es_parameter_series)i))
            declare(record, &record->parameters[i],
                    es_parameter_series_names[i],
                    record->probes ? ES_PHASE_EVAL : ES_PHASE_TRAIN);
}

static es_status open_recorder(es_train_record *record,
                               const es_trainer *trainer, const char *path)
{
    const es_model_config *config = &trainer->settings.model;
    char arch[ES_ARCH_TEXT_MAX], name[ES_RUN_NAME_SIZE], host[256] = "";
    es_arch_print(arch, sizeof arch, &config->arch);
    es_settings_run_name(name, &trainer->settings);
    gethostname(host, sizeof host - 1);
    char *json =
        es_settings_json_of_run(&trainer->settings, trainer->tokens->checksum);
    if (!json)
        return es_fail(ES_ENOMEM, "out of memory for the configuration");
    es_run_info info = {
        .uuid = trainer->uuid,
        .name = name,
        .arch = arch,
        .family = config->family == ES_FAMILY_GPT2 ? "gpt2" : "pythia",
        .n_layer = config->n_layer,
        .n_head = config->n_head,
        .d_model = config->d_model,
        .ctx = config->ctx,
        .vocab = config->vocab,
        .batch = config->batch,
        .seed = (int64_t)config->seed,
        .config = json,
        .program = record->probes ? "entropy-train probe " ES_VERSION
                                  : "entropy-train " ES_VERSION,
        .host = host};
    es_recorder_options options = {
        .path = path, .run = &info, .resume_step = trainer->first_step};
    es_status status = es_recorder_open(&record->recorder, &options);
    free(json);
    return status;
}

es_status es_train_record_open(es_train_record **out, const es_trainer *trainer,
                               const char *path)
{
    const es_model_config *config = &trainer->settings.model;
    es_train_record *record = NULL;
    es_status status = es_alloc(&record, 1, sizeof *record, path);
    *out = NULL;
    if (status != ES_OK)
        return status;
    record->ereg = config->arch.entropy_reg;
    record->probes = trainer->settings.verb == ES_VERB_PROBE;
    record->scales = es_model_scales_loss(trainer->model);
    record->config = *config;
    record->n_layers = (size_t)config->n_layer;
    record->n_heads = record->n_layers * (size_t)config->n_head;
    snprintf(record->path, sizeof record->path, "%s", path);
    if ((status = open_recorder(record, trainer, path)) != ES_OK) {
        free(record);
        return status;
    }
    if (!record->probes)
        declare_all(record, ES_PHASE_TRAIN);
    declare_parameters(record);
    if (record->probes || trainer->settings.eval_every > 0)
        declare_all(record, ES_PHASE_EVAL);
    *out = record;
    return ES_OK;
}

static void push(es_train_record *record, int series, int64_t step,
                 const float *values, size_t n)
{
    note(record, es_recorder_push(record->recorder, series, step, values, n));
}

/** Those of the values that the phase has. */
static void push_run(es_train_record *record, es_phase phase, int64_t step,
                     const double values[N_RUN_SERIES])
{
    for (int i = 0; i < N_RUN_SERIES; i++) {
        float value = (float)values[i];
        if (has_series(record, phase, i))
            push(record, record->run[phase][i], step, &value, 1);
    }
}

static void push_measure(es_train_record *record, es_phase phase, int64_t step,
                         es_measure *measure)
{
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (has_head_series(record, i))
            push(record, record->heads[phase][i], step,
                 es_measure_heads(measure, (es_head_series)i), record->n_heads);
    for (int i = 0; i < ES_N_LAYER_SERIES; i++)
        push(record, record->layers[phase][i], step,
             es_measure_layers(measure, (es_layer_series)i), record->n_layers);
}

static void push_parameters(es_train_record *record, int64_t step,
                            const es_measure *measure)
{
    for (int i = 0; i < ES_N_PARAMETER_SERIES; i++) {
        es_parameter_series series = (es_parameter_series)i;
        if (es_parameter_series_exists(&record->config, series))
            push(record, record->parameters[i], step,
                 es_measure_parameters(measure, series),
                 es_parameter_series_length(&record->config, series));
    }
}

void es_train_record_step(es_train_record *record, const es_step *step,
                          es_measure *measure, double tokens_per_s)
{
    const double values[N_RUN_SERIES] = {
        [SERIES_LOSS] = step->losses.loss,
        [SERIES_CE] = step->losses.ce,
        [SERIES_EREG] = step->losses.ereg,
        [SERIES_LR] = step->lr,
        [SERIES_GRAD_NORM] = step->grad_norm,
        [SERIES_TOKENS_PER_S] = tokens_per_s,
        [SERIES_LOSS_SCALE] = step->loss_scale};
    if (!record)
        return;
    push_run(record, ES_PHASE_TRAIN, step->step, values);
    if (!step->measured)
        return;
    push_measure(record, ES_PHASE_TRAIN, step->step, measure);
    push_parameters(record, step->step, measure);
}

void es_train_record_eval(es_train_record *record, int64_t step,
                          const es_losses *losses, es_measure *measure)
{
    const double values[N_RUN_SERIES] = {[SERIES_LOSS] = losses->loss,
                                         [SERIES_CE] = losses->ce,
                                         [SERIES_EREG] = losses->ereg};
    if (!record)
        return;
    push_run(record, ES_PHASE_EVAL, step, values);
    push_measure(record, ES_PHASE_EVAL, step, measure);
    if (record->probes)
        push_parameters(record, step, measure);
}

void es_train_record_other(es_train_record *record, const char *name,
                           es_shape shape, const char *unit, int64_t step,
                           const float *values, size_t n)
{
    int series;
    if (!record)
        return;
    note(record, es_recorder_series(record->recorder, &series, name, shape,
                                    ES_PHASE_EVAL, unit));
    push(record, series, step, values, n);
}

void es_train_record_event(es_train_record *record, int64_t step,
                           const char *kind, es_severity severity,
                           const char *message)
{
    if (record)
        note(record, es_recorder_event(record->recorder, step, kind, severity,
                                       message));
}

const char *es_train_record_trouble(const es_train_record *record)
{
    return record && record->trouble != ES_OK ? record->message : NULL;
}

bool es_train_record_stop_requested(const es_train_record *record)
{
    return record && es_recorder_stop_requested(record->recorder);
}

es_status es_train_record_close(es_train_record *record, es_run_status status)
{
    if (!record)
        return ES_OK;
    es_recorder_report report = {0};
    es_status closed = es_recorder_close(record->recorder, status, &report);
    if (closed == ES_OK && report.dropped > 0)
        closed = es_fail(ES_EFULL,
                         "%s: %llu frames were dropped: the recorder could "
                         "not keep up",
                         record->path, (unsigned long long)report.dropped);
    else if (closed == ES_OK && record->trouble != ES_OK)
        closed = es_fail(record->trouble, "%s", record->message);
    free(record);
    return closed;
}
