/* Decides when the details, which are additional series, are measured, and
 * measures them in the forward pass of each layer, from the weights, and from
 * the gradients and the update of a step. */
#include "hooks/trainer/model/details.h"

#include "hooks/trainer/model/matrices.h"
#include "hooks/trainer/model/operations.h"
#include "hooks/trainer/model/polynomial.h"
#include "hooks/trainer/model/ranges.h"

#include <math.h>

bool es_model_has_details(const es_model *model)
{
    return model->ops->details && model->config.record > ES_SERIES_CORE;
}

bool es_model_takes_scores(const es_model *model)
{
    return es_model_has_details(model);
}

static bool takes_set(const es_model *model, es_series_set set)
{
    return es_model_has_details(model) && model->config.record >= set;
}

bool es_detail_is_of_layer(const es_model_config *config, es_detail detail,
                           int layer)
{
    if (detail >= ES_DETAIL_G_Q)
        return es_model_has_weight_norm(config, layer,
                                        (int)(detail - ES_DETAIL_G_Q));
    if (detail >= ES_DETAIL_SIGMA_Q)
        return es_model_has_spectral_norm(config, layer,
                                          (int)(detail - ES_DETAIL_SIGMA_Q));
    return detail != ES_DETAIL_FFN_RATIO ||
           es_arch_has_ffn(&config->arch, layer, config->n_layer);
}

bool es_detail_exists(const es_model *model, es_detail detail)
{
    if (es_details[detail].source == ES_DETAIL_RANGE)
        return es_model_has_range(
            model, (es_range_kind)(detail - ES_DETAIL_RANGE_ATTN));
    if (es_details[detail].source == ES_DETAIL_POLYNOMIAL)
        return model->polynomials &&
               es_model_config_approximates(&model->config,
                                            es_detail_approximated(detail));
    if (!takes_set(model, es_details[detail].set))
        return false;
    for (int layer = 0; layer < model->config.n_layer; layer++)
        if (es_detail_is_of_layer(&model->config, detail, layer))
            return true;
    return false;
}

void es_model_measure_all(es_model *model, bool all)
{
    model->report.takes_all = all;
}

es_detail_sums es_model_details(const es_model *model)
{
    const es_report *report = &model->report;
    return (es_detail_sums){
        .heads = es_model_has_details(model) ? report->head_details : NULL,
        .layers = report->layer_details,
        .has_inputs = report->takes_all && report->n_passes > 0,
        .has_weights = report->has_weights,
        .has_step = report->has_step,
        .has_update = report->has_update};
}

void es_head_details_add(es_head_details *to, const es_head_details *more)
{
    to->n_quantiles += more->n_quantiles;
    for (int i = 0; i < 3; i++) {
        to->quantiles[i] += more->quantiles[i];
        to->squares[i] += more->squares[i];
    }
}

void es_layer_details_add(es_layer_details *to, const es_layer_details *more)
{
    to->largest = fmax(to->largest, more->largest);
    for (int i = 0; i < 4; i++)
        to->sums[i] += more->sums[i];
    for (int i = 0; i < 2; i++)
        to->ffn[i] += more->ffn[i];
}

/* --- forward -------------------------------------------------------------- */

static es_mem *heads_of(const es_model *model, int layer)
{
    const int first = layer * model->config.n_head;
    return es_model_reported(model, &model->report.head_details[first]);
}

static es_mem *layer_of(const es_model *model, int layer)
{
    return es_model_reported(model, &model->report.layer_details[layer]);
}

void es_model_detail_attention(const es_model *model, int layer)
{
    const es_model_config *config = &model->config;
    const es_detail_ops *details = model->ops->details;
    const es_row_mem rows = es_model_layer_rows(model, layer);
    const es_attention attention = es_model_attention(model, layer);
    es_head_sums *sums = &model->report.heads[layer * config->n_head];
    model->ops->measure_rows(model->backend, es_model_reported(model, sums),
                             &rows, 1, config->batch, config->n_head,
                             config->ctx);
    details->row_quantiles(model->backend, heads_of(model, layer),
                           rows.array[ES_ROW_ENTROPY], config->batch,
                           config->n_head, config->ctx);
    if (model->report.takes_all)
        details->norms(model->backend, heads_of(model, layer),
                       model->layers[layer].qkv, &attention);
}

void es_model_detail_block(const es_model *model, int layer)
{
    const es_layer_memory *at = &model->layers[layer];
    model->ops->details->activations(
        model->backend, layer_of(model, layer),
        es_model_reported(model, &model->report.layers[layer]), at[1].x,
        es_model_has_ffn(model, layer) ? at->middle : NULL,
        es_model_value(model, layer, ES_ROLE_BETA),
        (size_t)es_model_n_rows(model) * (size_t)model->config.d_model);
}

/* --- weights -------------------------------------------------------------- */

static double mean_square(const es_model *model, es_mem *scratch,
                          const es_mem *x, size_t n)
{
    double squares;
    model->ops->sum_squares(model->backend, scratch, x, n);
    model->ops->load(model->backend, &squares, scratch, sizeof squares);
    return squares / (double)n;
}

static void take_norms(const es_model *model, int layer)
{
    const es_arch *arch = &model->config.arch;
    es_layer_details *to = &model->report.layer_details[layer];
    float sigma[ES_N_MATRICES][3];
    if ((arch->weight_norm | arch->spectral_norm) == 0)
        return;
    model->ops->load(model->backend, sigma, model->layers[layer].sigma,
                     sizeof sigma);
    for (int i = 0; i < ES_N_NORMED; i++) {
        const es_normed of = es_model_normed(arch, layer, i);
        const es_param *g = es_params_find(&model->params, layer, of.g);
        const bool is_attn = of.matrix == ES_MATRIX_ATTN;
        to->sigma[i] = (double)sigma[of.matrix][of.part];
        if (!g || !es_model_has_weight_norm(&model->config, layer, i))
            continue;
        const size_t n = is_attn ? g->n / 3 : g->n;
        const es_mem *from = es_mem_at(
            model->values, (g->offset + (size_t)of.part * n) * sizeof(float));
        to->g[i] =
            mean_square(model, es_model_reported(model, &to->g[i]), from, n);
    }
    model->ops->store(model->backend, es_model_reported(model, to->sigma),
                      to->sigma, sizeof to->sigma + sizeof to->g);
}

void es_model_detail_weights(es_model *model)
{
    const es_model_config *config = &model->config;
    es_report *report = &model->report;
    if (!es_model_has_details(model) || !report->measured ||
        !report->takes_all || report->n_passes == 0)
        return;
    for (int layer = 0; layer < config->n_layer; layer++) {
        take_norms(model, layer);
        if (takes_set(model, ES_SERIES_ALL))
            model->ops->details->spectra(
                model->backend, heads_of(model, layer),
                es_model_linear(model, layer, ES_MATRIX_ATTN).weight,
                config->d_model, config->n_head);
    }
    report->has_weights = true;
}

/* --- a step --------------------------------------------------------------- */

static bool is_attention(const es_param *param)
{
    return param->role == ES_ROLE_ATTN_WEIGHT ||
           param->role == ES_ROLE_PROJ_WEIGHT;
}

/* Sums the squared gradients of each head (of the attention's matrices) and of
 * the layer's other parameters. */
static void take_gradients(const es_model *model, int layer)
{
    const es_model_config *config = &model->config;
    const size_t n_head = (size_t)config->n_head;
    es_head_details *heads =
        &model->report.head_details[(size_t)layer * n_head];
    double *to = &model->report.layer_details[layer].gradient, total = 0, part;
    es_mem *slot = es_model_reported(model, to);
    model->ops->details->gradients(
        model->backend, heads_of(model, layer),
        es_model_gradient(model, layer, ES_ROLE_ATTN_WEIGHT),
        es_model_gradient(model, layer, ES_ROLE_PROJ_WEIGHT), config->d_model,
        config->n_head);
    model->ops->load(model->backend, heads, heads_of(model, layer),
                     n_head * sizeof *heads);
    for (size_t h = 0; h < n_head; h++)
        for (int i = 0; i < 4; i++)
            total += heads[h].gradient[i];
    for (size_t i = 0; i < model->params.n; i++) {
        const es_param *param = &model->params.table[i];
        if (param->layer != layer || param->n_trainable == 0 ||
            is_attention(param))
            continue;
        model->ops->sum_squares(
            model->backend, slot,
            es_mem_at(model->gradients, param->offset * sizeof(float)),
            param->n_trainable);
        model->ops->load(model->backend, &part, slot, sizeof part);
        total += part;
    }
    model->ops->store(model->backend, slot, &total, sizeof total);
}

static void take_update(const es_model *model, int layer,
                        const es_train_config *train)
{
    const es_tally *tally = &model->report.tally[0];
    es_layer_details *to = &model->report.layer_details[layer];
    static const double nothing[2] = {0, 0};
    model->ops->store(model->backend, es_model_reported(model, to->update),
                      nothing, sizeof nothing);
    for (size_t i = 0; i < model->params.n; i++) {
        const es_param *param = &model->params.table[i];
        const size_t at = param->offset * sizeof(float);
        const es_adamw how = es_model_adamw(train, param->group);
        if (param->layer == layer && param->n_trainable > 0)
            model->ops->details->update(
                model->backend, layer_of(model, layer),
                es_mem_at(model->values, at), es_mem_at(model->moment1, at),
                es_mem_at(model->moment2, at), param->n_trainable, &how,
                es_model_reported(model, &tally->control));
    }
}

void es_model_detail_step(es_model *model, const es_train_config *train)
{
    es_report *report = &model->report;
    if (!report->measured || !takes_set(model, ES_SERIES_ALL))
        return;
    for (int layer = 0; layer < model->config.n_layer; layer++) {
        take_gradients(model, layer);
        if (report->takes_all)
            take_update(model, layer, train);
    }
    report->has_step = true;
    report->has_update = report->takes_all;
}
