/** Tokens in a file without a name, until it is known how many they are. */
#ifndef ES_CORPUS_SPOOL_H
#define ES_CORPUS_SPOOL_H

#include "analyzer/base/status.h"
#include "hooks/trainer/files/tokens.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct es_spool {
    FILE *file;
    uint32_t vocab, token_bytes;
    uint64_t n; /* tokens so far */
} es_spool;

/** A new empty file in $TMPDIR or /tmp that goes when it is closed. */
es_status es_temporary_file(FILE **out) ES_MUST_USE;

/**
 *   vocab   1..2^31-1; a token takes the fewest of 1, 2 or 4 bytes
 *
 * ES_OK, ES_EIO.
 */
es_status es_spool_open(es_spool *spool, uint32_t vocab) ES_MUST_USE;

/** Tokens at the end; each < vocab. ES_OK, ES_EIO. */
es_status es_spool_put(es_spool *spool, const uint32_t *tokens,
                       size_t n) ES_MUST_USE;

/** The same for bytes; vocab is 256. ES_OK, ES_EIO, ES_EARGUMENT. */
es_status es_spool_put_bytes(es_spool *spool, const unsigned char *bytes,
                             size_t n) ES_MUST_USE;

/**
 * Writes the token file to `path`, whole or not at all.
 *
 *   content   the counts, which add up to spool->n, and the tokenizer; the
 *             rest is filled in
 *
 * ES_OK; ES_EIO; ES_ENOMEM (the spool cannot be mapped).
 */
es_status es_spool_write(es_spool *spool, const char *path,
                         const es_tokens_content *content) ES_MUST_USE;

void es_spool_close(es_spool *spool); /* twice is fine */

#endif
