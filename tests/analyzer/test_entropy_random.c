/* Compares every variant of the kernels with the reference for random shapes,
   masks, layouts, scales, temperatures and non-finite values. A failure prints
   the number of its round, which determines all inputs. */
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>

#define ROUNDS 100

static int random_int(uint64_t *seed, int low, int high)
{
    return low + (int)(random_uniform(seed) * (high - low + 1));
}

static es_attention_shape random_shape(uint64_t *seed)
{
    es_attention_shape shape = {.n_batch = random_int(seed, 1, 2),
                                .n_heads = random_int(seed, 1, 4),
                                .n_queries = random_int(seed, 1, 70),
                                .n_keys = random_int(seed, 1, 70),
                                .head_width = random_int(seed, 1, 40),
                                .causal = random_uniform(seed) < 0.7};
    if (random_uniform(seed) < 0.1)
        shape.n_keys += 300;
    if (random_uniform(seed) < 0.5)
        shape.n_queries = shape.n_keys;
    if (random_uniform(seed) < 0.3)
        shape.query_offset = random_int(seed, 0, shape.n_keys + 5);
    if (random_uniform(seed) < 0.3)
        shape.n_kv_heads = shape.n_heads % 2 ? 1 : shape.n_heads / 2;
    return shape;
}

/** Replaces some random numbers by NaN and infinities. */
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

/** Returns n random weights of all magnitudes, some of them zero. */
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

/**
 * Returns a mask that hides, in each sequence, keys at both ends or at random.
 */
static unsigned char *random_mask(const es_attention_shape *shape,
                                  uint64_t *seed)
{
    size_t n_keys = (size_t)shape->n_keys;
    unsigned char *mask = malloc((size_t)shape->n_batch * n_keys);
    assert_non_null(mask);
    for (int b = 0; b < shape->n_batch; b++) {
        bool any = random_uniform(seed) < 0.5;
        int first = random_int(seed, 0, shape->n_keys);
        int end = random_int(seed, first, shape->n_keys);
        for (int j = 0; j < shape->n_keys; j++)
            mask[(size_t)b * n_keys + (size_t)j] =
                any ? random_uniform(seed) < 0.6 : j >= first && j < end;
    }
    return mask;
}

/** Converts n numbers to bfloat16 in place, by keeping their upper halves. */
static void make_bf16(float *numbers, size_t n)
{
    const uint16_t *halves = (const uint16_t *)(const void *)numbers;
    uint16_t *out = (uint16_t *)(void *)numbers;
    for (size_t i = 0; i < n; i++)
        out[i] = halves[2 * i + 1];
}

/** The random inputs of one round of the test. */
typedef struct inputs {
    es_attention_shape shape;
    size_t n_rows;
    float *numbers[3];
    es_entropy_input att, q, k;
    float *temperature;
    unsigned char *mask;
} inputs;

/**
 * Changes an input at random: with probability one third to the layout
 * (B,N,H,W) instead of (B,H,N,W), and with probability one third to bfloat16.
 */
static void lay_out(es_entropy_input *input, float *numbers, size_t n_numbers,
                    int n_heads, int n, int width, uint64_t *seed)
{
    if (random_uniform(seed) < 0.33)
        input->strides = es_strides_bthd(n_heads, n, width);
    if (random_uniform(seed) < 0.33) {
        make_bf16(numbers, n_numbers);
        input->type = ES_ENTROPY_BF16;
    }
}

static inputs random_inputs(uint64_t seed)
{
    inputs out = {.shape = random_shape(&seed)};
    es_attention_shape *shape = &out.shape;
    const int n_kv = shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads;
    const int t = shape->n_queries, s = shape->n_keys, d = shape->head_width;
    out.n_rows = n_rows(shape);
    const size_t sizes[3] = {n_weights(shape), out.n_rows * (size_t)d,
                             n_key_floats(shape)};
    out.numbers[0] = random_weights(sizes[0], &seed);
    out.numbers[1] = random_numbers(sizes[1], &seed);
    out.numbers[2] = random_numbers(sizes[2], &seed);
    out.att = weights_at(out.numbers[0], shape);
    out.q = queries_at(out.numbers[1], shape);
    out.k = keys_at(out.numbers[2], shape);
    lay_out(&out.att, out.numbers[0], sizes[0], shape->n_heads, t, s, &seed);
    lay_out(&out.q, out.numbers[1], sizes[1], shape->n_heads, t, d, &seed);
    lay_out(&out.k, out.numbers[2], sizes[2], n_kv, s, d, &seed);
    out.temperature = random_numbers(out.n_rows, &seed);
    if (random_uniform(&seed) < 0.5) {
        free(out.temperature);
        out.temperature = NULL;
    }
    if (random_uniform(&seed) < 0.4)
        shape->key_mask = out.mask = random_mask(shape, &seed);
    return out;
}

static void run_round(const es_entropy_kernels *set, const inputs *in)
{
    row_buffers got = new_rows(in->n_rows);
    assert_int_equal(
        es_entropy_with(set, &got.rows, NULL, &in->att, NULL, &in->shape, 1),
        ES_OK);
    assert_entropy(&got.rows, &in->att, NULL, NULL, &in->shape, 1);
    es_attention_shape shape = in->shape;
    shape.temperature = in->temperature;
    assert_int_equal(
        es_entropy_with(set, &got.rows, NULL, &in->q, &in->k, &shape, 1),
        ES_OK);
    assert_entropy(&got.rows, &in->q, &in->k, in->temperature, &in->shape, 1);
    assert_sentinels(&got);
    free_rows(&got);
}

static void test_entropy_random__random_inputs_agree(void **state)
{
    size_t n;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n);
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        inputs in = random_inputs(round);
        for (size_t i = 0; i < n; i++)
            if (es_vectors_supported(all[i]->needs)) {
                print_message("# round %d, %s\n", (int)round, all[i]->name);
                run_round(all[i], &in);
            }
        free(in.mask);
        free(in.temperature);
        for (int i = 0; i < 3; i++)
            free(in.numbers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy_random__random_inputs_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
