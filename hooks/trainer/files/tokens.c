/* Reads and writes token files: a header of 96 bytes, then the training and the
 * held-out tokens. Opening verifies a checksum over the whole file; batches are
 * then read from positions in the file that depend only on seed and step. */
#include "hooks/trainer/files/tokens.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/infile.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the machine must be little-endian, like the file's numbers");

#define MAGIC "ESTOKENS"

/** The file's first bytes, as described in tokens.h. */
typedef struct file_header {
    char magic[8];
    uint32_t version, vocab, token_bytes, reserved;
    uint64_t n[2], n_documents[2];
    char tokenizer[ES_TOKENIZER_MAX];
    uint64_t checksum;
} file_header;

static_assert(sizeof(file_header) == 96, "the struct must not have padding");

#define HEADER sizeof(file_header)
#define HASHED_HEADER offsetof(file_header, checksum)

/* --- checksum ------------------------------------------------------------ */

#define HASH_START UINT64_C(0xcbf29ce484222325)

static uint64_t hash_words(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
    }
    return hash;
}

static uint64_t hash_mix(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 33;
}

uint64_t es_tokens_hash(const void *bytes, size_t n)
{
    return hash_mix(hash_words(HASH_START, bytes, n) ^ n);
}

/* --- header -------------------------------------------------------------- */

static bool token_bytes_fit(uint32_t bytes, uint32_t vocab)
{
    if (bytes != 1 && bytes != 2 && bytes != 4)
        return false;
    return vocab >= 1 && vocab <= INT32_MAX &&
           (bytes == 4 || vocab <= UINT32_C(1) << 8 * bytes);
}

/** Computes the size of all tokens in bytes; returns false on overflow. */
static bool payload_bytes(size_t *out, uint64_t n_train, uint64_t n_held_out,
                          uint32_t token_bytes)
{
    size_t n;
    return es_size_add(&n, n_train, n_held_out) &&
           es_size_mul(out, n, token_bytes) && *out < INT64_MAX - HEADER;
}

es_status es_tokens_write(FILE *stream, const es_tokens_content *content)
{
    size_t n;
    if (!token_bytes_fit(content->token_bytes, content->vocab) ||
        strlen(content->tokenizer) >= ES_TOKENIZER_MAX ||
        !payload_bytes(&n, content->n_train, content->n_held_out,
                       content->token_bytes))
        return es_fail(ES_EARGUMENT, "token file: vocabulary, bytes per token "
                                     "and token counts are inconsistent");
    file_header header = {.magic = MAGIC,
                          .version = 1,
                          .vocab = content->vocab,
                          .token_bytes = content->token_bytes,
                          .n = {content->n_train, content->n_held_out},
                          .n_documents = {content->n_train_documents,
                                          content->n_held_out_documents}};
    memcpy(header.tokenizer, content->tokenizer, strlen(content->tokenizer));
    uint64_t hash = hash_words(HASH_START, &header, HASHED_HEADER);
    hash = hash_words(hash, content->tokens, n);
    header.checksum = hash_mix(hash ^ (HASHED_HEADER + n));
    if (fwrite(&header, 1, HEADER, stream) != HEADER ||
        fwrite(content->tokens, 1, n, stream) != n)
        return es_fail(ES_EIO, "token file: cannot write: %s", strerror(errno));
    return ES_OK;
}

/* --- opening ------------------------------------------------------------- */

static es_status check_size(const es_tokens *tokens, size_t size)
{
    size_t payload;
    if (!payload_bytes(&payload, tokens->n[ES_SPLIT_TRAIN],
                       tokens->n[ES_SPLIT_HELD_OUT], tokens->token_bytes))
        return es_fail(ES_EFORMAT, "%s: damaged: impossible token counts",
                       tokens->path);
    if (size < HEADER + payload)
        return es_fail(ES_EFORMAT,
                       "%s: cut short: %zu of %zu bytes: make it again",
                       tokens->path, size, HEADER + payload);
    if (size > HEADER + payload)
        return es_fail(ES_EFORMAT, "%s: damaged: %zu bytes too long",
                       tokens->path, size - HEADER - payload);
    return ES_OK;
}

static uint32_t token_at(const unsigned char *bytes, size_t i, uint32_t width)
{
    uint32_t token = 0;
    if (width == 1)
        token = bytes[i];
    else if (width == 2)
        memcpy(&token, bytes + 2 * i, 2);
    else
        memcpy(&token, bytes + 4 * i, 4);
    return token;
}

/* Size of a read in bytes, which is a multiple of the hash's word size and of
 * every token size. */
#define CHUNK ((size_t)1 << 18)

static es_status check_tokens(const es_tokens *tokens,
                              const file_header *header, size_t payload)
{
    unsigned char *chunk;
    es_status status = es_alloc(&chunk, CHUNK, 1, "a part of the tokens");
    if (status < 0)
        return status;
    uint64_t hash = hash_words(HASH_START, header, HASHED_HEADER);
    uint32_t largest = 0;
    for (size_t at = 0; at < payload; at += CHUNK) {
        size_t n = payload - at < CHUNK ? payload - at : CHUNK;
        if ((status = es_infile_read(tokens->fd, chunk, n, HEADER + at,
                                     tokens->path)) < 0)
            break;
        hash = hash_words(hash, chunk, n);
        for (size_t i = 0; i < n / tokens->token_bytes; i++) {
            uint32_t token = token_at(chunk, i, tokens->token_bytes);
            largest = token > largest ? token : largest;
        }
    }
    free(chunk);
    if (status < 0)
        return status;
    if (hash_mix(hash ^ (HASHED_HEADER + payload)) != tokens->checksum)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: the checksum does not match the contents: "
                       "make it again",
                       tokens->path);
    if (largest >= tokens->vocab)
        return es_fail(ES_EFORMAT,
                       "%s: damaged: token %u is outside the vocabulary of %u",
                       tokens->path, largest, tokens->vocab);
    return ES_OK;
}

static es_status open_checked(es_tokens *tokens)
{
    uint64_t bytes = 0;
    file_header header;
    es_status status = es_infile_open(&tokens->fd, &bytes, tokens->path);
    size_t size = (size_t)bytes;
    if (status < 0)
        return status;
    if (size < HEADER)
        return es_fail(ES_EFORMAT, "%s: not a token file, or cut short",
                       tokens->path);
    status = es_infile_read(tokens->fd, &header, HEADER, 0, tokens->path);
    if (status < 0)
        return status;
    if (memcmp(header.magic, MAGIC, sizeof header.magic) != 0)
        return es_fail(ES_EFORMAT,
                       "%s: not a token file: make one with entropy-corpus",
                       tokens->path);
    if (header.version != 1)
        return es_fail(ES_EVERSION,
                       "%s: token file version %u: expected version 1",
                       tokens->path, header.version);
    tokens->vocab = header.vocab;
    tokens->token_bytes = header.token_bytes;
    memcpy(tokens->n, header.n, sizeof tokens->n);
    memcpy(tokens->tokenizer, header.tokenizer, sizeof header.tokenizer);
    tokens->checksum = header.checksum;
    if (!token_bytes_fit(tokens->token_bytes, tokens->vocab))
        return es_fail(
            ES_EFORMAT,
            "%s: damaged: a vocabulary of %u does not fit %u bytes per token",
            tokens->path, tokens->vocab, tokens->token_bytes);
    if ((status = check_size(tokens, size)) < 0)
        return status;
    return check_tokens(tokens, &header, size - HEADER);
}

es_status es_tokens_open(es_tokens **out, const char *path)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a token file");
    if (status < 0)
        return status;
    (*out)->fd = -1;
    if ((status = es_copy_text(&(*out)->path, path)) < 0 ||
        (status = open_checked(*out)) < 0) {
        es_tokens_close(*out);
        *out = NULL;
    }
    return status;
}

void es_tokens_close(es_tokens *tokens)
{
    if (!tokens)
        return;
    if (tokens->fd >= 0)
        close(tokens->fd);
    free(tokens->path);
    free(tokens);
}

/* --- batches ------------------------------------------------------------- */

es_status es_tokens_check_ctx(const es_tokens *tokens, es_token_split split,
                              int ctx)
{
    uint64_t n = tokens->n[split];
    if (ctx >= 1 && n > (uint64_t)ctx)
        return ES_OK;
    return es_fail(ES_EUSAGE,
                   "%s: %llu %s tokens are too few for a context of %d",
                   tokens->path, (unsigned long long)n,
                   split == ES_SPLIT_TRAIN ? "training" : "held-out", ctx);
}

/** Reads one sequence: ctx + 1 tokens from position `place` of the training or
 *  held-out tokens. */
static es_status read_sequence(const es_tokens *tokens, int32_t *inputs,
                               int32_t *targets, es_token_split split,
                               uint64_t place, int ctx)
{
    uint64_t at =
        place + (split == ES_SPLIT_TRAIN ? 0 : tokens->n[ES_SPLIT_TRAIN]);
    size_t left = (size_t)ctx + 1, done = 0;
    unsigned char bytes[4096];
    while (left > 0) {
        size_t n = sizeof bytes / tokens->token_bytes;
        n = left < n ? left : n;
        es_status status = es_infile_read(
            tokens->fd, bytes, n * tokens->token_bytes,
            HEADER + (at + done) * tokens->token_bytes, tokens->path);
        if (status < 0)
            return status;
        for (size_t i = 0; i < n; i++) {
            int32_t token = (int32_t)token_at(bytes, i, tokens->token_bytes);
            if (done + i < (size_t)ctx)
                inputs[done + i] = token;
            if (done + i > 0)
                targets[done + i - 1] = token;
        }
        done += n;
        left -= n;
    }
    return ES_OK;
}

/** Returns a pseudo-random number that depends only on the arguments. */
static uint64_t draw_number(uint64_t seed, uint64_t index, uint64_t sequence)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = hash_mix(seed + odd);
    hash = hash_mix(hash + index * odd);
    return hash_mix(hash_mix(hash + sequence * odd) + odd);
}

es_status es_tokens_random_batch(const es_tokens *tokens, int32_t *inputs,
                                 int32_t *targets, es_token_split split,
                                 uint64_t seed, uint64_t index, int n_batch,
                                 int ctx)
{
    es_status status = es_tokens_check_ctx(tokens, split, ctx);
    for (int b = 0; b < n_batch && status == ES_OK; b++) {
        uint64_t n_places = tokens->n[split] - (uint64_t)ctx;
        uint64_t place = draw_number(seed, index, (uint64_t)b) % n_places;
        ptrdiff_t at = (ptrdiff_t)b * ctx;
        status =
            read_sequence(tokens, inputs + at, targets + at, split, place, ctx);
    }
    return status;
}

es_status es_tokens_whole_batch(const es_tokens *tokens, int32_t *inputs,
                                int32_t *targets, es_token_split split,
                                uint64_t seed, uint64_t index, int n_batch,
                                int ctx)
{
    es_status status = es_tokens_check_ctx(tokens, split, ctx);
    for (int b = 0; b < n_batch && status == ES_OK; b++) {
        const uint64_t length = (uint64_t)ctx + 1;
        const uint64_t number =
            draw_number(seed, index, (uint64_t)b) % (tokens->n[split] / length);
        const ptrdiff_t at = (ptrdiff_t)b * ctx;
        status = read_sequence(tokens, inputs + at, targets + at, split,
                               number * length, ctx);
    }
    return status;
}

es_status es_tokens_fixed_batch(const es_tokens *tokens, int32_t *inputs,
                                int32_t *targets, es_token_split split,
                                uint64_t index, int n_batch, int ctx)
{
    es_status status = es_tokens_check_ctx(tokens, split, ctx);
    for (int b = 0; b < n_batch && status == ES_OK; b++) {
        uint64_t length = (uint64_t)ctx + 1;
        uint64_t n_sequences = tokens->n[split] / length;
        uint64_t number = index * (uint64_t)n_batch + (uint64_t)b;
        ptrdiff_t at = (ptrdiff_t)b * ctx;
        status = read_sequence(tokens, inputs + at, targets + at, split,
                               number % n_sequences * length, ctx);
    }
    return status;
}
