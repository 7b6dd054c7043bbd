/* Random shapes, scales, temperatures and damage: every variant against the
   reference. A failure names its round; rounds depend on nothing else. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>

#define ROUNDS 120

static int random_int(uint64_t *seed, int low, int high)
{
    return low + (int)(random_uniform(seed) * (high - low + 1));
}

static es_attention_shape random_shape(uint64_t *seed)
{
    es_attention_shape shape = {.n_batch = random_int(seed, 1, 2),
                                .n_heads = random_int(seed, 1, 3),
                                .n_queries = random_int(seed, 1, 70),
                                .n_keys = random_int(seed, 1, 70),
                                .head_width = random_int(seed, 1, 40),
                                .causal = random_uniform(seed) < 0.7};
    if (random_uniform(seed) < 0.1)
        shape.n_keys += 300;
    if (random_uniform(seed) < 0.5)
        shape.n_queries = shape.n_keys;
    return shape;
}

/** Puts NaN and infinities into some places. */
static void damage(float *numbers, size_t n, uint64_t *seed)
{
    const float kinds[] = {NAN, INFINITY, -INFINITY};
    int count = random_int(seed, -3, 3);
    for (int i = 0; i < count; i++)
        numbers[(size_t)(random_uniform(seed) * (double)n)] =
            kinds[random_int(seed, 0, 2)];
}

static float *random_numbers(size_t n, uint64_t *seed)
{
    double scale = pow(10, random_uniform(seed) * 4 - 2.5);
    float *out = new_normals(n, scale, *seed);
    damage(out, n, seed);
    return out;
}

/** Weights of all sizes, some zero. */
static float *random_weights(size_t n, uint64_t *seed)
{
    float *out = malloc(n * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = random_uniform(seed) < 0.1
                     ? 0
                     : (float)pow(10, random_uniform(seed) * 48 - 46);
    damage(out, n, seed);
    return out;
}

/** Everything of one round, packed. */
typedef struct inputs {
    es_attention_shape shape;
    size_t n_rows;
    float *att, *q, *k, *temperature;
} inputs;

static inputs random_inputs(uint64_t seed)
{
    inputs out = {.shape = random_shape(&seed)};
    size_t heads = (size_t)out.shape.n_batch * (size_t)out.shape.n_heads;
    size_t width = (size_t)out.shape.head_width;
    size_t n_keys = (size_t)out.shape.n_keys;
    out.n_rows = heads * (size_t)out.shape.n_queries;
    out.att = random_weights(out.n_rows * n_keys, &seed);
    out.q = random_numbers(out.n_rows * width, &seed);
    out.k = random_numbers(heads * n_keys * width, &seed);
    out.temperature = random_numbers(out.n_rows, &seed);
    if (random_uniform(&seed) < 0.5) {
        free(out.temperature);
        out.temperature = NULL;
    }
    return out;
}

static void run_round(const es_kernels *set, const inputs *in)
{
    const es_attention_shape *shape = &in->shape;
    row_buffers got = new_rows(in->n_rows);
    es_entropy_probs_with(set, &got.rows, in->att, shape, 1);
    assert_probs(&got.rows, in->att, shape, 1);
    assert_int_equal(es_entropy_qk_with(set, &got.rows, in->q,
                                        packed(shape, shape->n_queries), in->k,
                                        packed(shape, shape->n_keys),
                                        in->temperature, shape, 1),
                     ES_OK);
    assert_qk(&got.rows, in->q, in->k, in->temperature, shape, 1);
    assert_sentinels(&got);
    free_rows(&got);
}

static void test_entropy_random__rounds(void **state)
{
    size_t n;
    const es_kernels *const *all = es_kernels_all(&n);
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        inputs in = random_inputs(round);
        for (size_t i = 0; i < n; i++)
            if (es_vectors_supported(all[i]->needs)) {
                print_message("# round %d, %s\n", (int)round, all[i]->name);
                run_round(all[i], &in);
            }
        free(in.temperature);
        free(in.k);
        free(in.q);
        free(in.att);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy_random__rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
