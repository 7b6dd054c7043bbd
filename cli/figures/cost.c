#include "cli/figures/cost.h"

#include "cli/figures/source.h"

#include <math.h>
#include <string.h>

#define PAPERS_MULT 4

/* Numbers of a configuration that costs depend on. */
typedef struct factors {
    int64_t mlp_mult, accumulate;
} factors;

static es_status take(void *user, const es_config_member *member)
{
    factors *f = user;
    double x = member->number;
    if (member->kind != ES_CONFIG_NUMBER || !(x >= 1 && x <= 1e6))
        return ES_OK;
    if (strcmp(member->key, "mlp_mult") == 0)
        f->mlp_mult = (int64_t)x;
    else if (strcmp(member->key, "accumulate") == 0)
        f->accumulate = (int64_t)x;
    return ES_OK;
}

static es_status lacks(const es_run_summary *run, const char *figure,
                       const char *what)
{
    return es_fail(ES_ENOTFOUND,
                   "%s: %s needs the run's %s, which the file "
                   "does not say",
                   run->path, figure, what);
}

static es_status read_shape(es_run_shape *out, es_reader *reader,
                            const es_run_summary *run, const char *figure)
{
    es_run_info info;
    factors f = {PAPERS_MULT, 1};
    es_status status = es_reader_run(reader, run->number - 1, &info);
    if (status == ES_OK)
        status = es_reader_config_each(reader, run->number - 1, take, &f);
    if (status != ES_OK)
        return status;
    if (!run->arch)
        return lacks(run, figure, "architecture");
    if (info.d_model < 1)
        return lacks(run, figure, "d_model");
    if (info.ctx < 1)
        return lacks(run, figure, "ctx");
    if (es_arch_parse(&out->shape.arch, run->arch) != ES_OK)
        return es_fail(ES_ENOTFOUND,
                       "%s: %s needs an architecture in our "
                       "notation, not '%.60s'",
                       run->path, figure, run->arch);
    out->shape.n_layer = info.n_layer;
    out->shape.n_head = info.n_head;
    out->shape.d_model = info.d_model;
    out->shape.mlp_mult = f.mlp_mult;
    out->ctx = info.ctx;
    double tokens =
        (double)info.batch * (double)f.accumulate * (double)info.ctx;
    out->step_tokens =
        tokens >= 1 && tokens < 1e15 ? (int64_t)tokens : ES_UNKNOWN;
    return ES_OK;
}

es_status es_run_shape_read(es_run_shape *out, const es_run_summary *run,
                            const char *figure)
{
    es_reader *reader = NULL;
    *out = (es_run_shape){.ctx = 0};
    es_status status = es_reader_open(&reader, run->path);
    if (status == ES_OK && es_reader_n_runs(reader) < run->number)
        status = es_fail(ES_EIO, "%s: changed while it was read", run->path);
    if (status == ES_OK)
        status = read_shape(out, reader, run, figure);
    es_reader_close(reader);
    return status;
}

/* --- costs ----------------------------------------------------------------*/

/* Tokens up to the evaluation that eval_ppl is of. */
static es_status count_tokens(double *out, const es_run_summary *run,
                              const es_run_shape *shape)
{
    es_lines lines;
    if (shape->step_tokens == ES_UNKNOWN)
        return lacks(run, "a cost in tokens", "batch");
    const char *series = "ce";
    es_status status =
        es_lines_read(&lines, run, series, ES_PHASE_EVAL, ES_REDUCE_NONE);
    if (status == ES_ENOTFOUND) {
        es_lines_clear(&lines);
        status =
            es_lines_read(&lines, run, "loss", ES_PHASE_EVAL, ES_REDUCE_NONE);
    }
    if (status == ES_OK)
        *out = (double)lines.steps[lines.n - 1] * (double)shape->step_tokens;
    es_lines_clear(&lines);
    return status;
}

es_status es_run_cost(double *out, const es_run_summary *run, es_cost cost)
{
    es_run_shape shape;
    es_flops flops;
    es_status status = es_run_shape_read(&shape, run, "a cost");
    if (status != ES_OK)
        return status;
    switch (cost) {
    case ES_COST_FLOPS:
        flops = es_flops_forward(&shape.shape, shape.ctx);
        *out = flops.ffn + flops.attention;
        return ES_OK;
    case ES_COST_PARAMS:
        *out = es_cost_weights(&shape.shape);
        return ES_OK;
    case ES_COST_NONLINEAR:
        *out = es_cost_nonlinear(&shape.shape, shape.ctx);
        return ES_OK;
    case ES_COST_TOKENS:
        return count_tokens(out, run, &shape);
    }
    return es_fail(ES_EINTERNAL, "cost %d is not handled", (int)cost);
}

const char *es_cost_text(es_cost cost)
{
    static const char *const texts[] = {
        [ES_COST_FLOPS] = "FLOPs of a forward pass",
        [ES_COST_PARAMS] = "weights in the layers' matrices",
        [ES_COST_NONLINEAR] = "nonlinear operations, forward pass",
        [ES_COST_TOKENS] = "tokens trained on"};
    return texts[cost];
}

const char *es_cost_meaning(es_cost cost)
{
    static const char *const meanings[] = {
        [ES_COST_FLOPS] = "FLOPs of the layers over T tokens, embeddings and "
                          "output excluded",
        [ES_COST_PARAMS] = "Weights of attention and FFN: no embeddings, "
                           "biases, norms",
        [ES_COST_NONLINEAR] = "Numbers that go through softmax, LayerNorm and "
                              "activation over T tokens",
        [ES_COST_TOKENS] = "Tokens up to the evaluation"};
    return meanings[cost];
}

char *es_cost_print(char out[ES_COST_MAX], double cost)
{
    static const char *const units[] = {"", "K", "M", "B", "T"};
    size_t unit = 0;
    /* 999.5 would be printed as 1e+03. */
    while (fabs(cost) >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        cost /= 1000;
        unit++;
    }
    snprintf(out, ES_COST_MAX, "%.3g%s", cost, units[unit]);
    return out;
}
