/* Loads weights into a model: checks whether they fit the model, and converts
 * their arrays to the model's order. */
#include "hooks/trainer/files/weights_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/files/temperatures.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- compatible models --------------------------------------------------- */

/** Returns true if all layers of a range have a linear FFN of two matrices. */
static bool is_linear(const es_arch *arch, const es_arch_span *span,
                      int n_layer)
{
    for (int l = span->first; l <= span->last && l < n_layer; l++) {
        const es_layer_parts parts = es_arch_parts(arch, l);
        if (parts.ffn != ES_FFN_TWO || parts.activation != ES_ACT_LINEAR)
            return false;
    }
    return true;
}

/** Removes from `arch` each ScFFN whose range of layers has only linear FFNs in
 *  `have`. */
static void drop_scaled(es_arch *arch, const es_arch *have, int n_layer)
{
    int n = 0;
    for (int i = 0; i < arch->n_spans; i++) {
        const es_arch_span *span = &arch->spans[i];
        if (span->kind != ES_PART_FFN || span->parts.ffn != ES_FFN_SCALED ||
            !is_linear(have, span, n_layer))
            arch->spans[n++] = *span;
    }
    if (n < arch->n_spans)
        arch->ffn = ES_FFN_TWO;
    arch->n_spans = n;
}

/** Returns `want` without the parts that `have` lacks and that have no effect
 *  at their initial values. If the result equals `have`, both architectures
 *  start as the same function. */
static es_arch without_neutral(const es_arch *want, const es_arch *have,
                               const es_model_config *config)
{
    es_arch out = *want;
    out.entropy_reg = have->entropy_reg;
    if (config->t_init >= 1 && config->t_init <= 1)
        out.temperature = have->temperature && want->temperature;
    out.direct = want->direct && out.temperature;
    if (have->ffn == ES_FFN_TWO && have->activation == ES_ACT_LINEAR &&
        want->ffn == ES_FFN_SCALED)
        out.ffn = ES_FFN_TWO;
    drop_scaled(&out, have, config->n_layer);
    /* The value of a learnt slope is one of the weights, so the initial value
     * in `want` does not matter. */
    if (have->slope_kind != ES_SLOPE_FIXED &&
        want->slope_kind == have->slope_kind)
        out.slope = have->slope;
    if (have->slope_kind == ES_SLOPE_FIXED)
        out.slope_kind = ES_SLOPE_FIXED;
    return out;
}

/** Returns `want` with the kind of attention of `have`. If the activation of
 *  `want` is x * sigmoid(1.702 * x), the result also has the GELU of `have`.
 *  Training may switch between these variants, because they use the same
 *  arrays. */
static es_arch without_forms(const es_arch *want, const es_arch *have)
{
    es_arch out = *want;
    out.attention = have->attention;
    out.power = have->power;
    out.power_epsilon = have->power_epsilon;
    out.power_plain = have->power_plain;
    out.length = have->length;
    out.clip = have->clip;
    if (want->activation == ES_ACT_GELU_SIGMOID && want->n_spans == 0 &&
        (have->activation == ES_ACT_GELU ||
         have->activation == ES_ACT_GELU_TANH))
        out.activation = have->activation;
    return out;
}

/** Appends a sentence on how the model's function changes, or nothing if it
 *  does not change. */
static void describe_change(es_text *text, const es_weights *weights,
                            const es_model_config *config)
{
    char have[ES_ARCH_TEXT_MAX], want[ES_ARCH_TEXT_MAX];
    const es_arch *arch = &weights->config.arch;
    const es_arch wanted = without_neutral(&config->arch, arch, config);
    es_arch_print(have, sizeof have, arch);
    es_arch_print(want, sizeof want, &wanted);
    if (strcmp(have, want) != 0)
        es_text_append(text,
                       "weights of %s continue as %s, which computes a "
                       "different function",
                       have, want);
}

static es_status check_arch(const es_weights *weights,
                            const es_model_config *config)
{
    char have[ES_ARCH_TEXT_MAX], want[ES_ARCH_TEXT_MAX];
    const es_arch *arch = &weights->config.arch;
    es_arch wanted = without_neutral(&config->arch, arch, config);
    wanted = without_forms(&wanted, arch);
    es_arch_print(have, sizeof have, arch);
    es_arch_print(want, sizeof want, &wanted);
    if (strcmp(have, want) == 0)
        return ES_OK;
    es_arch_print(want, sizeof want, &config->arch);
    return es_fail(ES_EUSAGE,
                   "%s: the weights have the architecture %s, not %s%s",
                   weights->path, have, want,
                   wanted.temperature && !arch->temperature
                       ? " (new temperatures must start at --t-init 1)"
                       : "");
}

static es_status check_sizes(const es_weights *weights,
                             const es_model_config *config)
{
    const es_model_config *have = &weights->config;
    const struct {
        const char *option;
        int want, have;
    } sizes[] = {{"n-layer", config->n_layer, have->n_layer},
                 {"n-head", config->n_head, have->n_head},
                 {"d-model", config->d_model, have->d_model},
                 {"vocab", config->vocab, have->vocab},
                 {"mlp-mult", config->mlp_mult, have->mlp_mult},
                 {"d-ff", config->d_ff, have->d_ff},
                 {"n-kv-head", config->n_kv_head, have->n_kv_head},
                 {"d-head", config->d_head, have->d_head},
                 {"padding", config->padding, have->padding},
                 {"mask-token", config->mask,
                  weights->format ? config->mask : have->mask},
                 {"image-size", config->image.size, have->image.size},
                 {"patch-size", config->image.patch, have->image.patch},
                 {"channels", config->image.channels, have->image.channels},
                 {"classes", config->image.classes, have->image.classes}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        /* image models take the vocabulary from the data, so the weights may
         * have 0 */
        if (sizes[i].want != sizes[i].have &&
            !(sizes[i].have == 0 && strcmp(sizes[i].option, "vocab") == 0))
            return es_fail(ES_EUSAGE, "%s: the weights have --%s %d, not %d",
                           weights->path, sizes[i].option, sizes[i].have,
                           sizes[i].want);
    return ES_OK;
}

/* Returns the rank of a set of biases; each set contains all sets of lower
 * rank. */
static int count_biases(es_bias bias)
{
    static const int n[ES_N_BIASES] = {[ES_BIAS_ALL] = 4,
                                       [ES_BIAS_QKV] = 3,
                                       [ES_BIAS_QK] = 2,
                                       [ES_BIAS_NONE] = 0};
    return n[bias];
}

/* Checks the settings of family llama for QK-norm, the tied output matrix and
 * the rotary embedding. */
static es_status check_llama(const es_weights *weights,
                             const es_model_config *config)
{
    const es_model_config *have = &weights->config;
    char has[ES_FLOAT_TEXT_MAX], wanted[ES_FLOAT_TEXT_MAX];
    if (config->qk_norm != have->qk_norm || config->tied != have->tied)
        return es_fail(
            ES_EUSAGE, "%s: the weights need a model %s --%s", weights->path,
            (config->qk_norm != have->qk_norm ? have->qk_norm : have->tied)
                ? "with"
                : "without",
            config->qk_norm != have->qk_norm ? "qk-norm" : "tied");
    const es_rope *r = &config->rope, *h = &have->rope;
    const double x[] = {r->factor, r->low, r->high, r->original};
    const double y[] = {h->factor, h->low, h->high, h->original};
    for (int i = 0; i < 4; i++)
        if (!(x[i] >= y[i] && x[i] <= y[i]))
            return es_fail(ES_EUSAGE,
                           "%s: the weights need another --rope-scaling",
                           weights->path);
    if (!(config->rope.base >= have->rope.base &&
          config->rope.base <= have->rope.base))
        return es_fail(ES_EUSAGE, "%s: the weights have --rope-base %s, not %s",
                       weights->path, es_number_print(has, have->rope.base, 9),
                       es_number_print(wanted, config->rope.base, 9));
    return ES_OK;
}

es_status es_weights_check(const es_weights *weights,
                           const es_model_config *config)
{
    const es_model_config *have = &weights->config;
    const char *path = weights->path;
    bool norm = es_model_config_final_norm(have);
    es_status status = check_arch(weights, config);
    if (status < 0)
        return status;
    if (config->family != have->family)
        return es_fail(ES_EUSAGE, "%s: the weights need --family %s", path,
                       es_family_names[have->family]);
    if ((status = check_sizes(weights, config)) < 0 ||
        (status = check_llama(weights, config)) < 0)
        return status;
    const bool has_positions =
        !es_families[have->family].rotates || have->arch.temperature;
    if (config->ctx > have->ctx && has_positions)
        return es_fail(ES_EUSAGE,
                       "%s: --ctx %d: the weights have only %d positions", path,
                       config->ctx, have->ctx);
    /* The model may have more biases than the weights; new biases start at
     * 0. */
    if (count_biases(config->bias) < count_biases(have->bias))
        return es_fail(ES_EUSAGE, "%s: the weights have --bias %s, not %s",
                       path, es_bias_names[have->bias],
                       es_bias_names[config->bias]);
    char has[ES_FLOAT_TEXT_MAX], wanted[ES_FLOAT_TEXT_MAX];
    if ((config->arch.layer_norm || have->family == ES_FAMILY_LLAMA) &&
        !(config->ln_eps >= have->ln_eps && config->ln_eps <= have->ln_eps))
        return es_fail(ES_EUSAGE, "%s: the weights have --ln-eps %s, not %s",
                       path, es_number_print(has, have->ln_eps, 6),
                       es_number_print(wanted, config->ln_eps, 6));
    if (es_model_config_final_norm(config) != norm)
        return es_fail(ES_EUSAGE, "%s: the weights need --final-norm %s", path,
                       norm ? "on" : "off");
    return ES_OK;
}

/* --- conversion to the model's order ------------------------------------- */

/** One array in two buffers: in the file's order and in the model's order. */
typedef struct buffers {
    float *file, *ours;
} buffers;

/** Reads the first dims[0] rows and dims[1] columns of a matrix that may be
 *  larger. */
static es_status read_corner(float *out, const es_safetensors *file,
                             const es_tensor *tensor, const es_param *param)
{
    size_t width = (size_t)param->dims[param->n_dims - 1];
    size_t stride = (size_t)tensor->dims[tensor->n_dims - 1];
    if (width == stride)
        return es_safetensors_read(file, tensor, out, 0, param->n);
    for (size_t i = 0; i < param->n / width; i++) {
        es_status status = es_safetensors_read(file, tensor, out + i * width,
                                               i * stride, width);
        if (status < 0)
            return status;
    }
    return ES_OK;
}

/* Reads the position embeddings of BERT or RoBERTa from `tensor`; the first
 * extent of `param` is their number. Adds the embedding of the first token type
 * to each. */
static es_status read_positions(float *out, const es_weights *weights,
                                const es_tensor *tensor, const es_param *param)
{
    static const char name[] = "embeddings.token_type_embeddings.weight";
    char full[ES_PARAM_NAME_MAX];
    snprintf(full, sizeof full, "%s%s", weights->prefix, name);
    const es_tensor *types = es_safetensors_find(weights->file, full);
    const size_t d = (size_t)weights->config.d_model;
    float row[1024];
    es_status status = es_safetensors_read(
        weights->file, tensor, out, (size_t)weights->n_skipped * d, param->n);
    if (status == ES_OK && (!types || types->n_dims != 2 ||
                            types->dims[0] < 1 || types->dims[1] != (int64_t)d))
        return es_fail(ES_EFORMAT, "%s: %s is missing or has the wrong width",
                       weights->path, full);
    for (size_t first = 0; status == ES_OK && first < d; first += COUNT(row)) {
        const size_t n = d - first < COUNT(row) ? d - first : COUNT(row);
        status = es_safetensors_read(weights->file, types, row, first, n);
        for (size_t i = 0; status == ES_OK && i < param->n / d; i++)
            for (size_t c = 0; c < n; c++)
                out[i * d + first + c] += row[c];
    }
    return status;
}

static es_status read_array(buffers *array, const es_weights *weights,
                            const es_tensor *tensor, const es_param *param)
{
    es_tensor_layout layout = es_weights_layout(weights, param->role);
    size_t d = (size_t)weights->config.d_model;
    es_status status;
    if (weights->format && param->role == ES_ROLE_WPE &&
        es_families[weights->config.family].is_post_norm)
        return read_positions(array->ours, weights, tensor, param);
    if (weights->format && param->role == ES_ROLE_TYPE) {
        /* read_positions has added the token type's embedding to the positions,
         * so the separate array must be 0 */
        memset(array->ours, 0, param->n * sizeof *array->ours);
        return ES_OK;
    }
    if (layout == ES_LAYOUT_SAME) {
        char old[ES_PARAM_NAME_MAX];
        status = read_corner(array->ours, weights->file, tensor, param);
        if (status == ES_OK &&
            es_temperatures_name(old, sizeof old, param->name) &&
            strcmp(tensor->name, old) == 0)
            es_temperatures_to_logs(array->ours, param->n,
                                    ES_LEAST_TEMPERATURE);
        return status;
    }
    status =
        es_safetensors_read(weights->file, tensor, array->file, 0, param->n);
    if (status < 0)
        return status;
    if (layout == ES_LAYOUT_TRANSPOSED) {
        /* the file stores the matrix as (out,in) and the model as (in,out), so
         * transpose it */
        size_t n_in = (size_t)param->dims[0];
        size_t n_out = (size_t)param->dims[1];
        for (size_t i = 0; i < n_in; i++)
            for (size_t j = 0; j < n_out; j++)
                array->ours[i * n_out + j] = array->file[j * n_in + i];
    } else {
        /* In the file, the rows are in the order (H,3,d_k). A row has `width`
         * values: the inputs of a matrix, or 1 value of a bias. In the model,
         * the columns are in the order (3,H,d_k). */
        int n_head = weights->config.n_head;
        size_t width = param->n_dims == 2 ? d : 1;
        size_t d_k = d / (size_t)n_head;
        for (size_t row = 0; row < 3 * d; row++) {
            size_t head = row / (3 * d_k), part = row / d_k % 3;
            size_t column = part * d + head * d_k + row % d_k;
            for (size_t i = 0; i < width; i++)
                array->ours[i * 3 * d + column] = array->file[row * width + i];
        }
    }
    return ES_OK;
}

/* --- loading all arrays -------------------------------------------------- */

/** Returns true for arrays whose initial values do not change the model's
 *  function, as es_weights_check has verified for this model. */
static bool may_be_new(es_role role)
{
    switch (role) {
    case ES_ROLE_LOG_T:
    case ES_ROLE_THETA:
    case ES_ROLE_ALPHA:
    case ES_ROLE_BETA:
    case ES_ROLE_SLOPE:
    case ES_ROLE_GLOBAL_SLOPE:
    case ES_ROLE_ATTN_BIAS:
    case ES_ROLE_Q_BIAS:
    case ES_ROLE_K_BIAS:
    case ES_ROLE_V_BIAS:
    case ES_ROLE_FFN_GATE_BIAS:
    case ES_ROLE_PROJ_BIAS:
    case ES_ROLE_FC_BIAS:
    case ES_ROLE_MLP_PROJ_BIAS:
        return true;
    default:
        return false;
    }
}

static es_status load_arrays(es_model *model, const es_weights *weights,
                             const es_params *params, bool is_new[ES_N_ROLES])
{
    buffers array = {0};
    size_t n = 1; /* size of the largest array */
    for (size_t i = 0; i < params->n; i++)
        n = params->table[i].n > n ? params->table[i].n : n;
    es_status status = es_alloc(&array.file, n, sizeof(float), "an array");
    if (status == ES_OK)
        status = es_alloc(&array.ours, n, sizeof(float), "an array");
    for (size_t i = 0; status == ES_OK && i < params->n; i++) {
        const es_param *param = &params->table[i];
        const es_param *here =
            es_params_find(&weights->params, param->layer, param->role);
        const es_tensor *tensor =
            here ? weights->tensors[here - weights->params.table] : NULL;
        if (!tensor && !may_be_new(param->role))
            status = es_fail(ES_EUSAGE, "%s: array %s is missing",
                             weights->path, param->name);
        else if (!tensor)
            is_new[param->role] = true;
        else if ((status = read_array(&array, weights, tensor, param)) == ES_OK)
            status = es_model_set(model, i, array.ours, param->n);
    }
    free(array.file);
    free(array.ours);
    return status;
}

/** Checks that the tensor `name`, if the file has it, equals the tensor of the
 *  array `role`: the embedding, or the bias of the logits. `reason` is appended
 *  to the error message. */
static es_status check_copy(const es_weights *weights, const char *name,
                            es_role role, const char *reason)
{
    enum { CHUNK = 4096 };
    float ours[CHUNK], other[CHUNK];
    const es_safetensors *file = weights->file;
    const es_param *param = es_params_find(&weights->params, -1, role);
    const es_tensor *tensor = weights->tensors[param - weights->params.table];
    const es_tensor *copy = es_safetensors_find(file, name);
    if (!copy)
        return ES_OK;
    bool same = copy->n == tensor->n;
    for (size_t at = 0; same && at < tensor->n; at += CHUNK) {
        size_t n = tensor->n - at < CHUNK ? tensor->n - at : CHUNK;
        es_status status;
        if ((status = es_safetensors_read(file, tensor, ours, at, n)) < 0 ||
            (status = es_safetensors_read(file, copy, other, at, n)) < 0)
            return status;
        same = memcmp(ours, other, n * sizeof *ours) == 0;
    }
    if (same)
        return ES_OK;
    return es_fail(ES_EFORMAT, "%s: %s is not the %s %s: %s", weights->path,
                   name, role == ES_ROLE_WTE ? "embedding" : "bias",
                   tensor->name, reason);
}

/** Checks that an output matrix and a bias in the file equal the model's arrays
 *  if the output matrix is the embedding. */
static es_status check_tied(const es_weights *weights)
{
    const es_family family = weights->config.family;
    const struct {
        bool is_tied;
        const char *name;
        es_role role;
        const char *reason;
    } copies[] = {
        {family == ES_FAMILY_GPT2, "lm_head.weight", ES_ROLE_WTE,
         "family gpt2 cannot have a separate output matrix"},
        {weights->config.tied, "lm_head.weight", ES_ROLE_WTE,
         "config.json says that they are tied"},
        {family == ES_FAMILY_ROBERTA, "lm_head.decoder.weight", ES_ROLE_WTE,
         "family roberta cannot have a separate output matrix"},
        {family == ES_FAMILY_ROBERTA, "lm_head.decoder.bias",
         ES_ROLE_LOGIT_BIAS, "family roberta cannot have a second bias"}};
    es_status status = ES_OK;
    for (size_t i = 0; i < COUNT(copies) && status == ES_OK; i++)
        if (weights->format && copies[i].is_tied)
            status = check_copy(weights, copies[i].name, copies[i].role,
                                copies[i].reason);
    return status;
}

es_status es_weights_load(es_model *model, const es_weights *weights,
                          char *note, size_t size)
{
    const es_model_config *config = es_model_config_of(model);
    es_params params = {0};
    bool is_new[ES_N_ROLES] = {false};
    es_status status;
    if ((status = es_weights_check(weights, config)) < 0 ||
        (status = check_tied(weights)) < 0 ||
        (status = es_params_list(&params, config)) < 0 ||
        (status = load_arrays(model, weights, &params, is_new)) < 0)
        goto done;
    /* Write one line that names each kind of array once, with its name in the
     * first layer. */
    bool has_theta = weights->config.arch.entropy_reg;
    es_text text = es_text_begin(note, size);
    describe_change(&text, weights, config);
    const char *separator = text.length > 0 ? "; " : "";
    bool is_first = true;
    for (size_t i = 0; i < params.n; i++) {
        const es_param *param = &params.table[i];
        if (is_new[param->role]) {
            es_text_append(&text, "%s%s%s", is_first ? separator : ", ",
                           is_first ? "arrays missing from the weights start "
                                      "at their initial values: "
                                    : "",
                           param->name);
            is_first = false;
        }
        is_new[param->role] = false;
        has_theta = has_theta && param->role != ES_ROLE_THETA;
    }
    if (has_theta)
        es_text_append(&text, "%sthe thresholds in the weights are ignored",
                       note[0] ? "; " : "");
done:
    es_params_free(&params);
    return status;
}
