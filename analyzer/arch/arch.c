/* Parses the notation of architectures part by part and prints its canonical
   form, for the trainer's options and for the descriptions of models in run
   files. */
#include "analyzer/arch/arch.h"

#include "analyzer/base/text.h"

#include <float.h>
#include <string.h>

#define DEFAULT_SLOPE 0.01
#define DEFAULT_POWER_EPSILON 1e-3

/* Kinds of parts as bits of a mask. */
enum {
    KIND_LN = 1 << ES_PART_NORM,
    KIND_ACT = 1 << ES_PART_ACTIVATION,
    KIND_FFN = 1 << ES_PART_FFN,
    KIND_NO_FFN = 1 << ES_PART_NO_FFN,
    KIND_WN = 1 << ES_PART_WEIGHT_NORM,
    KIND_SN = 1 << ES_PART_SPECTRAL_NORM
};
/* Values of a part of kind KIND_LN: no normalisation, LN or RN. */
enum { NORM_NONE, NORM_LAYER, NORM_RMS };

/* One part of an architecture, NAME or NAME(ARGUMENT), split into name,
 * argument and range. */
typedef struct arch_part {
    char text[ES_ARCH_TEXT_MAX]; /* text of the whole part, for messages */
    char name[ES_ARCH_TEXT_MAX];
    char argument[ES_ARCH_TEXT_MAX];
    bool has_argument;
    bool has_range; /* [first-last] or [first] */
    int first, last;
} arch_part;

typedef es_status part_reader(es_arch *arch, const arch_part *part);

/* Fails with ES_EUSAGE and a message that names the part and the reason. */
static es_status refuse_part(const arch_part *part, const char *why)
{
    return es_fail(ES_EUSAGE, "architecture part '%.80s': %s", part->text, why);
}

/* Cuts `text` at its first comma and sets *rest to the text after the comma, or
   to NULL if `text` has no comma. */
static void split_comma(char *text, char **rest)
{
    *rest = strchr(text, ',');
    if (*rest)
        *(*rest)++ = 0;
}

static es_status read_number(double *out, const arch_part *part,
                             const char *text)
{
    /* es_double_parse does not know the part, so replace its message by a
     * message that names the part. */
    if (es_double_parse(out, text) < 0)
        return refuse_part(part, "expected a decimal number");
    return ES_OK;
}

/* --- attentions ----------------------------------------------------------- */

static es_status read_clip(es_arch *arch, const arch_part *part,
                           const char *text)
{
    const double most = (double)FLT_MAX;
    es_status status = read_number(&arch->clip, part, text);
    if (status == ES_OK && !(arch->clip >= 1 / most && arch->clip <= most))
        status = refuse_part(part, "QK-Clip's largest logit must be a number "
                                   "above 0, as in SM(clip 100)");
    return status;
}

/* Reads one of the options t, direct, clip and gate of SM. Each may appear
   once. */
static es_status read_softmax_option(es_arch *arch, const arch_part *part,
                                     const char *text)
{
    const bool is_clip = strncmp(text, "clip", 4) == 0;
    bool *flag = strcmp(text, "t") == 0        ? &arch->temperature
                 : strcmp(text, "direct") == 0 ? &arch->direct
                 : strcmp(text, "gate") == 0   ? &arch->gate
                                               : NULL;
    if (!is_clip && !flag)
        return refuse_part(
            part, "expected 't' (learnable temperatures), 'direct', 'clip "
                  "NUMBER' (QK-Clip) or 'gate', as in "
                  "SM(t,direct,clip 100,gate)");
    if (is_clip ? arch->clip > 0 : *flag)
        return refuse_part(
            part, "t, direct, clip and gate may appear only once each");
    if (is_clip)
        return read_clip(arch, part, text + 4);
    *flag = true;
    return ES_OK;
}

static es_status read_softmax(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *option = text, *rest;
    es_status status = ES_OK;
    arch->attention = ES_SOFTMAX;
    memcpy(text, part->argument, sizeof text);
    for (; part->has_argument && option && status == ES_OK; option = rest) {
        split_comma(option, &rest);
        status = read_softmax_option(arch, part, option);
    }
    if (status == ES_OK && arch->direct && !arch->temperature)
        status = refuse_part(part, "direct is about learnable temperatures: "
                                   "write SM(t,direct)");
    return status;
}

/* Reads one of the options that follow the power of PSM. */
static es_status read_power_option(es_arch *arch, const arch_part *part,
                                   const char *text, bool *has_epsilon)
{
    const es_row_length length = strcmp(text, "length") == 0 ? ES_LENGTH_VISIBLE
                                 : strcmp(text, "lengthT") == 0
                                     ? ES_LENGTH_CONTEXT
                                     : ES_LENGTH_NONE;
    bool *flag = strcmp(text, "plain") == 0  ? &arch->power_plain
                 : strcmp(text, "gate") == 0 ? &arch->gate
                                             : NULL;
    if (strncmp(text, "clip", 4) == 0)
        return refuse_part(part,
                           "PowerSoftmax does not depend on the size of its "
                           "logits: clip is only for SM");
    if (flag ? *flag : length ? arch->length != ES_LENGTH_NONE : *has_epsilon)
        return refuse_part(part,
                           "an epsilon, plain, length and gate may appear only "
                           "once each");
    if (flag)
        *flag = true;
    else if (length)
        arch->length = length;
    if (flag || length)
        return ES_OK;
    *has_epsilon = true;
    if (es_double_parse(&arch->power_epsilon, text) < 0)
        return refuse_part(part,
                           "expected an epsilon, plain, length, length T or "
                           "gate after the power: PSM(4,1e-3,length)");
    if (arch->power_epsilon < 0)
        return refuse_part(part, "the epsilon may not be negative");
    return ES_OK;
}

static double default_epsilon(const es_arch *arch)
{
    return arch->power_plain ? 0 : DEFAULT_POWER_EPSILON;
}

static es_status read_power_softmax(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *option, *rest;
    bool has_epsilon = false;
    int64_t power;
    es_status status = ES_OK;
    memcpy(text, part->argument, sizeof text);
    split_comma(text, &option);
    if (es_int_parse(&power, text, 2, ES_POWER_MAX) < 0 || power % 2 != 0)
        return refuse_part(part,
                           "the power must be an even number from 2 to 64");
    arch->attention = ES_POWER_SOFTMAX;
    arch->power = (int)power;
    for (; option && status == ES_OK; option = rest) {
        split_comma(option, &rest);
        status = read_power_option(arch, part, option, &has_epsilon);
    }
    if (!has_epsilon)
        arch->power_epsilon = default_epsilon(arch);
    return status;
}

static es_status read_scaled_relu(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *option = text, *rest;
    memcpy(text, part->argument, sizeof text);
    arch->attention = ES_SCALED_RELU;
    arch->length = ES_LENGTH_VISIBLE;
    for (; part->has_argument && option; option = rest) {
        split_comma(option, &rest);
        const bool is_context = strcmp(option, "T") == 0;
        if (!is_context && strcmp(option, "gate") != 0)
            return refuse_part(
                part,
                "expected gate, or T to divide by the context length instead "
                "of the number of keys that a row sees: RA(T,gate)");
        if (is_context ? arch->length == ES_LENGTH_CONTEXT : arch->gate)
            return refuse_part(part, "T and gate may appear only once each");
        if (is_context)
            arch->length = ES_LENGTH_CONTEXT;
        else
            arch->gate = true;
    }
    return ES_OK;
}

/* --- other parts ---------------------------------------------------------- */

static es_status read_leaky(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *init;
    memcpy(text, part->argument, sizeof text);
    split_comma(text, &init);
    arch->activation = ES_ACT_LEAKY;
    arch->slope = DEFAULT_SLOPE;
    if (strcmp(text, "layer") == 0)
        arch->slope_kind = ES_SLOPE_LAYER;
    else if (strcmp(text, "global") == 0)
        arch->slope_kind = ES_SLOPE_GLOBAL;
    else if (init)
        return refuse_part(part, "a second argument is allowed only for a "
                                 "learnable slope (layer or global)");
    else
        init = text;
    return init ? read_number(&arch->slope, part, init) : ES_OK;
}

static es_status read_removed(es_arch *arch, const arch_part *part)
{
    const char *which = part->name + strlen("ScFuFFN");
    int64_t n;
    if (es_int_parse(&n, which + 1, 0, INT32_MAX) < 0)
        return refuse_part(part,
                           "ScFuFFNi and ScFuFFNe are followed by the number "
                           "of last or first layers whose FFN is removed");
    arch->ffn = ES_FFN_FUSED;
    *(*which == 'e' ? &arch->n_removed_first : &arch->n_removed) = (int)n;
    return ES_OK;
}

static es_status read_no_ffn(es_arch *arch, const arch_part *part)
{
    (void)part;
    arch->no_ffn = true;
    return ES_OK;
}

static const struct {
    const char *name;
    unsigned set;
} norm_sets[] = {
    {"FFN", ES_NORM_FFN},
    {"QK", ES_NORM_QK},
    {"QKV", ES_NORM_QK | ES_NORM_V},
    {"QKVO", ES_NORM_QK | ES_NORM_V | ES_NORM_O},
    {"QK,FFN", ES_NORM_QK | ES_NORM_FFN},
    {"QKV,FFN", ES_NORM_QK | ES_NORM_V | ES_NORM_FFN},
    {"QKVO,FFN", ES_NORM_QK | ES_NORM_V | ES_NORM_O | ES_NORM_FFN},
};
#define N_NORM_SETS (sizeof norm_sets / sizeof *norm_sets)

static es_status read_norm(es_arch *arch, const arch_part *part)
{
    unsigned set = 0;
    for (size_t i = 0; i < N_NORM_SETS; i++)
        if (strcmp(norm_sets[i].name, part->argument) == 0)
            set = norm_sets[i].set;
    if (!set)
        return refuse_part(part, "expected FFN, QK, QKV, QKVO, or one of "
                                 "the last three with ,FFN as in QKV,FFN");
    if (part->name[0] == 'W')
        arch->weight_norm = set;
    else
        arch->spectral_norm = set;
    return ES_OK;
}

typedef enum argument_rule { NO_ARGUMENT, ARGUMENT, MAYBE } argument_rule;

/* Table of all parts. `kind` is 0 for attentions. In the notation, a number
   follows the names ScFuFFNi and ScFuFFNe. A part without `read` sets the field
   of its kind (norm, activation or FFN) to `value` and is printed if the field
   has this value. */
static const struct rule {
    const char *name;
    argument_rule argument;
    unsigned kind;
    const char *kind_name;
    /* NULL if the part sets a field to `value` */
    part_reader *read;
    int value;
} rules[] = {
    {"SM", MAYBE, 0, "attention", read_softmax, 0},
    {"PSM", ARGUMENT, 0, "attention", read_power_softmax, 0},
    {"RA", MAYBE, 0, "attention", read_scaled_relu, 0},
    {"LN", NO_ARGUMENT, KIND_LN, "LN or RN", NULL, NORM_LAYER},
    {"RN", NO_ARGUMENT, KIND_LN, "LN or RN", NULL, NORM_RMS},
    {"G", NO_ARGUMENT, KIND_ACT, "activation", NULL, ES_ACT_GELU},
    {"GT", NO_ARGUMENT, KIND_ACT, "activation", NULL, ES_ACT_GELU_TANH},
    {"GS", NO_ARGUMENT, KIND_ACT, "activation", NULL, ES_ACT_GELU_SIGMOID},
    {"R", NO_ARGUMENT, KIND_ACT, "activation", NULL, ES_ACT_RELU},
    {"SwiGLU", NO_ARGUMENT, KIND_ACT, "activation", NULL, ES_ACT_SWIGLU},
    {"LR", ARGUMENT, KIND_ACT, "activation", read_leaky, 0},
    {"ScFFN", NO_ARGUMENT, KIND_FFN, "Sc... FFN", NULL, ES_FFN_SCALED},
    {"ScFuFFN", NO_ARGUMENT, KIND_FFN, "Sc... FFN", NULL, ES_FFN_FUSED},
    {"ScFuFFNi", NO_ARGUMENT, KIND_FFN, "Sc... FFN", read_removed, 0},
    {"ScFuFFNe", NO_ARGUMENT, KIND_FFN, "Sc... FFN", read_removed, 0},
    {"NoFFN", NO_ARGUMENT, KIND_NO_FFN, "NoFFN", read_no_ffn, 0},
    {"WNorm", ARGUMENT, KIND_WN, "WNorm", read_norm, 0},
    {"SNorm", ARGUMENT, KIND_SN, "SNorm", read_norm, 0},
};
#define N_RULES (sizeof rules / sizeof *rules)

/* Returns the rule of a part called `name`; NULL if there is none. Accepts a
   number after ScFuFFNi and ScFuFFNe. */
static const struct rule *find_rule(const char *name)
{
    for (size_t i = 0; i < N_RULES; i++) {
        const size_t n = strlen(rules[i].name);
        if (strncmp(name, rules[i].name, n) == 0 &&
            (!name[n] || rules[i].read == read_removed))
            return &rules[i];
    }
    return NULL;
}

static es_status unknown_part(const arch_part *part, bool first)
{
    if (!part->name[0])
        return es_fail(
            ES_EUSAGE,
            "architecture has an empty part: write for example SM+LN+G");
    return refuse_part(
        part, first ? "unknown; an architecture begins with SM, "
                      "SM(t), SM(clip 100), SM(gate), PSM(p) or RA"
                    : "unknown; the parts are LN, RN, G, GT, GS, R, LR(...), "
                      "SwiGLU, ScFFN, ScFuFFN, ScFuFFNi x, ScFuFFNe x, NoFFN, "
                      "WNorm(...), SNorm(...)");
}

/* --- parts with ranges ---------------------------------------------------- */

/* Copies the members that describe parts of one kind. */
static void set_kind(es_layer_parts *to, es_part_kind kind,
                     const es_layer_parts *from)
{
    switch (kind) {
    case ES_PART_NORM:
        to->norm = from->norm;
        break;
    case ES_PART_ACTIVATION:
        to->activation = from->activation;
        to->slope_kind = from->slope_kind;
        to->slope = from->slope;
        break;
    case ES_PART_FFN:
        to->ffn = from->ffn;
        break;
    case ES_PART_NO_FFN:
        to->no_ffn = from->no_ffn;
        break;
    case ES_PART_WEIGHT_NORM:
        to->weight_norm = from->weight_norm;
        break;
    case ES_PART_SPECTRAL_NORM:
        to->spectral_norm = from->spectral_norm;
        break;
    }
}

/* Returns the parts that every layer has in an architecture without ranges. */
static es_layer_parts whole_parts(const es_arch *arch)
{
    return (es_layer_parts){.norm = arch->layer_norm || arch->rms_norm,
                            .activation = arch->activation,
                            .slope_kind = arch->slope_kind,
                            .slope = arch->slope,
                            .ffn = arch->ffn,
                            .no_ffn = arch->no_ffn,
                            .weight_norm = arch->weight_norm,
                            .spectral_norm = arch->spectral_norm};
}

static bool covers(const es_arch_span *span, int64_t layer)
{
    return span->first <= layer && layer <= span->last;
}

es_layer_parts es_arch_parts(const es_arch *arch, int64_t layer)
{
    static const es_layer_parts none = {.norm = false};
    es_layer_parts parts = whole_parts(arch);
    for (int i = 0; i < arch->n_spans; i++)
        set_kind(&parts, arch->spans[i].kind, &none);
    for (int i = 0; i < arch->n_spans; i++)
        if (covers(&arch->spans[i], layer))
            set_kind(&parts, arch->spans[i].kind, &arch->spans[i].parts);
    if (parts.ffn != ES_FFN_TWO || parts.no_ffn)
        set_kind(&parts, ES_PART_ACTIVATION, &none);
    return parts;
}

int64_t es_arch_next_change(const es_arch *arch, int64_t layer, int64_t n_layer)
{
    int64_t next = n_layer;
    const int64_t kept[] = {arch->n_removed_first, n_layer - arch->n_removed};
    for (int i = 0; i < 2; i++)
        if (kept[i] > layer && kept[i] < next)
            next = kept[i];
    for (int i = 0; i < arch->n_spans; i++) {
        const es_arch_span *span = &arch->spans[i];
        const int64_t at = layer < span->first ? (int64_t)span->first
                                               : (int64_t)span->last + 1;
        if (at > layer && at < next)
            next = at;
    }
    return next;
}

/* Refuses a new range that overlaps a range of the same kind, and an activation
   whose range overlaps that of a Sc... FFN. */
static es_status check_overlap(const es_arch *arch, const arch_part *part,
                               const es_arch_span *new)
{
    const unsigned both = KIND_ACT | KIND_FFN;
    for (int i = 0; i < arch->n_spans; i++) {
        const es_arch_span *old = &arch->spans[i];
        const unsigned kinds = 1U << old->kind | 1U << new->kind;
        if (new->first > old->last || old->first > new->last)
            continue;
        if (old->kind == new->kind)
            return refuse_part(
                part, "a layer in its range already has a part of this kind");
        if (kinds == both)
            return refuse_part(part,
                               "a layer in its range has an activation and a "
                               "Sc... FFN, which is linear");
    }
    return ES_OK;
}

/* Updates the members of `arch` that summarise all layers, for a part that
   applies to a range of layers. `own` is an architecture that contains only
   this part. */
static es_status add_to_whole(es_arch *arch, const arch_part *part,
                              const es_arch *own, bool is_first)
{
    const bool learns = own->slope_kind != ES_SLOPE_FIXED;
    const bool shares = own->slope_kind == ES_SLOPE_GLOBAL;
    const bool is_other =
        arch->slope_kind != own->slope_kind ||
        (shares && (arch->slope < own->slope || arch->slope > own->slope));
    arch->layer_norm |= own->layer_norm;
    arch->rms_norm |= own->rms_norm;
    arch->weight_norm |= own->weight_norm;
    arch->spectral_norm |= own->spectral_norm;
    if (arch->layer_norm && arch->rms_norm)
        return refuse_part(part, "LN and RN may not be combined");
    if (learns && arch->slope_kind != ES_SLOPE_FIXED && is_other)
        return refuse_part(part, "another range has a learnable slope of "
                                 "another kind or with another initial value");
    if (learns)
        arch->slope_kind = own->slope_kind;
    if (shares)
        arch->slope = own->slope;
    if (is_first && own->activation != ES_ACT_LINEAR)
        arch->activation = own->activation;
    if (is_first && own->ffn != ES_FFN_TWO)
        arch->ffn = own->ffn;
    return ES_OK;
}

/* Inserts a part that applies to a range of layers into the sorted list of
   ranges. `own` is an architecture that contains only this part. */
static es_status add_span(es_arch *arch, const arch_part *part,
                          es_part_kind kind, const es_arch *own)
{
    const es_layer_parts parts = whole_parts(own);
    es_arch_span new = {.kind = kind, .first = part->first, .last = part->last};
    int at = arch->n_spans;
    set_kind(&new.parts, kind, &parts);
    if (at == ES_ARCH_SPANS_MAX)
        return refuse_part(part, "more than 16 ranges of layers");
    es_status status = check_overlap(arch, part, &new);
    if (status < 0)
        return status;
    for (; at > 0 && (arch->spans[at - 1].kind > kind ||
                      (arch->spans[at - 1].kind == kind &&
                       arch->spans[at - 1].first > new.first));
         at--)
        arch->spans[at] = arch->spans[at - 1];
    arch->spans[at] = new;
    arch->n_spans++;
    return add_to_whole(arch, part, own,
                        at == 0 || arch->spans[at - 1].kind != kind);
}

/* Refuses a part whose kind has already appeared, and an activation together
   with a Sc... FFN. `whole` and `ranged` are the kinds of the parts read so
   far: those without a range and those with one. */
static es_status check_kind(const arch_part *part, const struct rule *rule,
                            unsigned whole, unsigned ranged)
{
    const unsigned seen = whole | (part->has_range ? 0 : ranged);
    if (part->has_range && !rule->kind)
        return refuse_part(part, "the attention holds for all layers: give the "
                                 "range to another part, as in G[0-5]");
    if (part->has_range && rule->read == read_removed)
        return refuse_part(part, "the number of removed FFNs already "
                                 "determines the layers: leave out the range");
    if (seen & rule->kind)
        return es_fail(ES_EUSAGE,
                       "architecture part '%.80s': a second %s; each kind of "
                       "part may appear only once, or with a range each time",
                       part->text, rule->kind_name);
    if ((rule->kind == KIND_ACT && whole & KIND_FFN) ||
        (rule->kind == KIND_FFN && !part->has_range &&
         (whole | ranged) & KIND_ACT))
        return refuse_part(
            part, "a Sc... FFN is linear: it excludes G, GT, R, LR(...) "
                  "and SwiGLU");
    return ES_OK;
}

/* Refuses an architecture in which the part just read normalises a matrix that
   another part also normalises. */
static es_status check_matrices(const es_arch *arch, const arch_part *part)
{
    for (int i = -1; i < arch->n_spans; i++) {
        const es_layer_parts at =
            es_arch_parts(arch, i < 0 ? 0 : arch->spans[i].first);
        if (at.weight_norm & at.spectral_norm)
            return refuse_part(part,
                               "WNorm and SNorm may not name the same matrix");
    }
    return ES_OK;
}

/* Reads one part into an architecture. */
static es_status read_rule(es_arch *arch, const arch_part *part,
                           const struct rule *rule)
{
    if (rule->read)
        return rule->read(arch, part);
    if (rule->kind == KIND_LN) {
        arch->layer_norm = rule->value == NORM_LAYER;
        arch->rms_norm = rule->value == NORM_RMS;
    } else if (rule->kind == KIND_ACT)
        arch->activation = (es_activation)rule->value;
    else
        arch->ffn = (es_ffn_kind)rule->value;
    return ES_OK;
}

/* State of the parser: the kinds of the parts read so far, and the architecture
   that they describe. */
typedef struct reading {
    es_arch *arch;
    unsigned whole, ranged;
} reading;

static es_status read_ranged(const reading *to, const arch_part *part,
                             const struct rule *rule)
{
    es_arch own = {.ffn = ES_FFN_TWO};
    es_part_kind kind = ES_PART_NORM;
    while (1U << kind != rule->kind)
        kind++;
    es_status status = read_rule(&own, part, rule);
    return status < 0 ? status : add_span(to->arch, part, kind, &own);
}

static es_status read_part(reading *to, const arch_part *part, bool first)
{
    const struct rule *rule = find_rule(part->name);
    if (!rule || (first && rule->kind))
        return unknown_part(part, first);
    if (!first && !rule->kind)
        return refuse_part(part, "the attention must come first and only once");
    if (rule->argument == NO_ARGUMENT && part->has_argument)
        return refuse_part(part, "takes no argument");
    if (rule->argument == ARGUMENT && !part->has_argument)
        return refuse_part(part, "needs an argument in parentheses");
    es_status status = check_kind(part, rule, to->whole, to->ranged);
    if (status < 0)
        return status;
    *(part->has_range ? &to->ranged : &to->whole) |= rule->kind;
    status = part->has_range ? read_ranged(to, part, rule)
                             : read_rule(to->arch, part, rule);
    return status < 0 ? status : check_matrices(to->arch, part);
}

/* --- the whole text ------------------------------------------------------- */

/* Reads "[first-last]" or "[layer]" from the end of a part and cuts it off. */
static es_status split_range(arch_part *out, char *open)
{
    char *end = open + strlen(open) - 1, *dash = strchr(open, '-');
    int64_t first, last;
    if (*end != ']')
        return refuse_part(out,
                           "the range of layers must come last, as in G[0-5]");
    *end = 0;
    if (dash)
        *dash = 0;
    if (es_int_parse(&first, open + 1, 0, INT32_MAX) < 0 ||
        es_int_parse(&last, dash ? dash + 1 : open + 1, first, INT32_MAX) < 0)
        return refuse_part(
            out, "expected layers as [first-last] or [layer], counted from 0");
    *open = 0;
    out->has_range = true;
    out->first = (int)first;
    out->last = (int)last;
    return ES_OK;
}

static es_status split_part(arch_part *out, const char *text, size_t n)
{
    memset(out, 0, sizeof *out);
    memcpy(out->text, text, n);
    memcpy(out->name, text, n);
    char *range = strchr(out->name, '[');
    if (range && split_range(out, range) < 0)
        return ES_EUSAGE;
    n = strlen(out->name);
    char *open = strchr(out->name, '(');
    if (!open && !strchr(out->name, ')'))
        return ES_OK;
    if (!open || out->name[n - 1] != ')' ||
        strpbrk(open + 1, "()") != out->name + n - 1)
        return refuse_part(out, "parentheses do not match");
    out->has_argument = true;
    memcpy(out->argument, open + 1, (size_t)(out->name + n - 1 - (open + 1)));
    *open = 0;
    return ES_OK;
}

static es_status read_body(es_arch *arch, const char *text)
{
    reading to = {.arch = arch};
    for (bool first = true;; first = false) {
        arch_part next;
        /* Find the length of the part: it ends at a '+' outside parentheses (a
         * '+' inside may belong to an exponent). */
        int depth = 0;
        size_t n = 0;
        for (; text[n]; n++) {
            if (text[n] == '+' && depth == 0)
                break;
            depth += text[n] == '(';
            depth -= text[n] == ')';
        }

        es_status status = split_part(&next, text, n);
        if (status == ES_OK)
            status = read_part(&to, &next, first);
        if (status != ES_OK || !text[n])
            return status;
        text += n + 1;
    }
}

/* Copies `text` without blanks. */
static es_status squeeze(char out[ES_ARCH_TEXT_MAX], const char *text)
{
    size_t n = 0;
    for (; *text; text++) {
        if (*text == ' ' || *text == '\t')
            continue;
        if (n + 1 == ES_ARCH_TEXT_MAX)
            return es_fail(ES_EUSAGE,
                           "architecture '%.20s...': longer than %d characters",
                           out, ES_ARCH_TEXT_MAX - 1);
        out[n++] = *text;
        out[n] = 0;
    }
    out[n] = 0;
    return ES_OK;
}

/* Refuses parts that contradict each other, after all parts were read. */
static es_status check_whole(const es_arch *arch)
{
    bool lacks_ffn = arch->no_ffn;
    for (int i = 0; i < arch->n_spans; i++)
        lacks_ffn |= arch->spans[i].kind == ES_PART_NO_FFN;
    /* QK-Clip works by scaling down the parts of Q and K that belong to one
     * head. SNorm divides each matrix by its own norm and so undoes the
     * scaling. */
    if (arch->clip > 0 && arch->spectral_norm & ES_NORM_QK)
        return es_fail(ES_EUSAGE, "architecture part 'SM(clip...)': SNorm of "
                                  "Q and K already bounds the logits and "
                                  "undoes QK-Clip's scaling: leave out one "
                                  "of them");
    if (lacks_ffn && (arch->n_removed > 0 || arch->n_removed_first > 0))
        return es_fail(ES_EUSAGE,
                       "architecture part 'NoFFN': ScFuFFNi and ScFuFFNe "
                       "already name layers without FFN: write ScFuFFN, and "
                       "NoFFN with the ranges of all these layers");
    if (arch->no_ffn &&
        (arch->activation != ES_ACT_LINEAR || arch->ffn != ES_FFN_TWO ||
         (arch->weight_norm | arch->spectral_norm) & ES_NORM_FFN))
        return es_fail(ES_EUSAGE,
                       "architecture part 'NoFFN': without a range, no layer "
                       "has an FFN: leave out activations, Sc... FFNs and "
                       "norms of the FFN, or add a range as in NoFFN[6-11]");
    return ES_OK;
}

es_status es_arch_parse(es_arch *out, const char *text)
{
    static const char prefix[] = "EReg(";
    es_arch arch = {.ffn = ES_FFN_TWO};
    char copy[ES_ARCH_TEXT_MAX] = "";
    es_status status = squeeze(copy, text);
    if (status != ES_OK)
        return status;
    char *body = copy;
    if (strncmp(copy, prefix, strlen(prefix)) == 0) {
        size_t n = strlen(copy);
        if (copy[n - 1] != ')')
            return es_fail(ES_EUSAGE,
                           "architecture '%.80s': EReg(...) must enclose all "
                           "parts and end with ')'",
                           copy);
        copy[n - 1] = 0;
        body += strlen(prefix);
        arch.entropy_reg = true;
    }
    if ((status = read_body(&arch, body)) == ES_OK &&
        (status = check_whole(&arch)) == ES_OK)
        *out = arch;
    return status;
}

/* --- printing ------------------------------------------------------------- */

static void print_softmax(es_text *text, const es_arch *arch)
{
    char number[ES_FLOAT_TEXT_MAX];
    const char *open = "("; /* separator before the next option: "(" before the
                               first option, then "," */
    es_text_append(text, "SM");
    if (arch->temperature) {
        es_text_append(text, "%st%s", open, arch->direct ? ",direct" : "");
        open = ",";
    }
    if (arch->clip > 0) {
        es_text_append(text, "%sclip%s", open,
                       es_double_print(number, arch->clip));
        open = ",";
    }
    if (arch->gate)
        es_text_append(text, "%sgate", open);
    if (arch->temperature || arch->clip > 0 || arch->gate)
        es_text_append(text, ")");
}

static void print_power_softmax(es_text *text, const es_arch *arch)
{
    static const char *const lengths[] = {"", ",length", ",lengthT"};
    char number[ES_FLOAT_TEXT_MAX];
    es_text_append(text, "PSM(%d", arch->power);
    if (arch->power_epsilon != default_epsilon(arch))
        es_text_append(text, ",%s",
                       es_double_print(number, arch->power_epsilon));
    es_text_append(text, "%s%s%s)", arch->power_plain ? ",plain" : "",
                   lengths[arch->length], arch->gate ? ",gate" : "");
}

static void print_attention(es_text *text, const es_arch *arch)
{
    const bool is_context = arch->length == ES_LENGTH_CONTEXT;
    if (arch->attention == ES_SOFTMAX)
        print_softmax(text, arch);
    else if (arch->attention == ES_POWER_SOFTMAX)
        print_power_softmax(text, arch);
    else
        es_text_append(text, "RA%s",
                       is_context && arch->gate ? "(T,gate)"
                       : is_context             ? "(T)"
                       : arch->gate             ? "(gate)"
                                                : "");
}

static void print_leaky(es_text *text, const es_arch *arch)
{
    char number[ES_FLOAT_TEXT_MAX];
    es_double_print(number, arch->slope);
    if (arch->slope_kind == ES_SLOPE_FIXED) {
        es_text_append(text, "+LR(%s)", number);
        return;
    }
    es_text_append(text, "+LR(%s",
                   arch->slope_kind == ES_SLOPE_LAYER ? "layer" : "global");
    if (arch->slope != DEFAULT_SLOPE)
        es_text_append(text, ",%s", number);
    es_text_append(text, ")");
}

static void print_named(es_text *text, unsigned kind, int value)
{
    for (size_t i = 0; i < N_RULES; i++)
        if (rules[i].kind == kind && !rules[i].read && rules[i].value == value)
            es_text_append(text, "+%s", rules[i].name);
}

static void print_norm(es_text *text, const char *name, unsigned set)
{
    for (size_t i = 0; i < N_NORM_SETS; i++)
        if (norm_sets[i].set == set)
            es_text_append(text, "+%s(%s)", name, norm_sets[i].name);
}

/* Prints the part of a kind if this part applies to all layers of the
   architecture. */
static void print_whole(es_text *text, es_part_kind kind, const es_arch *arch)
{
    switch (kind) {
    case ES_PART_NORM:
        print_named(text, KIND_LN,
                    arch->layer_norm ? NORM_LAYER
                    : arch->rms_norm ? NORM_RMS
                                     : NORM_NONE);
        break;
    case ES_PART_ACTIVATION:
        print_named(text, KIND_ACT, (int)arch->activation);
        if (arch->activation == ES_ACT_LEAKY)
            print_leaky(text, arch);
        break;
    case ES_PART_FFN:
        if (arch->ffn == ES_FFN_FUSED && arch->n_removed > 0)
            es_text_append(text, "+ScFuFFNi%d", arch->n_removed);
        else if (arch->ffn == ES_FFN_FUSED && arch->n_removed_first > 0)
            es_text_append(text, "+ScFuFFNe%d", arch->n_removed_first);
        else
            print_named(text, KIND_FFN, (int)arch->ffn);
        break;
    case ES_PART_NO_FFN:
        es_text_append(text, "%s", arch->no_ffn ? "+NoFFN" : "");
        break;
    case ES_PART_WEIGHT_NORM:
        print_norm(text, "WNorm", arch->weight_norm);
        break;
    case ES_PART_SPECTRAL_NORM:
        print_norm(text, "SNorm", arch->spectral_norm);
        break;
    }
}

static void print_span(es_text *text, const es_arch *arch,
                       const es_arch_span *span)
{
    const es_layer_parts *of = &span->parts;
    const es_arch own = {.layer_norm = arch->layer_norm,
                         .rms_norm = arch->rms_norm,
                         .activation = of->activation,
                         .slope_kind = of->slope_kind,
                         .slope = of->slope,
                         .ffn = of->ffn,
                         .no_ffn = of->no_ffn,
                         .weight_norm = of->weight_norm,
                         .spectral_norm = of->spectral_norm};
    print_whole(text, span->kind, &own);
    if (span->first == span->last)
        es_text_append(text, "[%d]", span->first);
    else
        es_text_append(text, "[%d-%d]", span->first, span->last);
}

/* Prints the parts of a kind: one for all layers, or one for each range. */
static void print_kind(es_text *text, es_part_kind kind, const es_arch *arch)
{
    bool has_ranges = false;
    for (int i = 0; i < arch->n_spans; i++)
        if (arch->spans[i].kind == kind) {
            print_span(text, arch, &arch->spans[i]);
            has_ranges = true;
        }
    if (!has_ranges)
        print_whole(text, kind, arch);
}

size_t es_arch_print(char *buffer, size_t size, const es_arch *arch)
{
    es_text to = es_text_begin(buffer, size);
    es_text_append(&to, "%s", arch->entropy_reg ? "EReg(" : "");
    print_attention(&to, arch);
    for (es_part_kind kind = ES_PART_NORM; kind <= ES_PART_SPECTRAL_NORM;
         kind++)
        print_kind(&to, kind, arch);
    es_text_append(&to, "%s", arch->entropy_reg ? ")" : "");
    return to.length;
}

/* --- removed FFNs --------------------------------------------------------- */

bool es_arch_has_ffn(const es_arch *arch, int64_t layer, int64_t n_layer)
{
    return layer >= arch->n_removed_first &&
           layer < n_layer - arch->n_removed &&
           !es_arch_parts(arch, layer).no_ffn;
}
