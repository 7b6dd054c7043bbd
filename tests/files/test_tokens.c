/* Tests token files: written tokens are read back, and damaged files are
   refused. */
#include "hooks/trainer/files/tokens.h"
#include "tests/support/test.h"

AUTO_OF(es_tokens, es_tokens_close)

enum { N_TRAIN = 301, N_HELD_OUT = 46, N = N_TRAIN + N_HELD_OUT, HEADER = 96 };

static char folder[] = "/tmp/test_tokens_XXXXXX";
static char path[64];

/**
 * Returns the token with index i of the test file. The tokens are not zero, and
 * the period of their sequence is not a power of 2.
 */
static uint32_t token_of(uint64_t i, uint32_t vocab)
{
    return (uint32_t)((i * 37 + 11) % vocab);
}

static void write_file(uint32_t vocab, uint32_t width)
{
    unsigned char bytes[4 * N];
    for (uint64_t i = 0; i < N; i++) {
        uint32_t token = token_of(i, vocab);
        for (uint32_t c = 0; c < width; c++)
            bytes[i * width + c] = (unsigned char)(token >> 8 * c);
    }
    es_tokens_content content = {vocab, width, N_TRAIN, N_HELD_OUT,
                                 3,     1,     "bytes", bytes};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    es_assert_ok(es_tokens_write(file, &content));
    assert_int_equal(fclose(file), 0);
}

static size_t read_file(unsigned char *out, size_t n)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(out, 1, n, file);
    fclose(file);
    return got;
}

static es_status try_open(void)
{
    es_tokens *tokens = NULL;
    es_status status = es_tokens_open(&tokens, path);
    assert_true((status == ES_OK) == (tokens != NULL));
    es_tokens_close(tokens);
    return status;
}

static es_tokens *open_file(void)
{
    es_tokens *tokens = NULL;
    es_assert_ok(es_tokens_open(&tokens, path));
    return tokens;
}

TEST(the_hash_is_as_documented)
{
    /* The expected checksums of an empty text and of a text that fits into one
       8-byte word are computed step by step, as the definition states. */
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    uint64_t empty = h ^ h >> 33;
    empty *= UINT64_C(0xff51afd7ed558ccd);
    assert_true(es_tokens_hash("", 0) == (empty ^ empty >> 33));
    h = (h ^ 0x6261) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    h ^= 2;
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    assert_true(es_tokens_hash("ab", 2) == (h ^ h >> 33));
    assert_true(es_tokens_hash("ab\0", 3) != es_tokens_hash("ab", 2));
    /* A change of the top bits of two words must change the checksum. If the
     * words were only multiplied, the two changes would cancel. */
    unsigned char twice[24] = {1, 2, 3}, flipped[24] = {1, 2, 3};
    flipped[7] ^= 0x80;
    flipped[15] ^= 0x80;
    assert_true(es_tokens_hash(twice, 24) != es_tokens_hash(flipped, 24));
}

TEST(tokens_of_every_width_are_read_back)
{
    const uint32_t vocabs[] = {253, 50021, 100003}, widths[] = {1, 2, 4};
    for (int k = 0; k < 3; k++) {
        write_file(vocabs[k], widths[k]);
        AUTO(es_tokens) tokens = open_file();
        assert_int_equal((int)tokens->vocab, vocabs[k]);
        assert_int_equal(tokens->n[ES_SPLIT_TRAIN], N_TRAIN);
        assert_int_equal(tokens->n[ES_SPLIT_HELD_OUT], N_HELD_OUT);
        assert_string_equal(tokens->tokenizer, "bytes");
        int32_t x[N_TRAIN - 1], y[N_TRAIN - 1];
        es_assert_ok(es_tokens_fixed_batch(tokens, x, y, ES_SPLIT_TRAIN, 0, 1,
                                           N_TRAIN - 1));
        for (uint64_t i = 0; i < N_TRAIN - 1; i++) {
            assert_int_equal(x[i], token_of(i, vocabs[k]));
            assert_int_equal(y[i], token_of(i + 1, vocabs[k]));
        }
    }
}

TEST(every_flipped_byte_is_refused)
{
    unsigned char bytes[HEADER + N];
    write_file(253, 1);
    assert_int_equal(read_file(bytes, sizeof bytes), sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 0x10;
        es_file_write(path, bytes, sizeof bytes);
        es_status status = try_open();
        bytes[i] ^= 0x10;
        if (i >= 8 && i < 12)
            assert_int_equal(status, ES_EVERSION);
        else
            assert_int_equal(status, ES_EFORMAT);
        assert_non_null(strstr(es_message(), path));
    }
    es_file_write(path, bytes, sizeof bytes);
    es_assert_ok(try_open());
}

TEST(every_truncation_is_refused)
{
    unsigned char bytes[HEADER + N + 1] = {0};
    write_file(253, 1);
    assert_int_equal(read_file(bytes, sizeof bytes), HEADER + N);
    for (size_t n = 0; n < HEADER + N; n += n < HEADER ? 5 : 31) {
        es_file_write(path, bytes, n);
        assert_int_equal(try_open(), ES_EFORMAT);
    }
    es_file_write(path, bytes, HEADER + N + 1);
    assert_int_equal(try_open(), ES_EFORMAT);
}

TEST(a_token_outside_the_vocabulary_is_refused)
{
    /* The checksum is correct, but the file contains a token outside the
       vocabulary. */
    uint16_t values[3] = {7, 300, 9};
    es_tokens_content content = {300, 2, 3, 0, 1, 0, "bytes", values};
    FILE *file = fopen(path, "w");
    es_assert_ok(es_tokens_write(file, &content));
    fclose(file);
    es_assert_status(ES_EFORMAT, "token 300", try_open());
    content.vocab = 301;
    file = fopen(path, "w");
    es_assert_ok(es_tokens_write(file, &content));
    fclose(file);
    es_assert_ok(try_open());
}

TEST(files_that_are_not_token_files_are_refused)
{
    es_tokens *tokens = NULL;
    assert_int_equal(es_tokens_open(&tokens, "/nonexistent/x.tok"), ES_EIO);
    assert_int_equal(es_tokens_open(&tokens, folder), ES_EIO);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(try_open(), ES_EIO);
    unlink(path);
    char text[200];
    memset(text, 'x', sizeof text);
    es_file_write(path, text, sizeof text);
    es_assert_status(ES_EFORMAT, "entropy-corpus", try_open());
}

TEST(inconsistent_sizes_are_not_written)
{
    unsigned char byte = 3;
    const es_tokens_content bad[] = {
        {257, 1, 1, 0, 1, 0, "bytes", &byte},
        {0, 1, 1, 0, 1, 0, "bytes", &byte},
        {256, 3, 1, 0, 1, 0, "bytes", &byte},
        {256, 1, UINT64_MAX, 2, 1, 0, "bytes", &byte},
        {256, 1, 1, 0, 1, 0, "a name of a tokenizer of 32 bytes", &byte}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(es_tokens_write(stdout, &bad[i]), ES_EARGUMENT);
}

TEST(fixed_batches_do_not_overlap)
{
    enum {
        B = 3,
        CTX = 6
    }; /* the held-out part has 46 tokens, which are 6 sequences of CTX + 1, so
          batch 2 equals batch 0 */
    write_file(253, 1);
    AUTO(es_tokens) tokens = open_file();
    for (uint64_t index = 0; index < 4; index++) {
        int32_t x[B * CTX], y[B * CTX];
        es_assert_ok(es_tokens_fixed_batch(tokens, x, y, ES_SPLIT_HELD_OUT,
                                           index, B, CTX));
        for (uint64_t b = 0; b < B; b++) {
            uint64_t place = (index * B + b) % 6 * (CTX + 1);
            for (uint64_t i = 0; i < CTX; i++) {
                uint64_t at = N_TRAIN + place + i;
                assert_int_equal(x[b * CTX + i], token_of(at, 253));
                assert_int_equal(y[b * CTX + i], token_of(at + 1, 253));
            }
        }
    }
}

/** This vocabulary is so large that every token of the file is different. */
enum { LONG = 50021 };

/**
 * Returns the position of a sequence in the training part, found by comparing
 * tokens.
 */
static int place_of(const int32_t *x, int ctx)
{
    for (int place = 0; place + ctx < N_TRAIN; place++) {
        int i = 0;
        while (i < ctx &&
               x[i] == (int32_t)token_of((uint64_t)(place + i), LONG))
            i++;
        if (i == ctx)
            return place;
    }
    return -1;
}

TEST(random_batches_are_reproducible)
{
    enum { B = 5, CTX = 40, N_BATCHES = 400 };
    write_file(LONG, 2);
    AUTO(es_tokens) tokens = open_file();
    int seen[N_TRAIN] = {0}, n_seen = 0;
    int32_t x[B * CTX], y[B * CTX], again[B * CTX], other[B * CTX];
    for (uint64_t index = 0; index < N_BATCHES; index++) {
        es_assert_ok(es_tokens_random_batch(tokens, x, y, ES_SPLIT_TRAIN, 9,
                                            index, B, CTX));
        for (int b = 0; b < B; b++) {
            int place = place_of(x + b * CTX, CTX);
            assert_in_range(place, 0, N_TRAIN - CTX - 1);
            n_seen += !seen[place];
            seen[place] = 1;
            assert_memory_equal(x + b * CTX + 1, y + b * CTX,
                                (CTX - 1) * sizeof *x);
        }
    }
    /* 2000 random sequences miss each of the 261 positions with a probability
     * below 1 in 1000. */
    assert_int_equal(n_seen, N_TRAIN - CTX);
    es_assert_ok(es_tokens_random_batch(tokens, again, y, ES_SPLIT_TRAIN, 9,
                                        N_BATCHES - 1, B, CTX));
    assert_memory_equal(x, again, sizeof x);
    es_assert_ok(es_tokens_random_batch(tokens, other, y, ES_SPLIT_TRAIN, 10,
                                        N_BATCHES - 1, B, CTX));
    assert_memory_not_equal(x, other, sizeof x);
}

TEST(a_context_longer_than_the_data_is_refused)
{
    int32_t x[N], y[N];
    write_file(253, 1);
    AUTO(es_tokens) tokens = open_file();
    es_assert_ok(
        es_tokens_check_ctx(tokens, ES_SPLIT_HELD_OUT, N_HELD_OUT - 1));
    assert_int_equal(es_tokens_check_ctx(tokens, ES_SPLIT_HELD_OUT, N_HELD_OUT),
                     ES_EUSAGE);
    assert_int_equal(es_tokens_check_ctx(tokens, ES_SPLIT_TRAIN, 0), ES_EUSAGE);
    assert_int_equal(es_tokens_random_batch(tokens, x, y, ES_SPLIT_HELD_OUT, 1,
                                            0, 1, N_HELD_OUT),
                     ES_EUSAGE);
    assert_int_equal(es_tokens_fixed_batch(tokens, x, y, ES_SPLIT_HELD_OUT, 0,
                                           1, N_HELD_OUT),
                     ES_EUSAGE);
}

TEST(a_file_truncated_while_it_is_open_is_an_error)
{
    int32_t x[20], y[20];
    write_file(253, 1);
    AUTO(es_tokens) tokens = open_file();
    assert_int_equal(truncate(path, HEADER + N_TRAIN + 2), 0);
    assert_int_equal(
        es_tokens_fixed_batch(tokens, x, y, ES_SPLIT_HELD_OUT, 0, 1, 20),
        ES_EIO);
}

static int set_up(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x.tok", folder);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    return rmdir(folder);
}

TEST_GROUP(set_up, tear_down)
