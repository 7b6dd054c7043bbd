/* Declares the series of a training run or a probe to the recorder at the
 * start, and sends samples in each recorded step. A failure of the recorder is
 * stored and reported; training continues. */
#include "hooks/trainer/train_record.h"

#include "analyzer/base/checked.h"
#include "hooks/entropyscan.h"
#include "hooks/trainer/cpu/engine.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** All series of a run in a single numbering: series of the run, series of
 *  heads and layers, details, and parameters. */
typedef enum run_series {
    SERIES_LOSS,
    SERIES_CE,
    SERIES_EREG,
    SERIES_RANGE,
    SERIES_ACCURACY,
    SERIES_LR,
    SERIES_GRAD_NORM,
    SERIES_TOKENS_PER_S,
    SERIES_LOSS_SCALE,
    N_RUN_SERIES,
    HEADS = N_RUN_SERIES,
    LAYERS = HEADS + ES_N_HEAD_SERIES,
    DETAILS = LAYERS + ES_N_LAYER_SERIES,
    PARAMETERS = DETAILS + ES_N_DETAILS,
    N_SERIES = PARAMETERS + ES_N_PARAMETER_SERIES
} run_series;

static const char *const run_series_names[N_RUN_SERIES] = {
    "loss", "ce",        "ereg",         "range",     "accuracy",
    "lr",   "grad_norm", "tokens_per_s", "loss_scale"};

#define N_PHASES 2

struct es_train_record {
    es_recorder *recorder;
    bool probes, scales;
    es_model_config config;
    const es_model *model;           /* owned by the trainer */
    int numbers[N_PHASES][N_SERIES]; /* the recorder's number of each series */
    int *members; /* (n_members) for each parameter value that is recorded
                     individually, the recorder's number of its series */
    size_t n_members;
    es_status trouble; /* status of the first failure of the recorder */
    char message[ES_MESSAGE_MAX];
    char path[ES_PATH_SIZE];
};

static void note_failure(es_train_record *record, es_status status)
{
    if (status >= ES_OK || record->trouble != ES_OK)
        return;
    record->trouble = status;
    snprintf(record->message, sizeof record->message, "%s", es_message());
}

/** Returns true if a detail, which is an optional series, is recorded in this
 *  phase. Details of weights are recorded in the same phase as parameters;
 *  details of a step are recorded only in training. */
static bool has_detail(const es_train_record *record, es_phase phase,
                       es_detail detail)
{
    const es_detail_source source = es_details[detail].source;
    const bool belongs =
        source == ES_DETAIL_POLYNOMIAL
            ? phase == ES_PHASE_EVAL
            : source <= ES_DETAIL_INPUTS || phase == ES_PHASE_TRAIN ||
                  (source == ES_DETAIL_WEIGHTS && record->probes);
    return belongs && es_detail_exists(record->model, detail);
}

static bool has_head(const es_train_record *record, es_head_series series)
{
    return es_head_series_exists(series, record->config.arch.attention) &&
           es_head_statistics[series].set <= record->config.record &&
           (!es_row_statistic_is_of_scores(es_head_row(series)) ||
            es_model_takes_scores(record->model));
}

/** Returns the phase in which series of parameters are recorded, which is
 *  evaluation in a probe and otherwise training. In a training run, evaluations
 *  would only repeat the values. */
static es_phase parameter_phase(const es_train_record *record)
{
    return record->probes ? ES_PHASE_EVAL : ES_PHASE_TRAIN;
}

/** Returns true if series i is recorded in this phase. Learning rate, gradient
 *  norm and speed are recorded only in training. */
static bool has_series(const es_train_record *record, es_phase phase, int i)
{
    const es_model_config *config = &record->config;
    if (i >= PARAMETERS)
        return phase == parameter_phase(record) &&
               es_parameter_series_exists(
                   config, (es_parameter_series)(i - PARAMETERS));
    if (i >= DETAILS)
        return has_detail(record, phase, (es_detail)(i - DETAILS));
    if (i >= LAYERS)
        return true;
    if (i >= HEADS)
        return has_head(record, (es_head_series)(i - HEADS));
    if (i < HEADS && !es_model_config_has_loss(config))
        return false;
    if (i == SERIES_EREG)
        return config->arch.entropy_reg;
    if (i == SERIES_RANGE)
        return es_model_config_is_ranged(config);
    if (i == SERIES_ACCURACY)
        return phase == ES_PHASE_EVAL &&
               (record->probes || es_families[config->family].has_images);
    if (i == SERIES_LOSS_SCALE && !record->scales)
        return false;
    return phase == ES_PHASE_TRAIN || i <= SERIES_CE;
}

static void declare_series(es_train_record *record, es_phase phase, int first,
                           int end)
{
    for (int i = first; i < end; i++) {
        const char *name = i >= PARAMETERS
                               ? es_parameter_series_names[i - PARAMETERS]
                           : i >= DETAILS ? es_details[i - DETAILS].name
                           : i >= LAYERS  ? es_layer_series_names[i - LAYERS]
                           : i >= HEADS   ? es_head_statistics[i - HEADS].name
                                          : run_series_names[i];
        int *number = &record->numbers[phase][i];
        es_shape shape;
        const char *unit;
        if (!has_series(record, phase, i))
            continue;
        *number = -1; /* -1 marks a series that could not be declared; its
                         samples are refused */
        es_series_standard(&shape, &unit, name);
        note_failure(record, es_recorder_series(record->recorder, number, name,
                                                shape, phase, unit));
    }
}

static void declare_members(es_train_record *record)
{
    char name[ES_PARAMETER_MEMBER_SIZE];
    for (size_t i = 0; i < record->n_members; i++) {
        record->members[i] = -1;
        es_parameter_member_name(name, &record->config, i);
        note_failure(record, es_recorder_series(
                                 record->recorder, &record->members[i], name,
                                 ES_SHAPE_HEAD, parameter_phase(record), ""));
    }
}

static es_status open_recorder(es_train_record *record,
                               const es_trainer *trainer, const char *path)
{
    const es_model_config *config = &trainer->settings.model;
    char arch[ES_ARCH_TEXT_MAX], name[ES_RUN_NAME_SIZE], host[256] = "";
    es_arch_print(arch, sizeof arch, &config->arch);
    es_settings_run_name(name, &trainer->settings);
    gethostname(host, sizeof host - 1);
    es_cpu_engine engine;
    es_cpu_engine_find(&engine);
    const bool on_cpu = strcmp(trainer->settings.backend, es_cpu_ops.name) == 0;
    char *json = es_settings_json_of_run(
        &trainer->settings, trainer->tokens->checksum, on_cpu ? &engine : NULL);
    if (!json)
        return es_fail(ES_ENOMEM, "out of memory for the configuration");
    es_run_info info = {.size = sizeof info,
                        .uuid = trainer->uuid,
                        .name = name,
                        .arch = arch,
                        .family = es_family_names[config->family],
                        .n_layer = config->n_layer,
                        .n_head = config->n_head,
                        .d_model = config->d_model,
                        .ctx = config->ctx,
                        .vocab = config->vocab,
                        .batch = config->batch,
                        .seed = (int64_t)config->seed,
                        .config = json,
                        .program = record->probes
                                       ? "entropy-train probe " ES_VERSION
                                       : "entropy-train " ES_VERSION,
                        .host = host};
    es_recorder_options options = {.size = sizeof options,
                                   .path = path,
                                   .run = &info,
                                   .resume_step = trainer->first_step,
                                   .store = (int)trainer->settings.store};
    es_status status = es_recorder_open(&record->recorder, &options);
    free(json);
    return status;
}

es_status es_train_record_open(es_train_record **out, const es_trainer *trainer,
                               const char *path)
{
    es_train_record *record = NULL;
    es_status status = es_alloc(&record, 1, sizeof *record, path);
    *out = NULL;
    if (status != ES_OK)
        return status;
    record->probes = trainer->settings.verb == ES_VERB_PROBE;
    record->scales = es_model_scales_loss(trainer->model);
    record->config = trainer->settings.model;
    record->model = trainer->model;
    record->n_members = es_parameter_n_members(&record->config);
    snprintf(record->path, sizeof record->path, "%s", path);
    if ((status = es_alloc(&record->members, record->n_members,
                           sizeof *record->members, path)) != ES_OK ||
        (status = open_recorder(record, trainer, path)) != ES_OK) {
        free(record->members);
        free(record);
        return status;
    }
    /* Series of heads and layers are declared before series of the run, because
     * readers list series in the order of declaration. */
    for (int phase = ES_PHASE_TRAIN; phase <= ES_PHASE_EVAL; phase++) {
        const bool evaluates =
            record->probes || trainer->settings.eval_every > 0;
        if (record->probes && phase == ES_PHASE_EVAL)
            declare_series(record, ES_PHASE_EVAL, PARAMETERS, N_SERIES);
        if (phase == ES_PHASE_TRAIN ? !record->probes : evaluates) {
            declare_series(record, (es_phase)phase, HEADS, PARAMETERS);
            declare_series(record, (es_phase)phase, 0, HEADS);
        }
        if (phase == ES_PHASE_TRAIN)
            declare_series(record, ES_PHASE_TRAIN, PARAMETERS, N_SERIES);
    }
    declare_members(record);
    *out = record;
    return ES_OK;
}

static void push_values(es_train_record *record, int series, int64_t step,
                        const float *values, size_t n)
{
    note_failure(record,
                 es_recorder_push(record->recorder, series, step, values, n));
}

/** Sends the values of a detail (an optional series) if `measure` contains
 *  them, because some details are not measured at every recorded step. */
static void push_detail(es_train_record *record, int number, int64_t step,
                        es_measure *measure, es_detail detail)
{
    const size_t n =
        (size_t)record->config.n_layer *
        (size_t)(es_detail_is_of_heads(detail) ? record->config.n_head : 1);
    if (es_measure_has_detail(measure, detail))
        push_values(record, number, step, es_measure_detail(measure, detail),
                    n);
}

static void push_members(es_train_record *record, int64_t step,
                         const es_measure *measure)
{
    const float *values = es_measure_members(measure);
    const size_t n =
        (size_t)record->config.n_layer * (size_t)record->config.n_head;
    for (size_t i = 0; values && i < record->n_members; i++, values += n)
        push_values(record, record->members[i], step, values, n);
}

/** Sends all values of the phase. If `measure` is NULL, sends only the series
 *  of the run. */
static void push_all(es_train_record *record, es_phase phase, int64_t step,
                     const double values[N_RUN_SERIES], es_measure *measure)
{
    const size_t n_layers = (size_t)record->config.n_layer;
    for (int i = 0; i < (measure ? N_SERIES : HEADS); i++) {
        const es_parameter_series parameter =
            (es_parameter_series)(i - PARAMETERS);
        const float value = i < HEADS ? (float)values[i] : 0;
        if (!has_series(record, phase, i))
            continue;
        if (i < HEADS)
            push_values(record, record->numbers[phase][i], step, &value, 1);
        else if (i < LAYERS)
            push_values(record, record->numbers[phase][i], step,
                        es_measure_heads(measure, (es_head_series)(i - HEADS)),
                        n_layers * (size_t)record->config.n_head);
        else if (i < DETAILS)
            push_values(
                record, record->numbers[phase][i], step,
                es_measure_layers(measure, (es_layer_series)(i - LAYERS)),
                n_layers);
        else if (i < PARAMETERS)
            push_detail(record, record->numbers[phase][i], step, measure,
                        (es_detail)(i - DETAILS));
        else
            push_values(record, record->numbers[phase][i], step,
                        es_measure_parameters(measure, parameter),
                        es_parameter_series_length(&record->config, parameter));
    }
    if (measure && phase == parameter_phase(record))
        push_members(record, step, measure);
}

void es_train_record_step(es_train_record *record, const es_step *step,
                          es_measure *measure, double tokens_per_s)
{
    const double values[N_RUN_SERIES] = {[SERIES_LOSS] = step->losses.loss,
                                         [SERIES_CE] = step->losses.ce,
                                         [SERIES_EREG] = step->losses.ereg,
                                         [SERIES_RANGE] = step->losses.range,
                                         [SERIES_LR] = step->lr,
                                         [SERIES_GRAD_NORM] = step->grad_norm,
                                         [SERIES_TOKENS_PER_S] = tokens_per_s,
                                         [SERIES_LOSS_SCALE] =
                                             step->loss_scale};
    if (record)
        push_all(record, ES_PHASE_TRAIN, step->step, values,
                 step->measured ? measure : NULL);
}

void es_train_record_eval(es_train_record *record, int64_t step,
                          const es_losses *losses, es_measure *measure)
{
    const double values[N_RUN_SERIES] = {[SERIES_LOSS] = losses->loss,
                                         [SERIES_CE] = losses->ce,
                                         [SERIES_EREG] = losses->ereg,
                                         [SERIES_RANGE] = losses->range,
                                         [SERIES_ACCURACY] = losses->accuracy};
    if (record)
        push_all(record, ES_PHASE_EVAL, step, values, measure);
}

void es_train_record_other(es_train_record *record, const char *name,
                           es_shape shape, const char *unit, int64_t step,
                           const float *values, size_t n)
{
    int series;
    if (!record)
        return;
    note_failure(record, es_recorder_series(record->recorder, &series, name,
                                            shape, ES_PHASE_EVAL, unit));
    push_values(record, series, step, values, n);
}

void es_train_record_maps(es_train_record *record, int64_t step,
                          const es_maps *maps)
{
    float values[ES_MAP_MAX * ES_MAP_MAX];
    const es_model_config *config = record ? &record->config : NULL;
    for (int l = 0; record && l < config->n_layer; l++)
        for (int h = ES_MAP_MEAN; h < es_maps_n_heads(maps); h++) {
            es_maps_get(values, maps, l, h);
            note_failure(record,
                         es_recorder_map(record->recorder, ES_PHASE_EVAL, step,
                                         l, h, values, es_maps_size(maps),
                                         config->ctx));
        }
}

void es_train_record_event(es_train_record *record, int64_t step,
                           const char *kind, es_severity severity,
                           const char *message)
{
    if (record)
        note_failure(record, es_recorder_event(record->recorder, step, kind,
                                               severity, message));
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
    free(record->members);
    free(record);
    return closed;
}
