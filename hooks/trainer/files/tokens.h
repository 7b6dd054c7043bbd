/**
 * Reads and writes token files. The format is little-endian; the columns are
 * offset and size in bytes:
 *
 *     0   8  "ESTOKENS"
 *     8   4  format version, 1
 *    12   4  vocabulary V: every token is < V
 *    16   4  bytes per token: 1, 2 or 4
 *    20   4  reserved, 0
 *    24   8  n_train: tokens of the training part
 *    32   8  n_held_out
 *    40   8  number of documents, training
 *    48   8  number of documents, held-out
 *    56  32  tokenizer, zero-padded ("bytes")
 *    88   8  es_tokens_hash of bytes 0..87 and the tokens, concatenated
 *    96      tokens: training part, then held-out part
 *
 * Documents are split by a hash of their path, so the split of a document does
 * not depend on the other documents.
 */
#ifndef ES_TOKENS_H
#define ES_TOKENS_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum es_token_split {
    ES_SPLIT_TRAIN,
    ES_SPLIT_HELD_OUT
} es_token_split;

#define ES_TOKENIZER_MAX 32

/** An open token file; all members are read-only. */
typedef struct es_tokens {
    char *path;
    int fd;
    uint32_t vocab, token_bytes;
    uint64_t n[2]; /* number of tokens of each es_token_split */
    uint64_t checksum;
    char tokenizer[ES_TOKENIZER_MAX + 1]; /* "bytes", ... */
} es_tokens;

/**
 * Opens a token file and reads all of it once to verify it.
 *
 * Batches are read from the file when they are requested: memory does not grow
 * with the file, and a file that is truncated during training causes an error,
 * not a crash.
 *
 * Returns ES_OK, ES_EIO, ES_EFORMAT (cut short, damaged, not a token file),
 * ES_EVERSION, ES_ENOMEM.
 */
es_status es_tokens_open(es_tokens **out, const char *path) ES_MUST_USE;
void es_tokens_close(es_tokens *tokens); /* `tokens` may be NULL */

/** Returns ES_OK, or ES_EUSAGE if the split has fewer than ctx + 1 tokens. */
es_status es_tokens_check_ctx(const es_tokens *tokens, es_token_split split,
                              int ctx) ES_MUST_USE;

/**
 * Reads a micro-batch from random positions. A counter-based generator draws
 * the position of sequence b in batch `index` from (seed, index, b), so any
 * batch can be read again without the previous ones.
 *
 *   inputs, targets  (B,T) output; a target is the input one position later
 *
 * Returns ES_OK; ES_EUSAGE if the split has fewer than ctx + 1 tokens; ES_EIO.
 */
es_status es_tokens_random_batch(const es_tokens *tokens, int32_t *inputs,
                                 int32_t *targets, es_token_split split,
                                 uint64_t seed, uint64_t index, int n_batch,
                                 int ctx) ES_MUST_USE;

/**
 * Reads micro-batch `index` when the split is read from its beginning in a
 * fixed order without overlap: sequences index*B .. index*B + B - 1, of ctx + 1
 * tokens each; after the end of the split, reading starts again at its
 * beginning.
 */
es_status es_tokens_fixed_batch(const es_tokens *tokens, int32_t *inputs,
                                int32_t *targets, es_token_split split,
                                uint64_t index, int n_batch,
                                int ctx) ES_MUST_USE;

/** Reads a micro-batch of whole sequences, as es_tokens_fixed_batch does, but
 *  chooses the sequences at random, as es_tokens_random_batch chooses
 *  positions. This suits data in which each sequence is one item, such as an
 *  image. */
es_status es_tokens_whole_batch(const es_tokens *tokens, int32_t *inputs,
                                int32_t *targets, es_token_split split,
                                uint64_t seed, uint64_t index, int n_batch,
                                int ctx) ES_MUST_USE;

/** The contents of a token file to be written. */
typedef struct es_tokens_content {
    uint32_t vocab;
    uint32_t token_bytes; /* 1, 2 or 4 */
    uint64_t n_train, n_held_out;
    uint64_t n_train_documents, n_held_out_documents;
    const char *tokenizer; /* name of the tokenizer, at most 31 bytes */
    const void *tokens;    /* n_train training tokens, then n_held_out held-out
                              tokens, little-endian */
} es_tokens_content;

/**
 * Writes a token file to `stream`, which the caller closes. Returns ES_OK,
 * ES_EARGUMENT (inconsistent sizes), ES_EIO.
 */
es_status es_tokens_write(FILE *stream,
                          const es_tokens_content *content) ES_MUST_USE;

/**
 * Returns a 64-bit checksum of bytes[0..n), which detects damage but not
 * forgery:
 *
 *     h = 0xcbf29ce484222325
 *     for each 8 bytes w, little-endian, at the end padded with zeros:
 *         h = (h ^ w) * 0x100000001b3;  h ^= h >> 32
 *     h ^= n;  h ^= h >> 33;  h *= 0xff51afd7ed558ccd;  h ^= h >> 33
 *
 * This is the hash of Fowler, Noll and Vo on words, with an added shift: it
 * moves a word's high bits down, whereas the multiplication only moves bits up.
 * Every step is invertible, so a change within one word always changes the
 * result.
 */
uint64_t es_tokens_hash(const void *bytes, size_t n);

#endif
