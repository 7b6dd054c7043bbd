/* Implements entropy-train verify: runs one step of each reference case on a
 * back-end, and compares every array with its expected values. A case consists
 * of arrays, read through files/arrays.h, and a JSON text with settings of the
 * trainer. */
#include "hooks/trainer/verify.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/files/temperatures.h"
#include "hooks/trainer/model/model.h"
#include "hooks/trainer/model/params.h"
#include "hooks/trainer/model/ranges.h"
#include "hooks/trainer/settings/settings.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

es_tolerance es_verify_tolerance(es_precision precision)
{
    /* For each format, the distance from 1 to the next larger number. The
     * README of the reference cases explains the tolerance for fp32. */
    static const double eps[ES_N_PRECISIONS] = {
        [ES_TF32] = 0x1p-10, [ES_BF16] = 0x1p-7, [ES_FP16] = 0x1p-10};
    if (precision == ES_FP32)
        return (es_tolerance){1e-4, 1e-6};
    return (es_tolerance){32 * eps[precision], eps[precision] / 16};
}

static bool same_class(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return isinf(a) || isinf(b) ? a == b : true;
}

bool es_verify_close(double *error, const double *got, const es_npy *want,
                     const es_tolerance *within)
{
    double distance = 0, norm = 0;
    size_t n = 0;
    *error = NAN;
    for (size_t i = 0; i < want->n; i++) {
        double expected = es_npy_at(want, i);
        if (!same_class(got[i], expected))
            return false;
        if (!isfinite(expected))
            continue;
        distance += (got[i] - expected) * (got[i] - expected);
        norm += expected * expected;
        n++;
    }
    distance = sqrt(distance);
    norm = sqrt(norm);
    *error = norm > 0 ? distance / norm : distance;
    if (want->type == ES_NPY_I4)
        return distance <= 0;
    return distance <=
           within->relative * norm + within->absolute * sqrt((double)n);
}

/* --- a case in memory ---------------------------------------------------- */

/* Reads the settings of the trainer from the case's JSON object. */
static es_status read_config(es_model_config *out, const json_t *object,
                             const char *path)
{
    static const char *const members[] = {
        "arch",       "family", "n_layer", "n_head",     "d_model",
        "ctx",        "vocab",  "batch",   "mlp_mult",   "bias",
        "final_norm", "gamma",  "lambda",  "ereg_reduce"};
    static const char *const maybe[] = {
        "n_kv_head",    "d_head",     "d_ff",       "rope_base",
        "rope_scaling", "qk_norm",    "tied",       "ln_eps",
        "range_attn",   "range_act",  "range_norm", "padding",
        "image_size",   "patch_size", "channels",   "classes"};
    es_settings settings;
    es_settings_default(&settings, ES_VERB_VERIFY);
    for (size_t i = 0; i < sizeof maybe / sizeof *maybe; i++) {
        const json_t *value = json_object_get(object, maybe[i]);
        es_status status =
            value ? es_setting_read_member(&settings, maybe[i], value, path)
                  : ES_OK;
        if (status != ES_OK)
            return status;
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        es_status status = es_setting_read_member(
            &settings, members[i], json_object_get(object, members[i]), path);
        if (status != ES_OK)
            return status;
    }
    *out = settings.model;
    return es_model_config_check(out);
}

/* Capacity for the name of an array, including its folder. */
enum { NAME_MAX_BYTES = ES_PARAM_NAME_MAX + 16 };

/* Joins folder and name to a full name such as "params/wte". An array at the
 * top level has no folder. */
static const char *full_name(char out[NAME_MAX_BYTES], const char *folder,
                             const char *name)
{
    snprintf(out, NAME_MAX_BYTES, "%s%s%s", folder, folder[0] ? "/" : "", name);
    return out;
}

es_status es_verify_array_read(es_npy *out, const es_verify_case *it,
                               const char *folder, const char *name)
{
    char full[NAME_MAX_BYTES];
    return es_arrays_read(out, &it->arrays, full_name(full, folder, name));
}

static es_status read_token_array(es_npy *out, const es_verify_case *it,
                                  const char *name)
{
    const bool is_input = strcmp(name, "tokens") == 0;
    size_t dims[2] = {(size_t)it->config.batch,
                      (size_t)(is_input ? es_model_config_n_inputs(&it->config)
                                        : it->config.ctx)};
    return es_arrays_read_as(out, &it->arrays, name, ES_NPY_I4, 2, dims);
}

static es_status read_case_json(json_t **out, char label[ES_ARRAY_LABEL_MAX],
                                const es_arrays *arrays)
{
    json_error_t error;
    char *text;
    *out = NULL;
    es_status status = es_arrays_text(&text, label, arrays, "case");
    if (status != ES_OK)
        return status;
    *out = json_loads(text, JSON_DECODE_INT_AS_REAL, &error);
    free(text);
    return *out ? ES_OK
                : es_fail(ES_EFORMAT, "%s: line %d: %s", label, error.line,
                          error.text);
}

es_status es_verify_case_read(es_verify_case *out, const char *path)
{
    char label[ES_ARRAY_LABEL_MAX];
    json_t *object = NULL;
    *out = (es_verify_case){0};
    es_status status = es_arrays_open(&out->arrays, path);
    if (status == ES_OK &&
        (status = read_case_json(&object, label, &out->arrays)) == ES_OK &&
        (status = read_config(&out->config, object, label)) == ES_OK &&
        (status = read_token_array(&out->tokens, out, "tokens")) == ES_OK)
        status = read_token_array(&out->targets, out, "targets");
    const json_t *whole = json_object_get(object, "renormalised");
    out->renormalised =
        out->config.arch.attention == ES_SOFTMAX || json_is_true(whole);
    json_decref(object);
    return status;
}

void es_verify_case_free(es_verify_case *it)
{
    es_npy_free(&it->tokens);
    es_npy_free(&it->targets);
    es_arrays_close(&it->arrays);
}

/* --- a running case ------------------------------------------------------- */

/* The state of one case. Arrays are converted to double in `values` before they
 * are compared. */
typedef struct run {
    FILE *out;
    es_tolerance within;
    es_verify_case it;
    es_model *model;
    es_losses losses;
    float *floats; /* buffer with the size of the largest array */
    double *values;
    size_t n_arrays, n_failed;
    double worst;
    char worst_name[96];
} run;

/* Compares values (n) with the array FOLDER/NAME of the case. */
static es_status compare_array(run *r, const char *folder, const char *name,
                               size_t n)
{
    es_npy want = {0};
    double error;
    /* After a failure of the device, the arrays do not hold results. */
    es_status status = es_model_status(r->model);
    if (status != ES_OK ||
        (status = es_verify_array_read(&want, &r->it, folder, name)) != ES_OK)
        return status;
    if (want.n != n) {
        char full[NAME_MAX_BYTES], label[ES_ARRAY_LABEL_MAX];
        full_name(full, folder, name);
        status =
            es_fail(ES_EFORMAT, "%s: %zu values: expected %zu",
                    es_arrays_label(label, &r->it.arrays, full), want.n, n);
        goto done;
    }
    bool close = es_verify_close(&error, r->values, &want, &r->within);
    r->n_arrays++;
    r->n_failed += !close;
    if (!close)
        fprintf(r->out, "  %s/%s: error %.2e: fail\n", folder, name, error);
    /* A NaN is treated as the largest error. */
    if (!isnan(r->worst) && !(error <= r->worst)) {
        r->worst = error;
        snprintf(r->worst_name, sizeof r->worst_name, "%s/%s", folder, name);
    }
done:
    es_npy_free(&want);
    return status;
}

/* Same as compare_array, for float values. */
static es_status compare_floats(run *r, const char *folder, const char *name,
                                const float *floats, size_t n)
{
    if (!floats)
        return es_fail(ES_ENOMEM, "%s: out of memory", r->it.arrays.path);
    for (size_t i = 0; i < n; i++)
        r->values[i] = (double)floats[i];
    return compare_array(r, folder, name, n);
}

/* Finds the name by which a case refers to a parameter. Returns true for
 * temperatures, which the model stores as logarithms. */
static bool is_logarithm(const char **name, char old[ES_PARAM_NAME_MAX],
                         const es_parameter *parameter)
{
    const bool is_so =
        es_temperatures_name(old, ES_PARAM_NAME_MAX, parameter->name);
    *name = is_so ? old : parameter->name;
    return is_so;
}

/* Sets the model's parameters, and sets SNorm's vectors to their values before
 * the step. */
static es_status set_parameters(run *r)
{
    for (size_t i = 0; i < es_model_n_arrays(r->model); i++) {
        es_parameter parameter = es_model_parameter(r->model, i);
        size_t dims[ES_PARAM_MAX_DIMS];
        for (int k = 0; k < ES_PARAM_MAX_DIMS; k++)
            dims[k] = (size_t)parameter.dims[k];
        es_npy values = {0};
        char old[ES_PARAM_NAME_MAX], full[NAME_MAX_BYTES];
        const char *name;
        const bool is_log = is_logarithm(&name, old, &parameter);
        full_name(full, parameter.trainable ? "params" : "state", name);
        es_status status = es_arrays_read_as(&values, &r->it.arrays, full,
                                             ES_NPY_F4, parameter.n_dims, dims);
        if (status == ES_OK) {
            /* Older cases may contain temperatures that are zero or negative,
             * which have no logarithm; replace them by FLT_MIN. */
            if (is_log)
                es_temperatures_to_logs(values.data, values.n, FLT_MIN);
            status = es_model_set(r->model, i, values.data, values.n);
        }
        es_npy_free(&values);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

double es_verify_entropy_as_is(double entropy, double missing)
{
    const double mass = 1 - missing;
    return mass > 0 ? mass * (entropy - log(mass)) : 0;
}

static size_t n_rows(const es_model_config *config)
{
    return (size_t)config->n_layer * (size_t)config->batch *
           (size_t)config->n_head * (size_t)config->ctx;
}

/* Writes the entropies of rows to r->floats (L,B,H,T), computed from normalised
 * or from unnormalised weights as the case specifies. */
static es_status take_entropies(run *r)
{
    const size_t n = n_rows(&r->it.config);
    const float *rows = es_model_rows(r->model, ES_ROW_ENTROPY);
    if (rows)
        memcpy(r->floats, rows, n * sizeof *rows);
    if (rows && !r->it.renormalised)
        rows = es_model_rows(r->model, ES_ROW_MISSING);
    if (!rows)
        return es_fail(ES_ENOMEM, "%s: out of memory", r->it.arrays.path);
    for (size_t i = 0; i < n && !r->it.renormalised; i++)
        r->floats[i] = (float)es_verify_entropy_as_is((double)r->floats[i],
                                                      (double)rows[i]);
    return ES_OK;
}

/* Writes each head's mean entropy over finite rows to r->values (L,H). */
static es_status average_entropies(run *r)
{
    const es_model_config *config = &r->it.config;
    const int H = config->n_head, T = config->ctx;
    es_status status = take_entropies(r);
    for (int at = 0; status == ES_OK && at < config->n_layer * H; at++) {
        double sum = 0, n = 0;
        for (int i = 0; i < config->batch * T; i++) {
            const int b = at / H * config->batch + i / T;
            const float e = r->floats[(b * H + at % H) * T + i % T];
            sum += isfinite(e) ? (double)e : 0;
            n += isfinite(e) ? 1 : 0;
        }
        r->values[at] = sum / n;
    }
    return status;
}

/* Compares the losses, and compares the series of heads with the arrays
 * out/NAME. */
static es_status compare_numbers(run *r)
{
    const double losses[] = {r->losses.loss, r->losses.ce, r->losses.ereg};
    const struct {
        const char *name;
        es_head_series series;
    } all[] = {{"loss", 0},
               {"ce", 0},
               {"ereg", 0},
               {"entropy", ES_HEAD_ENTROPY},
               {"nonfinite", ES_HEAD_NONFINITE_WEIGHTS}};
    const size_t n_heads =
        (size_t)r->it.config.n_layer * (size_t)r->it.config.n_head;
    es_status status = ES_OK;
    for (size_t i = 0; !status && i < sizeof all / sizeof *all; i++) {
        if (i < 3)
            r->values[0] = losses[i];
        else
            es_model_heads(r->values, r->model, all[i].series);
        if (all[i].series == ES_HEAD_ENTROPY && i >= 3 && !r->it.renormalised)
            status = average_entropies(r);
        if (status == ES_OK)
            status = compare_array(r, "out", all[i].name, i < 3 ? 1 : n_heads);
    }
    return status;
}

/* Compares the range of each layer's scores, activation inputs and norm inputs
 * with the arrays out/range_NAME (L) that the case has. */
static es_status compare_ranges(run *r)
{
    static const char *const names[ES_N_RANGES] = {
        [ES_RANGE_ATTN] = "range_attn",
        [ES_RANGE_ACT] = "range_act",
        [ES_RANGE_NORM] = "range_norm"};
    es_status status = ES_OK;
    for (int i = 0; status == ES_OK && i < ES_N_RANGES; i++) {
        char full[NAME_MAX_BYTES], label[ES_ARRAY_LABEL_MAX];
        if (!es_arrays_has(&r->it.arrays, full_name(full, "out", names[i])))
            continue;
        if (!es_model_has_range(r->model, (es_range_kind)i))
            return es_fail(ES_EFORMAT, "%s: the model does not have this input",
                           es_arrays_label(label, &r->it.arrays, full));
        for (int l = 0; l < r->it.config.n_layer; l++)
            r->values[l] =
                (double)es_model_range(r->model, (es_range_kind)i, l);
        status =
            compare_array(r, "out", names[i], (size_t)r->it.config.n_layer);
    }
    return status;
}

static size_t n_logits(const es_model_config *config)
{
    return (size_t)config->batch * (size_t)config->ctx *
           (size_t)es_model_config_n_outputs(config);
}

/* Compares the arrays out/row_NAME of the case: entropies and other row
 * statistics. Statistics of scores are compared only if the back-end supports
 * them. */
static es_status compare_rows(run *r)
{
    const size_t n = n_rows(&r->it.config);
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++) {
        char name[64], full[NAME_MAX_BYTES], label[ES_ARRAY_LABEL_MAX];
        snprintf(name, sizeof name, "row_%s", es_row_statistic_names[i]);
        full_name(full, "out", name);
        const bool is_taken =
            r->it.config.record > ES_SERIES_CORE ||
            !es_row_statistic_is_of_scores((es_row_statistic)i);
        if (i != ES_ROW_ENTROPY &&
            (!is_taken || !es_arrays_has(&r->it.arrays, full)))
            continue;
        const float *rows = es_model_rows(r->model, (es_row_statistic)i);
        if (!rows)
            return es_fail(
                ES_EFORMAT,
                "%s: rows of %s do not have this statistic, or memory ran out",
                es_arrays_label(label, &r->it.arrays, full),
                r->it.config.arch.attention == ES_SOFTMAX ? "softmax"
                                                          : "PowerSoftmax");
        es_status status = ES_OK;
        if (i == ES_ROW_ENTROPY) {
            status = take_entropies(r);
            rows = r->floats;
        }
        if (status == ES_OK)
            status = compare_floats(r, "out", name, rows, n);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

/* Converts derivatives with respect to ln(t) in r->floats (n) to derivatives
 * with respect to the temperature t: dL/dt = (dL/d ln(t)) / t. */
static es_status to_temperature_gradients(run *r, size_t array, size_t n)
{
    float *log_t = NULL;
    es_status status = es_alloc(&log_t, n, sizeof *log_t, r->it.arrays.path);
    if (status == ES_OK &&
        (status = es_model_get(r->model, array, log_t, n)) == ES_OK)
        for (size_t i = 0; i < n; i++)
            r->floats[i] *= expf(-log_t[i]);
    free(log_t);
    return status;
}

/* Compares the gradients of trainable arrays or, if `trainable` is false,
 * SNorm's vectors after one power iteration. */
static es_status compare_arrays(run *r, const char *folder, bool trainable)
{
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < es_model_n_arrays(r->model);
         i++) {
        es_parameter parameter = es_model_parameter(r->model, i);
        if (parameter.trainable != trainable)
            continue;
        char old[ES_PARAM_NAME_MAX];
        const char *name;
        const bool is_log = is_logarithm(&name, old, &parameter);
        status = trainable ? es_model_get_gradient(r->model, i, r->floats,
                                                   parameter.n)
                           : es_model_get(r->model, i, r->floats, parameter.n);
        if (status == ES_OK && is_log)
            status = to_temperature_gradients(r, i, parameter.n);
        if (status == ES_OK)
            status = compare_floats(r, folder, name, r->floats, parameter.n);
    }
    return status;
}

/* Scale of the loss in fp16. The cases have small gradients, which stay far
 * below fp16's limit at this scale. */
static const double loss_scale = 1024;

static es_status run_case(run *r, const es_ops *ops, int n_threads,
                          bool *not_built)
{
    const es_model_config *config = &r->it.config;
    if (ops->details) /* also record row statistics of scores */
        r->it.config.record = ES_SERIES_STANDARD;
    es_status status = es_model_new(&r->model, config, ops, n_threads);
    *not_built = status == ES_EUSAGE;
    if (status != ES_OK)
        return status;
    /* size of the largest array */
    size_t n = n_logits(config) + n_rows(config);
    for (size_t i = 0; i < es_model_n_arrays(r->model); i++)
        if (es_model_parameter(r->model, i).n > n)
            n = es_model_parameter(r->model, i).n;
    if ((status = es_alloc(&r->floats, n, sizeof *r->floats,
                           r->it.arrays.path)) < 0 ||
        (status = es_alloc(&r->values, n, sizeof *r->values,
                           r->it.arrays.path)) < 0 ||
        (status = set_parameters(r)) < 0)
        return status;
    es_model_set_loss_scale(r->model, loss_scale);
    if ((status = es_model_forward(r->model, &r->losses, r->it.tokens.data,
                                   r->it.targets.data, true, true)) != ES_OK ||
        (status = compare_numbers(r)) != ES_OK ||
        (status = compare_floats(r, "out", "logits", es_model_logits(r->model),
                                 n_logits(config))) != ES_OK ||
        (status = compare_rows(r)) != ES_OK ||
        (status = compare_ranges(r)) != ES_OK ||
        (status = compare_arrays(r, "state_after", false)) != ES_OK)
        return status;
    es_model_zero_gradients(r->model);
    status = es_model_backward(r->model, 1);
    return status != ES_OK ? status : compare_arrays(r, "grads", true);
}

static void verify_case(FILE *out, const char *path, const es_ops *ops,
                        es_tolerance within, int n_threads,
                        es_verify_counts *counts)
{
    run r = {.out = out, .within = within, .worst = -1};
    bool not_built = false;
    es_status status = es_verify_case_read(&r.it, path);
    if (!status)
        status = run_case(&r, ops, n_threads, &not_built);
    if (not_built) {
        counts->not_built++;
        fprintf(out, "%s: not built: %s\n", path, es_message());
    } else if (status) {
        counts->failed++;
        fprintf(out, "%s: fail: %s\n", path, es_message());
    } else {
        *(r.n_failed ? &counts->failed : &counts->passed) += 1;
        fprintf(out, "%s: %zu arrays, worst error %.2e (%s): %s\n", path,
                r.n_arrays, r.worst, r.worst_name,
                r.n_failed ? "fail" : "pass");
    }
    es_model_free(r.model);
    es_verify_case_free(&r.it);
    free(r.floats);
    free(r.values);
}

#define TERMS                                                                  \
    "%s%s%s, %s: an array passes within %.3g of its norm plus %.3g per "       \
    "entry\n"

/** Prints the tolerance and the device that runs the cases. If there is no
 *  device, the line of each case reports this. */
static void print_terms(FILE *out, const es_ops *ops, es_precision precision)
{
    const es_tolerance within = es_verify_tolerance(precision);
    es_backend *backend;
    if (!ops->device_name && precision != ES_FP32)
        fprintf(out, TERMS, ops->name, "", "", es_precision_names[precision],
                within.relative, within.absolute);
    if (!ops->device_name || ops->open(&backend, 0) != ES_OK)
        return;
    fprintf(out, TERMS, ops->name, " on ", ops->device_name(backend),
            es_precision_names[precision], within.relative, within.absolute);
    ops->close(backend);
}

es_status es_verify(FILE *out, const char *const *cases, size_t n_cases,
                    const es_ops *ops, es_precision precision, int n_threads,
                    es_verify_counts *counts)
{
    *counts = (es_verify_counts){0};
    if (!n_cases)
        return es_fail(ES_EUSAGE, "verify needs at least one case");
    print_terms(out, ops, precision);
    for (size_t i = 0; i < n_cases; i++)
        verify_case(out, cases[i], ops, es_verify_tolerance(precision),
                    n_threads, counts);
    fprintf(out, "%zu passed, %zu failed", counts->passed, counts->failed);
    if (counts->not_built)
        fprintf(out, ", %zu not built", counts->not_built);
    fputc('\n', out);
    return ES_OK;
}
