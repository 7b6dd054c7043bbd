/** Parses tags. A tag is the name of a single number in the records of another
 *  tool, such as attn.3.head.7.entropy, and encodes a series, layer and
 *  head. */
#ifndef ES_TAGS_H
#define ES_TAGS_H

#include "store/layers.h"
#include "store/run.h"
#include <stdio.h>

#define ES_TAG_MAX 512 /* maximum size of a tag in bytes */

/** Series, layer and head that a tag encodes. */
typedef struct es_tag {
    char series[ES_MAX_NAME + 1]; /* never empty */
    es_phase phase;
    es_shape shape;
    int64_t layer, head; /* 0 if the series has no layers or heads */
    es_layer_kind kind;  /* kind of the layer's attention */
    bool is_mtp; /* true for a multi-token prediction layer, which may be
                    numbered after the decoder's layers or separately from 0 */
} es_tag;

/** Rules by which the tags of a file are parsed. */
typedef struct es_tag_rules {
    const char *pattern; /* pattern that takes precedence, such as
                            "h{layer}.{head}" or one with {series}; NULL for
                            none */
    const char *series;  /* name of the series if the pattern has no {series} */
    bool is_ours; /* true if export wrote the file, so its tags are those of
                     es_tag_print */
} es_tag_rules;

/** Checks a pattern. Returns ES_OK. Returns ES_EUSAGE if the pattern has
 *  neither {layer} nor {series}, has {head} without {layer}, repeats a
 *  placeholder, or contains another brace. */
es_status es_tag_pattern_check(const char *pattern) ES_MUST_USE;

/**
 * Recognises a tag, after an optional "eval/", "val/" or "train/":
 *
 *     the pattern of the rules
 *     {series}/layer_{layer}/head_{head}     written by export
 *     attn.{layer}.head.{head}.{series}      common with W&B; tags.c lists more
 *         patterns with a layer and a head
 *     {series}/layer_{layer}                 written by export
 *     {monitor}/layer_{layer}/{series}       written by llm-internal-medicine,
 *         also layer_{layer}_mtp. The qk_stats entropy_avg, max and sink become
 *         entropy, max_logit and sink of a layer; their prefix (swa_, full_,
 *         mla_, ...) gives the kind of the layer's attention. Other names keep
 *         the monitor: moe_health/x
 *     any other tag                          a number of the run
 *
 * The prefixes module. and _orig_mod. of wrapped PyTorch modules are ignored.
 *
 * Returns false if the tag is too long, has a layer or head beyond the limits,
 * or is a mean written by export, which follows from the heads.
 */
bool es_tag_parse(es_tag *out, const char *tag, const es_tag_rules *rules);

/** Removes the prefix "eval/", "val/" or "train/" from a tag and sets *phase
 *  accordingly. Returns the rest of the tag. */
const char *es_tag_without_phase(es_phase *phase, const char *tag);

/** Prints a tag in UTF-8 that es_tag_parse can read back. Invalid bytes and
 *  separators in a name are written as %XX. If `mean` is true, prints the tag
 *  of the mean over the layer's heads. */
void es_tag_print(FILE *out, const es_tag *tag, bool mean);

#endif
