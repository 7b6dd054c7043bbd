/* Computes a simpler model of the same function: its configuration, and its
 * weights from those of the trained model. Relies on matrices.h for normalised
 * weights, and on the parameter tables of both models, in which corresponding
 * arrays have the same role. */
#include "hooks/trainer/model/simplify.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/model/matrices.h"
#include "hooks/trainer/model/operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- configuration ------------------------------------------------------- */

static bool keeps_ffn(const es_model_config *config, const es_layer_set *drop,
                      int layer)
{
    for (int i = 0; i < drop->n; i++)
        if (layer >= drop->ranges[i].first && layer <= drop->ranges[i].last)
            return false;
    return es_arch_has_ffn(&config->arch, layer, config->n_layer);
}

/* Refuses layers that do not exist, and ranges of layers without any FFN. */
static es_status check_drop(const es_model_config *config,
                            const es_layer_set *drop)
{
    for (int i = 0; i < drop->n; i++) {
        const es_layer_range *range = &drop->ranges[i];
        int n = 0;
        if (range->last >= config->n_layer)
            return es_fail(ES_EUSAGE,
                           "--drop %d-%d: the model has layers 0 to %d",
                           range->first, range->last, config->n_layer - 1);
        for (int layer = range->first; layer <= range->last; layer++)
            n += es_arch_has_ffn(&config->arch, layer, config->n_layer);
        if (n == 0)
            return es_fail(ES_EUSAGE,
                           "--drop %d-%d: these layers have no FFN: name "
                           "others",
                           range->first, range->last);
    }
    return ES_OK;
}

/* Removes from `arch` the parts that are restricted to a range of layers, if
 * `kinds` has the bit 1 << kind of their kind. */
static void remove_ranges(es_arch *arch, unsigned kinds)
{
    int n = 0;
    for (int i = 0; i < arch->n_spans; i++)
        if (!(kinds & 1U << arch->spans[i].kind))
            arch->spans[n++] = arch->spans[i];
    arch->n_spans = n;
}

/* Adds NoFFN to `arch` for all layers without an FFN, including those whose FFN
 * is dropped. The parser puts the ranges in order and limits their number. */
static es_status add_ranges(es_arch *arch, const es_model_config *config,
                            const es_layer_set *drop)
{
    char parts[ES_ARCH_TEXT_MAX], all[4 * ES_ARCH_TEXT_MAX];
    es_text text = es_text_begin(all, sizeof all);
    es_arch plain = *arch;
    plain.entropy_reg = false;
    es_arch_print(parts, sizeof parts, &plain);
    es_text_append(&text, "%s%s", arch->entropy_reg ? "EReg(" : "", parts);
    for (int layer = 0; layer < config->n_layer; layer++) {
        const int first = layer;
        while (layer < config->n_layer && !keeps_ffn(config, drop, layer))
            layer++;
        if (layer > first)
            es_text_append(&text, "+NoFFN[%d-%d]", first, layer - 1);
    }
    es_text_append(&text, "%s", arch->entropy_reg ? ")" : "");
    return es_arch_parse(arch, all);
}

/* Writes into `arch` which layers have no FFN: with ScFuFFNi or ScFuFFNe if
 * these are the last or the first layers and all other layers have ScFuFFN,
 * otherwise with NoFFN. */
static es_status drop_ffns(es_arch *arch, const es_model_config *config,
                           const es_layer_set *drop, bool is_fused)
{
    const int n_layer = config->n_layer;
    int n_kept = 0, first = n_layer, last = -1; /* number, first and last of the
                                                 * layers that keep their FFN */
    for (int layer = 0; layer < n_layer; layer++)
        if (keeps_ffn(config, drop, layer)) {
            n_kept++;
            first = layer < first ? layer : first;
            last = layer;
        }
    const int n_dropped = n_layer - n_kept, n_after = n_layer - 1 - last;
    remove_ranges(arch, 1U << ES_PART_NO_FFN);
    arch->n_removed = is_fused && n_dropped == n_after ? n_after : 0;
    arch->n_removed_first =
        is_fused && n_dropped == first && arch->n_removed == 0 ? first : 0;
    return arch->n_removed + arch->n_removed_first == n_dropped
               ? ES_OK
               : add_ranges(arch, config, drop);
}

/* Returns the number of layers with an FFN; *is_linear becomes true if there
 * are any, and all of them are linear. */
static int count_ffns(const es_model_config *config, bool *is_linear)
{
    int n = 0, n_linear = 0;
    for (int layer = 0; layer < config->n_layer; layer++)
        if (es_arch_has_ffn(&config->arch, layer, config->n_layer)) {
            n++;
            n_linear +=
                es_arch_parts(&config->arch, layer).activation == ES_ACT_LINEAR;
        }
    *is_linear = n > 0 && n == n_linear;
    return n;
}

/* Removes WNorm and SNorm from the architecture, and replaces ScFFN by ScFuFFN.
 * If every FFN is linear, all layers get ScFuFFN. */
static void simplify_parts(es_arch *arch, bool is_linear)
{
    const unsigned norms =
        1U << ES_PART_WEIGHT_NORM | 1U << ES_PART_SPECTRAL_NORM;
    const unsigned ffns = 1U << ES_PART_ACTIVATION | 1U << ES_PART_FFN;
    remove_ranges(arch, is_linear ? norms | ffns : norms);
    arch->weight_norm = arch->spectral_norm = 0;
    for (int i = 0; i < arch->n_spans; i++)
        if (arch->spans[i].kind == ES_PART_FFN)
            arch->spans[i].parts.ffn = arch->ffn = ES_FFN_FUSED;
    if (!is_linear)
        return;
    arch->ffn = ES_FFN_FUSED;
    /* reset the activation, which may belong to layers without an FFN */
    arch->activation = ES_ACT_LINEAR;
    arch->slope_kind = ES_SLOPE_FIXED;
    arch->slope = 0;
}

es_status es_simplify_config(es_model_config *out,
                             const es_model_config *config,
                             const es_layer_set *drop)
{
    const es_family family = config->family;
    char old[ES_ARCH_TEXT_MAX], new[ES_ARCH_TEXT_MAX];
    bool is_linear;
    es_status status;
    *out = *config;
    es_arch_print(old, sizeof old, &config->arch);
    if (family != ES_FAMILY_GPT2 && family != ES_FAMILY_PYTHIA &&
        family != ES_FAMILY_SAS)
        return es_fail(ES_EUSAGE,
                       "--family %s has no ScFuFFN: only models of gpt2, "
                       "pythia and sas can be fused",
                       es_family_names[family]);
    const int n_ffns = count_ffns(config, &is_linear);
    simplify_parts(&out->arch, is_linear);
    if (drop->n > 0)
        return (status = check_drop(config, drop)) < 0
                   ? status
                   : drop_ffns(&out->arch, config, drop, is_linear);
    es_arch_print(new, sizeof new, &out->arch);
    if (strcmp(old, new) != 0)
        return ES_OK;
    if (n_ffns == 0)
        return es_fail(ES_EUSAGE, "%s has no FFN that could be fused", old);
    return is_linear
               ? es_fail(ES_EUSAGE,
                         "%s is fused already: give --drop to drop FFNs", old)
               : es_fail(ES_EUSAGE,
                         "the FFN of %s is not linear, so it cannot be "
                         "fused: give --drop to drop FFNs, or train an "
                         "architecture with ScFFN",
                         old);
}

/* --- arrays --------------------------------------------------------------- */

/** The models, and the beginning of error messages. */
typedef struct job {
    es_model *to;
    const es_model *from;
    const char *where;
} job;

/* Copies the array with this role to *out, which the caller frees. The copy is
 * normalised like the weights in matrix products, and is checked to be finite.
 * *out is NULL if the model lacks the array. */
static es_status load_array(float **out, const job *j, const es_model *model,
                            int layer, es_role role)
{
    const es_param *param = es_params_find(&model->params, layer, role);
    *out = NULL;
    if (!param)
        return ES_OK;
    es_status status = es_alloc(out, param->n, sizeof **out, param->name);
    if (status < 0)
        return status;
    model->ops->load(model->backend, *out, es_model_used_value(model, param),
                     param->n * sizeof **out);
    for (size_t i = 0; status == ES_OK && i < param->n; i++)
        if (!isfinite((*out)[i]))
            status = es_fail(ES_EFORMAT, "%s: number %zu of %s is not finite",
                             j->where, i, param->name);
    return status;
}

static es_status store_array(es_model *model, int layer, es_role role,
                             const float *values)
{
    const es_param *param = es_params_find(&model->params, layer, role);
    return es_model_set(model, (size_t)(param - model->params.table), values,
                        param->n);
}

/* Copies the array with this role from `from` to `to`, if `from` has it. Other
 * arrays are not changed: they are the fused matrix, which is computed
 * separately, and alpha and beta, which keep their initial value 1. */
static es_status copy_array(const job *j, int layer, es_role role)
{
    float *values;
    es_status status = load_array(&values, j, j->from, layer, role);
    if (status == ES_OK && values)
        status = store_array(j->to, layer, role, values);
    free(values);
    return status;
}

/* --- the constant of an FFN ----------------------------------------------- */

/* Solves x * a = c for the row vector x by Gaussian elimination with pivots. a
 * (n,n) is destroyed; c (n) becomes x. Returns false if `a` is singular. */
static bool solve_row(double *a, double *c, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n * n; i++)
        largest = fmax(largest, fabs(a[i]));
    for (size_t k = 0; k < n; k++) { /* eliminate row k from later columns */
        size_t pivot = k;
        for (size_t j = k + 1; j < n; j++)
            if (fabs(a[k * n + j]) > fabs(a[k * n + pivot]))
                pivot = j;
        if (!(fabs(a[k * n + pivot]) > 1e-13 * largest))
            return false;
        for (size_t i = 0; i < n; i++) {
            const double other = a[i * n + k];
            a[i * n + k] = a[i * n + pivot];
            a[i * n + pivot] = other;
        }
        const double other = c[k];
        c[k] = c[pivot];
        c[pivot] = other;
        for (size_t j = k + 1; j < n; j++) {
            const double factor = a[k * n + j] / a[k * n + k];
            for (size_t i = k; i < n; i++)
                a[i * n + j] -= factor * a[i * n + k];
            c[j] -= factor * c[k];
        }
    }
    for (size_t k = n; k-- > 0;) {
        for (size_t i = k + 1; i < n; i++)
            c[k] -= c[i] * a[i * n + k];
        c[k] /= a[k * n + k];
    }
    return true;
}

/* Adds the n numbers c to an array of the model `to`, which has n elements. */
static es_status add_to_array(const job *j, int layer, es_role role,
                              const double *c, size_t n)
{
    float *values;
    es_status status = load_array(&values, j, j->to, layer, role);
    for (size_t i = 0; status == ES_OK && i < n; i++)
        values[i] = (float)((double)values[i] + c[i]);
    if (status == ES_OK)
        status = store_array(j->to, layer, role, values);
    free(values);
    return status;
}

/* Adds the constant output c (d) of a layer's FFN, which the fused matrix w
 * (d,d) cannot express, to a bias of the simpler model; simplify.h explains
 * which bias. */
static es_status move_constant(const job *j, int layer, const float *w,
                               double *c)
{
    const es_model *to = j->to;
    const size_t d = (size_t)to->config.d_model;
    const bool is_parallel = es_model_traits(to)->is_parallel;
    const bool has_norm = es_params_find(&to->params, layer, ES_ROLE_LN_2_BIAS);
    float *alpha = NULL, *beta = NULL;
    double *a = NULL;
    es_status status;
    if ((status = load_array(&alpha, j, to, layer, ES_ROLE_ALPHA)) < 0 ||
        (status = load_array(&beta, j, to, layer, ES_ROLE_BETA)) < 0 ||
        (status = es_alloc(&a, d * d, sizeof *a, "a matrix")) < 0)
        goto done;
    const double scale = (double)*alpha * (double)*beta;
    for (size_t i = 0; i < d * d; i++)
        a[i] = is_parallel ? 0 : (double)w[i];
    for (size_t i = 0; i < d && (is_parallel || !has_norm); i++)
        a[i * d + i] += scale;
    if (solve_row(a, c, d))
        status = add_to_array(j, layer,
                              has_norm && !is_parallel ? ES_ROLE_LN_2_BIAS
                                                       : ES_ROLE_PROJ_BIAS,
                              c, d);
    else
        status = es_fail(ES_EFORMAT,
                         "%s: the biases of the FFN in layer %d cannot be "
                         "moved, because its matrix is singular",
                         j->where, layer);
done:
    free(alpha);
    free(beta);
    free(a);
    return status;
}

/* --- the fused matrix ----------------------------------------------------- */

/* Computes out (n,n) = left (n,m) * right (m,n); `row` has space for n sums. */
static void multiply(float *out, const float *left, const float *right,
                     double *row, size_t n, size_t m)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            row[j] = 0;
        for (size_t k = 0; k < m; k++)
            for (size_t j = 0; j < n; j++)
                row[j] += (double)left[i * m + k] * (double)right[k * n + j];
        for (size_t j = 0; j < n; j++)
            out[i * n + j] = (float)row[j];
    }
}

/* Computes the constant c = inner * down + outer of an FFN whose second matrix
 * is `down` (m,d); inner (m) and outer (d) are the FFN's biases. Returns false
 * if c is 0. */
static bool sum_constant(double *c, const float *inner, const float *down,
                         const float *outer, size_t d, size_t m)
{
    bool is_there = false;
    for (size_t j = 0; j < d; j++) {
        c[j] = (double)outer[j];
        for (size_t k = 0; k < m; k++)
            c[j] += (double)inner[k] * (double)down[k * d + j];
        is_there = is_there || c[j] > 0 || c[j] < 0;
    }
    return is_there;
}

/* Computes the fused matrix of a layer from the two matrices of `from`. */
static es_status fuse_layer(const job *j, int layer)
{
    const es_model *from = j->from;
    const es_linear up = es_model_linear(from, layer, ES_MATRIX_FC);
    const size_t d = (size_t)up.n_in, m = (size_t)up.n_out;
    float *fc = NULL, *proj = NULL, *inner = NULL, *outer = NULL, *w = NULL;
    double *row = NULL;
    es_status status;
    if ((status = load_array(&fc, j, from, layer, ES_ROLE_FC_WEIGHT)) < 0 ||
        (status = load_array(&proj, j, from, layer, ES_ROLE_MLP_PROJ_WEIGHT)) <
            0 ||
        (status = load_array(&inner, j, from, layer, ES_ROLE_FC_BIAS)) < 0 ||
        (status = load_array(&outer, j, from, layer, ES_ROLE_MLP_PROJ_BIAS)) <
            0 ||
        (status = es_alloc(&w, d * d, sizeof *w, "a fused matrix")) < 0 ||
        (status = es_alloc(&row, d, sizeof *row, "a row")) < 0)
        goto done;
    /* The transpose of a product is the product of the transposes in reverse
     * order. */
    multiply(w, up.transposed ? proj : fc, up.transposed ? fc : proj, row, d,
             m);
    status = store_array(j->to, layer, ES_ROLE_FUSED_WEIGHT, w);
    /* Only families with untransposed matrices have these biases. */
    if (status == ES_OK && inner && outer &&
        sum_constant(row, inner, proj, outer, d, m))
        status = move_constant(j, layer, w, row);
done:
    free(fc);
    free(proj);
    free(inner);
    free(outer);
    free(w);
    free(row);
    return status;
}

es_status es_simplify_model(es_model *to, es_model *from, const char *where)
{
    const job j = {to, from, where};
    es_status status = ES_OK;
    es_model_make_weights(from, false);
    for (size_t i = 0; status == ES_OK && i < to->params.n; i++) {
        const es_param *param = &to->params.table[i];
        status = copy_array(&j, param->layer, param->role);
    }
    for (int layer = 0; status == ES_OK && layer < to->config.n_layer; layer++)
        if (es_params_find(&to->params, layer, ES_ROLE_FUSED_WEIGHT) &&
            !es_params_find(&from->params, layer, ES_ROLE_FUSED_WEIGHT))
            status = fuse_layer(&j, layer);
    return status;
}
