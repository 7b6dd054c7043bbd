/* Vectors of four floats as gcc and clang have them on every machine. */
#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(16)));
typedef int32_t lanes __attribute__((vector_size(16)));
#define WIDTH 4
#define TILE 4
#define PANELS 2

static inline vec vec_load(const float *p)
{
    vec a;
    memcpy(&a, p, sizeof a);
    return a;
}

static inline void vec_store(float *p, vec a)
{
    memcpy(p, &a, sizeof a);
}

static inline vec vec_set(float x)
{
    return (vec){x, x, x, x};
}

static inline vec vec_load_first(const float *p, int n)
{
    vec a = vec_set(0);
    for (int i = 0; i < n; i++)
        a[i] = p[i];
    return a;
}

/** Lanes where `mask` is all ones from a, the others from b. */
static inline vec select_lanes(lanes mask, vec a, vec b)
{
    return (vec)((mask & (lanes)a) | (~mask & (lanes)b));
}

static inline vec vec_select_first(int n, vec a, vec b)
{
    return select_lanes((lanes){0, 1, 2, 3} < n, a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

static inline vec vec_max(vec a, vec b)
{
    return select_lanes(a > b, a, b);
}

/** Largest integers up to x, as numbers; |x| < 2^31, or NaN. */
static inline lanes floor_lanes(vec x)
{
    lanes n = __builtin_convertvector(x, lanes);
    return n + (__builtin_convertvector(n, vec) > x);
}

#include "analyzer/entropy/entropy_polynomials.h"

static inline vec vec_exp2(vec x)
{
    /* Converting a NaN is undefined; it stays in f. */
    lanes n = floor_lanes(select_lanes(x == x, x, vec_set(0)));
    vec f = x - __builtin_convertvector(n, vec);
    vec p = exp2_polynomial(f);
    return p * (vec)((n + 127) << 23);
}

/** x = m 2^k with 3/4 <= m < 3/2. */
static inline vec vec_log2(vec x)
{
    lanes bits = (lanes)x;
    lanes k = (lanes)((bits & INT32_MAX) - 0x3f400000) >> 23;
    vec m = (vec)(bits - (k << 23));
    vec r = m - vec_set(1);
    vec p = log2_polynomial(r, __builtin_convertvector(k, vec));
    /* All ones, a NaN, where x is negative. */
    return (vec)((lanes)p | bits >> 31);
}

static inline void vec_transpose(vec rows[WIDTH])
{
    float out[WIDTH][WIDTH];
    for (int r = 0; r < WIDTH; r++)
        for (int c = 0; c < WIDTH; c++)
            out[c][r] = rows[r][c];
    memcpy(rows, out, sizeof out);
}

static inline vec vec_sum_rows(const vec rows[WIDTH])
{
    vec t[WIDTH];
    memcpy(t, rows, sizeof t);
    vec_transpose(t);
    return (t[0] + t[1]) + (t[2] + t[3]);
}

static inline vec vec_max_rows(const vec rows[WIDTH])
{
    vec t[WIDTH];
    memcpy(t, rows, sizeof t);
    vec_transpose(t);
    return vec_max(vec_max(t[0], t[1]), vec_max(t[2], t[3]));
}

#define ES_KERNELS es_kernels_plain
#define ES_KERNELS_NAME "plain"
#define ES_KERNELS_NEED ES_VECTORS_PLAIN
#include "analyzer/entropy/entropy_kernels.h"
