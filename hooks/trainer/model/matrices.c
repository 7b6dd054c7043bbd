/* Describes the matrices of layers as operands of products, adds their
 * gradients, and computes the weights that WNorm and SNorm derive from
 * parameters. Each normalised matrix has a second array, which products use in
 * place of the parameter; the gradient of the product is propagated through the
 * normalisation to the parameter. */
#include "hooks/trainer/model/matrices.h"

#include "analyzer/base/checked.h"
#include "hooks/trainer/model/operations.h"

#include <math.h>
#include <stdlib.h>

#define N_WARM_UP 20

/* Roles of the arrays that belong to a matrix, and the bit of es_arch by which
 * WNorm or SNorm selects the matrix. The columns of v in c_attn have the bit
 * ES_NORM_V instead. */
typedef struct matrix {
    es_role weight, bias, g, u, v;
    unsigned named_by;
} matrix;

/* The fused FFN can use the role FC_BIAS because it has no other bias. The gate
 * has no bias, and separate matrices of q, k and v have no norm; role 0 means
 * that the matrix has no such array. */
static const matrix matrices[ES_N_MATRICES] = {
    [ES_MATRIX_ATTN] = {ES_ROLE_ATTN_WEIGHT, ES_ROLE_ATTN_BIAS, ES_ROLE_ATTN_G,
                        ES_ROLE_ATTN_U, ES_ROLE_ATTN_V, ES_NORM_QK},
    [ES_MATRIX_Q] = {.weight = ES_ROLE_Q_WEIGHT, .bias = ES_ROLE_Q_BIAS},
    [ES_MATRIX_K] = {.weight = ES_ROLE_K_WEIGHT, .bias = ES_ROLE_K_BIAS},
    [ES_MATRIX_V] = {.weight = ES_ROLE_V_WEIGHT, .bias = ES_ROLE_V_BIAS},
    [ES_MATRIX_PROJ] = {ES_ROLE_PROJ_WEIGHT, ES_ROLE_PROJ_BIAS, ES_ROLE_PROJ_G,
                        ES_ROLE_PROJ_U, ES_ROLE_PROJ_V, ES_NORM_O},
    [ES_MATRIX_GATE] = {.weight = ES_ROLE_GATE_WEIGHT},
    [ES_MATRIX_FFN_GATE] = {.weight = ES_ROLE_FFN_GATE_WEIGHT,
                            .bias = ES_ROLE_FFN_GATE_BIAS},
    [ES_MATRIX_FC] = {ES_ROLE_FC_WEIGHT, ES_ROLE_FC_BIAS, ES_ROLE_FC_G,
                      ES_ROLE_FC_U, ES_ROLE_FC_V, ES_NORM_FFN},
    [ES_MATRIX_MLP_PROJ] = {ES_ROLE_MLP_PROJ_WEIGHT, ES_ROLE_MLP_PROJ_BIAS,
                            ES_ROLE_MLP_PROJ_G, ES_ROLE_MLP_PROJ_U,
                            ES_ROLE_MLP_PROJ_V, ES_NORM_FFN},
    [ES_MATRIX_FUSED] = {ES_ROLE_FUSED_WEIGHT, ES_ROLE_FC_BIAS, ES_ROLE_FUSED_G,
                         ES_ROLE_FUSED_U, ES_ROLE_FUSED_V, ES_NORM_FFN},
};

/* A group of columns that are normalised as one matrix. c_attn has three groups
 * (q, k and v), and every other matrix has one group. */
typedef struct group {
    es_columns columns;
    unsigned named_by;
    size_t g, u, v; /* offsets of the group's parts of g, u and v, in floats */
    es_mem *sigma;
} group;

static int count_groups(es_matrix index)
{
    return index == ES_MATRIX_ATTN ? 3 : 1;
}

static group find_group(const es_model *model, int layer, es_matrix index,
                        int k)
{
    const es_param *weight =
        es_params_find(&model->params, layer, matrices[index].weight);
    const int n = weight->dims[1] / count_groups(index);
    const size_t n_in = (size_t)weight->dims[0];
    const size_t sigma = ((size_t)index * 3 + (size_t)k) * sizeof(float);
    return (group){
        .columns = {(int)n_in, weight->dims[1], k * n, n},
        .named_by = k == 2 ? ES_NORM_V : matrices[index].named_by,
        .g = (size_t)k * (size_t)n,
        .u = (size_t)k * (size_t)n,
        .v = (size_t)k * n_in,
        .sigma = es_mem_at(model->layers[layer].sigma, sigma),
    };
}

/* Returns the address of the element with index `floats` in an array of
 * floats. */
static es_mem *float_at(es_mem *array, size_t floats)
{
    return es_mem_at(array, floats * sizeof(float));
}

size_t es_model_normed_size(const es_model *model, int layer, es_matrix index)
{
    const es_layer_parts parts = es_arch_parts(&model->config.arch, layer);
    const es_param *weight =
        es_params_find(&model->params, layer, matrices[index].weight);
    /* An option that selects v also selects q and k, so ES_NORM_QK suffices. */
    bool named =
        (parts.weight_norm | parts.spectral_norm) & matrices[index].named_by;
    return weight && named ? weight->n : 0;
}

es_linear es_model_linear(const es_model *model, int layer, es_matrix index)
{
    const matrix *roles = &matrices[index];
    const es_param *weight =
        es_params_find(&model->params, layer, roles->weight);
    const es_param *bias = es_params_find(&model->params, layer, roles->bias);
    const es_mem *made = model->layers[layer].weights[index];
    /* Families with separate q, k and v store all matrices as (out,in). */
    const bool transposed = es_model_traits(model)->is_separate;
    return (es_linear){
        .weight = made ? made : es_model_value(model, layer, roles->weight),
        .bias = es_model_value(model, layer, roles->bias),
        .n_in = weight->dims[transposed],
        .n_out = weight->dims[!transposed],
        .transposed = transposed,
        .n_bias_trained = bias ? (int)bias->n_trainable : 0};
}

es_mem *es_model_used_value(const es_model *model, const es_param *param)
{
    for (es_matrix i = 0; param->layer >= 0 && i < ES_N_MATRICES; i++)
        if (param->role == matrices[i].weight &&
            model->layers[param->layer].weights[i])
            return model->layers[param->layer].weights[i];
    return es_model_value(model, param->layer, param->role);
}

/* --- forward -------------------------------------------------------------- */

static void make_group(const es_model *model, int layer, es_matrix index,
                       const group *part, int n_iterations)
{
    const matrix *roles = &matrices[index];
    es_mem *to = model->layers[layer].weights[index];
    const es_mem *from = es_model_value(model, layer, roles->weight);
    const es_layer_parts parts = es_arch_parts(&model->config.arch, layer);
    if (parts.weight_norm & part->named_by)
        model->ops->weight_norm(
            model->backend, to, from,
            float_at(es_model_value(model, layer, roles->g), part->g),
            &part->columns);
    else if (parts.spectral_norm & part->named_by)
        model->ops->spectral_norm(
            model->backend, to, part->sigma,
            float_at(es_model_value(model, layer, roles->u), part->u),
            float_at(es_model_value(model, layer, roles->v), part->v), from,
            &part->columns, n_iterations);
    else
        model->ops->copy_columns(model->backend, to, from, &part->columns,
                                 false);
}

static void make_all(const es_model *model, int n_iterations)
{
    for (int layer = 0; layer < model->config.n_layer; layer++)
        for (es_matrix i = 0; i < ES_N_MATRICES; i++)
            for (int k = 0; k < count_groups(i); k++) {
                if (!model->layers[layer].weights[i])
                    break;
                const group part = find_group(model, layer, i, k);
                make_group(model, layer, i, &part, n_iterations);
            }
    for (int layer = 0;
         model->config.arch.direct && layer < model->config.n_layer; layer++)
        model->ops->temperature_logs(model->backend, model->layers[layer].log_t,
                                     es_model_value(model, layer, ES_ROLE_T),
                                     (size_t)model->config.n_head *
                                         (size_t)model->config.ctx);
}

/* Returns the normalised weight with number i = layer * ES_N_MATRICES + matrix,
 * and sets *n to its number of floats; NULL if the matrix is not normalised. */
static es_mem *made_weight(const es_model *model, int i, size_t *n)
{
    const int layer = i / ES_N_MATRICES;
    const es_matrix index = (es_matrix)(i % ES_N_MATRICES);
    es_mem *made = model->layers[layer].weights[index];
    *n = made ? es_model_normed_size(model, layer, index) : 0;
    return made;
}

/* Returns the part of the parameters' allocation that products read (weights
 * and biases), and sets *n to its number of floats. */
static es_mem *kept_parameters(const es_model *model, size_t *n)
{
    const size_t *begins = model->params.group;
    *n = begins[ES_GROUP_PLAIN + 1] - begins[ES_GROUP_DECAY];
    return float_at(model->values, begins[ES_GROUP_DECAY]);
}

es_status es_model_keep_weights(const es_model *model)
{
    size_t n;
    es_mem *values = kept_parameters(model, &n);
    if (!model->ops->keep)
        return ES_OK;
    es_status status = model->ops->keep(model->backend, values, n);
    for (int i = 0; i < model->config.n_layer * ES_N_MATRICES; i++)
        if (status == ES_OK && (values = made_weight(model, i, &n)))
            status = model->ops->keep(model->backend, values, n);
    return status;
}

void es_model_refresh_copies(es_model *model)
{
    size_t n;
    es_mem *values = kept_parameters(model, &n);
    if (model->copies_are_stale && model->ops->refresh)
        model->ops->refresh(model->backend, values, n);
    model->copies_are_stale = false;
}

static void refresh_made(const es_model *model)
{
    es_mem *made;
    size_t n;
    for (int i = 0; i < model->config.n_layer * ES_N_MATRICES; i++)
        if (model->ops->refresh && (made = made_weight(model, i, &n)))
            model->ops->refresh(model->backend, made, n);
}

void es_model_make_weights(es_model *model, bool training)
{
    const bool iterates = training && model->iteration_is_due &&
                          model->config.arch.spectral_norm != 0;
    const es_arch *arch = &model->config.arch;
    const bool are_made =
        arch->weight_norm != 0 || arch->spectral_norm != 0 || arch->direct;
    const bool due = are_made && (model->weights_are_stale || iterates);
    es_model_refresh_copies(model);
    if (due && !es_model_replays(model, ES_SEQUENCE_WEIGHTS + iterates)) {
        make_all(model, iterates ? 1 : 0);
        refresh_made(model);
        es_model_launch(model);
    }
    model->weights_are_stale = false;
    model->iteration_is_due = model->iteration_is_due && !training;
}

/* --- backward ------------------------------------------------------------- */

static void group_backward(const es_model *model, int layer, es_matrix index,
                           const group *part)
{
    const matrix *roles = &matrices[index];
    const es_mem *value = es_model_value(model, layer, roles->weight);
    es_mem *gradient = es_model_gradient(model, layer, roles->weight);
    const es_layer_parts parts = es_arch_parts(&model->config.arch, layer);
    if (parts.weight_norm & part->named_by)
        model->ops->weight_norm_backward(
            model->backend, gradient,
            float_at(es_model_gradient(model, layer, roles->g), part->g),
            model->dweight, value,
            float_at(es_model_value(model, layer, roles->g), part->g),
            &part->columns);
    else if (parts.spectral_norm & part->named_by)
        model->ops->spectral_norm_backward(
            model->backend, gradient, model->dweight,
            model->layers[layer].weights[index], part->sigma,
            float_at(es_model_value(model, layer, roles->u), part->u),
            float_at(es_model_value(model, layer, roles->v), part->v),
            &part->columns);
    else
        model->ops->copy_columns(model->backend, gradient, model->dweight,
                                 &part->columns, true);
}

bool es_model_is_overwritten(const es_model *model, const es_param *param)
{
    if (param->layer < 0)
        return param->role == es_model_head_role(model) ||
               param->role == ES_ROLE_HEAD_WEIGHT ||
               param->role == ES_ROLE_PATCH_WEIGHT;
    for (es_matrix i = 0; i < ES_N_MATRICES; i++)
        if (param->role == matrices[i].weight)
            return !model->layers[param->layer].weights[i];
    return false;
}

void es_model_weight_gradient(const es_model *model, int layer, es_matrix index,
                              const es_mem *x, const es_mem *dy)
{
    const es_linear linear = es_model_linear(model, layer, index);
    const bool is_made = model->layers[layer].weights[index];
    es_mem *to = is_made
                     ? model->dweight
                     : es_model_gradient(model, layer, matrices[index].weight);
    model->ops->linear_backward_weight(
        model->backend, to,
        es_model_gradient(model, layer, matrices[index].bias), x, dy, &linear,
        es_model_n_rows(model), !is_made && !model->overwrites);
    for (int k = 0; is_made && k < count_groups(index); k++) {
        const group part = find_group(model, layer, index, k);
        group_backward(model, layer, index, &part);
    }
}

/* --- initial values ------------------------------------------------------ */

/* Computes the norms g (n) of the columns of v (in,stride). */
static void column_norms(float *g, const float *v, const es_columns *columns)
{
    for (int j = 0; j < columns->n; j++) {
        double squares = 0;
        for (int i = 0; i < columns->n_in; i++) {
            const double x = (double)v[(size_t)i * (size_t)columns->stride +
                                       (size_t)(columns->first + j)];
            squares += x * x;
        }
        g[j] = (float)sqrt(squares);
    }
}

/* Initialises g with the norms of a matrix's columns, if WNorm normalises all
 * or some of these columns. */
static es_status start_g(const es_model *model, int layer, es_matrix index)
{
    const size_t n = es_model_normed_size(model, layer, index);
    const es_mem *from = es_model_value(model, layer, matrices[index].weight);
    es_mem *to = es_model_value(model, layer, matrices[index].g);
    float *values = es_resize(NULL, n, 2 * sizeof *values);
    if (!values)
        return es_fail(ES_ENOMEM, "out of memory for the norms of weights");
    model->ops->load(model->backend, values, from, n * sizeof *values);
    for (int k = 0; k < count_groups(index); k++) {
        const group part = find_group(model, layer, index, k);
        if (!(es_arch_parts(&model->config.arch, layer).weight_norm &
              part.named_by))
            continue;
        column_norms(values + n, values, &part.columns);
        model->ops->store(model->backend, float_at(to, part.g), values + n,
                          (size_t)part.columns.n * sizeof *values);
    }
    free(values);
    return ES_OK;
}

es_status es_model_start_norms(es_model *model)
{
    es_status status = ES_OK;
    for (int layer = 0; layer < model->config.n_layer; layer++)
        for (es_matrix i = 0; status == ES_OK && i < ES_N_MATRICES; i++)
            if (es_params_find(&model->params, layer, matrices[i].g))
                status = start_g(model, layer, i);
    if (status == ES_OK && model->config.arch.spectral_norm != 0)
        make_all(model, N_WARM_UP);
    model->weights_are_stale = model->copies_are_stale = true;
    model->iteration_is_due = true;
    return status;
}

/* --- normalised matrices -------------------------------------------------- */

static const es_normed normed[ES_N_NORMED] = {
    {ES_MATRIX_ATTN, 0, ES_ROLE_ATTN_G, ES_NORM_QK},
    {ES_MATRIX_ATTN, 1, ES_ROLE_ATTN_G, ES_NORM_QK},
    {ES_MATRIX_ATTN, 2, ES_ROLE_ATTN_G, ES_NORM_V},
    {ES_MATRIX_PROJ, 0, ES_ROLE_PROJ_G, ES_NORM_O},
    {ES_MATRIX_FC, 0, ES_ROLE_FC_G, ES_NORM_FFN},
    {ES_MATRIX_MLP_PROJ, 0, ES_ROLE_MLP_PROJ_G, ES_NORM_FFN}};

es_normed es_model_normed(const es_arch *arch, int layer, int i)
{
    es_normed of = normed[i];
    const bool is_ffn = of.named_by == ES_NORM_FFN;
    if (is_ffn && es_arch_parts(arch, layer).ffn == ES_FFN_FUSED) {
        of.matrix = ES_MATRIX_FUSED;
        of.g = ES_ROLE_FUSED_G;
        of.named_by = i == 4 ? ES_NORM_FFN : 0;
    }
    return of;
}

/* Returns the bit by which WNorm or SNorm selects matrix i of a layer; 0 if the
 * layer does not have the matrix. */
static unsigned find_bit(const es_model_config *config, int layer, int i)
{
    const unsigned bit = es_model_normed(&config->arch, layer, i).named_by;
    return bit != ES_NORM_FFN ||
                   es_arch_has_ffn(&config->arch, layer, config->n_layer)
               ? bit
               : 0;
}

bool es_model_has_weight_norm(const es_model_config *config, int layer, int i)
{
    return es_arch_parts(&config->arch, layer).weight_norm &
           find_bit(config, layer, i);
}

bool es_model_has_spectral_norm(const es_model_config *config, int layer, int i)
{
    return es_arch_parts(&config->arch, layer).spectral_norm &
           find_bit(config, layer, i);
}
