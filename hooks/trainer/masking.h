/** Tokens that are hidden, for models that are trained to find them. */
#ifndef ES_MASKING_H
#define ES_MASKING_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** What is hidden, and behind what. */
typedef struct es_masking {
    int mask;         /* the token in the place of a hidden one */
    int padding;      /* never hidden; -1: none */
    int vocab;        /* of the data: others are drawn from it */
    uint64_t seed;    /* with `index` and the place all that the draw */
    uint64_t index;   /* depends on */
    uint32_t stream;  /* of draws that shall have nothing in common */
    const char *path; /* of the data, for messages */
} es_masking;

/**
 * Hides tokens as BERT does (Devlin et al. 2019; RoBERTa draws anew each time):
 * each but padding with probability 15 %; of those 80 % become the mask, 10 % a
 * token drawn from the vocabulary, 10 % stay. One at least is hidden.
 *
 *   tokens   (n) changed in place
 *   targets  (n) written: what was there where it is hidden, else ES_NO_TARGET
 *
 * ES_OK; ES_EFORMAT: all is padding.
 */
es_status es_mask_tokens(int32_t *tokens, int32_t *targets, size_t n,
                         const es_masking *how) ES_MUST_USE;

#endif
