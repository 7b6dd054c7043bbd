/** A pattern for names of numbers that look like attention entropies, but are
 *  spelled as nobody else spells them. */
#ifndef ES_TAG_GUESS_H
#define ES_TAG_GUESS_H

#include "cli/exchange/tags.h"

#define ES_TAG_GUESS_MAX 128 /* bytes of a name that is looked at */

/**
 * "attn_ent_b{layer}_{head}" of attn_ent_b0_0, attn_ent_b0_1, ...
 *
 *   out   the pattern, for es_tag_rules
 *   tag   one of `tags` that it is made from; borrowed
 *   tags  (n); NULL ones are passed over
 *
 * False: none of the names has to do with entropy and has a number in it.
 */
bool es_tag_guess(char out[ES_TAG_MAX], const char **tag,
                  const char *const *tags, size_t n);

#endif
