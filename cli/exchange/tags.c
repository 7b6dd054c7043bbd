/* Parses the tags of scalars: matches patterns with {layer}, {head} and
   {series} by backtracking, which is cheap because the length of tags is
   limited. Also writes the tags that export uses. */
#include "cli/exchange/tags.h"

#include "analyzer/base/text.h"

#include <ctype.h>
#include <string.h>

/* The strings and numbers that the placeholders matched. */
typedef struct match {
    const char *series, *monitor;
    size_t n_series, n_monitor;
    int64_t layer, head; /* -1: no placeholder */
    bool is_mtp;
} match;

static bool take_word(const char **pattern, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*pattern, word, n) != 0)
        return false;
    *pattern += n;
    return true;
}

static const char *take_index(int64_t *out, const char *tag)
{
    size_t n = strspn(tag, "0123456789");
    if (n == 0 || n > 9)
        return NULL;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = *out * 10 + (tag[i] - '0');
    return tag + n;
}

static bool matches(match *out, const char *pattern, const char *tag);

/* Matches a string placeholder with the shortest string for which the rest of
   the tag matches. */
static bool match_text(match *out, const char **text, size_t *n,
                       const char *pattern, const char *tag)
{
    for (size_t k = 1; k <= strlen(tag); k++) {
        *text = tag;
        *n = k;
        if (matches(out, pattern, tag + k))
            return true;
    }
    return false;
}

/* The recursion depth is limited by the number of placeholders, which
   es_tag_pattern_check restricts. */
static bool matches(match *out, const char *pattern, const char *tag)
{
    for (; *pattern; pattern++, tag++) {
        bool layer = take_word(&pattern, "{layer}");
        if (layer || take_word(&pattern, "{head}")) {
            tag = take_index(layer ? &out->layer : &out->head, tag);
            return tag && matches(out, pattern, tag);
        }
        if (take_word(&pattern, "{series}"))
            return match_text(out, &out->series, &out->n_series, pattern, tag);
        if (take_word(&pattern, "{monitor}"))
            return match_text(out, &out->monitor, &out->n_monitor, pattern,
                              tag);
        if (*pattern != *tag)
            return false;
    }
    return !*tag;
}

es_status es_tag_pattern_check(const char *pattern)
{
    int n_layer = 0, n_head = 0, n_series = 0;
    for (const char *c = pattern; *c;) {
        if (take_word(&c, "{layer}"))
            n_layer++;
        else if (take_word(&c, "{head}"))
            n_head++;
        else if (take_word(&c, "{series}"))
            n_series++;
        else if (*c == '{' || *c == '}')
            return es_fail(ES_EUSAGE,
                           "--tags '%.80s': braces are only allowed in "
                           "{layer}, {head} and {series}",
                           pattern);
        else
            c++;
    }
    if (n_layer > 1 || n_head > 1 || n_series > 1 || n_head > n_layer ||
        n_layer + n_series == 0)
        return es_fail(ES_EUSAGE,
                       "--tags '%.80s': expected one {layer}, and at most one "
                       "{head} and {series}",
                       pattern);
    return ES_OK;
}

/* --- names -----------------------------------------------------------------*/

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? toupper((unsigned char)c) - 'A' + 10
                                        : -1;
}

static bool copy_name(es_tag *out, const char *text, size_t n, bool escaped)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++, k++) {
        char c = text[i];
        int high = -1, low = -1;
        if (escaped && c == '%' && i + 2 < n) {
            high = hex_digit(text[i + 1]);
            low = hex_digit(text[i + 2]);
        }
        if (k >= ES_MAX_NAME)
            return false;
        if (high >= 0 && low >= 0) {
            c = (char)(high * 16 + low);
            i += 2;
        }
        out->series[k] = c;
    }
    out->series[k] = '\0';
    return k > 0;
}

/* Removes the prefix that denotes the kind of attention, such as swa_, from the
   name of a metric in qk_stats, and returns this kind. Full attention includes
   compressed keys (MLA) and a single key head (MQA); sparse attention combines
   windows with compressed or selected keys. */
static es_layer_kind take_kind(const char **name)
{
    static const struct {
        const char *prefix;
        es_layer_kind kind;
    } kinds[] = {{"swa_", ES_LAYER_WINDOW}, {"window_", ES_LAYER_WINDOW},
                 {"full_", ES_LAYER_FULL},  {"mla_", ES_LAYER_FULL},
                 {"mqa_", ES_LAYER_FULL},   {"csa_", ES_LAYER_SPARSE},
                 {"hca_", ES_LAYER_SPARSE}, {"dsa_", ES_LAYER_SPARSE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (take_word(name, kinds[i].prefix))
            return kinds[i].kind;
    return ES_LAYER_UNKNOWN;
}

/* Translates a name of llm-internal-medicine to the standard series with the
   same meaning: entropy_avg is the mean of the row entropies, max the largest
   logit, and sink the attention weight of the first key. */
static bool name_monitor(es_tag *out, const match *found)
{
    static const struct {
        const char *theirs, *ours;
    } same[] = {
        {"entropy_avg", "entropy"}, {"max", "max_logit"}, {"sink", "sink"}};
    const bool is_qk =
        found->n_monitor == 8 && strncmp(found->monitor, "qk_stats", 8) == 0;
    const char *name_of = found->series;
    if (is_qk)
        out->kind = take_kind(&name_of);
    const size_t n_name = found->n_series - (size_t)(name_of - found->series);
    for (size_t i = 0; is_qk && i < sizeof same / sizeof *same; i++)
        if (strlen(same[i].theirs) == n_name &&
            strncmp(same[i].theirs, name_of, n_name) == 0)
            return copy_name(out, same[i].ours, strlen(same[i].ours), false);
    char name[ES_TAG_MAX];
    int n = snprintf(name, sizeof name, "%.*s/%.*s", (int)found->n_monitor,
                     found->monitor, (int)n_name, name_of);
    return copy_name(out, name, (size_t)n, false);
}

/* --- tags ------------------------------------------------------------------*/

const char *es_tag_without_phase(es_phase *phase, const char *tag)
{
    *phase = ES_PHASE_TRAIN;
    if (take_word(&tag, "eval/") || take_word(&tag, "val/"))
        *phase = ES_PHASE_EVAL;
    else
        (void)take_word(&tag, "train/");
    return tag;
}

/* Matches the tag with the pattern that the user gave. If the pattern has no
   {series}, the series gets the name in rules->series. */
static bool match_given(match *out, const char *tag, const es_tag_rules *rules)
{
    *out = (match){.layer = -1, .head = -1};
    if (!matches(out, rules->pattern, tag))
        return false;
    if (!out->series) {
        out->series = rules->series;
        out->n_series = strlen(rules->series);
    }
    return true;
}

/* Finds the first known pattern that matches. `plain` is the tag without the
   names of module wrappers. */
static bool find_match(match *out, const char *tag, const char *plain,
                       const es_tag_rules *rules)
{
    static const struct {
        const char *pattern;
        bool is_ours; /* true if export writes tags of this pattern */
        bool is_mtp;
    } known[] = {
        {"{series}/layer_{layer}/head_{head}", true, false},
        {"attn.{layer}.head.{head}.{series}", false, false},
        {"attn/layer_{layer}/head_{head}/{series}", false, false},
        {"{series}/layer_{layer}_head_{head}", false, false},
        {"{series}/layers.{layer}.self_attn.head_{head}", false, false},
        {"layers.{layer}.self_attn.head_{head}.{series}", false, false},
        {"{series}/Layer {layer} Head {head}", false, false},
        {"{series}/L{layer}H{head}", false, false},
        {"{series}[{layer}][{head}]", false, false},
        {"{series}/layer_{layer}", true, false},
        {"{monitor}/layer_{layer}/{series}", true, false},
        {"{monitor}/layer_{layer}_mtp/{series}", false, true},
    };
    if (!rules->is_ours && rules->pattern &&
        (match_given(out, tag, rules) || match_given(out, plain, rules)))
        return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *out = (match){.layer = -1, .head = -1, .is_mtp = known[i].is_mtp};
        if (rules->is_ours
                ? known[i].is_ours && matches(out, known[i].pattern, tag)
                : matches(out, known[i].pattern, plain))
            return true;
    }
    /* Any other tag becomes a series of the run, with the tag's name and one
       number per step. */
    *out = (match){
        .series = tag, .n_series = strlen(tag), .layer = -1, .head = -1};
    return *tag;
}

bool es_tag_parse(es_tag *out, const char *tag, const es_tag_rules *rules)
{
    match found;
    char plain[ES_TAG_MAX];
    size_t n = strnlen(tag, ES_TAG_MAX);
    *out = (es_tag){.shape = ES_SHAPE_RUN};
    if (n == ES_TAG_MAX)
        return false;
    tag = es_tag_without_phase(&out->phase, tag);
    es_text_unwrap(plain, tag);
    if (!find_match(&found, tag, plain, rules))
        return false;
    if (found.monitor && rules->is_ours)
        return false; /* the tag is a mean over heads that export wrote, which
                         import ignores */
    if (found.layer >= ES_MAX_LAYERS || found.head >= ES_MAX_HEADS)
        return false;
    out->shape = found.head >= 0    ? ES_SHAPE_HEAD
                 : found.layer >= 0 ? ES_SHAPE_LAYER
                                    : ES_SHAPE_RUN;
    out->layer = found.layer >= 0 ? found.layer : 0;
    out->head = found.head >= 0 ? found.head : 0;
    out->is_mtp = found.is_mtp;
    if (found.monitor)
        return name_monitor(out, &found);
    return copy_name(out, found.series, found.n_series, rules->is_ours);
}

void es_tag_print(FILE *out, const es_tag *tag, bool mean)
{
    bool utf8 = es_text_is_utf8(tag->series, strlen(tag->series));
    if (tag->phase == ES_PHASE_EVAL)
        fputs("eval/", out);
    for (const char *c = tag->series; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte >= 0x20 && byte != 0x7f && !strchr("%/", *c) &&
            (byte < 0x80 || utf8))
            fputc(*c, out);
        else
            fprintf(out, "%%%02X", byte);
    }
    if (tag->shape != ES_SHAPE_RUN)
        fprintf(out, "/layer_%02lld", (long long)tag->layer);
    if (mean)
        fputs("/mean", out);
    else if (tag->shape == ES_SHAPE_HEAD)
        fprintf(out, "/head_%02lld", (long long)tag->head);
}
