/* Tests layouts, types, masks, offsets and grouped heads. Each result must have
   the same bits as the result of the same kernels for a plain copy of the
   visible weights or keys. */
#include "analyzer/base/value.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>

/* The inputs of one call. The equivalent plain inputs, without gaps and masks,
   form a second layout_case. */
typedef struct layout_case {
    es_attention_shape shape;
    es_entropy_input att, q, k;
} layout_case;

static void run_case(const es_entropy_kernels *set, row_buffers *from_weights,
                     row_buffers *from_qk, const layout_case *c)
{
    *from_weights = new_rows(n_rows(&c->shape));
    *from_qk = new_rows(n_rows(&c->shape));
    if (c->att.data)
        assert_int_equal(es_entropy_with(set, &from_weights->rows, NULL,
                                         &c->att, NULL, &c->shape, 2),
                         ES_OK);
    if (c->q.data)
        assert_int_equal(es_entropy_with(set, &from_qk->rows, NULL, &c->q,
                                         &c->k, &c->shape, 2),
                         ES_OK);
}

static void assert_same_bits(const es_entropy_kernels *set,
                             const layout_case *one, const layout_case *other)
{
    row_buffers a[2], b[2];
    run_case(set, &a[0], &a[1], one);
    run_case(set, &b[0], &b[1], other);
    for (int i = 0; i < 2; i++) {
        assert_same_rows(&a[i], &b[i]);
        free_rows(&a[i]);
        free_rows(&b[i]);
    }
}

/** Copies (B,H,N,W) to (B,N,H,W). */
static float *swap_heads(const float *in, int n_batch, int n_heads, int n,
                         int width)
{
    float *out = malloc((size_t)(n_batch * n_heads * n * width) * sizeof *out);
    assert_non_null(out);
    for (int b = 0; b < n_batch; b++)
        for (int h = 0; h < n_heads; h++)
            for (int i = 0; i < n; i++)
                memcpy(out + ((b * n + i) * n_heads + h) * width,
                       in + ((b * n_heads + h) * n + i) * width,
                       (size_t)width * sizeof *out);
    return out;
}

static void test_entropy_layout__heads_may_lie_inside_rows(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape shape = SHAPE(2, 3, 37, 37, 18, true);
    float *att = new_weights(&shape, 1, 1);
    float *q = new_normals(n_rows(&shape) * 18, 1, 2);
    float *k = new_normals(n_key_floats(&shape), 1, 3);
    float *swapped[] = {swap_heads(att, 2, 3, 37, 37),
                        swap_heads(q, 2, 3, 37, 18),
                        swap_heads(k, 2, 3, 37, 18)};
    const layout_case plain = {shape, weights_at(att, &shape),
                               queries_at(q, &shape), keys_at(k, &shape)};
    const layout_case other = {
        shape,
        {.data = swapped[0], .strides = es_strides_bthd(3, 37, 37)},
        {.data = swapped[1], .strides = es_strides_bthd(3, 37, 18)},
        {.data = swapped[2], .strides = es_strides_bthd(3, 37, 18)}};
    assert_same_bits(set, &plain, &other);
    for (int i = 0; i < 3; i++)
        free(swapped[i]);
    free(k);
    free(q);
    free(att);
}

/** Reads q and k in place from a packed projection (B, T, 3 * H * D). */
static void test_entropy_layout__a_projection_is_read_in_place(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape shape = SHAPE(2, 3, 21, 21, 5, true);
    const es_strides strides = {.batch = 21 * 45, .head = 5, .row = 45};
    float *projected = new_normals(2 * 21 * 45, 1, 71);
    float *q = new_normals(630, 0, 0), *k = new_normals(630, 0, 0);
    for (int n = 0; n < 630; n++) {
        int c = n % 5, i = n / 5 % 21, h = n / 105 % 3, b = n / 315;
        q[n] = projected[(b * 21 + i) * 45 + h * 5 + c];
        k[n] = projected[(b * 21 + i) * 45 + 15 + h * 5 + c];
    }
    const layout_case plain = {
        .shape = shape, .q = queries_at(q, &shape), .k = keys_at(k, &shape)};
    const layout_case packed = {
        .shape = shape,
        .q = {.data = projected, .strides = strides},
        .k = {.data = projected + 15, .strides = strides}};
    assert_same_bits(set, &plain, &packed);
    free(k);
    free(q);
    free(projected);
}

/**
 * Truncates n float32 numbers to bfloat16 in place. Returns a new array of
 * their upper halves, which are the bfloat16 numbers.
 */
static uint16_t *halve(float *numbers, size_t n)
{
    uint16_t *out = malloc(n * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        out[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000u;
        memcpy(&numbers[i], &bits, sizeof bits);
    }
    return out;
}

/**
 * Compares values, not bits, because AMX tiles add bfloat16 and float32 in
 * different orders.
 */
static void assert_same_numbers(const es_entropy_kernels *set,
                                const layout_case *one,
                                const layout_case *other)
{
    row_buffers got[2];
    if (set->needs != ES_VECTORS_AMX) {
        assert_same_bits(set, one, other);
        return;
    }
    for (int i = 0; i < 2; i++) {
        const layout_case *c = i ? other : one;
        run_case(set, &got[0], &got[1], c);
        assert_entropy(&got[0].rows, &c->att, NULL, NULL, &c->shape, 1);
        assert_entropy(&got[1].rows, &c->q, &c->k, NULL, &c->shape, 1);
        free_rows(&got[0]);
        free_rows(&got[1]);
    }
}

static void test_entropy_layout__bfloat16_agrees_with_its_float32(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (size_t i = 0; i < n_test_shapes; i++) {
        const es_attention_shape *shape = &test_shapes[i];
        const size_t n = n_rows(shape) * (size_t)shape->head_width;
        float *att = new_weights(shape, 1, i), *q = new_normals(n, 1, 2 * i);
        float *k = new_normals(n_key_floats(shape), 1, 2 * i + 1);
        q[n / 2] = i % 3 ? q[n / 2] : (float)NAN;
        uint16_t *halves[] = {halve(att, n_weights(shape)), halve(q, n),
                              halve(k, n_key_floats(shape))};
        const layout_case plain = {*shape, weights_at(att, shape),
                                   queries_at(q, shape), keys_at(k, shape)};
        layout_case other = plain;
        es_entropy_input *inputs[] = {&other.att, &other.q, &other.k};
        for (int m = 0; m < 3; m++) {
            inputs[m]->data = halves[m];
            inputs[m]->type = ES_ENTROPY_BF16;
        }
        assert_same_numbers(set, &plain, &other);
        for (int m = 0; m < 3; m++)
            free(halves[m]);
        free(k);
        free(q);
        free(att);
    }
}

/** Computes only the last queries of a long context, with a query offset. */
static void
test_entropy_layout__an_offset_gives_the_end_of_a_long_context(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape whole = SHAPE(1, 2, 300, 300, 20, true);
    const int lengths[] = {1, 7, 64};
    float *att = new_weights(&whole, 1, 5);
    float *q = new_normals(n_rows(&whole) * 20, 1, 6);
    float *k = new_normals(n_key_floats(&whole), 1, 7);
    const layout_case all = {whole, weights_at(att, &whole),
                             queries_at(q, &whole), keys_at(k, &whole)};
    row_buffers wanted[2], got[2];
    run_case(set, &wanted[0], &wanted[1], &all);
    for (int l = 0; l < 3; l++) {
        const int n = lengths[l], first = 300 - n;
        layout_case last = all;
        last.shape.n_queries = n;
        last.shape.query_offset = first;
        last.att.data = att + first * 300;
        last.q.data = q + first * 20;
        run_case(set, &got[0], &got[1], &last);
        assert_entropy(&got[0].rows, &last.att, NULL, NULL, &last.shape, 1);
        assert_entropy(&got[1].rows, &last.q, &last.k, NULL, &last.shape, 1);
        for (int i = 0; i < 2 * n; i++) {
            const int row = i / n * 300 + first + i % n;
            assert_close((double)got[0].rows.entropy[i],
                         (double)wanted[0].rows.entropy[row], 4e-6);
            assert_close((double)got[1].rows.entropy[i],
                         (double)wanted[1].rows.entropy[row], 4e-6);
        }
        for (int i = 0; i < 2; i++)
            free_rows(&got[i]);
    }
    for (int i = 0; i < 2; i++)
        free_rows(&wanted[i]);
    free(k);
    free(q);
    free(att);
}

/**
 * Compares grouped heads with a call that has a copy of the keys for each query
 * head.
 */
static void test_entropy_layout__grouped_heads_share_keys(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape grouped = SHAPE(2, 6, 19, 33, 10, false);
    const es_attention_shape shape = grouped;
    float *q = new_normals(n_rows(&shape) * 10, 1, 8);
    float *k = new_normals(n_key_floats(&shape), 1, 9);
    float *copied = new_normals(n_key_floats(&shape), 0, 9);
    for (int n_kv = 1; n_kv <= 6; n_kv++) {
        if (6 % n_kv)
            continue;
        grouped.n_kv_heads = n_kv;
        for (int i = 0; i < 12 * 330; i++) {
            const int b = i / (6 * 330), h = i / 330 % 6;
            copied[i] = k[(b * n_kv + h / (6 / n_kv)) * 330 + i % 330];
        }
        const layout_case plain = {.shape = shape,
                                   .q = queries_at(q, &shape),
                                   .k = keys_at(copied, &shape)};
        const layout_case other = {.shape = grouped,
                                   .q = queries_at(q, &grouped),
                                   .k = keys_at(k, &grouped)};
        assert_same_bits(set, &plain, &other);
    }
    free(copied);
    free(k);
    free(q);
}

/* --- masks ------------------------------------------------------------------
 */

enum { T = 40, S = 70, D = 9 };

/** Fills all rows and keys of one head; hidden weights and keys become NaN. */
static void fill_masked(layout_case *c, float *att, float *q, float *k,
                        const unsigned char *mask, bool causal)
{
    c->shape = (es_attention_shape)SHAPE(1, 1, T, S, D, causal);
    c->shape.query_offset = S - T;
    c->shape.key_mask = mask;
    for (int j = 0; j < S; j++) {
        for (int i = 0; i < T && !mask[j]; i++)
            att[i * S + j] = NAN;
        for (int d = 0; d < D && !mask[j]; d++)
            k[j * D + d] = NAN;
    }
    c->att = weights_at(att, &c->shape);
    c->q = queries_at(q, &c->shape);
    c->k = keys_at(k, &c->shape);
}

/**
 * Copies only the visible keys, without gaps. Returns the number of visible
 * keys.
 */
static int without_hidden(float *out, const float *in, int n, int width,
                          bool columns, const unsigned char *mask)
{
    int n_visible = 0;
    for (int j = 0; j < S; j++) {
        if (!mask[j])
            continue;
        for (int i = 0; i < (columns ? n : width); i++)
            if (columns)
                out[i * S + n_visible] = in[i * S + j];
            else
                out[n_visible * width + i] = in[j * width + i];
        n_visible++;
    }
    return n_visible;
}

static void test_entropy_layout__hidden_keys_act_as_absent(void **state)
{
    const es_entropy_kernels *set = variant(state);
    static const char *const masks[] = {"one run",    "from the start",
                                        "to the end", "every third",
                                        "one key",    "all"};
    for (int m = 0; m < 6; m++) {
        const es_attention_shape shape = SHAPE(1, 1, T, S, D, false);
        float *att = new_weights(&shape, 1, 1), *q = new_normals(T * D, 1, 2);
        float *k = new_normals(S * D, 1, 3);
        float *fewer_att = new_normals(T * S, 0, 1);
        float *fewer_k = new_normals(S * D, 0, 1);
        unsigned char mask[S];
        for (int j = 0; j < S; j++)
            mask[j] = m == 0   ? j >= 11 && j < 53
                      : m == 1 ? j < 20
                      : m == 2 ? j >= 33
                      : m == 3 ? j % 3 == 1
                      : m == 4 ? j == 37
                               : 1;
        layout_case masked, plain;
        print_message("# %s\n", masks[m]);
        fill_masked(&masked, att, q, k, mask, false);
        plain = masked;
        plain.shape.key_mask = NULL;
        plain.shape.n_keys = without_hidden(fewer_k, k, S, D, false, mask);
        without_hidden(fewer_att, att, T, S, true, mask);
        plain.att.data = fewer_att;
        plain.k.data = fewer_k;
        if (m != 3) /* with this mask, AMX tiles would add the visible weights
                       in another order */
            assert_same_bits(set, &masked, &plain);
        masked.att.data = plain.att.data = NULL;
        assert_same_bits(set, &masked, &plain);
        masked.att.data = att;
        for (int causal = 0; causal < 2; causal++) {
            row_buffers got[2];
            masked.shape.causal = causal;
            run_case(set, &got[0], &got[1], &masked);
            assert_entropy(&got[0].rows, &masked.att, NULL, NULL, &masked.shape,
                           1);
            assert_entropy(&got[1].rows, &masked.q, &masked.k, NULL,
                           &masked.shape, 1);
            free_rows(&got[0]);
            free_rows(&got[1]);
        }
        free(fewer_k);
        free(fewer_att);
        free(k);
        free(q);
        free(att);
    }
}

/**
 * A row is missing, not NaN, if all keys that it could see are hidden, and it
 * is left out of the mean.
 */
static void test_entropy_layout__a_row_that_sees_no_key_is_missing(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (int first = 0; first <= 20; first += 5) {
        es_attention_shape shape = SHAPE(2, 1, 20, 20, 4, true);
        unsigned char mask[40];
        float *att = new_weights(&shape, 1, 4);
        float *q = new_normals(160, 1, 5);
        row_buffers got[2];
        float mean, sink;
        int64_t odd;
        const es_heads head = {.size = sizeof head,
                               .entropy = &mean,
                               .sink = &sink,
                               .nonfinite_rows = &odd};
        for (int j = 0; j < 40; j++)
            mask[j] = j >= 20 || j >= first;
        shape.key_mask = mask;
        const layout_case c = {shape, weights_at(att, &shape),
                               queries_at(q, &shape), keys_at(q, &shape)};
        run_case(set, &got[0], &got[1], &c);
        for (int f = 0; f < 2; f++) {
            const es_rows *rows = &got[f].rows;
            for (int i = 0; i < 40; i++) {
                assert_int_equal(es_is_missing(rows->entropy[i]), i < first);
                assert_int_equal(es_is_missing(rows->sink[i]), i < first);
                assert_int_equal(rows->nonfinite[i], 0);
                if (f) {
                    assert_int_equal(es_is_missing(rows->lse[i]), i < first);
                    assert_int_equal(es_is_missing(rows->max_logit[i]),
                                     i < first);
                }
            }
            assert_int_equal(es_rows_reduce(&head, rows, 2, 1, 20), ES_OK);
            assert_true(isfinite(mean) && isfinite(sink));
            assert_int_equal(odd, 0);
            assert_sentinels(&got[f]);
            free_rows(&got[f]);
        }
        free(q);
        free(att);
    }
}

/**
 * A NaN or infinity affects only its row, in which only the weights of visible
 * keys are counted as not finite.
 */
static void test_entropy_layout__a_nan_counts_visible_keys(void **state)
{
    const es_entropy_kernels *set = variant(state);
    const es_attention_shape shape = SHAPE(1, 1, T, S, D, false);
    unsigned char mask[S];
    float *att = new_weights(&shape, 1, 1), *q = new_normals(T * D, 1, 2);
    float *k = new_normals(S * D, 1, 3);
    layout_case c;
    row_buffers got[2];
    for (int j = 0; j < S; j++)
        mask[j] = (unsigned char)(j % 2);
    fill_masked(&c, att, q, k, mask, false);
    att[3 * S + 5] = INFINITY;
    q[4 * D] = NAN;
    run_case(set, &got[0], &got[1], &c);
    for (int i = 0; i < T; i++) {
        assert_int_equal(got[0].rows.nonfinite[i], i == 3);
        assert_int_equal(got[1].rows.nonfinite[i], i == 4 ? S / 2 : 0);
        assert_int_equal(isnan(got[0].rows.entropy[i]), i == 3);
        assert_int_equal(isnan(got[1].rows.entropy[i]), i == 4);
        assert_false(es_is_missing(got[0].rows.entropy[i]));
    }
    for (int i = 0; i < 2; i++)
        free_rows(&got[i]);
    free(k);
    free(q);
    free(att);
}

/**
 * Masks, offsets and grouped heads work even if the heads are too wide for the
 * kernels.
 */
static void test_entropy_layout__wide_heads_support_all_options(void **state)
{
    const es_entropy_kernels *set = variant(state);
    es_attention_shape shape = SHAPE(1, 2, 3, 9, ES_QK_WIDTH_MAX + 1, true);
    const size_t width = (size_t)shape.head_width;
    const unsigned char mask[9] = {0, 1, 0, 1, 1, 1, 0, 0, 1};
    float *q = new_normals(6 * width, 1, 1), *k = new_normals(9 * width, 1, 2);
    row_buffers got = new_rows(6);
    shape.n_kv_heads = 1;
    shape.query_offset = 5;
    shape.key_mask = mask;
    run_qk(set, &got.rows, q, k, NULL, &shape, 2);
    assert_qk(&got.rows, q, k, NULL, &shape, 1);
    free_rows(&got);
    free(k);
    free(q);
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(test_entropy_layout__heads_may_lie_inside_rows),
        VARIANT_CASE(test_entropy_layout__a_projection_is_read_in_place),
        VARIANT_CASE(test_entropy_layout__bfloat16_agrees_with_its_float32),
        VARIANT_CASE(
            test_entropy_layout__an_offset_gives_the_end_of_a_long_context),
        VARIANT_CASE(test_entropy_layout__grouped_heads_share_keys),
        VARIANT_CASE(test_entropy_layout__hidden_keys_act_as_absent),
        VARIANT_CASE(test_entropy_layout__a_row_that_sees_no_key_is_missing),
        VARIANT_CASE(test_entropy_layout__a_nan_counts_visible_keys),
        VARIANT_CASE(test_entropy_layout__wide_heads_support_all_options),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
