/* Implements entropy-train probe: runs held-out data forward through an
 * existing model, and reports means and standard deviations over the
 * micro-batches, in the run file and as a table. */
#include "hooks/trainer/probe_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/heads/bands.h"
#include "hooks/trainer/train_record.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Running mean and sum of squared deviations, by Welford's method. */
typedef struct sums {
    double mean, squares;
} sums;

typedef struct probe {
    es_trainer *trainer;
    es_train_record *record; /* NULL if the probe does not record */
    es_probe_result *result;
    es_losses losses;
    size_t n_layers, n_heads; /* n_heads is the number of heads of all layers */
    double *entropies;        /* entropies of the current micro-batch, shape
                                 (L,H) */
    sums *heads;              /* (L,H), entropies */
    sums *layers;      /* mean entropies of the L layers, and, as the last
                          element, of all heads */
    sums ce, exact;    /* `exact` is set only with --inference polynomial */
    float *deviations; /* (L,H), standard deviations */
} probe;

/* --- spread ------------------------------------------------------------- */

static void add_value(sums *s, double value, int64_t n)
{
    double distance = value - s->mean;
    s->mean += distance / (double)n;
    s->squares += distance * (value - s->mean);
}

static es_probe_spread spread_of(const sums *s, int64_t n)
{
    double deviation = n > 1 ? sqrt(s->squares / (double)(n - 1)) : (double)NAN;
    return (es_probe_spread){s->mean, deviation};
}

/** Returns the mean of the finite values of n heads. */
static double mean_entropy(const double *entropies, size_t n)
{
    double sum = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(entropies[i])) {
            sum += entropies[i];
            finite++;
        }
    return finite > 0 ? sum / (double)finite : (double)NAN;
}

static void add_batch(probe *p, const es_losses *losses)
{
    int64_t n = ++p->result->n_batches;
    size_t each = p->n_heads / p->n_layers;
    es_model_heads(p->entropies, p->trainer->model, ES_HEAD_ENTROPY);
    add_value(&p->ce, losses->ce, n);
    for (size_t h = 0; h < p->n_heads; h++)
        add_value(&p->heads[h], p->entropies[h], n);
    for (size_t l = 0; l < p->n_layers; l++)
        add_value(&p->layers[l], mean_entropy(p->entropies + l * each, each),
                  n);
    add_value(&p->layers[p->n_layers], mean_entropy(p->entropies, p->n_heads),
              n);
}

/* --- the pass ----------------------------------------------------------- */

static void warn(const es_train_watch *watch, const char *message)
{
    if (watch->on_warning && *message)
        watch->on_warning(watch->user, message);
}

/** Warns if the probe reads some sequences more than once, because the standard
 *  deviation is then too small. */
static void warn_of_repeats(const probe *p, const es_train_watch *watch)
{
    const es_settings *settings = &p->trainer->settings;
    char text[ES_MESSAGE_MAX];
    const int length = es_model_config_n_inputs(&settings->model);
    uint64_t have =
        p->trainer->tokens->n[ES_SPLIT_HELD_OUT] / ((uint64_t)length + 1);
    const int64_t n_other = settings->inference == ES_INFERENCE_POLYNOMIAL
                                ? settings->poly_batches
                                : 0;
    uint64_t want = (uint64_t)(settings->eval_batches + n_other) *
                    (uint64_t)settings->model.batch;
    if (settings->random || want <= have)
        return;
    snprintf(text, sizeof text,
             "%.512s: the held-out part has %" PRIu64 " sequences of %d tokens,"
             " not %" PRIu64 ": some sequences are read more than once",
             settings->data, have, length + 1, want);
    warn(watch, text);
}

static es_status calibrate_polynomials(probe *p, const es_train_watch *watch)
{
    bool complete;
    es_status status = es_trainer_calibrate(p->trainer, &complete);
    if (status == ES_OK && !complete)
        warn(watch,
             "polynomials: the interval of a polynomial could not be "
             "chosen because inputs are not finite; its results are NaN");
    return status;
}

/** Evaluates micro-batch i again, with exact inference, and adds the loss to
 *  p->exact. */
static es_status add_exact(probe *p, int64_t i)
{
    es_losses losses;
    if (p->trainer->settings.inference == ES_INFERENCE_EXACT)
        return ES_OK;
    es_status status = es_trainer_hold_out_exact(p->trainer, &losses, i, 1);
    if (status == ES_OK)
        add_value(&p->exact, losses.ce, p->result->n_batches);
    return status;
}

static es_status run_batches(probe *p, const es_train_watch *watch)
{
    int64_t n = p->trainer->settings.eval_batches;
    es_status calibrated = calibrate_polynomials(p, watch);
    if (calibrated != ES_OK)
        return calibrated;
    es_measure_reset(p->trainer->measure);
    for (int64_t i = 0; i < n; i++) {
        es_losses losses;
        if (watch->should_stop && watch->should_stop(watch->user))
            break;
        es_status status = es_trainer_hold_out(p->trainer, &losses, i, 1);
        if (status != ES_OK)
            return status;
        es_losses_add(&p->losses, &losses, 1.0 / (double)n);
        add_batch(p, &losses);
        if ((status = add_exact(p, i)) != ES_OK)
            return status;
    }
    return ES_OK;
}

/* --- results ------------------------------------------------------------ */

static void record_all(probe *p)
{
    es_probe_result *result = p->result;
    int64_t n = result->n_batches;
    double missing = (double)(result->settings.eval_batches - n) / (double)n;
    es_losses sum = p->losses;
    es_losses_add(&p->losses, &sum, missing); /* missing is 0 unless the probe
                                               * was stopped */
    float deviation = (float)spread_of(&p->ce, n).deviation;
    es_train_record_eval(p->record, result->start.step, &p->losses,
                         p->trainer->measure);
    if (p->trainer->maps)
        es_train_record_maps(p->record, result->start.step, p->trainer->maps);
    const float exact = (float)p->exact.mean;
    if (p->trainer->settings.inference == ES_INFERENCE_POLYNOMIAL)
        es_train_record_other(p->record, "ce_exact", ES_SHAPE_RUN, "nats",
                              result->start.step, &exact, 1);
    if (n < 2)
        return;
    for (size_t h = 0; h < p->n_heads; h++)
        p->deviations[h] = (float)spread_of(&p->heads[h], n).deviation;
    es_train_record_other(p->record, "entropy_std", ES_SHAPE_HEAD, "nats",
                          result->start.step, p->deviations, p->n_heads);
    if (es_model_config_has_loss(&p->trainer->settings.model))
        es_train_record_other(p->record, "ce_std", ES_SHAPE_RUN, "nats",
                              result->start.step, &deviation, 1);
}

/** Reduces a series with values for n heads to a single value. */
static double reduce_heads(const float *values, size_t n, es_head_series series)
{
    const es_head_reduction by = es_head_reduction_of(series);
    double sum = 0, finite = 0, largest = NAN;
    for (size_t i = 0; i < n; i++) {
        sum += isfinite(values[i]) ? (double)values[i] : 0;
        finite += isfinite(values[i]) ? 1 : 0;
        largest = fmax(largest, (double)values[i]);
    }
    if (by == ES_HEADS_LARGEST)
        return largest;
    if (by == ES_HEADS_SUM || by == ES_HEADS_NOT_FINITE)
        return sum;
    return finite > 0 ? sum / finite : (double)NAN;
}

/** Summarises heads first .. first + n - 1 in *out, one row of the table. */
static void summarise_heads(es_probe_layer *out, es_measure *measure,
                            size_t first, size_t n)
{
    const float *values;
    for (int i = 0; i < ES_N_HEAD_SERIES; i++) {
        const es_head_series series = (es_head_series)i;
        values = es_measure_heads(measure, series) + first;
        out->series[i] = reduce_heads(values, n, series);
    }
    out->lowest = out->highest = (double)NAN;
    values = es_measure_heads(measure, ES_HEAD_ENTROPY) + first;
    for (size_t i = 0; i < n; i++) {
        out->nonfinite += !isfinite(values[i]);
        out->lowest = fmin(out->lowest, (double)values[i]);
        out->highest = fmax(out->highest, (double)values[i]);
    }
}

static es_status finish_result(probe *p)
{
    es_probe_result *result = p->result;
    size_t each = p->n_heads / p->n_layers;
    result->ce = spread_of(&p->ce, result->n_batches);
    result->exact = spread_of(&p->exact, result->n_batches);
    result->accuracy = p->losses.accuracy;
    for (size_t l = 0; l <= p->n_layers; l++) {
        bool whole = l == p->n_layers;
        summarise_heads(&result->layers[l], p->trainer->measure,
                        whole ? 0 : l * each, whole ? p->n_heads : each);
        result->layers[l].entropy = spread_of(&p->layers[l], result->n_batches);
    }
    return es_probe_take_polynomials(result, p->trainer);
}

static es_status open_all(probe *p, const es_settings *settings,
                          const es_train_watch *watch)
{
    es_settings *resolved = &p->result->settings;
    es_status status;
    *resolved = *settings;
    resolved->model.forward_only = true;
    if ((status = es_start_settings(resolved)) != ES_OK)
        return status;
    if ((status = es_trainer_new(&p->trainer, resolved)) != ES_OK)
        return status;
    warn(watch, p->trainer->note);
    if ((status = es_start_load(&p->result->start, p->trainer)) != ES_OK)
        return status;
    const es_model_config *config = &p->trainer->settings.model;
    p->n_layers = (size_t)config->n_layer;
    p->n_heads = p->n_layers * (size_t)config->n_head;
    p->result->n_layers = config->n_layer;
    if ((status = es_alloc(&p->entropies, p->n_heads, sizeof *p->entropies,
                           "the heads")) < 0 ||
        (status = es_alloc(&p->heads, p->n_heads, sizeof *p->heads,
                           "the heads")) < 0 ||
        (status = es_alloc(&p->layers, p->n_layers + 1, sizeof *p->layers,
                           "the layers")) < 0 ||
        (status = es_alloc(&p->deviations, p->n_heads, sizeof *p->deviations,
                           "the heads")) < 0 ||
        (status = es_alloc(&p->result->layers, p->n_layers + 1,
                           sizeof *p->result->layers, "the layers")) != ES_OK)
        return status;
    /* RoBERTa numbers positions by counting the preceding tokens that are not
     * padding, so padding must be at the end. */
    const bool ends = strcmp(p->result->start.maker, "RoBERTa") == 0 ||
                      es_model_config_n_skipped(config) > 0;
    if ((status = es_trainer_find_ceiling(p->trainer, ends)) != ES_OK)
        return status;
    p->result->settings.ceiling = p->trainer->settings.ceiling;
    if (settings->out[0] &&
        (status = es_train_record_open(&p->record, p->trainer,
                                       settings->out)) != ES_OK)
        return status;
    p->trainer->takes_maps = p->record && p->trainer->maps;
    warn_of_repeats(p, watch);
    return ES_OK;
}

/** Closes the run. Restores the message of an earlier failure, so that it
 *  remains the last message. */
static es_status close_all(probe *p, es_status status)
{
    es_probe_result *result = p->result;
    char message[ES_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", es_message());
    es_run_status ended = status != ES_OK ? ES_RUN_FAILED
                          : result->n_batches < result->settings.eval_batches
                              ? ES_RUN_STOPPED
                              : ES_RUN_FINISHED;
    result->recorded = es_train_record_close(p->record, ended);
    if (result->recorded != ES_OK)
        snprintf(result->lost, sizeof result->lost, "%s", es_message());
    es_trainer_free(p->trainer);
    free(p->entropies);
    free(p->heads);
    free(p->layers);
    free(p->deviations);
    return status == ES_OK ? ES_OK : es_fail(status, "%s", message);
}

es_status es_probe(es_probe_result *result, const es_settings *settings,
                   const es_train_watch *watch)
{
    static const es_train_watch unwatched = {0};
    probe p = {.result = result};
    *result = (es_probe_result){.recorded = ES_OK};
    watch = watch ? watch : &unwatched;
    es_status status = open_all(&p, settings, watch);
    if (status == ES_OK)
        status = run_batches(&p, watch);
    if (status == ES_OK && result->n_batches > 0) {
        record_all(&p);
        status = finish_result(&p);
    }
    return close_all(&p, status);
}

void es_probe_free(es_probe_result *result)
{
    free(result->layers);
    free(result->sites);
    free(result->levels);
    *result = (es_probe_result){.n_batches = 0};
}

/* --- tables -------------------------------------------------------------- */

static void print_layer(FILE *out, const char *name,
                        const es_probe_layer *layer)
{
    char deviation[ES_FLOAT_TEXT_MAX], logit[ES_FLOAT_TEXT_MAX];
    fprintf(out, "%-6s%9.4f%9s%9.4f%9.4f%11s%8.4f%11d\n", name,
            es_unsigned_nan(layer->entropy.mean),
            isnan(layer->entropy.deviation)
                ? "-"
                : es_number_print(deviation, layer->entropy.deviation, 2),
            es_unsigned_nan(layer->lowest), es_unsigned_nan(layer->highest),
            es_number_print(logit, layer->series[ES_HEAD_MAX_LOGIT], 4),
            es_unsigned_nan(layer->series[ES_HEAD_SINK]), layer->nonfinite);
}

static void print_loss(FILE *out, const es_probe_spread *ce, double accuracy)
{
    char perplexity[ES_FLOAT_TEXT_MAX];
    fprintf(out, "loss (cross-entropy) %.6f", es_unsigned_nan(ce->mean));
    if (!isnan(ce->deviation))
        fprintf(out, " +- %.6f", ce->deviation);
    fprintf(out, ", perplexity %s",
            es_number_print(perplexity, exp(ce->mean), 6));
    fprintf(out, ", accuracy %.4f\n\n", es_unsigned_nan(accuracy));
}

void es_probe_print(FILE *out, const es_probe_result *result)
{
    char name[16];
    const es_model_config *config = &result->settings.model;
    char arch[ES_ARCH_TEXT_MAX], path[ES_PATH_SIZE];
    es_arch_print(arch, sizeof arch, &config->arch);
    es_text_escape(path, sizeof path, result->settings.init,
                   ES_ESCAPE_TERMINAL);
    fprintf(out, "%s: %s of %s, L=%d H=%d d=%d V=%d", path, arch,
            result->start.maker, config->n_layer, config->n_head,
            config->d_model, config->vocab);
    if (result->start.step > 0)
        fprintf(out, ", after %" PRId64 " steps", result->start.step);
    fprintf(out, "\nheld-out data: %" PRId64 " micro-batches of %d x %d\n\n",
            result->n_batches, config->batch, config->ctx);
    if (es_model_config_has_loss(config))
        print_loss(out, &result->ce, result->accuracy);
    fprintf(out, "%-6s%9s%9s%9s%9s%11s%8s%11s\n", "layer", "entropy", "+-",
            "lowest", "highest", es_head_statistics[ES_HEAD_MAX_LOGIT].title,
            es_head_statistics[ES_HEAD_SINK].title, "non-finite");
    for (int l = 0; l < result->n_layers; l++) {
        snprintf(name, sizeof name, "%d", l);
        print_layer(out, name, &result->layers[l]);
    }
    print_layer(out, "all", &result->layers[result->n_layers]);
    fprintf(out,
            "\nin nats; the ceiling at T=%d is %.4f; +- is the standard "
            "deviation over micro-batches\n",
            config->ctx,
            result->settings.ceiling > 0 ? result->settings.ceiling
                                         : es_ceiling(config->ctx));
    es_probe_print_polynomials(out, result);
}
