/** Hides tokens for families that are trained to predict hidden tokens. */
#ifndef ES_MASKING_H
#define ES_MASKING_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Options of es_mask_tokens. The random choice of a token depends on seed,
 *  index, stream and the token's position. */
typedef struct es_masking {
    int mask;        /* token that replaces hidden tokens */
    int padding;     /* token that is never hidden; -1 if there is no padding */
    int vocab;       /* vocabulary size, for random replacements */
    uint64_t seed;   /* seed of the random choice */
    uint64_t index;  /* index of the micro-batch */
    uint32_t stream; /* number of the random stream; masks of different streams
                        are independent */
    const char *path; /* path of the data, for messages */
} es_masking;

/**
 * Hides tokens as BERT does (Devlin et al. 2019; RoBERTa draws anew each time).
 * Chooses each token other than padding with probability 15 %. Of the chosen
 * tokens, 80 % become the mask token, 10 % become a random token of the
 * vocabulary, and 10 % stay unchanged, as do tokens whose random replacement
 * would be padding. At least one token is chosen.
 *
 *   tokens   (n) changed in place
 *   targets  (n) written: the original token if the token was chosen, otherwise
 *            ES_NO_TARGET
 *
 * Returns ES_OK, or ES_EFORMAT if all tokens are padding.
 */
es_status es_mask_tokens(int32_t *tokens, int32_t *targets, size_t n,
                         const es_masking *how) ES_MUST_USE;

#endif
