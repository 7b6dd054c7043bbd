/** Guesses a pattern for unknown names that look like attention entropies. */
#ifndef ES_TAG_GUESS_H
#define ES_TAG_GUESS_H

#include "cli/exchange/tags.h"

/** Maximum size of a name in bytes; longer names are ignored. */
#define ES_TAG_GUESS_MAX 128

/**
 * Derives the pattern "attn_ent_b{layer}_{head}" from attn_ent_b0_0,
 * attn_ent_b0_1, ...
 *
 *   out   the pattern, to be used as es_tag_rules.pattern
 *   tag   the element of `tags` from which the pattern was derived; borrowed
 *   tags  (n) names; NULL elements are skipped
 *
 * Returns false if no name looks like an entropy and contains a number.
 */
bool es_tag_guess(char out[ES_TAG_MAX], const char **tag,
                  const char *const *tags, size_t n);

#endif
