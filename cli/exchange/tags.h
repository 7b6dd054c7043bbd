/** Tags: names of single numbers in records of other tools, such as
 *  attn.3.head.7.entropy, which give a series, layer and head. */
#ifndef ES_TAGS_H
#define ES_TAGS_H

#include "store/layers.h"
#include "store/run.h"
#include <stdio.h>

#define ES_TAG_MAX 512 /* limit of bytes of a tag; longer ones are refused */

/** The position that a tag gives. */
typedef struct es_tag {
    char series[ES_MAX_NAME + 1]; /* never empty */
    es_phase phase;
    es_shape shape;
    int64_t layer, head; /* 0 if the shape has none */
    es_layer_kind kind;  /* kind of the layer's attention */
    bool is_mtp; /* a multi-token prediction layer, which is numbered after
                    the decoder's, or separately */
} es_tag;

/** How the tags of a file are read. */
typedef struct es_tag_rules {
    const char *pattern; /* takes precedence, such as "h{layer}.{head}";
                            NULL: none; {series} matches the name of the
                            series */
    const char *series;  /* name for a pattern without {series} */
    bool is_ours;        /* written by es_tag_print */
} es_tag_rules;

/** Returns ES_OK, or ES_EUSAGE: the pattern has neither {layer} nor {series}, a
 *  {head} without a {layer}, a placeholder twice, or another brace. */
es_status es_tag_pattern_check(const char *pattern) ES_MUST_USE;

/**
 * Recognises a tag, after an optional "eval/", "val/" or "train/":
 *
 *     the rules' pattern
 *     {series}/layer_{layer}/head_{head}     export's
 *     attn.{layer}.head.{head}.{series}      often used with W&B; tags.c
 *         lists further spellings of a layer and a head
 *     {series}/layer_{layer}                 export's
 *     {monitor}/layer_{layer}/{series}       llm-internal-medicine's, also
 *         layer_{layer}_mtp; its qk_stats entropy_avg, max and sink become
 *         entropy, max_logit and sink of a layer; their prefix (swa_, full_,
 *         mla_, ...) gives the kind of the layer's attention; other names
 *         keep their monitor: moe_health/x
 *     anything else                          a number of the run
 *
 * The prefixes module. and _orig_mod. of wrapped PyTorch modules are ignored.
 *
 * Returns false if the tag is too long, has a layer or head beyond the limits,
 * or is a mean written by export, which follows from the heads.
 */
bool es_tag_parse(es_tag *out, const char *tag, const es_tag_rules *rules);

/** Returns the tag without "eval/", "val/" or "train/", which give the
 *  phase. */
const char *es_tag_without_phase(es_phase *phase, const char *tag);

/** Prints a tag that es_tag_parse reads back, as UTF-8; other bytes and
 *  separators are written %XX. `mean`: the tag of the mean of the layer's
 *  heads. */
void es_tag_print(FILE *out, const es_tag *tag, bool mean);

#endif
