/** Names of single numbers in other tools' records, such as
 *  attn.3.head.7.entropy: which series, layer and head they are of. */
#ifndef ES_TAGS_H
#define ES_TAGS_H

#include "store/layers.h"
#include "store/run.h"
#include <stdio.h>

#define ES_TAG_MAX 512 /* bytes of a tag that is looked at */

/** What a tag is of. */
typedef struct es_tag {
    char series[ES_MAX_NAME + 1]; /* never empty */
    es_phase phase;
    es_shape shape;
    int64_t layer, head; /* 0 where the shape has none */
    es_layer_kind kind;  /* of the layer's attention */
    bool is_mtp; /* a layer that predicts later tokens, which is numbered
                    apart from the decoder's, or after them */
} es_tag;

/** What is known of the file that the tags are from. */
typedef struct es_tag_rules {
    const char *pattern; /* tried first, such as "h{layer}.{head}"; NULL: none;
                            {series} stands for the series' name */
    const char *series;  /* of a pattern without {series} */
    bool is_ours;        /* es_tag_print made them */
} es_tag_rules;

/** ES_OK, or ES_EUSAGE: neither {layer} nor {series}, a {head} without a
 *  {layer}, one of them twice, another brace. */
es_status es_tag_pattern_check(const char *pattern) ES_MUST_USE;

/**
 * Recognises a tag, after "eval/", "val/" or "train/":
 *
 *     the rules' pattern
 *     {series}/layer_{layer}/head_{head}     export's
 *     attn.{layer}.head.{head}.{series}      as people log to W&B, and other
 *         spellings of a layer and a head: tags.c
 *     {series}/layer_{layer}                 export's
 *     {monitor}/layer_{layer}/{series}       llm-internal-medicine's, also
 *         layer_{layer}_mtp; its qk_stats entropy_avg, max and sink are our
 *         entropy, max_logit and sink, each of a layer; what stands before
 *         them (swa_, full_, mla_, ...) is the kind of the layer's attention;
 *         others keep their monitor: moe_health/x
 *     anything else                          a number of the run
 *
 * Of names of PyTorch's modules what wraps these is passed over, module. and
 * _orig_mod.
 *
 * False: the tag is too long, names a layer or head beyond our limits, or is
 * one of export's means, which follow from the heads.
 */
bool es_tag_parse(es_tag *out, const char *tag, const es_tag_rules *rules);

/** What follows "eval/", "val/" or "train/", which say the phase. */
const char *es_tag_without_phase(es_phase *phase, const char *tag);

/** A tag that es_tag_parse reads back; UTF-8. What would be read otherwise is
 *  written %XX. `mean`: of the layer's heads. */
void es_tag_print(FILE *out, const es_tag *tag, bool mean);

#endif
