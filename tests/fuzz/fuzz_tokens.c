/* Fuzzes token files: hooks/trainer/files/tokens.h. */
#include "hooks/trainer/files/tokens.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { HEADER = 96, HASHED = 88 };

/* Builds a header that matches the bytes and then changes it. Most inputs get a
 * correct checksum, because the code after the checksum test would otherwise
 * never be reached. */
static void build(uint8_t *file, size_t n)
{
    uint8_t how = file[23];
    memcpy(file, "ESTOKENS\1\0\0\0", 12);
    file[16] = (uint8_t)(1u << how % 3);
    memset(file + 17, 0, 3);
    uint64_t total = (n - HEADER) / file[16], train = file[24] % (total + 1);
    uint64_t held_out = total - train;
    if (how & 4)
        train ^= UINT64_C(1) << (how >> 3);
    memcpy(file + 24, &train, sizeof train);
    memcpy(file + 32, &held_out, sizeof held_out);
    if (how & 128)
        return;
    uint64_t hash;
    uint8_t hashed[HASHED + 4096];
    memcpy(hashed, file, HASHED);
    memcpy(hashed + HASHED, file + HEADER, n - HEADER);
    hash = es_tokens_hash(hashed, HASHED + n - HEADER);
    memcpy(file + HASHED, &hash, sizeof hash);
}

static void check_batch(const es_tokens *tokens, es_token_split split, int ctx,
                        uint64_t index)
{
    int32_t inputs[3 * 8], targets[3 * 8];
    es_status status = es_tokens_check_ctx(tokens, split, ctx);
    es_status drawn = es_tokens_random_batch(tokens, inputs, targets, split,
                                             index, index, 3, ctx);
    fuzz_require(fuzz_succeeded(status) == fuzz_succeeded(drawn));
    for (int i = 0; drawn == ES_OK && i < 3 * ctx; i++)
        fuzz_require(inputs[i] >= 0 && inputs[i] < (int)tokens->vocab &&
                     targets[i] >= 0 && targets[i] < (int)tokens->vocab);
    drawn =
        es_tokens_fixed_batch(tokens, inputs, targets, split, index, 3, ctx);
    fuzz_require(fuzz_succeeded(status) == fuzz_succeeded(drawn));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint8_t file[4096];
    es_tokens *tokens = NULL;
    if (n > sizeof file)
        return 0;
    memcpy(file, bytes, n);
    if (n >= HEADER && file[22] != 255)
        build(file, n);
    if (!fuzz_succeeded(es_tokens_open(&tokens, fuzz_file(file, n)))) {
        fuzz_require(!tokens);
        return 0;
    }
    fuzz_require((int)tokens->vocab >= 1);
    fuzz_require(strlen(tokens->tokenizer) <= 32);
    uint64_t index;
    memcpy(&index, bytes + HEADER - sizeof index, sizeof index);
    check_batch(tokens, ES_SPLIT_TRAIN, 1 + bytes[0] % 8, index);
    check_batch(tokens, ES_SPLIT_HELD_OUT, 1 + bytes[1] % 8, index);
    es_tokens_close(tokens);
    return 0;
}
