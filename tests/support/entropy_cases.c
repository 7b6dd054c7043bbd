/* Creates random cases of es_qk_statistics with different layouts, types and
   options. */
#include "tests/support/entropy_cases.h"

#include <math.h>
#include <stdlib.h>

int random_int(uint64_t *seed, int low, int high)
{
    return low + (int)(random_uniform(seed) * (high - low + 1));
}

bool random_chance(uint64_t *seed, double p)
{
    return random_uniform(seed) < p;
}

/* --- numbers of every type ------------------------------------------------ */

/**
 * Rounds *x to the nearest float16 and returns the bits of the result. *x must
 * not exceed the range of float16. NaN and infinity stay unchanged.
 */
static uint16_t to_half(float *x)
{
    if (!isfinite(*x))
        return isnan(*x) ? 0x7e00 : signbit(*x) ? 0xfc00 : 0x7c00;
    const float size = fminf(fabsf(*x), 60000);
    const int exponent = size < 0x1p-14F ? -14 : ilogbf(size);
    const int mantissa = (int)lrintf(ldexpf(size, 10 - exponent));
    const uint16_t sign = signbit(*x) ? 0x8000 : 0;
    *x = copysignf(ldexpf((float)mantissa, exponent - 10), *x);
    return (uint16_t)(sign | ((exponent + 14) * 1024 + mantissa));
}

static uint16_t to_bfloat(float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    bits &= 0xffff0000U;
    memcpy(x, &bits, sizeof bits);
    return (uint16_t)(bits >> 16);
}

void set_case_number(case_numbers *numbers, size_t position, float value)
{
    numbers->values[position] = value;
    if (numbers->halves)
        numbers->halves[position] = numbers->input.type == ES_ENTROPY_F16
                                        ? to_half(&numbers->values[position])
                                        : to_bfloat(&numbers->values[position]);
}

void set_case_origin(case_numbers *numbers, size_t origin)
{
    numbers->origin = origin;
    numbers->input.data = numbers->halves
                              ? (const void *)(numbers->halves + origin)
                              : (const void *)(numbers->values + origin);
}

/**
 * Returns random numbers in the layout (B,N,H,W) or (B,H,N,W), with a gap of
 * unused numbers between the rows.
 */
static case_numbers random_numbers(int n_batch, int n_heads, int n, int width,
                                   double scale, bool heads_inside,
                                   uint64_t *seed)
{
    const int gap = random_int(seed, 0, 1) * random_int(seed, 1, 20);
    const size_t count =
        (size_t)n_batch * (size_t)n_heads * (size_t)n * (size_t)(width + gap);
    case_numbers out = {.values = new_normals(count, scale, *seed),
                        .count = count};
    out.input.type = (es_entropy_type)random_int(seed, 0, 2);
    out.input.strides = heads_inside ? es_strides_bthd(n_heads, n, width + gap)
                                     : es_strides_bhtd(n_heads, n, width + gap);
    out.input.data = out.values;
    if (out.input.type == ES_ENTROPY_F32)
        return out;
    out.halves = malloc((count ? count : 1) * sizeof *out.halves);
    assert_non_null(out.halves);
    for (size_t i = 0; i < count; i++)
        out.halves[i] = out.input.type == ES_ENTROPY_F16
                            ? to_half(&out.values[i])
                            : to_bfloat(&out.values[i]);
    out.input.data = out.halves;
    return out;
}

/* --- a case --------------------------------------------------------------- */

static void random_mask(unsigned char *mask, int n, uint64_t *seed)
{
    const int first = random_int(seed, 0, n - 1) * random_int(seed, 0, 1);
    const bool holes = random_chance(seed, 0.5);
    for (int j = 0; j < n; j++)
        mask[j] = j >= first && (!holes || random_chance(seed, 0.7));
}

static void random_starts(int32_t *starts, int n_batch, int total,
                          uint64_t *seed)
{
    starts[0] = 0;
    for (int b = 0; b < n_batch; b++)
        starts[b + 1] = random_int(seed, starts[b], total);
}

static void pack(options_case *c, uint64_t *seed)
{
    es_attention_shape *shape = &c->shape;
    shape->query_starts = c->query_starts;
    random_starts(c->query_starts, shape->n_batch, shape->n_queries, seed);
    if (shape->n_keys < shape->n_queries || random_chance(seed, 0.5)) {
        shape->key_starts = c->key_starts;
        random_starts(c->key_starts, shape->n_batch, shape->n_keys, seed);
    }
}

static void choose_rows(options_case *c, uint64_t *seed)
{
    es_attention_shape *shape = &c->shape;
    if (random_chance(seed, 0.4))
        pack(c, seed);
    if (random_chance(seed, 0.3)) {
        shape->key_mask = c->key_mask;
        random_mask(c->key_mask, OPTIONS_MOST_BATCH * OPTIONS_MOST_LENGTH,
                    seed);
    }
    if (random_chance(seed, 0.3)) {
        shape->query_mask = c->query_mask;
        random_mask(c->query_mask, OPTIONS_MOST_BATCH * OPTIONS_MOST_LENGTH,
                    seed);
    }
    if (random_chance(seed, 0.3))
        shape->key_lengths = c->key_lengths;
    if (random_chance(seed, 0.3))
        shape->query_offsets = c->query_offsets;
    for (int b = 0; b < shape->n_batch; b++) {
        c->key_lengths[b] = random_int(seed, 0, shape->n_keys + 2);
        c->query_offsets[b] = random_int(seed, -5, shape->n_keys);
    }
    if (random_chance(seed, 0.3))
        shape->query_offset = random_int(seed, -3, shape->n_keys);
    if (random_chance(seed, 0.3))
        shape->window = random_int(seed, 1, shape->n_keys + 3);
}

static void choose_scores(options_case *c, uint64_t *seed)
{
    es_attention_shape *shape = &c->shape;
    const size_t n = (size_t)shape->n_heads * (size_t)shape->n_queries;
    if (random_chance(seed, 0.3))
        shape->scale = pow(10, 2 * random_uniform(seed) - 1.5);
    if (random_chance(seed, 0.3))
        shape->softcap = pow(10, 2 * random_uniform(seed));
    if (random_chance(seed, 0.3))
        shape->sink_logits = c->sink_logits;
    for (int h = 0; h < shape->n_heads; h++)
        c->sink_logits[h] = (float)(3 * random_normal(seed));
    if (random_chance(seed, 0.2))
        c->sink_logits[0] = -INFINITY;
    c->temperature = new_normals(n, 1, *seed);
    for (size_t i = 0; i < n; i++)
        c->temperature[i] = 0.3F + fabsf(c->temperature[i]);
    if (random_chance(seed, 0.2))
        shape->temperature = c->temperature;
}

options_case *new_options_case(uint64_t seed, int n_queries, int width)
{
    options_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    const int kv_heads = random_int(&seed, 1, 2);
    const bool is_long = random_chance(&seed, 0.3),
               is_wide = random_chance(&seed, 0.1);
    c->shape = (es_attention_shape){
        .size = sizeof c->shape,
        .n_batch = random_int(&seed, 1, OPTIONS_MOST_BATCH),
        .n_heads = kv_heads * random_int(&seed, 1, 3),
        .n_queries = random_int(&seed, 1, 60),
        .n_keys = random_int(&seed, is_long ? 200 : 1,
                             is_long ? OPTIONS_MOST_LENGTH : 60),
        .head_width = random_int(&seed, is_wide ? 500 : 1, is_wide ? 600 : 70),
        .causal = random_chance(&seed, is_long ? 0.3 : 0.7)};
    es_attention_shape *shape = &c->shape;
    shape->n_queries = n_queries ? n_queries : shape->n_queries;
    shape->head_width = width ? width : shape->head_width;
    const bool grouped = random_chance(&seed, 0.5);
    const double scale = pow(10, 4 * random_uniform(&seed) - 1.5);
    shape->n_kv_heads = grouped ? kv_heads : 0;
    choose_rows(c, &seed);
    choose_scores(c, &seed);
    const bool inside = shape->query_starts || random_chance(&seed, 0.5);
    const int n_batch = shape->query_starts ? 1 : shape->n_batch;
    c->q = random_numbers(n_batch, shape->n_heads, shape->n_queries,
                          shape->head_width, scale, inside, &seed);
    c->k = random_numbers(n_batch, grouped ? kv_heads : shape->n_heads,
                          shape->n_keys, shape->head_width, 1, inside, &seed);
    return c;
}

void free_options_case(options_case *c)
{
    free(c->q.values);
    free(c->q.halves);
    free(c->k.values);
    free(c->k.halves);
    free(c->temperature);
    free(c);
}
