/* Tests which tokens are masked: the fraction of masked tokens, their
 * replacements, and the dependence of the choice on seed, index and stream. */
#include "hooks/trainer/masking.h"
#include "hooks/trainer/model/ops.h"
#include "tests/support/test.h"

enum { N = 100000, VOCAB = 50, MASK = 50, PADDING = 7 };

static int32_t tokens[N], hidden[N], targets[N];

static es_masking usual(void)
{
    return (es_masking){.mask = MASK,
                        .padding = PADDING,
                        .vocab = VOCAB,
                        .seed = 3,
                        .index = 11,
                        .stream = 1,
                        .path = "x.tok"};
}

static void mask(const es_masking *how)
{
    for (int i = 0; i < N; i++)
        tokens[i] = i % 9; /* every ninth token is padding */
    memcpy(hidden, tokens, sizeof tokens);
    es_assert_ok(es_mask_tokens(hidden, targets, N, how));
}

/* Expects n of `of` tokens, as a fraction, to be within four standard
 * deviations of `share`. */
static void expect_share(int n, int of, double share)
{
    const double off = fabs(n - of * share);
    if (!(off <= 4 * sqrt(of * share * (1 - share))))
        fail_msg("%d of %d tokens instead of a fraction of %g", n, of, share);
}

TEST(shares_match_bert_and_padding_is_unchanged)
{
    const es_masking how = usual();
    int n_there = 0, n_hidden = 0, n_masked = 0, n_same = 0;
    mask(&how);
    for (int i = 0; i < N; i++) {
        n_there += tokens[i] != PADDING;
        if (targets[i] == ES_NO_TARGET) {
            assert_int_equal(hidden[i], tokens[i]);
            continue;
        }
        assert_int_not_equal(tokens[i], PADDING);
        assert_int_not_equal(hidden[i], PADDING);
        assert_int_equal(targets[i], tokens[i]);
        assert_in_range(hidden[i], 0, MASK);
        n_hidden++;
        n_masked += hidden[i] == MASK;
        n_same += hidden[i] == tokens[i];
    }
    expect_share(n_hidden, n_there, 0.15);
    expect_share(n_masked, n_hidden, 0.8);
    /* 10 % of the tokens to predict stay unchanged, and 10 % are replaced by a
     * random token. Such a replacement leaves the token unchanged in two of
     * VOCAB cases: if the same token is drawn, and if padding is drawn, which
     * is never inserted. */
    expect_share(n_same, n_hidden, 0.1 + 0.1 * 2 / VOCAB);
}

TEST(the_draw_determines_which_tokens_are_masked)
{
    static int32_t first[N];
    es_masking how = usual();
    mask(&how);
    memcpy(first, hidden, sizeof first);
    mask(&how);
    assert_memory_equal(first, hidden, sizeof first);
    for (int i = 0; i < 3; i++) {
        how = usual();
        how.seed += i == 0;
        how.index += i == 1;
        how.stream += i == 2;
        mask(&how);
        assert_memory_not_equal(first, hidden, sizeof first);
    }
}

/* Even in a tiny micro-batch at least one token is masked. */
TEST(at_least_one_token_is_masked)
{
    es_masking how = usual();
    for (how.index = 0; how.index < 100; how.index++) {
        int32_t few[4] = {1, PADDING, PADDING, 2}, found[4];
        int n = 0;
        es_assert_ok(es_mask_tokens(few, found, 4, &how));
        for (int i = 0; i < 4; i++)
            n += found[i] != ES_NO_TARGET;
        assert_in_range(n, 1, 2);
        assert_int_equal(found[1], ES_NO_TARGET);
    }
}

TEST(padding_alone_is_refused)
{
    const es_masking how = usual();
    int32_t few[3] = {PADDING, PADDING, PADDING}, found[3];
    assert_int_equal(es_mask_tokens(few, found, 3, &how), ES_EFORMAT);
    assert_non_null(
        strstr(es_message(), "x.tok: a micro-batch consists of padding only"));
}
