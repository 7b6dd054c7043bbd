/* Lists every parameter of a configuration with its name, shape, position in
 * memory and initial values. */
#include "hooks/trainer/model/params.h"

#include "analyzer/base/checked.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Alignment of arrays in floats: 64 bytes, the size of a cache line and of the
 * widest vector. */
#define ALIGNMENT 16

/* --- presence of arrays -------------------------------------------------- */

/* Properties of the model or of one layer that decide which arrays exist. */
enum {
    GPT2 = 1 << 0,
    PYTHIA = 1 << 1,
    NORM = 1 << 2,
    FINAL_NORM = 1 << 3,
    QK_BIAS = 1 << 4,
    BIAS = 1 << 5, /* all biases */
    TEMPERATURE = 1 << 6,
    THETA = 1 << 7,
    FFN = 1 << 8,
    TWO = 1 << 9, /* the FFN has two matrices */
    FUSED = 1 << 10,
    SCALES = 1 << 11,
    SLOPE = 1 << 12,
    GLOBAL_SLOPE = 1 << 13,
    WNORM_QK = 1 << 14,
    WNORM_O = 1 << 15,
    WNORM_FFN = 1 << 16,
    SNORM_QK = 1 << 17,
    SNORM_O = 1 << 18,
    SNORM_FFN = 1 << 19,
    GATE = 1 << 20,
    V_BIAS = 1 << 21,
    QK_NORM = 1 << 22,
    SWIGLU = 1 << 23,
    UNTIED = 1 << 24,
    MEAN = 1 << 25, /* norms subtract the mean */
    DIRECT = 1 << 26
};

static unsigned facts_of(const es_model_config *config, int layer)
{
    /* Layer -1 stands for the arrays outside the layers. */
    const es_arch *arch = &config->arch;
    const es_layer_parts parts = es_arch_parts(arch, layer);
    const bool has_ffn =
        layer < 0 || es_arch_has_ffn(arch, layer, config->n_layer);
    const bool leaky = parts.activation == ES_ACT_LEAKY;
    const bool is_sas = config->family == ES_FAMILY_SAS;
    /* The first layer normalises its input even if the architecture has no
     * norms. */
    const bool is_first = is_sas && layer == 0;
    const struct {
        bool is_so;
        unsigned fact;
    } all[] = {
        {config->family == ES_FAMILY_GPT2, GPT2},
        {config->family == ES_FAMILY_PYTHIA, PYTHIA},
        {parts.norm || is_first, NORM},
        {es_model_config_final_norm(config), FINAL_NORM},
        {config->bias != ES_BIAS_NONE, QK_BIAS},
        {config->bias == ES_BIAS_ALL, BIAS},
        {config->bias == ES_BIAS_ALL || config->bias == ES_BIAS_QKV, V_BIAS},
        {config->qk_norm, QK_NORM},
        {has_ffn && parts.activation == ES_ACT_SWIGLU, SWIGLU},
        {!config->tied, UNTIED},
        {!arch->rms_norm, MEAN},
        {arch->temperature && !arch->direct, TEMPERATURE},
        {arch->direct, DIRECT},
        {arch->entropy_reg, THETA},
        {arch->gate, GATE},
        {has_ffn, FFN},
        {has_ffn && parts.ffn != ES_FFN_FUSED, TWO},
        {has_ffn && parts.ffn == ES_FFN_FUSED, FUSED},
        {has_ffn && (is_sas || parts.ffn != ES_FFN_TWO), SCALES},
        {has_ffn && leaky && parts.slope_kind == ES_SLOPE_LAYER, SLOPE},
        {arch->slope_kind == ES_SLOPE_GLOBAL, GLOBAL_SLOPE},
        {parts.weight_norm & ES_NORM_QK, WNORM_QK},
        {parts.weight_norm & ES_NORM_O, WNORM_O},
        {parts.weight_norm & ES_NORM_FFN, WNORM_FFN},
        {parts.spectral_norm & ES_NORM_QK, SNORM_QK},
        {parts.spectral_norm & ES_NORM_O, SNORM_O},
        {parts.spectral_norm & ES_NORM_FFN, SNORM_FFN},
    };
    unsigned facts = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        facts |= all[i].is_so ? all[i].fact : 0;
    return facts;
}

/* --- the table ------------------------------------------------------------ */

/* The shape of an array has one character per dimension. V, T, H and d are the
 * sizes in README.md; m is the width of the FFN; 3 stands for 3d, and 1 for 1;
 * k is 3 (for q, k and v); q and K are the total widths of all queries and of
 * all keys; w is the width of a head; P is T plus the number of positions
 * before the first token. For images, c is the number of classes, C the number
 * of channels, and p the side of a patch. */
typedef struct row {
    const char *name; /* name of the array; in a layer, the part after "h.L.";
                         NULL if the array does not exist */
    const char *shape;
    unsigned when; /* bits of the properties above; the array exists only in
                      layers that have all these properties */
    es_init init;
} row;

/* Arrays of families gpt2 and pythia, whose matrices are (in,out). */
static const row usual[ES_N_ROLES] = {
    [ES_ROLE_WTE] = {"wte", "Vd", 0, ES_INIT_NORMAL},
    [ES_ROLE_WPE] = {"wpe", "Td", GPT2, ES_INIT_NORMAL},
    [ES_ROLE_LN_1_WEIGHT] = {"ln_1.weight", "d", NORM, ES_INIT_ONE},
    [ES_ROLE_LN_1_BIAS] = {"ln_1.bias", "d", NORM, ES_INIT_ZERO},
    [ES_ROLE_LN_2_WEIGHT] = {"ln_2.weight", "d", NORM | FFN, ES_INIT_ONE},
    [ES_ROLE_LN_2_BIAS] = {"ln_2.bias", "d", NORM | FFN, ES_INIT_ZERO},
    [ES_ROLE_ATTN_WEIGHT] = {"attn.c_attn.weight", "d3", 0, ES_INIT_NORMAL},
    [ES_ROLE_ATTN_BIAS] = {"attn.c_attn.bias", "3", QK_BIAS, ES_INIT_ZERO},
    [ES_ROLE_PROJ_WEIGHT] = {"attn.c_proj.weight", "dd", 0, ES_INIT_NORMAL},
    [ES_ROLE_PROJ_BIAS] = {"attn.c_proj.bias", "d", BIAS, ES_INIT_ZERO},
    [ES_ROLE_GATE_WEIGHT] = {"attn.c_gate.weight", "dd", GATE, ES_INIT_NORMAL},
    [ES_ROLE_LOG_T] = {"attn.log_t", "HT", TEMPERATURE, ES_INIT_LOG_T},
    [ES_ROLE_T] = {"attn.t", "HT", DIRECT, ES_INIT_T},
    [ES_ROLE_THETA] = {"attn.theta", "H", THETA, ES_INIT_THETA},
    [ES_ROLE_FC_WEIGHT] = {"mlp.c_fc.weight", "dm", TWO, ES_INIT_NORMAL},
    [ES_ROLE_FC_BIAS] = {"mlp.c_fc.bias", "m", TWO | BIAS, ES_INIT_ZERO},
    [ES_ROLE_MLP_PROJ_WEIGHT] = {"mlp.c_proj.weight", "md", TWO,
                                 ES_INIT_NORMAL},
    [ES_ROLE_MLP_PROJ_BIAS] = {"mlp.c_proj.bias", "d", TWO | BIAS,
                               ES_INIT_ZERO},
    [ES_ROLE_FUSED_WEIGHT] = {"mlp.w.weight", "dd", FUSED, ES_INIT_NORMAL},
    [ES_ROLE_ALPHA] = {"mlp.alpha", "1", SCALES, ES_INIT_ONE},
    [ES_ROLE_BETA] = {"mlp.beta", "1", SCALES, ES_INIT_ONE},
    [ES_ROLE_SLOPE] = {"mlp.slope", "1", SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_ATTN_G] = {"attn.c_attn.g", "3", WNORM_QK, ES_INIT_NORMS},
    [ES_ROLE_PROJ_G] = {"attn.c_proj.g", "d", WNORM_O, ES_INIT_NORMS},
    [ES_ROLE_FC_G] = {"mlp.c_fc.g", "m", TWO | WNORM_FFN, ES_INIT_NORMS},
    [ES_ROLE_MLP_PROJ_G] = {"mlp.c_proj.g", "d", TWO | WNORM_FFN,
                            ES_INIT_NORMS},
    [ES_ROLE_FUSED_G] = {"mlp.w.g", "d", FUSED | WNORM_FFN, ES_INIT_NORMS},
    [ES_ROLE_ATTN_U] = {"attn.c_attn.u", "kd", SNORM_QK, ES_INIT_POWER},
    [ES_ROLE_ATTN_V] = {"attn.c_attn.v", "kd", SNORM_QK, ES_INIT_POWER},
    [ES_ROLE_PROJ_U] = {"attn.c_proj.u", "d", SNORM_O, ES_INIT_POWER},
    [ES_ROLE_PROJ_V] = {"attn.c_proj.v", "d", SNORM_O, ES_INIT_POWER},
    [ES_ROLE_FC_U] = {"mlp.c_fc.u", "m", TWO | SNORM_FFN, ES_INIT_POWER},
    [ES_ROLE_FC_V] = {"mlp.c_fc.v", "d", TWO | SNORM_FFN, ES_INIT_POWER},
    [ES_ROLE_MLP_PROJ_U] = {"mlp.c_proj.u", "d", TWO | SNORM_FFN,
                            ES_INIT_POWER},
    [ES_ROLE_MLP_PROJ_V] = {"mlp.c_proj.v", "m", TWO | SNORM_FFN,
                            ES_INIT_POWER},
    [ES_ROLE_FUSED_U] = {"mlp.w.u", "d", FUSED | SNORM_FFN, ES_INIT_POWER},
    [ES_ROLE_FUSED_V] = {"mlp.w.v", "d", FUSED | SNORM_FFN, ES_INIT_POWER},
    [ES_ROLE_GLOBAL_SLOPE] = {"slope", "1", GLOBAL_SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_EMBED_OUT] = {"embed_out", "Vd", PYTHIA, ES_INIT_NORMAL},
    [ES_ROLE_LN_F_WEIGHT] = {"ln_f.weight", "d", FINAL_NORM, ES_INIT_ONE},
    [ES_ROLE_LN_F_BIAS] = {"ln_f.bias", "d", FINAL_NORM, ES_INIT_ZERO},
};

/* Arrays of family llama, with the names and the layout (out,in) of
 * transformers' LlamaForCausalLM; q_norm and k_norm exist only with
 * --qk-norm. */
static const row llama[ES_N_ROLES] = {
    [ES_ROLE_WTE] = {"model.embed_tokens.weight", "Vd", 0, ES_INIT_NORMAL},
    [ES_ROLE_LN_1_WEIGHT] = {"input_layernorm.weight", "d", NORM, ES_INIT_ONE},
    [ES_ROLE_LN_2_WEIGHT] = {"post_attention_layernorm.weight", "d", NORM | FFN,
                             ES_INIT_ONE},
    [ES_ROLE_Q_WEIGHT] = {"self_attn.q_proj.weight", "qd", 0, ES_INIT_NORMAL},
    [ES_ROLE_Q_BIAS] = {"self_attn.q_proj.bias", "q", QK_BIAS, ES_INIT_ZERO},
    [ES_ROLE_K_WEIGHT] = {"self_attn.k_proj.weight", "Kd", 0, ES_INIT_NORMAL},
    [ES_ROLE_K_BIAS] = {"self_attn.k_proj.bias", "K", QK_BIAS, ES_INIT_ZERO},
    [ES_ROLE_V_WEIGHT] = {"self_attn.v_proj.weight", "Kd", 0, ES_INIT_NORMAL},
    [ES_ROLE_V_BIAS] = {"self_attn.v_proj.bias", "K", V_BIAS, ES_INIT_ZERO},
    [ES_ROLE_Q_NORM] = {"self_attn.q_norm.weight", "w", QK_NORM, ES_INIT_ONE},
    [ES_ROLE_K_NORM] = {"self_attn.k_norm.weight", "w", QK_NORM, ES_INIT_ONE},
    [ES_ROLE_PROJ_WEIGHT] = {"self_attn.o_proj.weight", "dq", 0,
                             ES_INIT_NORMAL},
    [ES_ROLE_PROJ_BIAS] = {"self_attn.o_proj.bias", "d", BIAS, ES_INIT_ZERO},
    [ES_ROLE_LOG_T] = {"self_attn.log_t", "HT", TEMPERATURE, ES_INIT_LOG_T},
    [ES_ROLE_T] = {"self_attn.t", "HT", DIRECT, ES_INIT_T},
    [ES_ROLE_THETA] = {"self_attn.theta", "H", THETA, ES_INIT_THETA},
    [ES_ROLE_FFN_GATE_WEIGHT] = {"mlp.gate_proj.weight", "md", SWIGLU,
                                 ES_INIT_NORMAL},
    [ES_ROLE_FFN_GATE_BIAS] = {"mlp.gate_proj.bias", "m", SWIGLU | BIAS,
                               ES_INIT_ZERO},
    [ES_ROLE_FC_WEIGHT] = {"mlp.up_proj.weight", "md", TWO, ES_INIT_NORMAL},
    [ES_ROLE_FC_BIAS] = {"mlp.up_proj.bias", "m", TWO | BIAS, ES_INIT_ZERO},
    [ES_ROLE_MLP_PROJ_WEIGHT] = {"mlp.down_proj.weight", "dm", TWO,
                                 ES_INIT_NORMAL},
    [ES_ROLE_MLP_PROJ_BIAS] = {"mlp.down_proj.bias", "d", TWO | BIAS,
                               ES_INIT_ZERO},
    [ES_ROLE_SLOPE] = {"mlp.slope", "1", SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_GLOBAL_SLOPE] = {"slope", "1", GLOBAL_SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_EMBED_OUT] = {"lm_head.weight", "Vd", UNTIED, ES_INIT_NORMAL},
    [ES_ROLE_LN_F_WEIGHT] = {"model.norm.weight", "d", FINAL_NORM, ES_INIT_ONE},
};

/* Arrays in the layers of families bert and roberta. */
#define ENCODER_LAYER                                                          \
    [ES_ROLE_Q_WEIGHT] = {"attention.self.query.weight", "qd", 0,              \
                          ES_INIT_NORMAL},                                     \
    [ES_ROLE_Q_BIAS] = {"attention.self.query.bias", "q", 0, ES_INIT_ZERO},    \
    [ES_ROLE_K_WEIGHT] = {"attention.self.key.weight", "Kd", 0,                \
                          ES_INIT_NORMAL},                                     \
    [ES_ROLE_K_BIAS] = {"attention.self.key.bias", "K", 0, ES_INIT_ZERO},      \
    [ES_ROLE_V_WEIGHT] = {"attention.self.value.weight", "Kd", 0,              \
                          ES_INIT_NORMAL},                                     \
    [ES_ROLE_V_BIAS] = {"attention.self.value.bias", "K", 0, ES_INIT_ZERO},    \
    [ES_ROLE_LOG_T] = {"attention.self.log_t", "HT", TEMPERATURE,              \
                       ES_INIT_LOG_T},                                         \
    [ES_ROLE_T] = {"attention.self.t", "HT", DIRECT, ES_INIT_T},               \
    [ES_ROLE_THETA] = {"attention.self.theta", "H", THETA, ES_INIT_THETA},     \
    [ES_ROLE_PROJ_WEIGHT] = {"attention.output.dense.weight", "dq", 0,         \
                             ES_INIT_NORMAL},                                  \
    [ES_ROLE_PROJ_BIAS] = {"attention.output.dense.bias", "d", 0,              \
                           ES_INIT_ZERO},                                      \
    [ES_ROLE_LN_1_WEIGHT] = {"attention.output.LayerNorm.weight", "d", 0,      \
                             ES_INIT_ONE},                                     \
    [ES_ROLE_LN_1_BIAS] = {"attention.output.LayerNorm.bias", "d", 0,          \
                           ES_INIT_ZERO},                                      \
    [ES_ROLE_FC_WEIGHT] = {"intermediate.dense.weight", "md", 0,               \
                           ES_INIT_NORMAL},                                    \
    [ES_ROLE_FC_BIAS] = {"intermediate.dense.bias", "m", 0, ES_INIT_ZERO},     \
    [ES_ROLE_SLOPE] = {"intermediate.slope", "1", SLOPE, ES_INIT_SLOPE},       \
    [ES_ROLE_MLP_PROJ_WEIGHT] = {"output.dense.weight", "dm", 0,               \
                                 ES_INIT_NORMAL},                              \
    [ES_ROLE_MLP_PROJ_BIAS] = {"output.dense.bias", "d", 0, ES_INIT_ZERO},     \
    [ES_ROLE_LN_2_WEIGHT] = {"output.LayerNorm.weight", "d", 0, ES_INIT_ONE},  \
    [ES_ROLE_LN_2_BIAS] = {"output.LayerNorm.bias", "d", 0, ES_INIT_ZERO}

/* Arrays of family bert, named as in Hugging Face's transformers. The embedding
 * of the token type is contained in the position embeddings. */
static const row bert[ES_N_ROLES] = {
    [ES_ROLE_WTE] = {"embeddings.word_embeddings.weight", "Vd", 0,
                     ES_INIT_NORMAL},
    [ES_ROLE_WPE] = {"embeddings.position_embeddings.weight", "Td", 0,
                     ES_INIT_NORMAL},
    [ES_ROLE_LN_E_WEIGHT] = {"embeddings.LayerNorm.weight", "d", 0,
                             ES_INIT_ONE},
    [ES_ROLE_LN_E_BIAS] = {"embeddings.LayerNorm.bias", "d", 0, ES_INIT_ZERO},
    ENCODER_LAYER,
};

#define EMBEDDING(what) "roberta.embeddings." what

/* Arrays of family roberta, with the names of transformers'
 * RobertaForMaskedLM. */
static const row roberta[ES_N_ROLES] = {
    [ES_ROLE_WTE] = {EMBEDDING("word_embeddings.weight"), "Vd", 0,
                     ES_INIT_NORMAL},
    [ES_ROLE_WPE] = {EMBEDDING("position_embeddings.weight"), "Pd", 0,
                     ES_INIT_NORMAL},
    [ES_ROLE_TYPE] = {EMBEDDING("token_type_embeddings.weight"), "1d", 0,
                      ES_INIT_STAYS_ZERO},
    [ES_ROLE_LN_E_WEIGHT] = {EMBEDDING("LayerNorm.weight"), "d", 0,
                             ES_INIT_ONE},
    [ES_ROLE_LN_E_BIAS] = {EMBEDDING("LayerNorm.bias"), "d", 0, ES_INIT_ZERO},
    ENCODER_LAYER,
    [ES_ROLE_GLOBAL_SLOPE] = {"slope", "1", GLOBAL_SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_HEAD_WEIGHT] = {"lm_head.dense.weight", "dd", 0, ES_INIT_NORMAL},
    [ES_ROLE_HEAD_BIAS] = {"lm_head.dense.bias", "d", 0, ES_INIT_ZERO},
    [ES_ROLE_LOGIT_BIAS] = {"lm_head.bias", "V", 0, ES_INIT_ZERO},
    [ES_ROLE_LN_F_WEIGHT] = {"lm_head.layer_norm.weight", "d", 0, ES_INIT_ONE},
    [ES_ROLE_LN_F_BIAS] = {"lm_head.layer_norm.bias", "d", 0, ES_INIT_ZERO},
};

/* Arrays of family sas (He and Hofmann's simplified transformer blocks).
 * Matrices have the shape (out,in). alpha is the reciprocal of the FFN's gain,
 * and beta is the gain of the attention. */
static const row sas[ES_N_ROLES] = {
    [ES_ROLE_WTE] = {"wte", "Vd", 0, ES_INIT_NORMAL},
    [ES_ROLE_WPE] = {"wpe", "Td", 0, ES_INIT_NORMAL},
    [ES_ROLE_LN_1_WEIGHT] = {"norm.weight", "d", NORM, ES_INIT_ONE},
    [ES_ROLE_LN_1_BIAS] = {"norm.bias", "d", NORM | MEAN, ES_INIT_ZERO},
    [ES_ROLE_Q_WEIGHT] = {"attn.q.weight", "dd", 0, ES_INIT_ZERO_MATRIX},
    [ES_ROLE_Q_BIAS] = {"attn.q.bias", "d", QK_BIAS, ES_INIT_ZERO},
    [ES_ROLE_K_WEIGHT] = {"attn.k.weight", "dd", 0, ES_INIT_NORMAL},
    [ES_ROLE_K_BIAS] = {"attn.k.bias", "d", QK_BIAS, ES_INIT_ZERO},
    [ES_ROLE_SHAPE] = {"attn.gains", "kH", 0, ES_INIT_ONE},
    [ES_ROLE_LOG_T] = {"attn.log_t", "HT", TEMPERATURE, ES_INIT_LOG_T},
    [ES_ROLE_T] = {"attn.t", "HT", DIRECT, ES_INIT_T},
    [ES_ROLE_THETA] = {"attn.theta", "H", THETA, ES_INIT_THETA},
    [ES_ROLE_FC_WEIGHT] = {"mlp.up.weight", "md", TWO, ES_INIT_NORMAL},
    [ES_ROLE_MLP_PROJ_WEIGHT] = {"mlp.down.weight", "dm", TWO, ES_INIT_NORMAL},
    [ES_ROLE_FUSED_WEIGHT] = {"mlp.w.weight", "dd", FUSED, ES_INIT_NORMAL},
    [ES_ROLE_ALPHA] = {"mlp.alpha", "1", SCALES, ES_INIT_TEN},
    [ES_ROLE_BETA] = {"mlp.beta", "1", SCALES, ES_INIT_ONE},
    [ES_ROLE_SLOPE] = {"mlp.slope", "1", SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_GLOBAL_SLOPE] = {"slope", "1", GLOBAL_SLOPE, ES_INIT_SLOPE},
    [ES_ROLE_LN_F_WEIGHT] = {"ln_f.weight", "d", FINAL_NORM, ES_INIT_ONE},
    [ES_ROLE_LN_F_BIAS] = {"ln_f.bias", "d", FINAL_NORM | MEAN, ES_INIT_ZERO},
};

#define LAYER_NORM(role, name_of_it)                                           \
    [role##_WEIGHT] = {name_of_it ".weight", "d", 0, ES_INIT_ONE},             \
    [role##_BIAS] = {name_of_it ".bias", "d", 0, ES_INIT_ZERO}
#define DENSE(role, name_of_it, shape_of_it, n)                                \
    [role##_WEIGHT] = {name_of_it ".weight", shape_of_it, 0, ES_INIT_NORMAL},  \
    [role##_BIAS] = {name_of_it ".bias", n, 0, ES_INIT_ZERO}
#define IMAGE(what) "vit.embeddings." what

/* Arrays of family vit, with the names of transformers'
 * ViTForImageClassification in the checkpoints of google/vit. */
static const row vit[ES_N_ROLES] = {
    [ES_ROLE_CLASS] = {IMAGE("cls_token"), "11d", 0, ES_INIT_NORMAL},
    [ES_ROLE_WPE] = {IMAGE("position_embeddings"), "1Td", 0, ES_INIT_NORMAL},
    DENSE(ES_ROLE_PATCH, IMAGE("patch_embeddings.projection"), "dCpp", "d"),
    LAYER_NORM(ES_ROLE_LN_1, "layernorm_before"),
    DENSE(ES_ROLE_Q, "attention.attention.query", "qd", "q"),
    DENSE(ES_ROLE_K, "attention.attention.key", "Kd", "K"),
    DENSE(ES_ROLE_V, "attention.attention.value", "Kd", "K"),
    [ES_ROLE_LOG_T] = {"attention.attention.log_t", "HT", TEMPERATURE,
                       ES_INIT_LOG_T},
    [ES_ROLE_T] = {"attention.attention.t", "HT", DIRECT, ES_INIT_T},
    [ES_ROLE_THETA] = {"attention.attention.theta", "H", THETA, ES_INIT_THETA},
    DENSE(ES_ROLE_PROJ, "attention.output.dense", "dq", "d"),
    LAYER_NORM(ES_ROLE_LN_2, "layernorm_after"),
    DENSE(ES_ROLE_FC, "intermediate.dense", "md", "m"),
    [ES_ROLE_SLOPE] = {"intermediate.slope", "1", SLOPE, ES_INIT_SLOPE},
    DENSE(ES_ROLE_MLP_PROJ, "output.dense", "dm", "d"),
    [ES_ROLE_GLOBAL_SLOPE] = {"slope", "1", GLOBAL_SLOPE, ES_INIT_SLOPE},
    LAYER_NORM(ES_ROLE_LN_F, "vit.layernorm"),
    [ES_ROLE_EMBED_OUT] = {"classifier.weight", "cd", 0, ES_INIT_NORMAL},
    [ES_ROLE_LOGIT_BIAS] = {"classifier.bias", "c", 0, ES_INIT_ZERO},
};

static const row *rows_of(const es_model_config *config)
{
    static const row *const all[ES_N_FAMILIES] = {
        [ES_FAMILY_GPT2] = usual,  [ES_FAMILY_PYTHIA] = usual,
        [ES_FAMILY_LLAMA] = llama, [ES_FAMILY_BERT] = bert,
        [ES_FAMILY_SAS] = sas,     [ES_FAMILY_ROBERTA] = roberta,
        [ES_FAMILY_VIT] = vit};
    return all[config->family];
}

bool es_model_config_final_norm(const es_model_config *config)
{
    if (config->family == ES_FAMILY_BERT)
        return false;
    if (es_families[config->family].has_head ||
        es_families[config->family].has_images)
        return true;
    if (config->final_norm == ES_FINAL_AUTO)
        return es_model_config_has_norm(config) ||
               config->family == ES_FAMILY_SAS;
    return config->final_norm == ES_FINAL_ON;
}

static int extent_of(char letter, const es_model_config *config)
{
    switch (letter) {
    case 'V':
        return config->vocab;
    case 'T':
        return config->ctx;
    case 'c':
        return config->image.classes;
    case 'C':
        return config->image.channels;
    case 'p':
        return config->image.patch;
    case 'P':
        return config->ctx + es_model_config_n_skipped(config);
    case 'H':
        return config->n_head;
    case 'd':
        return config->d_model;
    case 'm':
        return es_model_config_ffn_width(config);
    case '3':
        return 3 * config->d_model;
    case 'k':
        return 3;
    case 'q':
        return es_model_config_query_width(config);
    case 'K':
        return es_model_config_key_width(config);
    case 'w':
        return es_model_config_head_width(config);
    default:
        return 1;
    }
}

/* Returns the number of leading elements of an array that are trained. If only
 * q and k are trained, these are the elements before v. */
static size_t count_trainable(const es_param *param,
                              const es_model_config *config)
{
    size_t q_and_k = 2 * (size_t)config->d_model;
    if (param->group == ES_GROUP_STATE)
        return 0;
    if (param->role == ES_ROLE_ATTN_BIAS && config->bias == ES_BIAS_QK)
        return q_and_k;
    if (param->role == ES_ROLE_ATTN_G &&
        !(es_arch_parts(&config->arch, param->layer).weight_norm & ES_NORM_V))
        return q_and_k;
    return param->n;
}

static es_param_group group_of(es_init init)
{
    switch (init) {
    case ES_INIT_NORMAL:
    case ES_INIT_ZERO_MATRIX:
        return ES_GROUP_DECAY;
    case ES_INIT_SLOPE:
        return ES_GROUP_SLOPE;
    case ES_INIT_POWER:
    case ES_INIT_STAYS_ZERO:
        return ES_GROUP_STATE;
    default:
        return ES_GROUP_PLAIN;
    }
}

static void add_param(es_params *params, const es_model_config *config,
                      es_role role, int layer)
{
    const row *from = &rows_of(config)[role];
    es_param *param = &params->table[params->n];
    *param = (es_param){.role = role,
                        .layer = layer,
                        .n_dims = (int)strlen(from->shape),
                        .dims = {1, 1, 1, 1},
                        .n = 1,
                        .group = group_of(from->init),
                        .init = from->init};
    if (layer < 0)
        snprintf(param->name, sizeof param->name, "%s", from->name);
    else
        snprintf(param->name, sizeof param->name, "%s%d.%s",
                 es_families[config->family].layer, layer, from->name);
    for (int i = 0; i < param->n_dims; i++) {
        param->dims[i] = extent_of(from->shape[i], config);
        param->n *= (size_t)param->dims[i];
    }
    param->n_trainable = count_trainable(param, config);
    params->at[layer < 0 ? config->n_layer : layer][role] = (int)params->n++;
}

static void add_range(es_params *params, const es_model_config *config,
                      es_role first, es_role last, int layer)
{
    const row *rows = rows_of(config);
    const unsigned facts = facts_of(config, layer);
    for (int role = (int)first; role <= (int)last; role++)
        if (rows[role].name && (rows[role].when & facts) == rows[role].when)
            add_param(params, config, (es_role)role, layer);
}

/* Assigns every array an offset; returns false if the total size overflows. */
static bool place_params(es_params *params)
{
    size_t end = 0;
    for (int group = 0; group < ES_N_GROUPS; group++) {
        params->group[group] = end;
        for (size_t i = 0; i < params->n; i++) {
            es_param *param = &params->table[i];
            if ((int)param->group != group)
                continue;
            param->offset = end;
            /* The sum cannot overflow, because es_model_config_check limits the
             * size of one array. */
            size_t padded = (param->n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            if (!es_size_add(&end, end, padded))
                return false;
        }
    }
    params->group[ES_N_GROUPS] = end;
    return true;
}

es_status es_params_list(es_params *out, const es_model_config *config)
{
    size_t n_rows = (size_t)config->n_layer + 1;
    *out = (es_params){.n_layer = config->n_layer};
    out->table = es_resize(NULL, n_rows * ES_N_ROLES, sizeof *out->table);
    out->at = es_resize(NULL, n_rows, sizeof *out->at);
    if (!out->table || !out->at)
        return es_fail(ES_ENOMEM, "out of memory for the parameter table");
    memset(out->at, 0xff, n_rows * sizeof *out->at);
    add_range(out, config, ES_ROLE_WTE, ES_ROLE_LN_E_BIAS, -1);
    for (int layer = 0; layer < config->n_layer; layer++)
        add_range(out, config, ES_ROLE_LN_1_WEIGHT, ES_ROLE_FUSED_V, layer);
    add_range(out, config, ES_ROLE_GLOBAL_SLOPE, ES_ROLE_LN_F_BIAS, -1);
    if (!place_params(out))
        return es_fail(ES_ENOMEM, "the size of the model overflows: give a "
                                  "smaller --d-model, --vocab or --n-layer");
    return ES_OK;
}

void es_params_free(es_params *params)
{
    free(params->table);
    free(params->at);
    *params = (es_params){0};
}

const es_param *es_params_find(const es_params *params, int layer, es_role role)
{
    int index = params->at[layer < 0 ? params->n_layer : layer][role];
    return index < 0 ? NULL : &params->table[index];
}

/* --- initial values ------------------------------------------------------ */

static void fill_floats(float *out, size_t n, double value)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)value;
}

/* Divides each row of length `width` by its norm. */
static void normalise_rows(float *out, size_t n, size_t width)
{
    for (size_t first = 0; first < n; first += width) {
        double sum = 0;
        for (size_t i = 0; i < width; i++)
            sum += (double)out[first + i] * (double)out[first + i];
        for (size_t i = 0; i < width; i++)
            out[first + i] = (float)((double)out[first + i] / sqrt(sum));
    }
}

void es_param_draw(float *out, const es_param *param,
                   const es_model_config *config, int n_threads)
{
    /* The number of the random stream is a hash of the array's name (FNV-1a, 64
     * bits). */
    const char *name = param->name;
    uint64_t stream = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        stream = (stream ^ (unsigned char)*name) * UINT64_C(0x100000001b3);

    switch (param->init) {
    case ES_INIT_ZERO:
    case ES_INIT_ZERO_MATRIX:
    case ES_INIT_STAYS_ZERO:
        fill_floats(out, param->n, 0);
        break;
    case ES_INIT_TEN:
        fill_floats(out, param->n, 10);
        break;
    case ES_INIT_ONE:
    case ES_INIT_NORMS:
        fill_floats(out, param->n, 1);
        break;
    case ES_INIT_NORMAL:
        es_random_normal(out, param->n, 0.02, config->seed, stream, n_threads);
        break;
    case ES_INIT_LOG_T:
        fill_floats(out, param->n, log(config->t_init));
        break;
    case ES_INIT_T:
        fill_floats(out, param->n, config->t_init);
        break;
    case ES_INIT_THETA:
        fill_floats(out, param->n, config->theta_init);
        break;
    case ES_INIT_SLOPE:
        fill_floats(out, param->n,
                    param->layer < 0
                        ? config->arch.slope
                        : es_arch_parts(&config->arch, param->layer).slope);
        break;
    case ES_INIT_POWER:
        es_random_normal(out, param->n, 1, config->seed, stream, n_threads);
        normalise_rows(out, param->n, (size_t)param->dims[param->n_dims - 1]);
        break;
    }
}
