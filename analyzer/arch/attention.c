/* Reads and prints the first part of an architecture, its attention. */
#include "analyzer/arch/arch_internal.h"

#include <float.h>
#include <string.h>

#define DEFAULT_POWER_EPSILON 1e-3

static es_status read_clip(es_arch *arch, const arch_part *part,
                           const char *text)
{
    const double most = (double)FLT_MAX;
    es_status status = es_arch_read_number(&arch->clip, part, text);
    if (status == ES_OK && !(arch->clip >= 1 / most && arch->clip <= most))
        status =
            es_arch_refuse(part, "QK-Clip's largest logit must be a number "
                                 "above 0, as in SM(clip 100)");
    return status;
}

/* Reads one of the options t, clip and gate of SM. Each may appear once. */
static es_status read_option(es_arch *arch, const arch_part *part,
                             const char *text)
{
    const bool is_clip = strncmp(text, "clip", 4) == 0;
    bool *flag = strcmp(text, "t") == 0      ? &arch->temperature
                 : strcmp(text, "gate") == 0 ? &arch->gate
                                             : NULL;
    if (!is_clip && !flag)
        return es_arch_refuse(part,
                              "expected t for learnable temperatures, clip and "
                              "a number for QK-Clip, or gate: "
                              "SM(t,clip 100,gate)");
    if (is_clip ? arch->clip > 0 : *flag)
        return es_arch_refuse(part,
                              "t, clip and gate may appear only once each");
    if (is_clip)
        return read_clip(arch, part, text + 4);
    *flag = true;
    return ES_OK;
}

es_status es_arch_read_softmax(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *option = text, *rest;
    es_status status = ES_OK;
    arch->attention = ES_SOFTMAX;
    memcpy(text, part->argument, sizeof text);
    for (; part->has_argument && option && status == ES_OK; option = rest) {
        es_arch_split_comma(option, &rest);
        status = read_option(arch, part, option);
    }
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
        return es_arch_refuse(part,
                              "PowerSoftmax does not depend on the size of its "
                              "logits: clip is only for SM");
    if (flag ? *flag : length ? arch->length != ES_LENGTH_NONE : *has_epsilon)
        return es_arch_refuse(
            part, "an epsilon, plain, length and gate may appear only "
                  "once each");
    if (flag)
        *flag = true;
    else if (length)
        arch->length = length;
    if (flag || length)
        return ES_OK;
    *has_epsilon = true;
    if (es_double_parse(&arch->power_epsilon, text) < 0)
        return es_arch_refuse(part,
                              "expected an epsilon, plain, length, length T or "
                              "gate after the power: PSM(4,1e-3,length)");
    if (arch->power_epsilon < 0)
        return es_arch_refuse(part, "the epsilon may not be negative");
    return ES_OK;
}

static double default_epsilon(const es_arch *arch)
{
    return arch->power_plain ? 0 : DEFAULT_POWER_EPSILON;
}

es_status es_arch_read_power_softmax(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *option, *rest;
    bool has_epsilon = false;
    int64_t power;
    es_status status = ES_OK;
    memcpy(text, part->argument, sizeof text);
    es_arch_split_comma(text, &option);
    if (es_int_parse(&power, text, 2, ES_POWER_MAX) < 0 || power % 2 != 0)
        return es_arch_refuse(part,
                              "the power must be an even number from 2 to 64");
    arch->attention = ES_POWER_SOFTMAX;
    arch->power = (int)power;
    for (; option && status == ES_OK; option = rest) {
        es_arch_split_comma(option, &rest);
        status = read_power_option(arch, part, option, &has_epsilon);
    }
    if (!has_epsilon)
        arch->power_epsilon = default_epsilon(arch);
    return status;
}

es_status es_arch_read_scaled_relu(es_arch *arch, const arch_part *part)
{
    char text[ES_ARCH_TEXT_MAX], *option = text, *rest;
    memcpy(text, part->argument, sizeof text);
    arch->attention = ES_SCALED_RELU;
    arch->length = ES_LENGTH_VISIBLE;
    for (; part->has_argument && option; option = rest) {
        es_arch_split_comma(option, &rest);
        const bool is_context = strcmp(option, "T") == 0;
        if (!is_context && strcmp(option, "gate") != 0)
            return es_arch_refuse(
                part, "expected gate, or T to divide by the context "
                      "instead of the number of keys that a row "
                      "sees: RA(T,gate)");
        if (is_context ? arch->length == ES_LENGTH_CONTEXT : arch->gate)
            return es_arch_refuse(part, "T and gate may appear only once each");
        if (is_context)
            arch->length = ES_LENGTH_CONTEXT;
        else
            arch->gate = true;
    }
    return ES_OK;
}

/* --- printing ------------------------------------------------------------- */

static void print_softmax(es_text *text, const es_arch *arch)
{
    char number[ES_FLOAT_TEXT_MAX];
    const char *open = "("; /* opening parenthesis; replaced by a comma after
                               the first option */
    es_text_append(text, "SM");
    if (arch->temperature) {
        es_text_append(text, "%st", open);
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

void es_arch_print_attention(es_text *text, const es_arch *arch)
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
