/* Calls es_qk_statistics with hostile input: NaN, infinities, numbers of every
 * size, zero and negative strides, one row, one channel, and extreme
 * temperatures, sinks, scales and softcaps, combined with every other option.
 * Compares the results with tests/support/entropy_definition.c. */
#include "analyzer/base/value.h"
#include "tests/support/entropy_cases.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { ROUNDS = SANITIZED ? 50 : 100 };

/* --- cases ------------------------------------------------------------------
 */

/**
 * Makes some strides zero or negative. Heads, sequences or rows with stride
 * zero overlap; those with a negative stride are in reverse order.
 */
static void bend_strides(case_numbers *x, int n_batch, int n_heads, int n,
                         uint64_t *seed)
{
    es_strides *s = &x->input.strides;
    ptrdiff_t *const strides[] = {&s->batch, &s->head, &s->row};
    const int sizes[] = {n_batch, n_heads, n};
    size_t origin = 0;
    for (int i = 0; i < 3; i++) {
        const int kind = random_int(seed, 0, 5);
        if (kind == 0) {
            *strides[i] = 0;
        } else if (kind == 1) {
            origin += (size_t)(*strides[i] * (sizes[i] - 1));
            *strides[i] = -*strides[i];
        }
    }
    set_case_origin(x, origin);
}

/** Replaces some random numbers by NaN, infinities and other special values. */
static void damage(case_numbers *x, uint64_t *seed)
{
    const float kinds[] = {NAN,          INFINITY, -INFINITY, -0.0F, 1e-40F,
                           -FLT_MIN / 8, 3e18F,    -6e4F,     0};
    const int n = random_int(seed, -2, 3);
    for (int i = 0; i < n; i++) {
        const double place = random_uniform(seed) * (double)x->count;
        set_case_number(x, (size_t)place, kinds[random_int(seed, 0, 8)]);
    }
}

/**
 * Multiplies all numbers by a factor. Numbers of float16 are clipped to its
 * range.
 */
static void rescale(case_numbers *x, double factor)
{
    for (size_t i = 0; i < x->count; i++)
        set_case_number(x, i, (float)((double)x->values[i] * factor));
}

/** Chooses a random scale of the scores, from very small to very large, and
 *  multiplies the queries by its inverse. */
static void choose_scale(options_case *c, uint64_t *seed)
{
    const double power = 58 * random_uniform(seed) - 29;
    if (c->q.input.type == ES_ENTROPY_F16)
        return;
    c->shape.scale = pow(10, power) / sqrt(c->shape.head_width);
    rescale(&c->q, pow(10, -power));
}

static void choose_ends(options_case *c, uint64_t *seed)
{
    const float odd[] = {NAN, 0, -3, INFINITY, 1e-4F, 1e-30F, -0.0F};
    const float sinks[] = {NAN, INFINITY, -INFINITY, 1e30F, -1e30F, 0};
    es_attention_shape *s = &c->shape;
    const int n_settings = s->n_heads * s->n_queries;
    if (random_chance(seed, 0.3))
        choose_scale(c, seed);
    if (random_chance(seed, 0.2))
        s->softcap = pow(10, 60 * random_uniform(seed) - 30);
    if (random_chance(seed, 0.3)) {
        s->temperature = c->temperature;
        for (int i = 0; i < 3; i++)
            c->temperature[random_int(seed, 0, n_settings - 1)] =
                odd[random_int(seed, 0, 6)];
    }
    if (random_chance(seed, 0.2)) {
        s->sink_logits = c->sink_logits;
        c->sink_logits[random_int(seed, 0, s->n_heads - 1)] =
            sinks[random_int(seed, 0, 5)];
    }
}

static options_case *new_hostile_case(uint64_t seed)
{
    const int widths[] = {0, 0, 0, 1, 2, 3, 31, 33, 511, 512, 513};
    const int width = widths[random_int(&seed, 0, 10)];
    options_case *c =
        new_options_case(seed, random_int(&seed, 0, 3) ? 0 : 1, width);
    const es_attention_shape *s = &c->shape;
    const int n_batch = s->query_starts ? 1 : s->n_batch;
    const int n_kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    if (random_chance(&seed, 0.5)) {
        bend_strides(&c->q, n_batch, s->n_heads, s->n_queries, &seed);
        bend_strides(&c->k, n_batch, n_kv, s->n_keys, &seed);
    }
    choose_ends(c, &seed);
    if (random_chance(&seed, 0.5)) {
        damage(&c->q, &seed);
        damage(&c->k, &seed);
    }
    return c;
}

static void
test_entropy_hostile__hostile_input_agrees_with_the_definition(void **state)
{
    const es_entropy_kernels *set = variant(state);
    for (int round = 1; round <= ROUNDS; round++) {
        options_case *c = new_hostile_case((uint64_t)round + 5080);
        print_message("# round %d\n", round);
        check_options_call(set, c, 1 + round % 3);
        free_options_case(c);
    }
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(
            test_entropy_hostile__hostile_input_agrees_with_the_definition),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
