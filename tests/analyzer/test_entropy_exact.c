/*
 * Compares the statistics that every variant of the kernels computes from Q and
 * K with those computed in double precision, for rows in which float32 products
 * are not accurate enough. Such rows have vectors that are one vector plus
 * noise, products whose partial sums grow and shrink again, or channels much
 * larger than the other channels. Covers all scales of scores, every option and
 * every type, and prints the largest errors.
 */
#include "analyzer/base/value.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/entropy_helpers.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_WIDTH = 512, MOST_KEYS = 260, QUERIES = 40, HEADS = 2 };

/** How the vectors of a head are distributed. */
typedef enum pattern {
    AROUND_ONE, /* all queries and keys are the same vector plus noise */
    KINKED,     /* like AROUND_ONE, with the second half of each key's
                   numbers negated */
    CLUSTERED,  /* each query or key is one of four vectors plus noise */
    OUTLIERS, /* like AROUND_ONE, with a first channel that is 20 times as large
               */
    N_PATTERNS
} pattern;

static const char *const pattern_names[N_PATTERNS] = {"around one", "kinked",
                                                      "clustered", "outliers"};

/**
 * A head of a kind that is difficult for float32, with the options of its call.
 */
typedef struct family {
    pattern pattern;
    int width, n_keys;
    double noise, scale; /* noise: amplitude of the noise in the vectors; scale:
                            factor by which the scores are multiplied */
    bool causal, has_sink;
    int offset, window;
    double softcap;
} family;

/* --- numbers ----------------------------------------------------------------
 */

static uint16_t to_bfloat(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x8000) >> 16);
}

static uint16_t to_half(float x)
{
    const float size = fminf(fabsf(x), 60000);
    const int exponent = size < 0x1p-14F ? -14 : ilogbf(size);
    const int mantissa = (int)lrintf(ldexpf(size, 10 - exponent));
    return (uint16_t)((signbit(x) ? 0x8000 : 0) |
                      ((exponent + 14) * 1024 + mantissa));
}

/** n vectors of one head, in double and in the input type of the call. */
typedef struct vectors {
    double *exact;
    void *data;
} vectors;

/**
 * Stores x as number i in the given type, and also its exact value after
 * rounding to that type.
 */
static void put(vectors *to, size_t i, es_entropy_type type, float x)
{
    if (type == ES_ENTROPY_F32)
        ((float *)to->data)[i] = x;
    else
        ((uint16_t *)to->data)[i] =
            type == ES_ENTROPY_F16 ? to_half(x) : to_bfloat(x);
    to->exact[i] =
        (double)es_number((es_numbers){to->data, type}, (ptrdiff_t)i);
}

static vectors new_vectors(const family *f, int n, double scale, bool is_key,
                           es_entropy_type type, uint64_t seed)
{
    const size_t width = (size_t)f->width, count = (size_t)n * width;
    uint64_t noise = seed * 7 + (is_key ? 3 : 5);
    vectors out = {malloc(count * sizeof *out.exact), malloc(count * 4)};
    float *centres = new_normals(4 * width, 1, seed);
    assert_true(out.exact && out.data);
    for (size_t i = 0; i < count; i++) {
        const size_t c = i % width;
        const size_t one = f->pattern == CLUSTERED ? i / width % 4 : 0;
        double x = (double)centres[one * width + c];
        if (f->pattern == KINKED && is_key && c >= width / 2)
            x = -x;
        if (f->pattern == OUTLIERS && c == 0)
            x *= 20;
        x += f->noise * random_normal(&noise);
        put(&out, i, type, (float)(scale * x));
    }
    free(centres);
    return out;
}

static void free_vectors(vectors *x)
{
    free(x->exact);
    free(x->data);
}

/* --- the definition ---------------------------------------------------------
 */

enum { ENTROPY, LSE, MAX_LOGIT, SINK, MISSING, DISTANCE, TOP, N_FLOATS };

static const char *const names[N_FLOATS] = {
    "entropy", "lse", "max_logit", "sink", "missing", "distance", "top"};

/** The statistics of one row, computed by the definitions in entropy.h. */
typedef struct wanted_row {
    int n; /* number of keys that the row sees */
    double x[N_FLOATS], reach;
} wanted_row;

static double score_of(const family *f, const double *q, const double *k,
                       double *reach)
{
    double sum = 0, sizes = 0;
    for (int c = 0; c < f->width; c++) {
        sum += q[c] * k[c];
        sizes += fabs(q[c] * k[c]);
    }
    const double scale = 1 / sqrt(f->width);
    *reach = fmax(*reach, sizes * scale);
    sum *= scale;
    return f->softcap > 0 ? f->softcap * tanh(sum / f->softcap) : sum;
}

static wanted_row wanted_at(const family *f, const double *q, const double *k,
                            int i, double sink_logit)
{
    double scores[MOST_KEYS], sum = 0, top = -INFINITY;
    const int p = f->offset + i;
    const int first = f->window && p + 1 > f->window ? p + 1 - f->window : 0;
    int end = f->causal ? p + 1 : f->window ? p + f->window : f->n_keys;
    wanted_row row = {.n = 0};
    end = end > f->n_keys ? f->n_keys : end;
    row.n = end - first;
    for (int j = first; j < end; j++) {
        scores[j] = score_of(f, q, k + (ptrdiff_t)j * f->width, &row.reach);
        top = fmax(top, scores[j]);
    }
    for (int j = first; j < end; j++)
        sum += exp(scores[j] - top);
    for (int j = first; j < end; j++) {
        const double a = exp(scores[j] - top) / sum;
        row.x[ENTROPY] -= a * (scores[j] - top - log(sum));
        row.x[DISTANCE] += a * abs(p - j);
    }
    row.x[MAX_LOGIT] = top;
    row.x[LSE] = top + log(sum);
    row.x[TOP] = 1 / sum;
    row.x[SINK] = first > 0 ? 0 : exp(scores[0] - top) / sum;
    row.x[MISSING] = f->has_sink ? 1 / (1 + exp(row.x[LSE] - sink_logit)) : 0;
    return row;
}

/* --- comparison -------------------------------------------------------------
 */

/** The largest errors over all compared rows. */
typedef struct worst {
    double error[N_FLOATS]; /* largest errors, as multiples of the promised
                               accuracy */
    family of; /* the family in which the largest entropy error occurred */
    int n_rows, n_peaked; /* n_rows: number of compared rows; n_peaked: number
                             of rows with entropies from 0.003 to 0.03 */
} worst;

static void compare_row(worst *most, const family *f, const wanted_row *row,
                        float *const got[N_FLOATS], int i)
{
    const double score = 1e-5 + 5e-7 * row->reach;
    const double allowed[N_FLOATS] = {
        [ENTROPY] = 1e-5, [LSE] = score,     [MAX_LOGIT] = score,
        [SINK] = 1e-5,    [MISSING] = score, [DISTANCE] = 1e-5 * f->n_keys,
        [TOP] = 1e-5};
    for (int s = 0; s < N_FLOATS; s++) {
        const double error = fabs((double)got[s][i] - row->x[s]) / allowed[s];
        if (s == ENTROPY && !(error <= most->error[s]))
            most->of = *f;
        if (!(error <= most->error[s]))
            most->error[s] = isnan(error) ? INFINITY : error;
    }
    most->n_rows++;
    most->n_peaked += row->x[ENTROPY] > 0.003 && row->x[ENTROPY] < 0.03;
}

static void compare(worst *most, const es_entropy_kernels *set,
                    es_entropy_type type, const family *f, uint64_t seed)
{
    const float sink_logit = (float)(f->scale * sqrt(f->width));
    const double root = sqrt(f->scale);
    float out[N_FLOATS][QUERIES], *got[N_FLOATS];
    for (int s = 0; s < N_FLOATS; s++)
        got[s] = out[s];
    const es_rows rows = {.size = sizeof rows,
                          .entropy = out[ENTROPY],
                          .lse = out[LSE],
                          .max_logit = out[MAX_LOGIT],
                          .sink = out[SINK],
                          .missing = out[MISSING],
                          .distance = out[DISTANCE],
                          .top = out[TOP]};
    es_attention_shape shape =
        SHAPE(1, 1, QUERIES, f->n_keys, f->width, f->causal);
    shape.query_offset = f->offset;
    shape.window = f->window;
    shape.softcap = f->softcap;
    shape.sink_logits = f->has_sink ? &sink_logit : NULL;
    vectors q = new_vectors(f, QUERIES, root, false, type, seed);
    vectors k = new_vectors(f, f->n_keys, root, true, type, seed);
    const es_entropy_input in = {q.data, type,
                                 es_strides_bhtd(1, QUERIES, f->width)};
    const es_entropy_input keys = {k.data, type,
                                   es_strides_bhtd(1, f->n_keys, f->width)};
    assert_int_equal(es_entropy_with(set, &rows, NULL, &in, &keys, &shape, 1),
                     ES_OK);
    for (int i = 0; i < QUERIES; i++) {
        const wanted_row row = wanted_at(f, q.exact + (ptrdiff_t)i * f->width,
                                         k.exact, i, (double)sink_logit);
        compare_row(most, f, &row, got, i);
    }
    free_vectors(&q);
    free_vectors(&k);
}

/* --- families ---------------------------------------------------------------
 */

static const int widths[] = {16, 64, 128, 512};
static const double noises[] = {0.001, 0.01, 0.1, 1};
static const double scales[] = {0.1, 0.5, 1, 2, 4, 7, 10, 20, 31.6, 100, 316};

enum {
    N_WIDTHS = sizeof widths / sizeof widths[0],
    N_NOISES = sizeof noises / sizeof noises[0],
    N_SCALES = sizeof scales / sizeof scales[0],
    N_FAMILIES = N_PATTERNS * N_WIDTHS * N_NOISES * N_SCALES,
    EVERY = SANITIZED ? 97 : 17 /* every EVERY-th family is tested; EVERY has no
                                   factor in common with the counts above, so
                                   all their values occur */
};

/**
 * Returns family number i: one combination of pattern, width, noise and scale.
 * The number also determines the options of the call.
 */
static family family_at(int i)
{
    family f = {.scale = scales[i % N_SCALES]};
    const int rest = i / N_SCALES, options = i % 6;
    f.noise = noises[rest % N_NOISES];
    f.width = widths[rest / N_NOISES % N_WIDTHS];
    f.pattern = (pattern)(rest / N_NOISES / N_WIDTHS);
    f.n_keys = i % 5 == 0 ? MOST_KEYS : 100;
    f.causal = options == 1 || options == 2;
    f.offset = f.causal ? f.n_keys - QUERIES - options : 20;
    f.window = options == 2 || options == 3 ? 30 : 0;
    f.softcap = options == 4 ? 50 : 0;
    f.has_sink = options == 5;
    return f;
}

static void print_worst(const worst *most, const char *set, int type)
{
    static const char *const types[] = {"float32", "bfloat16", "float16"};
    print_message("# %s, %s, %d rows, %d with entropies near 0.01; largest "
                  "errors relative to the promised accuracy:",
                  set, types[type], most->n_rows, most->n_peaked);
    for (int s = 0; s < N_FLOATS; s++)
        print_message(" %s %.2f", names[s], most->error[s]);
    print_message(
        "; largest entropy error at: %s, D = %d, noise %g, scores x %g\n",
        pattern_names[most->of.pattern], most->of.width, most->of.noise,
        most->of.scale);
}

static void check_type(void **state, es_entropy_type type)
{
    const es_entropy_kernels *set = variant(state);
    worst most = {.n_rows = 0};
    for (int i = (int)type; i < N_FAMILIES; i += EVERY) {
        const family f = family_at(i);
        compare(&most, set, type, &f, (uint64_t)i + 1);
    }
    print_worst(&most, set->name, (int)type);
    for (int s = 0; s < N_FLOATS; s++)
        assert_true(most.error[s] <= 1);
    /* Builds with sanitizers test so few families of heads that possibly none
     * of the rows has a small entropy (is peaked). */
    assert_true(SANITIZED || most.n_peaked > most.n_rows / 200);
}

static void
test_entropy_exact__float32_is_exact_where_products_are_coarse(void **state)
{
    check_type(state, ES_ENTROPY_F32);
}

static void
test_entropy_exact__bfloat16_is_exact_where_products_are_coarse(void **state)
{
    check_type(state, ES_ENTROPY_BF16);
}

static void
test_entropy_exact__float16_is_exact_where_products_are_coarse(void **state)
{
    check_type(state, ES_ENTROPY_F16);
}

int main(void)
{
    static const variant_case cases[] = {
        VARIANT_CASE(
            test_entropy_exact__float32_is_exact_where_products_are_coarse),
        VARIANT_CASE(
            test_entropy_exact__bfloat16_is_exact_where_products_are_coarse),
        VARIANT_CASE(
            test_entropy_exact__float16_is_exact_where_products_are_coarse),
    };
    return run_for_variants(cases, sizeof cases / sizeof cases[0]);
}
