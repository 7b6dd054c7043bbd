/* Sets the default configuration of a model and its training, and checks which
 * settings can be combined. */
#include "hooks/trainer/model/config.h"

#include "analyzer/base/text.h"

#include <math.h>

/* Upper limits of the settings, far above any model that this program can
 * train. Even if all settings are at their limits, products of sizes fit into
 * 64 bits. */
#define MAX_LAYERS 1024
#define MAX_WIDTH (1 << 16)
#define MAX_CTX (1 << 20)
#define MAX_CHANNELS 64
#define MAX_VOCAB (1 << 24)
#define MAX_BATCH (1 << 16)
#define MAX_MLP_MULT 64
#define MAX_FFN_WIDTH (MAX_WIDTH * MAX_MLP_MULT)
#define MAX_ROWS (1 << 26) /* maximum of batch * ctx and of batch * n_head */

void es_model_config_default(es_model_config *out)
{
    *out = (es_model_config){
        .arch = {.layer_norm = true, .activation = ES_ACT_GELU},
        .family = ES_FAMILY_GPT2,
        .n_layer = 6,
        .n_head = 8,
        .d_model = 256,
        .ctx = 128,
        .vocab = 256,
        .batch = 8,
        .mlp_mult = 4,
        .bias = ES_BIAS_QK,
        .final_norm = ES_FINAL_AUTO,
        .gamma = 0.2,
        .lambda = 1e-5,
        .ereg_reduce = ES_EREG_TOKEN,
        .t_init = 1.0,
        .theta_init = 0.5,
        .ln_eps = 1e-5,
        .image = {.channels = 1},
        .padding = -1,
        .mask = -1,
        .seed = 1,
    };
}

void es_train_config_default(es_train_config *out)
{
    *out = (es_train_config){
        .steps = 1000,
        .accumulate = 1,
        .lr = 1e-3,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .clip = 1.0,
        .warm_up = 0.05,
    };
}

/* An integer setting and its largest allowed value. */
typedef struct size_rule {
    const char *option;
    int value, high;
} size_rule;

static es_status check_sizes(const size_rule *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].high)
            return es_fail(ES_EUSAGE, "%s %d: must be from 1 to %d",
                           sizes[i].option, sizes[i].value, sizes[i].high);
    return ES_OK;
}

/* A real setting and the result of its check. `right` may be true for a NaN,
 * because check_numbers refuses NaN separately. */
typedef struct number_rule {
    const char *option;
    double value;
    bool right;
    const char *rule;
} number_rule;

static es_status check_numbers(const number_rule *rules, size_t n)
{
    char value[ES_FLOAT_TEXT_MAX];
    for (size_t i = 0; i < n; i++)
        if (!isfinite(rules[i].value) || !rules[i].right)
            return es_fail(ES_EUSAGE, "%s %s: must be %s", rules[i].option,
                           es_number_print(value, rules[i].value, 6),
                           rules[i].rule);
    return ES_OK;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool has_swiglu(const es_model_config *config)
{
    for (int layer = 0; layer < config->n_layer; layer++)
        if (es_arch_parts(&config->arch, layer).activation == ES_ACT_SWIGLU)
            return true;
    return false;
}

/* Refuses settings that only family llama supports. */
static es_status check_others(const es_model_config *config)
{
    const struct {
        bool there;
        const char *part;
    } parts[] = {
        {config->arch.rms_norm, "architecture part 'RN'"},
        {has_swiglu(config), "architecture part 'SwiGLU'"},
        {config->n_kv_head != 0, "--n-kv-head"},
        {config->d_head != 0, "--d-head"},
        {config->d_ff != 0 && !es_families[config->family].sees_all, "--d-ff"},
        {config->rope.base > 0, "--rope-base"},
        {config->rope.factor > 0, "--rope-scaling"},
        {config->qk_norm, "--qk-norm"},
        {config->tied, "--tied"},
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (parts[i].there)
            return es_fail(ES_EUSAGE, "%s: only for --family llama, not %s",
                           parts[i].part, es_family_names[config->family]);
    return ES_OK;
}

/* Refuses settings that family llama does not support. */
static es_status check_llama(const es_model_config *config)
{
    const es_arch *arch = &config->arch;
    const struct {
        bool there;
        const char *part, *remedy;
    } parts[] = {
        {arch->layer_norm, "architecture part 'LN'",
         "write RN, the family's RMSNorm"},
        {arch->gate, "architecture part 'SM(gate)'", "remove it from --arch"},
        {arch->clip > 0, "architecture part 'SM(clip)'",
         "remove it from --arch"},
        {arch->ffn != ES_FFN_TWO, "architecture part 'Sc...'",
         "write SwiGLU, an activation or nothing"},
        {arch->weight_norm != 0, "architecture part 'WNorm'",
         "remove it from --arch"},
        {arch->spectral_norm != 0, "architecture part 'SNorm'",
         "remove it from --arch"},
        {config->record >= ES_SERIES_ALL, "--record all",
         "choose --record standard"},
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (parts[i].there)
            return es_fail(ES_EUSAGE, "%s: not supported by --family llama: %s",
                           parts[i].part, parts[i].remedy);
    if (config->n_kv_head > 0 && config->n_head % config->n_kv_head)
        return es_fail(ES_EUSAGE, "--n-kv-head %d does not divide --n-head %d",
                       config->n_kv_head, config->n_head);
    const int width = es_model_config_head_width(config);
    if (width % 2)
        return es_fail(ES_EUSAGE,
                       "--family llama rotates pairs of dimensions, but a head "
                       "is %d wide: give an even --d-head",
                       width);
    if ((int64_t)width * config->n_head > MAX_WIDTH)
        return es_fail(ES_EUSAGE,
                       "--d-head %d: the heads together may be at most %d wide",
                       width, MAX_WIDTH);
    return ES_OK;
}

/* Refuses settings that family bert does not support. Nearly all settings are
 * refused, because the family only runs weights of other programs. */
static es_status check_bert(const es_model_config *config)
{
    const es_arch *arch = &config->arch;
    const bool is_usual =
        arch->layer_norm && arch->ffn == ES_FFN_TWO &&
        arch->attention == ES_SOFTMAX && !arch->gate && !arch->no_ffn &&
        !arch->temperature && !(arch->clip > 0) && !arch->entropy_reg &&
        arch->weight_norm == 0 && arch->spectral_norm == 0 &&
        arch->n_spans == 0 && arch->slope_kind == ES_SLOPE_FIXED;
    if (!config->forward_only)
        return es_fail(
            ES_EUSAGE,
            "--family bert cannot be trained: use entropy-train probe");
    if (!is_usual || config->bias != ES_BIAS_ALL ||
        config->final_norm == ES_FINAL_ON || config->record >= ES_SERIES_ALL)
        return es_fail(ES_EUSAGE,
                       "--family bert needs softmax, LN, an activation and "
                       "--bias all, and does not support --record all");
    return check_others(config);
}

static bool has_ranges(const es_arch *arch, es_part_kind kind)
{
    for (int i = 0; i < arch->n_spans; i++)
        if (arch->spans[i].kind == kind)
            return true;
    return false;
}

/* Refuses settings that neither of the encoder families roberta and vit
 * supports. */
static es_status check_encoder(const es_model_config *config)
{
    const es_arch *arch = &config->arch;
    const struct {
        bool there;
        const char *part, *remedy;
    } parts[] = {
        {!arch->layer_norm, "architecture without 'LN'", "add LN"},
        {arch->gate, "architecture part 'SM(gate)'", "remove it from --arch"},
        {arch->clip > 0, "architecture part 'SM(clip)'",
         "remove it from --arch"},
        {has_ranges(arch, ES_PART_NORM), "architecture part 'LN' with a range",
         "remove the range from --arch"},
        {arch->no_ffn || has_ranges(arch, ES_PART_NO_FFN),
         "architecture part 'NoFFN'", "remove it from --arch"},
        {arch->ffn != ES_FFN_TWO, "architecture part 'Sc...'",
         "write an activation or nothing"},
        {arch->weight_norm != 0, "architecture part 'WNorm'",
         "remove it from --arch"},
        {arch->spectral_norm != 0, "architecture part 'SNorm'",
         "remove it from --arch"},
        {config->bias != ES_BIAS_ALL, "--bias other than all",
         "remove this option"},
        {config->final_norm == ES_FINAL_OFF, "--final-norm off",
         "remove this option"},
        {config->record >= ES_SERIES_ALL, "--record all",
         "choose --record standard"},
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (parts[i].there)
            return es_fail(ES_EUSAGE, "%s: not supported by --family %s: %s",
                           parts[i].part, es_family_names[config->family],
                           parts[i].remedy);
    return check_others(config);
}

static es_status check_roberta(const es_model_config *config)
{
    if (config->mask >= config->vocab || config->padding >= config->vocab)
        return es_fail(
            ES_EUSAGE, "%s %d: outside the vocabulary of %d",
            config->mask >= config->vocab ? "--mask-token" : "--padding",
            config->mask >= config->vocab ? config->mask : config->padding,
            config->vocab);
    if (config->mask >= 0 && config->mask == config->padding)
        return es_fail(ES_EUSAGE,
                       "--mask-token %d is also the token of --padding",
                       config->mask);
    return check_encoder(config);
}

static es_status check_vit(const es_model_config *config)
{
    const es_image *image = &config->image;
    const int n_patches = es_model_config_n_patches(image);
    const size_rule sizes[] = {{"--image-size", image->size, ES_MAX_IMAGE},
                               {"--patch-size", image->patch, ES_MAX_IMAGE},
                               {"--channels", image->channels, MAX_CHANNELS},
                               {"--classes", image->classes, MAX_VOCAB}};
    es_status status = check_sizes(sizes, COUNT(sizes));
    if (status < 0)
        return status;
    if (n_patches == 0)
        return es_fail(ES_EUSAGE,
                       "--patch-size %d does not divide "
                       "--image-size %d",
                       image->patch, image->size);
    if ((int64_t)config->batch * es_model_config_n_inputs(config) > MAX_ROWS)
        return es_fail(ES_EUSAGE,
                       "--batch %d: a micro-batch may have at most %d pixels",
                       config->batch, MAX_ROWS);
    if (config->ctx != n_patches)
        return es_fail(ES_EUSAGE,
                       "--ctx %d: an image has %d patches plus the class "
                       "token: leave --ctx out",
                       config->ctx, n_patches - 1);
    if (config->padding >= 0)
        return es_fail(ES_EUSAGE, "--padding: images have no padding");
    return check_encoder(config);
}

/* Refuses settings that the simplified blocks do not support. RN is allowed,
 * unlike in other families. */
static es_status check_sas(const es_model_config *config)
{
    const es_arch *arch = &config->arch;
    es_model_config others = *config;
    others.arch.rms_norm = false;
    if (arch->attention != ES_SOFTMAX || arch->gate || arch->clip > 0 ||
        arch->weight_norm != 0 || arch->spectral_norm != 0)
        return es_fail(ES_EUSAGE, "--family sas supports only SM and SM(t), "
                                  "without gate, clip, WNorm or SNorm");
    if (config->dropout > 0 || config->record >= ES_SERIES_ALL)
        return es_fail(ES_EUSAGE, "--family sas does not support %s",
                       config->dropout > 0 ? "--dropout" : "--record all");
    if (config->bias != ES_BIAS_QK && config->bias != ES_BIAS_NONE)
        return es_fail(ES_EUSAGE, "--family sas needs --bias qk or none");
    return check_others(&others);
}

static es_status check_family(const es_model_config *config)
{
    if (config->image.size != 0 && !es_families[config->family].has_images)
        return es_fail(ES_EUSAGE, "--image-size: only for --family vit");
    if (config->mask >= 0 && !es_families[config->family].masks)
        return es_fail(ES_EUSAGE, "--mask-token: only for --family roberta");
    if (config->family == ES_FAMILY_SAS)
        return check_sas(config);
    if (config->family == ES_FAMILY_BERT)
        return check_bert(config);
    if (config->family == ES_FAMILY_ROBERTA)
        return check_roberta(config);
    if (config->family == ES_FAMILY_VIT)
        return check_vit(config);
    if (config->padding >= 0)
        return es_fail(ES_EUSAGE,
                       "--padding: only for --family roberta and bert");
    if (config->family == ES_FAMILY_LLAMA)
        return check_llama(config);
    if (config->family == ES_FAMILY_PYTHIA &&
        config->d_model / config->n_head < 2)
        return es_fail(ES_EUSAGE,
                       "--family pythia rotates 2 dimensions of every head: "
                       "--d-model must be at least twice --n-head");
    return check_others(config);
}

/* Returns the reason why the activation of some layer has no polynomial form,
 * or NULL if the activations of all layers have one. */
static const char *find_cornered(const es_model_config *config)
{
    for (int layer = 0; layer < config->n_layer; layer++)
        switch (es_arch_parts(&config->arch, layer).activation) {
        case ES_ACT_RELU:
            return "'R' has a kink that no polynomial follows";
        case ES_ACT_LEAKY:
            return "'LR' has a kink that no polynomial follows";
        case ES_ACT_SWIGLU:
            return "'SwiGLU' has no polynomial form";
        default:
            break;
        }
    return NULL;
}

/* Refuses models that have no polynomial form. */
static es_status check_inference(const es_model_config *config)
{
    const es_arch *arch = &config->arch;
    const char *cornered = find_cornered(config);
    const struct {
        bool there;
        const char *part, *remedy;
    } parts[] = {
        {arch->attention == ES_SOFTMAX,
         "architecture part 'SM': softmax is not a polynomial",
         "train PSM(p), for example PSM(4,0.01)+LN+GS"},
        {arch->attention == ES_SCALED_RELU,
         "architecture part 'RA': ReLU is not a polynomial", "train PSM(p)"},
        {arch->gate,
         "architecture part 'PSM(gate)': the sigmoid has no polynomial form",
         "remove it from --arch"},
        {arch->rms_norm, "architecture part 'RN': no polynomial form",
         "add LN"},
        {config->family != ES_FAMILY_GPT2 && config->family != ES_FAMILY_PYTHIA,
         "--family: only gpt2 and pythia are supported",
         "choose gpt2 or pythia"},
        {config->emulate != ES_EMULATE_NONE,
         "--emulate: polynomials are computed in float32",
         "remove this option"},
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (parts[i].there)
            return es_fail(ES_EUSAGE, "--inference polynomial: %s: %s",
                           parts[i].part, parts[i].remedy);
    if (cornered)
        return es_fail(ES_EUSAGE,
                       "--inference polynomial: activation %s: write G, GT or "
                       "GS",
                       cornered);
    return ES_OK;
}

static bool has_scaling(const es_rope *rope)
{
    const double all = rope->low + rope->high + rope->original;
    if (!(rope->factor > 0 || rope->factor < 0))
        return true;
    return rope->factor >= 1 && rope->low > 0 && rope->high > rope->low &&
           rope->original >= 1 && isfinite(all);
}

/* Refuses a range loss if the model has no inputs of the kind that the loss
 * penalises. */
static es_status check_ranges(const es_model_config *config)
{
    static const struct {
        const char *option, *needs;
    } all[ES_N_RANGES] = {[ES_RANGE_ATTN] = {"--range-attn", "PSM(p)"},
                          [ES_RANGE_ACT] = {"--range-act", "an activation"},
                          [ES_RANGE_NORM] = {"--range-norm", "LN or RN"}};
    for (int i = 0; i < ES_N_RANGES; i++) {
        const double weight = config->range_weight[i];
        const number_rule rule = {all[i].option, weight, weight >= 0,
                                  "a number, 0 or more"};
        es_status status = check_numbers(&rule, 1);
        if (status < 0)
            return status;
        if (weight > 0 && !es_model_config_has_input(config, (es_range_kind)i))
            return es_fail(ES_EUSAGE, "%s: needs an architecture with %s",
                           all[i].option, all[i].needs);
    }
    return ES_OK;
}

es_status es_model_config_check(const es_model_config *config)
{
    const size_rule sizes[] = {{"--n-layer", config->n_layer, MAX_LAYERS},
                               {"--n-head", config->n_head, MAX_WIDTH},
                               {"--d-model", config->d_model, MAX_WIDTH},
                               {"--ctx", config->ctx, MAX_CTX},
                               {"--vocab", config->vocab, MAX_VOCAB},
                               {"--batch", config->batch, MAX_BATCH},
                               {"--mlp-mult", config->mlp_mult, MAX_MLP_MULT}};
    /* Settings that may be 0, in which case they are derived from the other
     * sizes. */
    const size_rule maybe[] = {{"--n-kv-head", config->n_kv_head, MAX_WIDTH},
                               {"--d-head", config->d_head, MAX_WIDTH},
                               {"--d-ff", config->d_ff, MAX_FFN_WIDTH}};
    const number_rule rules[] = {
        {"--gamma", config->gamma, config->gamma >= 0, "a number, 0 or more"},
        {"--lambda", config->lambda, config->lambda >= 0,
         "a number, 0 or more"},
        {"--t-init", config->t_init, config->t_init > 0, "a number above 0"},
        {"--theta-init", config->theta_init, true, "a number"},
        {"--rope-base", config->rope.base, config->rope.base >= 0,
         "a number, 0 or more"},
        {"--rope-scaling", config->rope.factor, has_scaling(&config->rope),
         "none, or FACTOR,LOW,HIGH,LENGTH with FACTOR >= 1, LOW > 0, HIGH > "
         "LOW and LENGTH >= 1, such as 8,1,4,8192"},
        {"--ln-eps", config->ln_eps, config->ln_eps >= 0,
         "a number, 0 or more"},
        {"--dropout", config->dropout,
         config->dropout >= 0 && config->dropout < 1,
         "a fraction, at least 0 and below 1"}};
    es_status status;
    if ((status = check_sizes(sizes, COUNT(sizes))) < 0)
        return status;
    for (size_t i = 0; i < COUNT(maybe); i++)
        if (maybe[i].value != 0 && (status = check_sizes(&maybe[i], 1)) < 0)
            return status;
    /* The remaining checks involve several options. */
    if ((int64_t)config->batch * config->ctx > MAX_ROWS ||
        (int64_t)config->batch * config->n_head > MAX_ROWS)
        return es_fail(ES_EUSAGE,
                       "--batch %d: a micro-batch may have at most %d tokens",
                       config->batch, MAX_ROWS);
    if (config->d_head == 0 && config->d_model % config->n_head)
        return es_fail(ES_EUSAGE, "--n-head %d does not divide --d-model %d",
                       config->n_head, config->d_model);
    if ((status = check_family(config)) < 0 ||
        (status = check_ranges(config)) < 0)
        return status;
    if (config->inference == ES_INFERENCE_POLYNOMIAL &&
        (status = check_inference(config)) < 0)
        return status;
    const int n_last = config->arch.n_removed;
    const int n_first = config->arch.n_removed_first;
    if (n_last < 0 || n_last > config->n_layer || n_first < 0 ||
        n_first > config->n_layer - n_last)
        return es_fail(ES_EUSAGE,
                       "architecture part 'ScFuFFN%c%d': the model has only "
                       "%d layers",
                       n_first ? 'e' : 'i', n_first ? n_first : n_last,
                       config->n_layer);
    for (int i = 0; i < config->arch.n_spans; i++)
        if (config->arch.spans[i].last >= config->n_layer)
            return es_fail(ES_EUSAGE,
                           "architecture: a part is given for layer %d: the "
                           "model has only %d layers",
                           config->arch.spans[i].last, config->n_layer);

    return check_numbers(rules, COUNT(rules));
}

es_status es_train_config_check(const es_train_config *config)
{
    const size_rule sizes[] = {{"--accumulate", config->accumulate, MAX_BATCH}};
    const number_rule rules[] = {
        {"--lr", config->lr, config->lr >= 0, "a number, 0 or more"},
        {"--beta1", config->beta1, config->beta1 >= 0 && config->beta1 < 1,
         "at least 0 and below 1"},
        {"--beta2", config->beta2, config->beta2 >= 0 && config->beta2 < 1,
         "at least 0 and below 1"},
        {"--eps", config->eps, config->eps > 0, "a number above 0"},
        {"--weight-decay", config->weight_decay, config->weight_decay >= 0,
         "a number, 0 or more"},
        {"--clip", config->clip, config->clip >= 0,
         "a number, 0 or more (0: no clipping)"},
        {"--warm-up", config->warm_up,
         config->warm_up >= 0 && config->warm_up <= 1,
         "a fraction of the steps, 0 to 1"},
        {"--lr-min", config->lr_min,
         config->lr_min >= 0 && config->lr_min <= config->lr,
         "0 or more and no more than --lr"},
    };
    if (config->steps < 1)
        return es_fail(ES_EUSAGE, "--steps %lld: must be 1 or more",
                       (long long)config->steps);
    es_status status = check_sizes(sizes, COUNT(sizes));
    return status < 0 ? status : check_numbers(rules, COUNT(rules));
}

double es_schedule(const es_train_config *config, int64_t step)
{
    double steps = (double)config->steps, s = (double)step;
    double warm = round(config->warm_up * steps);
    if (s < warm)
        return config->lr * (s + 1) / warm;
    if (config->schedule == ES_SCHEDULE_CONSTANT)
        return config->lr;
    const double low = config->lr_min;
    if (s >= steps)
        return low;
    if (config->schedule == ES_SCHEDULE_COSINE)
        return low + (config->lr - low) *
                         (1 + cos(M_PI * (s - warm) / (steps - warm))) / 2;
    return low + (config->lr - low) * (steps - s) / (steps - warm);
}
