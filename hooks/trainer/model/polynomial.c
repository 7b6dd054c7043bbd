/* Manages the polynomials of a model: chooses them, and computes them in place
 * of the exact operations of the forward pass. */
#include "hooks/trainer/model/polynomial.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/operations.h"

#include <math.h>
#include <stdlib.h>

/* The polynomial that replaces one operation of the model. Only the member for
 * the operation's kind of input is used. */
typedef struct site {
    double unit;
    es_division division;
    es_gate gate;
    es_inverse_root root;
} site;

typedef struct es_polynomials {
    es_polynomial_mode mode;
    bool looked; /* true if the passes since es_model_begin observed inputs or
                    used polynomials, so that `found` is valid */
    es_mem *memory;
    es_findings *found; /* copy on the host of the findings (ranges and errors)
                           of each of the n operations */
    site *sites;        /* n entries, one for each operation that a polynomial
                           replaces */
    size_t n;
} es_polynomials;

size_t es_model_n_sites(const es_model_config *config)
{
    return es_site_number(config->n_layer, ES_SITE_ATTN) + 1;
}

bool es_model_has_site(const es_model_config *config, int layer, es_site place)
{
    if (layer == config->n_layer)
        return es_model_config_final_norm(config);
    const es_layer_parts parts = es_arch_parts(&config->arch, layer);
    const bool has_ffn = es_arch_has_ffn(&config->arch, layer, config->n_layer);
    switch (place) {
    case ES_SITE_ATTN:
        return true;
    case ES_SITE_ACT:
        return has_ffn && parts.activation != ES_ACT_LINEAR;
    case ES_SITE_NORM_1:
        return parts.norm;
    default:
        return has_ffn && parts.norm;
    }
}

es_approximated es_site_kind(const es_model_config *config, size_t number)
{
    const es_site place = (es_site)(number % ES_N_SITES);
    if (number + 1 == es_model_n_sites(config) || place >= ES_SITE_NORM_1)
        return ES_APPROXIMATED_NORM;
    return place == ES_SITE_ATTN ? ES_APPROXIMATED_ATTN : ES_APPROXIMATED_ACT;
}

bool es_model_config_approximates(const es_model_config *config,
                                  es_approximated kind)
{
    for (size_t i = 0; i < es_model_n_sites(config); i++)
        if (es_site_kind(config, i) == kind &&
            es_model_has_site(config, (int)(i / ES_N_SITES),
                              (es_site)(i % ES_N_SITES)))
            return true;
    return false;
}

/* --- memory --------------------------------------------------------------- */

es_status es_model_plan_polynomials(es_model *model)
{
    es_polynomials *p;
    es_status status;
    if (model->config.inference == ES_INFERENCE_EXACT)
        return ES_OK;
    if ((status = es_alloc(&p, 1, sizeof *p, "polynomials")) < 0)
        return status;
    model->polynomials = p;
    p->n = es_model_n_sites(&model->config);
    if ((status = es_alloc(&p->found, p->n, sizeof *p->found, "polynomials")) <
            0 ||
        (status = es_alloc(&p->sites, p->n, sizeof *p->sites, "polynomials")) <
            0)
        return status;
    return model->ops->reserve(model->backend, &p->memory,
                               p->n * sizeof *p->found);
}

void es_model_free_polynomials(es_model *model)
{
    es_polynomials *p = model->polynomials;
    if (!p)
        return;
    model->ops->release(model->backend, p->memory);
    free(p->found);
    free(p->sites);
    free(p);
}

void es_model_begin_polynomials(const es_model *model)
{
    es_polynomials *p = model->polynomials;
    if (!p)
        return;
    p->looked = p->mode != ES_POLYNOMIAL_OFF;
    for (size_t i = 0; i < p->n; i++)
        p->found[i] = es_findings_start();
    model->ops->store(model->backend, p->memory, p->found,
                      p->n * sizeof *p->found);
}

void es_model_end_polynomials(const es_model *model)
{
    const es_polynomials *p = model->polynomials;
    if (p && p->looked)
        model->ops->load(model->backend, p->found, p->memory,
                         p->n * sizeof *p->found);
}

void es_model_set_polynomials(es_model *model, es_polynomial_mode mode)
{
    if (model->polynomials)
        model->polynomials->mode = mode;
}

const es_findings *es_model_findings(const es_model *model)
{
    const es_polynomials *p = model->polynomials;
    return p && p->looked ? p->found : NULL;
}

/* --- passes --------------------------------------------------------------- */

/* Returns the polynomials of an operation of the current pass, and sets *found
 * to the operation's findings (ranges and errors) in the back-end's memory.
 * Returns NULL if polynomials are off. */
static const site *find_site(const es_model *model, es_mem **found, int layer,
                             es_site place)
{
    const es_polynomials *p = model->polynomials;
    if (!p || p->mode == ES_POLYNOMIAL_OFF)
        return NULL;
    const size_t i = es_site_number(layer, place);
    *found = es_mem_at(p->memory, i * sizeof *p->found);
    return &p->sites[i];
}

static bool is_on(const es_model *model)
{
    return model->polynomials->mode == ES_POLYNOMIAL_ON;
}

bool es_model_norm_polynomial(const es_model *model, es_mem *y, const es_mem *x,
                              int layer, es_role weight)
{
    es_mem *found;
    const bool is_last = weight == ES_ROLE_LN_F_WEIGHT;
    const site *here =
        find_site(model, &found, is_last ? model->config.n_layer : layer,
                  is_last                         ? ES_SITE_ATTN
                  : weight == ES_ROLE_LN_1_WEIGHT ? ES_SITE_NORM_1
                                                  : ES_SITE_NORM_2);
    if (!here)
        return false;
    const bool on = is_on(model);
    model->ops->polynomial->norm(
        model->backend, on ? y : NULL, found, x,
        es_model_value(model, layer, weight),
        es_model_value(model, layer, (es_role)(weight + 1)),
        es_model_n_rows(model), model->config.d_model,
        (float)model->config.ln_eps, on ? &here->root : NULL);
    return on;
}

bool es_model_act_polynomial(const es_model *model, es_mem *post,
                             const es_mem *pre, int layer)
{
    es_mem *found;
    const site *here = find_site(model, &found, layer, ES_SITE_ACT);
    if (!here || !es_model_has_site(&model->config, layer, ES_SITE_ACT))
        return false;
    const bool on = is_on(model);
    const size_t n = (size_t)es_model_n_rows(model) *
                     (size_t)es_model_config_ffn_width(&model->config);
    model->ops->polynomial->activate(model->backend, on ? post : NULL, found,
                                     pre, n, on ? &here->gate : NULL);
    return on;
}

static es_power_form form_of(const es_model *model, double unit)
{
    const es_arch *arch = &model->config.arch;
    return (es_power_form){.power = arch->power,
                           .epsilon = arch->power_epsilon,
                           .plain = arch->power_plain,
                           .length = arch->length,
                           .n_ctx = model->config.ctx,
                           .unit = unit};
}

bool es_model_attention_polynomial(const es_model *model, int layer,
                                   const es_row_mem *rows)
{
    es_mem *found;
    const es_layer_memory *at = &model->layers[layer];
    const site *here = find_site(model, &found, layer, ES_SITE_ATTN);
    if (!here)
        return false;
    const bool on = is_on(model);
    const es_attention attention = es_model_attention(model, layer);
    const es_power_form form = form_of(model, on ? here->unit : 1);
    model->ops->polynomial->attention(
        model->backend, on ? at->heads : NULL, at->saved, rows, found, at->qkv,
        &attention, &form, on ? &here->division : NULL);
    return on;
}

bool es_model_acts_by_polynomial(const es_model *model, int layer)
{
    return model->polynomials && is_on(model) &&
           es_model_has_site(&model->config, layer, ES_SITE_ACT);
}

/* --- choosing ------------------------------------------------------------- */

static const es_interval nowhere = {(double)NAN, (double)NAN};

/* Chooses the polynomial for PowerSoftmax's division. The observed denominators
 * were computed from unscaled scores. The polynomial uses scores divided by the
 * unit, which is the largest observed score, so that their powers stay in the
 * range of float32. */
static bool choose_division(site *to, const es_model *model,
                            const es_findings *found)
{
    const bool has_unit = isfinite(found->largest) && found->largest > 0;
    to->unit = has_unit ? found->largest : 1;
    const es_power_form form = form_of(model, to->unit);
    const double scale = pow(to->unit, form.power);
    es_findings scaled = *found;
    scaled.low /= scale;
    scaled.high /= scale;
    if (es_division_choose(&to->division, &model->config.polynomial, &scaled,
                           form.plain ? form.epsilon / scale : 0))
        return true;
    to->division = (es_division){.in = nowhere};
    return false;
}

static bool choose_gate(site *to, const es_model *model, int layer,
                        const es_findings *found)
{
    const es_act act = es_model_act(model, layer);
    if (es_gate_choose(&to->gate, &model->config.polynomial, found, act.kind))
        return true;
    to->gate = (es_gate){.kind = act.kind, .range = (double)NAN, .degree = 1};
    return false;
}

static bool choose_root(site *to, const es_model *model,
                        const es_findings *found)
{
    if (es_inverse_root_choose(&to->root, &model->config.polynomial, found))
        return true;
    to->root = (es_inverse_root){.in = nowhere};
    return false;
}

bool es_model_choose_polynomials(es_model *model)
{
    const es_model_config *config = &model->config;
    es_polynomials *p = model->polynomials;
    bool all = true;
    for (size_t i = 0; i < p->n; i++) {
        const int layer = (int)(i / ES_N_SITES);
        site *to = &p->sites[i];
        if (!es_model_has_site(config, layer, (es_site)(i % ES_N_SITES)))
            continue;
        const es_approximated kind = es_site_kind(config, i);
        const bool chosen = kind == ES_APPROXIMATED_NORM
                                ? choose_root(to, model, &p->found[i])
                            : kind == ES_APPROXIMATED_ATTN
                                ? choose_division(to, model, &p->found[i])
                                : choose_gate(to, model, layer, &p->found[i]);
        all = all && chosen;
    }
    return all;
}

/* --- description --------------------------------------------------------- */

static int ffn_levels(const es_model *model, int layer, const site *act)
{
    const es_model_config *config = &model->config;
    if (!es_model_has_ffn(model, layer))
        return 0;
    if (es_arch_parts(&config->arch, layer).ffn == ES_FFN_FUSED)
        return 1;
    return es_model_has_site(config, layer, ES_SITE_ACT)
               ? 2 + es_activation_levels(act->gate.degree)
               : 2;
}

es_polynomial es_model_polynomial(const es_model *model, int layer,
                                  es_site place)
{
    const size_t i = es_site_number(layer, place);
    const site *here = &model->polynomials->sites[i];
    switch (es_site_kind(&model->config, i)) {
    case ES_APPROXIMATED_NORM:
        return (es_polynomial){here->root.in, here->root.steps,
                               es_norm_levels(here->root.steps)};
    case ES_APPROXIMATED_ATTN:
        return (es_polynomial){here->division.in, here->division.factors,
                               es_attention_levels(model->config.arch.power,
                                                   here->division.factors)};
    default:
        return (es_polynomial){{-here->gate.range, here->gate.range},
                               here->gate.degree,
                               ffn_levels(model, layer, here)};
    }
}

static int norm_levels(const es_model *model, int layer, es_site place)
{
    return es_model_has_site(&model->config, layer, place)
               ? es_model_polynomial(model, layer, place).levels
               : 0;
}

int es_model_levels(const es_model *model, int layer)
{
    const int n_layer = model->config.n_layer;
    if (layer == n_layer) {
        int sum = norm_levels(model, n_layer, ES_SITE_ATTN) + 1;
        for (int i = 0; i < n_layer; i++)
            sum += es_model_levels(model, i);
        return sum;
    }
    const site *act =
        &model->polynomials->sites[es_site_number(layer, ES_SITE_ACT)];
    const int attention =
        norm_levels(model, layer, ES_SITE_NORM_1) +
        es_model_polynomial(model, layer, ES_SITE_ATTN).levels;
    const int ffn = norm_levels(model, layer, ES_SITE_NORM_2) +
                    ffn_levels(model, layer, act);
    if (!es_model_traits(model)->is_parallel)
        return attention + ffn;
    return attention > ffn ? attention : ffn;
}
