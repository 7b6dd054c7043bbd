/* Chooses the tokens to hide with a counter-based random generator. The random
 * numbers for token i depend only on seed, stream, micro-batch and i, so a step
 * can be drawn again, and an evaluation always hides the same tokens. */
#include "hooks/trainer/masking.h"

#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/model/params.h"

/* Converts a probability to a threshold for 32-bit random words. */
#define SHARE(x) ((uint32_t)((x)*0x1p32))
#define HIDDEN SHARE(0.15)
#define MASKED SHARE(0.8)
/* Probability that a token which the model must predict is replaced by the mask
 * or by a random token. */
#define REPLACED SHARE(0.9)

static void draw_words(uint32_t words[4], const es_masking *how, size_t i)
{
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)how->index,
                                 (uint32_t)(how->index >> 32), how->stream};
    const uint32_t key[2] = {(uint32_t)how->seed, (uint32_t)(how->seed >> 32)};
    es_random_block(words, counter, key);
}

static int32_t hide_token(int32_t token, const uint32_t words[4],
                          const es_masking *how)
{
    if (words[1] < MASKED)
        return how->mask;
    const int32_t other =
        (int32_t)(((uint64_t)words[2] * (uint64_t)how->vocab) >> 32);
    return words[1] < REPLACED && other != how->padding ? other : token;
}

es_status es_mask_tokens(int32_t *tokens, int32_t *targets, size_t n,
                         const es_masking *how)
{
    uint32_t words[4], least = UINT32_MAX;
    size_t n_hidden = 0, next = n; /* `next`: the token to mask if random
                                      masking selects no token */
    for (size_t i = 0; i < n; i++) {
        targets[i] = ES_NO_TARGET;
        if (tokens[i] == how->padding)
            continue;
        draw_words(words, how, i);
        if (next == n || words[0] < least) {
            next = i;
            least = words[0];
        }
        if (words[0] >= HIDDEN)
            continue;
        targets[i] = tokens[i];
        tokens[i] = hide_token(tokens[i], words, how);
        n_hidden++;
    }
    if (next == n)
        return es_fail(ES_EFORMAT, "%s: a micro-batch consists of padding only",
                       how->path);
    if (n_hidden == 0) {
        draw_words(words, how, next);
        targets[next] = tokens[next];
        tokens[next] = hide_token(tokens[next], words, how);
    }
    return ES_OK;
}
