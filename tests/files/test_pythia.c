/* Tests models of the family pythia: compares the rotary embedding with a plain
   implementation in double, and tests the separate output matrix.
   test_gradients tests complete models. */
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/reference_ops.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/* --- the rotation --------------------------------------------------------- */

/* Shapes whose heads have 2, 2, 2, 2, 2, 4 and 16 rotated dimensions. */
static const int shapes[][4] = {/* B, T, H, width */
                                {1, 1, 1, 2},  {2, 1, 3, 3}, {1, 7, 2, 2},
                                {3, 5, 1, 11}, {1, 9, 5, 8}, {2, 6, 3, 19},
                                {1, 37, 2, 64}};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static es_attention attention_of(const int shape[4])
{
    return (es_attention){.n_batch = shape[0],
                          .n_ctx = shape[1],
                          .n_head = shape[2],
                          .d_model = shape[2] * shape[3]};
}

static size_t size_of(const es_attention *a)
{
    return (size_t)(a->n_batch * a->n_ctx * 3 * a->d_model);
}

/* Returns the number of rotated dimensions, computed independently of the
   trainer's code. */
static int rotated(int width)
{
    return width < 16 ? 2 : width < 24 ? 4 : width == 64 ? 16 : -1;
}

/* Rotates each pair c of every head by multiplying it, as a complex number, by
   exp(i * sign * position / 10000^(2c/r)), where i is the imaginary unit and r
   is the number of rotated dimensions of a head. */
static void reference(double *out, const float *qkv, const es_attention *a,
                      double sign)
{
    const int width = a->d_model / a->n_head, r = rotated(width);
    for (size_t i = 0; i < size_of(a); i++)
        out[i] = (double)qkv[i];
    for (int row = 0; row < a->n_batch * a->n_ctx; row++)
        for (int head = 0; head < 2 * a->n_head; head++)
            for (int c = 0; c < r / 2; c++) {
                double *x = out + row * 3 * a->d_model + head * width + c;
                double angle =
                    sign * (row % a->n_ctx) / exp(log(10000) * 2 * c / r);
                double real = x[0] * cos(angle) - x[r / 2] * sin(angle);
                x[r / 2] = x[0] * sin(angle) + x[r / 2] * cos(angle);
                x[0] = real;
            }
}

/* Runs `check` for every shape in `shapes` on the same back-end, which is
   prepared for even larger shapes. */
static void with_all_shapes(void (*check)(es_backend *, const es_attention *))
{
    const es_ops *ops = &es_cpu_ops;
    const es_extents largest = {
        .n_rows = 60, .width = 200, .n_ctx = 40, .n_head = 5, .head_width = 70};
    es_backend *cpu;
    es_assert_ok(ops->open(&cpu, 3));
    es_assert_ok(ops->prepare(cpu, &largest));
    for (size_t i = 0; i < N_SHAPES; i++) {
        es_attention attention = attention_of(shapes[i]);
        check(cpu, &attention);
    }
    ops->close(cpu);
}

static float *draw(const es_attention *a, uint64_t seed)
{
    float *out = malloc(size_of(a) * sizeof *out);
    assert_non_null(out);
    es_test_fill(out, size_of(a), 3, &seed);
    return out;
}

static void check_formula(es_backend *cpu, const es_attention *a)
{
    for (int back = 0; back < 2; back++) {
        AUTO_FREE float *got = draw(a, 5);
        AUTO_FREE double *want = calloc(size_of(a), sizeof *want);
        reference(want, got, a, back ? -1 : 1);
        es_cpu_ops.rotate(cpu, (es_mem *)got, a, back);
        es_test_expect_close("rotated", got, want, size_of(a));
    }
}

TEST(rotation_matches_its_formula)
{
    with_all_shapes(check_formula);
}

static double inner_product(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Checks <R x, y> = <x, R^T y>. */
static void check_transpose(es_backend *cpu, const es_attention *a)
{
    const es_ops *ops = &es_cpu_ops;
    const size_t n = size_of(a);
    float *x = draw(a, 7), *y = draw(a, 8);
    float *rx = draw(a, 7), *ry = draw(a, 8);
    ops->rotate(cpu, (es_mem *)rx, a, false);
    ops->rotate(cpu, (es_mem *)ry, a, true);
    double scale = sqrt(inner_product(x, x, n) * inner_product(y, y, n));
    assert_true(fabs(inner_product(rx, y, n) - inner_product(x, ry, n)) <=
                1e-6 * scale);
    /* If there is only one position, the rotation R is the identity; otherwise
       R differs from its transpose. */
    bool same =
        fabs(inner_product(rx, y, n) - inner_product(x, y, n)) <= 1e-6 * scale;
    assert_int_equal(same, a->n_ctx == 1);
    free(x), free(y), free(rx), free(ry);
}

TEST(backward_rotation_is_the_transpose)
{
    with_all_shapes(check_transpose);
}

/* If q and k are the same at all positions, the product q_i . k_j of the
 * rotated vectors depends only on i - j. */
static void check_relative(es_backend *cpu, const es_attention *a)
{
    const int d = a->d_model, width = d / a->n_head;
    AUTO_FREE float *qkv = draw(a, 9);
    for (int row = 1; row < a->n_batch * a->n_ctx; row++)
        memcpy(qkv + row * 3 * d, qkv, (size_t)(3 * d) * sizeof *qkv);
    es_cpu_ops.rotate(cpu, (es_mem *)qkv, a, false);
    for (int i = 1; i < a->n_ctx; i++)
        for (int j = 1; j <= i; j++) {
            const float *q = qkv + i * 3 * d, *k = qkv + (j * 3 + 1) * d;
            double here = inner_product(q, k, (size_t)width);
            double before = inner_product(q - 3 * d, k - 3 * d, (size_t)width);
            assert_true(fabs(here - before) <= 1e-6 * 9 * width);
        }
}

TEST(rotated_products_depend_only_on_the_distance)
{
    with_all_shapes(check_relative);
}

/* --- a model ------------------------------------------------------------ */

static bool has_array(const es_small_model *s, const char *name)
{
    for (size_t i = 0; i < es_model_n_arrays(s->model); i++)
        if (strcmp(es_model_parameter(s->model, i).name, name) == 0)
            return true;
    return false;
}

TEST(the_output_matrix_is_untied)
{
    es_model_config config = es_small_config("SM+LN+G");
    config.family = ES_FAMILY_PYTHIA;
    config.d_model = 15; /* makes heads of width 5 */
    AUTO_BY(es_small_close) es_small_model s = es_small_open(&config);
    assert_true(has_array(&s, "embed_out"));
    assert_false(has_array(&s, "wpe"));
    es_small_gradients(&s);
    /* Token 7 does not occur in the micro-batch. Therefore its row of the
       embedding has no gradient, but its row of the output matrix has one. */
    for (int i = 0; i < s.n; i++)
        assert_int_not_equal(s.tokens[i], 7);
    float wte[11 * 15], out[11 * 15];
    const size_t n = sizeof wte / sizeof *wte;
    es_assert_ok(
        es_model_get_gradient(s.model, es_small_find(&s, "wte"), wte, n));
    es_assert_ok(
        es_model_get_gradient(s.model, es_small_find(&s, "embed_out"), out, n));
    for (int c = 0; c < 15; c++) {
        assert_true(wte[7 * 15 + c] == 0);
        assert_true(out[7 * 15 + c] != 0);
    }
}
