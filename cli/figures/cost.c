/* Computes the cost of a run's model and the number of its training tokens, for
 * the figures pareto, flops and loss. */
#include "cli/figures/cost.h"

#include "cli/figures/source.h"
#include "cli/runs/damage.h"

#include <math.h>
#include <string.h>

/* A key of a run's configuration, and its value: a whole number of at least
   1. */
typedef struct factor {
    const char *key;
    double value;
} factor;

static es_status read_factor(void *user, const es_config_member *member)
{
    factor *f = user;
    if (strcmp(member->key, f->key) == 0 && member->number >= 1 &&
        member->number <= 1e6)
        f->value = floor(member->number);
    return ES_OK;
}

/* Reads the run's description into *info, and the value of the configuration
 * key f->key into f->value. */
static es_status read_run(es_run_info *info, factor *f,
                          const es_run_summary *run)
{
    es_reader *reader = NULL;
    es_status status;
    if ((status = es_source_open(&reader, run)) == ES_OK &&
        (status = es_reader_run(reader, run->number - 1, info)) == ES_OK)
        status = es_reader_config_each(reader, run->number - 1, read_factor, f);
    es_damage_close(reader);
    return status;
}

es_status es_run_shape_read(es_cost_model *out, const es_run_summary *run,
                            const char *figure)
{
    es_reader *reader = NULL;
    es_status status = es_source_open(&reader, run);
    if (status == ES_OK)
        status = es_run_model_read(out, reader, run->number - 1, figure);
    es_damage_close(reader);
    return status;
}

es_status es_tokens_a_step(double *out, const es_run_summary *run)
{
    es_run_info info = {.batch = ES_UNKNOWN, .ctx = ES_UNKNOWN};
    factor accumulate = {"accumulate", 1};
    es_status status = read_run(&info, &accumulate, run);
    if (status < 0)
        return status;
    if (info.batch < 1 || info.ctx < 1)
        return es_fail(ES_ENOTFOUND,
                       "%s: the run records no batch or ctx, so its tokens per "
                       "step are unknown: omit --tokens or choose another "
                       "--cost",
                       run->path);
    *out = (double)info.batch * (double)info.ctx * accumulate.value;
    return ES_OK;
}

/* --- costs ----------------------------------------------------------------*/

static es_modelled exactly(double value)
{
    return (es_modelled){value, value, value};
}

/* Counts the tokens up to the evaluation whose perplexity the summary contains
 * (eval_ppl). If the summary describes an earlier step, this evaluation is not
 * the run's last. */
static es_status count_tokens(es_modelled *out, es_drawing *drawing,
                              const es_run_summary *run)
{
    es_run_lines lines;
    es_lines_query query = {
        .series = "ce", .phase = ES_PHASE_EVAL, .every_step = true};
    double a_step;
    es_status status = es_tokens_a_step(&a_step, run);
    if (status < 0)
        return status;
    status = es_lines_read(&lines, drawing, run, &query);
    query.series = "loss";
    if (status == ES_ENOTFOUND)
        status = es_lines_read(&lines, drawing, run, &query);
    if (status < 0)
        return status;
    size_t i = lines.n - 1;
    for (size_t k = lines.n; k-- > 0;) {
        float here = (float)exp((double)lines.values[k]);
        if (here == run->eval_ppl || (isnan(here) && isnan(run->eval_ppl))) {
            i = k;
            break;
        }
    }
    *out = exactly(a_step * (double)lines.steps[i]);
    return ES_OK;
}

es_status es_run_cost(es_modelled *out, es_drawing *drawing,
                      const es_run_summary *run, es_cost cost)
{
    es_cost_model model;
    if (cost == ES_COST_TOKENS)
        return count_tokens(out, drawing, run);
    es_status status = es_run_shape_read(&model, run, "a cost");
    if (status < 0)
        return status;
    es_flops flops = es_flops_forward(&model.shape, model.ctx);
    const char *unmodelled = es_cost_unmodelled(&model);
    const es_cost_kind kind =
        cost == ES_COST_LATENCY ? ES_COST_SECONDS : ES_COST_BYTES;
    if (cost == ES_COST_FLOPS || cost == ES_COST_PARAMS) {
        *out = exactly(cost == ES_COST_FLOPS ? flops.ffn + flops.attention
                                             : es_cost_weights(&model.shape));
        return ES_OK;
    }
    if (unmodelled)
        return es_fail(ES_ENOTFOUND, "%s: the cost cannot be modelled: %s",
                       run->path, unmodelled);
    const es_modelled sum = es_cost_predict(kind, &model);
    *out = (es_modelled){es_cost_shown(kind, sum.value),
                         es_cost_shown(kind, sum.low),
                         es_cost_shown(kind, sum.high)};
    return ES_OK;
}

const char *es_cost_text(es_cost cost)
{
    static const char *const texts[] = {
        [ES_COST_FLOPS] = "FLOPs of a forward pass",
        [ES_COST_PARAMS] = "weights in the layers' matrices",
        [ES_COST_COMMUNICATION] = "private inference, GB (modelled)",
        [ES_COST_LATENCY] = "private inference, minutes (modelled)",
        [ES_COST_TOKENS] = "tokens trained on"};
    return texts[cost];
}

const char *es_cost_meaning(es_cost cost)
{
    static const char *const meanings[] = {
        [ES_COST_FLOPS] = "FLOPs of the layers over T tokens, embeddings and "
                          "output excluded",
        [ES_COST_PARAMS] = "Weights of attention and FFN, without "
                           "embeddings, biases and norms",
        [ES_COST_COMMUNICATION] =
            "Bytes that two parties exchange in a private forward pass over "
            "T tokens, modelled from AERO, tables 4 to 7, with 95% intervals",
        [ES_COST_LATENCY] = "Time of a private forward pass over T tokens, "
                            "modelled from AERO, tables 4 to 7, with 95% "
                            "intervals",
        [ES_COST_TOKENS] = "Tokens trained on up to the evaluation"};
    return meanings[cost];
}

const int64_t es_cost_lengths[] = {128, 256, 512, 1024, 2048, 4096, 8192};

const char *const es_cost_length_names[] = {"128", "256", "512", "1K",
                                            "2K",  "4K",  "8K"};

char *es_cost_print_share(char out[ES_COST_MAX], double percent)
{
    snprintf(out, ES_COST_MAX,
             percent >= 99.5 && percent < 100 ? ">99%%"
             : percent > 0 && percent < 0.5   ? "<1%%"
                                              : "%.0f%%",
             percent);
    return out;
}

char *es_cost_print(char out[ES_COST_MAX], double cost)
{
    static const char *const units[] = {"", "K", "M", "B", "T"};
    size_t unit = 0;
    /* From 999.5 on, use the next larger unit, because %.3g would print
     * 1e+03. */
    while (fabs(cost) >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        cost /= 1000;
        unit++;
    }
    snprintf(out, ES_COST_MAX,
             fabs(cost) >= 999.5 && fabs(cost) < 1e6 ? "%.0f%s" : "%.3g%s",
             cost, units[unit]);
    return out;
}
