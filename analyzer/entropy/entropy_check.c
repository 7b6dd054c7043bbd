/* Compares a set of vector kernels with the reference on a small mixed input.
   entropy.c does this before the first use of the kernels. */
#include "analyzer/entropy/entropy_internal.h"

#include <math.h>

static const float sink_logit = 0.5F;

/* The first shape is causal, with whole and partial tiles and a learnt sink;
   the second has more keys than fit into one chunk. */
static const es_attention_shape shapes[] = {{.n_batch = 1,
                                             .n_heads = 1,
                                             .n_queries = 67,
                                             .n_keys = 67,
                                             .head_width = 35,
                                             .causal = true,
                                             .sink_logits = &sink_logit},
                                            {.n_batch = 1,
                                             .n_heads = 1,
                                             .n_queries = 9,
                                             .n_keys = ES_QK_CHUNK + 21,
                                             .head_width = 5,
                                             .causal = false}};

#define MOST_ROWS 67
#define MOST_WEIGHTS (MOST_ROWS * MOST_ROWS)
#define MOST_NUMBERS (MOST_ROWS * 35)

typedef struct results {
    float entropy[MOST_ROWS], lse[MOST_ROWS], max_logit[MOST_ROWS];
    float sink[MOST_ROWS], missing[MOST_ROWS], distance[MOST_ROWS];
    float top[MOST_ROWS];
    int32_t nonfinite[MOST_ROWS];
} results;

static es_rows rows_of(results *out)
{
    return (es_rows){.entropy = out->entropy,
                     .lse = out->lse,
                     .max_logit = out->max_logit,
                     .sink = out->sink,
                     .nonfinite = out->nonfinite,
                     .missing = out->missing,
                     .distance = out->distance,
                     .top = out->top};
}

/** Returns the next number, in [0,1), of a fixed pseudo-random sequence. */
static float next_number(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return (float)(*state >> 8) * 0x1p-24F;
}

static bool close_enough(float got, float wanted)
{
    if (isnan(got) || isnan(wanted))
        return isnan(got) && isnan(wanted);
    return fabsf(got - wanted) <= 1e-5F + 1e-5F * fabsf(wanted);
}

/** Compares the statistics that only es_qk_statistics computes. */
static bool same_scores(const results *got, const results *wanted, int i)
{
    return close_enough(got->lse[i], wanted->lse[i]) &&
           close_enough(got->max_logit[i], wanted->max_logit[i]) &&
           close_enough(got->missing[i], wanted->missing[i]) &&
           close_enough(got->distance[i], wanted->distance[i]) &&
           close_enough(got->top[i], wanted->top[i]);
}

static bool same(const results *got, const results *wanted, int n, bool qk)
{
    for (int i = 0; i < n; i++)
        if (!close_enough(got->entropy[i], wanted->entropy[i]) ||
            !close_enough(got->sink[i], wanted->sink[i]) ||
            got->nonfinite[i] != wanted->nonfinite[i] ||
            (qk && !same_scores(got, wanted, i)))
            return false;
    return true;
}

/**
 * Fills rows alternately with random, nearly one-hot (with denormals), flat and
 * zero weights; one row gets a NaN, another an infinity. Weights that must not
 * be read are NaN, so that a kernel which reads them produces NaN.
 */
static void fill_weights(float *att, const es_attention_shape *shape)
{
    uint32_t state = 1;
    for (int i = 0; i < shape->n_queries; i++) {
        int n = shape->causal ? i + 1 : shape->n_keys;
        float *row = att + (ptrdiff_t)i * shape->n_keys;
        for (int j = 0; j < shape->n_keys; j++) {
            const float kinds[] = {next_number(&state) * 2 / (float)n,
                                   j == i / 2 ? 0.99999F : 1e-41F, 1 / (float)n,
                                   0};
            row[j] = j < n ? kinds[i % 4] : NAN;
        }
        if (i == 5)
            row[n - 1] = NAN;
        if (i == 6)
            row[0] = INFINITY;
    }
}

/**
 * Fills queries alternately with random, long (for peaked rows) and zero
 * vectors (for flat rows); one query gets a NaN. Among the last keys, one has
 * an infinity and one a NaN.
 */
static void fill_queries_and_keys(float *q, float *k,
                                  const es_attention_shape *shape)
{
    uint32_t state = 2;
    int width = shape->head_width;
    const float lengths[] = {2, 20, 0};
    for (int i = 0; i < shape->n_queries; i++)
        for (int c = 0; c < width; c++)
            q[i * width + c] = (next_number(&state) - 0.5F) * lengths[i % 3];
    for (int j = 0; j < shape->n_keys * width; j++)
        k[j] = (next_number(&state) - 0.5F) * 2;
    q[4 * width] = NAN;
    if (shape->causal) {
        k[(shape->n_keys - 5) * width] = -INFINITY;
        k[(shape->n_keys - 2) * width + 1] = NAN;
    }
}

/**
 * Computes the same rows with the reference and with the kernels, and compares
 * the results.
 */
static bool rows_agree(const es_entropy_kernels *set,
                       const es_entropy_input *in, const es_entropy_input *k,
                       const es_attention_shape *shape)
{
    results got = {.nonfinite = {0}}, wanted = {.nonfinite = {0}};
    es_rows got_rows = rows_of(&got), wanted_rows = rows_of(&wanted);
    return es_entropy_with(&es_entropy_kernels_reference, &wanted_rows, NULL,
                           in, k, shape, 1) == ES_OK &&
           es_entropy_with(set, &got_rows, NULL, in, k, shape, 1) == ES_OK &&
           same(&got, &wanted, shape->n_queries, k);
}

static bool shape_agrees(const es_entropy_kernels *set,
                         const es_attention_shape *shape)
{
    float att[MOST_WEIGHTS], q[MOST_NUMBERS], k[MOST_NUMBERS + ES_QK_CHUNK];
    es_entropy_input weights = {.data = att, .strides.row = shape->n_keys};
    es_entropy_input queries = {.data = q, .strides.row = shape->head_width};
    es_entropy_input keys = {.data = k, .strides.row = shape->head_width};
    fill_weights(att, shape);
    fill_queries_and_keys(q, k, shape);
    return rows_agree(set, &weights, NULL, shape) &&
           rows_agree(set, &queries, &keys, shape);
}

bool es_entropy_kernels_agree(const es_entropy_kernels *kernels)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (!shape_agrees(kernels, &shapes[i]))
            return false;
    return true;
}
