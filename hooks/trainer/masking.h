/** Hides tokens for models that are trained to predict them. */
#ifndef ES_MASKING_H
#define ES_MASKING_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Which tokens are hidden, and how. */
typedef struct es_masking {
    int mask;         /* token that replaces a hidden one */
    int padding;      /* never hidden; -1: no padding */
    int vocab;        /* its size; random replacements are drawn from it */
    uint64_t seed;    /* seed and */
    uint64_t index;   /* index: the draw depends on these, the position */
    uint32_t stream;  /* and the stream, which separates unrelated draws */
    const char *path; /* path of the data, for messages */
} es_masking;

/**
 * Hides tokens as BERT does (Devlin et al. 2019; RoBERTa draws anew each time).
 * Each token other than padding is chosen with probability 15 %. Of the chosen
 * tokens, 80 % become the mask, 10 % become a random token of the vocabulary,
 * and 10 % stay. At least one token is chosen.
 *
 *   tokens   (n) changed in place
 *   targets  (n) written: the original token where it was chosen, otherwise
 *            ES_NO_TARGET
 *
 * Returns ES_OK, or ES_EFORMAT if all tokens are padding.
 */
es_status es_mask_tokens(int32_t *tokens, int32_t *targets, size_t n,
                         const es_masking *how) ES_MUST_USE;

#endif
