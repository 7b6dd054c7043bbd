/* Compares the matrix products of every library with sums in double, including
 * shapes that do not fit the blocks of the kernels. */
#include "hooks/trainer/cpu/products.h"
#include "tests/support/arrays.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"

#include <math.h>

/* Returns the available libraries as a NULL-terminated list. */
static const es_products *const *libraries(void)
{
    static const es_products *out[] = {&es_products_openblas, NULL, NULL};
    if (es_products_onednn.open() == ES_OK)
        out[1] = &es_products_onednn;
    return out;
}

#define EACH_LIBRARY(products)                                                 \
    for (const es_products *const *products = libraries(); *products;          \
         products++)

/* If is_padded, the number of unused elements at the end of each row of A, B
 * and C, respectively. */
enum { PAD_A = 3, PAD_B = 1, PAD_C = 2 };
static int is_padded;

/* A product of matrices. Its operands are stored twice with the same values: as
 * floats, and in the element types that the call expects. */
typedef struct problem {
    es_product shape;
    /* operands and result; the residual has the layout of c */
    float *a, *b, *c, *bias, *residual;
    void *given_a, *given_b, *given_c, *given_residual;
    double *want; /* (m,n) expected result, computed in double */
} problem;

static size_t rows_of(const es_product *p, bool of_a)
{
    return (size_t)(of_a ? (p->a_transposed ? p->k : p->m)
                         : (p->b_transposed ? p->n : p->k));
}

/* Rounds x (n) to values that `type` represents, and returns a copy of the
 * values with this type. */
static void *in_type(float *x, size_t n, es_number_type type)
{
    es_bfloat *out = (void *)array(n, 0);
    if (type == ES_NUMBER_F32)
        return memcpy(out, x, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        out[i] = es_bfloat_round(x[i]);
        x[i] = es_bfloat_read(out[i]);
    }
    return out;
}

static problem make(es_product shape)
{
    es_product *p = &shape;
    p->a_stride = (p->a_transposed ? p->m : p->k) + is_padded * PAD_A;
    p->b_stride = (p->b_transposed ? p->k : p->n) + is_padded * PAD_B;
    p->c_stride = p->n + is_padded * PAD_C;
    const size_t n_a = rows_of(p, true) * (size_t)p->a_stride;
    const size_t n_b = rows_of(p, false) * (size_t)p->b_stride;
    const size_t n_c = (size_t)p->m * (size_t)p->c_stride;
    problem out = {.shape = shape,
                   .a = array(n_a, 1),
                   .b = array(n_b, 1),
                   .c = array(n_c, 1),
                   .bias = array((size_t)p->n, 1),
                   .residual = array(n_c, 1),
                   .want = doubles((size_t)(p->m * p->n))};
    out.given_a = in_type(out.a, n_a, p->in);
    out.given_b = in_type(out.b, n_b, p->in);
    out.given_c = in_type(out.c, n_c, p->out);
    out.given_residual = in_type(out.residual, n_c, p->out);
    return out;
}

static void compute(const problem *x, const float *residual, const float *bias)
{
    const es_product *p = &x->shape;
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++) {
            double sum = residual ? (double)residual[i * p->c_stride + j] : 0;
            sum += bias ? (double)bias[j] : 0;
            for (int l = 0; l < p->k; l++)
                sum += (double)x->a[p->a_transposed ? l * p->a_stride + i
                                                    : i * p->a_stride + l] *
                       (double)x->b[p->b_transposed ? j * p->b_stride + l
                                                    : l * p->b_stride + j];
            x->want[i * p->n + j] = sum;
        }
}

static void expect(const char *what, const problem *x)
{
    const es_product *p = &x->shape;
    float *got = array((size_t)(p->m * p->n), 0);
    char text[128];
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->c_stride; j++) {
            const int place = i * p->c_stride + j;
            const float value =
                p->out == ES_NUMBER_F32
                    ? ((const float *)x->given_c)[place]
                    : es_bfloat_read(((const es_bfloat *)x->given_c)[place]);
            if (j < p->n)
                got[i * p->n + j] = value;
            else if (value != x->c[place])
                fail_msg("%s: wrote past the end of row %d of C", what, i);
        }
    snprintf(text, sizeof text, "%s %dx%dx%d%s%s %s to %s", what, p->m, p->n,
             p->k, p->a_transposed ? " A^T" : "", p->b_transposed ? " B^T" : "",
             p->in == ES_NUMBER_F32 ? "f32" : "bf16",
             p->out == ES_NUMBER_F32 ? "f32" : "bf16");
    const bool is_rounded = p->out == ES_NUMBER_BF16;
    es_test_expect_within(text, got, x->want, (size_t)(p->m * p->n),
                          is_rounded ? 0x1p-8 : 2e-5,
                          is_rounded ? 0x1p-8 : 1e-5);
}

static void multiply(const es_products *products, const problem *x,
                     const void *residual, const float *bias)
{
    static _Alignas(64) float scratch[ES_PRODUCT_SCRATCH];
    const es_product_call call = {.shape = x->shape,
                                  .c = x->given_c,
                                  .residual = residual,
                                  .bias = bias,
                                  .a = x->given_a,
                                  .b = x->given_b,
                                  .scratch = scratch,
                                  .kernels = es_cpu_kernels_choose()};
    products->multiply(&call);
}

static void check(const es_products *products, es_product shape)
{
    problem x = make(shape);
    compute(&x, NULL, NULL);
    multiply(products, &x, NULL, NULL);
    expect("product", &x);

    x = make(shape);
    compute(&x, x.c, NULL);
    multiply(products, &x, x.given_c, NULL);
    expect("product added to C", &x);

    x = make(shape);
    compute(&x, x.residual, x.bias);
    multiply(products, &x, x.given_residual, x.bias);
    expect("product with residual and bias", &x);

    x = make(shape);
    compute(&x, x.c, x.bias);
    multiply(products, &x, x.given_c, x.bias);
    expect("product with bias added to C", &x);

    x = make(shape);
    compute(&x, NULL, x.bias);
    multiply(products, &x, NULL, x.bias);
    expect("product with bias", &x);
    es_test_release();
}

/* Sizes m, n, k of products. */
static const int sizes[][3] = {
    {1, 1, 1},    {1, 7, 3},    {5, 1, 9},     {3, 5, 1},     {17, 33, 20},
    {16, 64, 32}, {31, 48, 47}, {130, 19, 70}, {12, 300, 35}, {9, 515, 21}};

static const struct {
    es_number_type in, out;
} types[] = {{ES_NUMBER_F32, ES_NUMBER_F32},
             {ES_NUMBER_BF16, ES_NUMBER_F32},
             {ES_NUMBER_BF16, ES_NUMBER_BF16}};

TEST(products_match_sums_in_double)
{
    EACH_LIBRARY(products)
    for (is_padded = 0; is_padded < 2; is_padded++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t type = 0; type < sizeof types / sizeof *types; type++)
                for (int transposed = 0; transposed < 4; transposed++)
                    check(*products,
                          (es_product){.m = sizes[i][0],
                                       .n = sizes[i][1],
                                       .k = sizes[i][2],
                                       .in = types[type].in,
                                       .out = types[type].out,
                                       .a_transposed = transposed & 1,
                                       .b_transposed = transposed & 2});
}

/* These shapes include narrow and wide products, for which different libraries
 * are used. */
TEST(products_by_shape_match_sums_in_double)
{
    if (es_products_by_shape.open() != ES_OK)
        es_skip("no oneDNN");
    for (int wide = 0; wide < 2; wide++)
        for (int type = 0; type < 2; type++)
            check(&es_products_by_shape, (es_product){.m = 9,
                                                      .n = wide ? 300 : 40,
                                                      .k = 33,
                                                      .in = types[type].in,
                                                      .out = types[type].out});
}

/* Returns the product of x as a library computes it, (m,n) without padding. */
static float *bits_by(const es_products *products, const problem *x)
{
    const size_t n = (size_t)(x->shape.m * x->shape.n);
    multiply(products, x, NULL, NULL);
    return memcpy(array(n, 0), x->given_c, n * sizeof(float));
}

/* For these sizes m, n, k the two libraries add in different orders, so the
 * bits of the result show which library computed it. */
TEST(float32_products_are_made_by_the_library_of_their_shape)
{
    static const struct {
        int m, n, k;
        bool a_transposed;
        const es_products *want;
    } rows[] = {{40, 256, 999, false, &es_products_onednn},
                {40, 257, 999, false, &es_products_openblas},
                {40, 64, 999, true, &es_products_openblas},
                {40, 65, 999, true, &es_products_onednn},
                {256, 1024, 999, true, &es_products_onednn},
                {256, 1025, 999, true, &es_products_openblas},
                {257, 257, 999, true, &es_products_openblas}};
    if (es_products_by_shape.open() != ES_OK)
        es_skip("no oneDNN");
    is_padded = 0;
    int n_different = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const problem x =
            make((es_product){.m = rows[i].m,
                              .n = rows[i].n,
                              .k = rows[i].k,
                              .a_transposed = rows[i].a_transposed});
        const size_t bytes = (size_t)(rows[i].m * rows[i].n) * sizeof(float);
        const float *got = bits_by(&es_products_by_shape, &x);
        if (memcmp(got, bits_by(rows[i].want, &x), bytes) != 0)
            fail_msg("the product in row %zu is not computed by %s", i,
                     rows[i].want->name);
        n_different += memcmp(bits_by(&es_products_openblas, &x),
                              bits_by(&es_products_onednn, &x), bytes) != 0;
        es_test_release();
    }
    assert_true(n_different > 0);
}

/* The product of A^T and the first columns of the identity matrix must be the
 * first columns of A^T. */
TEST(a_long_transposed_matrix_is_multiplied_in_all_its_parts)
{
    const int m = 101, n = 520, k = 16384;
    float *a = array(m * k, 1);
    es_bfloat *given_a = in_type(a, (size_t)(m * k), ES_NUMBER_BF16);
    es_bfloat *b = (void *)array(n * k / 2, 0);
    for (int j = 0; j < n; j++)
        b[j * n + j] = es_bfloat_round(1);
    EACH_LIBRARY(products)
    {
        float *c = array(m * n, 0);
        const problem x = {.shape = {.m = m,
                                     .n = n,
                                     .k = k,
                                     .a_transposed = true,
                                     .a_stride = m,
                                     .b_stride = n,
                                     .c_stride = n,
                                     .in = ES_NUMBER_BF16},
                           .given_a = given_a,
                           .given_b = b,
                           .given_c = c};
        multiply(*products, &x, NULL, NULL);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                if (c[i * n + j] != a[j * m + i])
                    fail_msg("%s: C[%d][%d] is %g, not %g", (*products)->name,
                             i, j, (double)c[i * n + j], (double)a[j * m + i]);
    }
    es_test_release();
}

/* A NaN or an infinity in a row of A affects only the same row of C. */
TEST(nan_and_infinity_stay_in_their_rows)
{
    EACH_LIBRARY(products)
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        problem x = make((es_product){.m = 21,
                                      .n = 37,
                                      .k = 40,
                                      .in = types[type].in,
                                      .out = types[type].out});
        const es_product *p = &x.shape;
        x.a[2 * p->a_stride + 7] = NAN;
        x.a[19 * p->a_stride + 39] = -INFINITY;
        x.given_a = in_type(x.a, (size_t)(p->m * p->a_stride), p->in);
        compute(&x, x.residual, x.bias);
        multiply(*products, &x, x.given_residual, x.bias);
        expect("not finite", &x);
        es_test_release();
    }
}

TEST(bfloat16_rounds_to_the_nearest_and_keeps_nan)
{
    static const struct {
        float x;
        es_bfloat want;
    } cases[] = {{1, 0x3f80},
                 {1 + 0x1p-8f, 0x3f80},
                 {1 + 0x1p-8f + 0x1p-20f, 0x3f81},
                 {1 + 0x3p-8f, 0x3f82},
                 {-0.0f, 0x8000},
                 {0x1p-133f, 0x0001},
                 {0x1p-134f, 0x0000},
                 {INFINITY, 0x7f80},
                 {-INFINITY, 0xff80},
                 {3.4028235e38f, 0x7f80},
                 {0x1.fep127f, 0x7f7f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(es_bfloat_round(cases[i].x), cases[i].want);
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0xff800001,
                                    0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        float x;
        memcpy(&x, &nans[i], sizeof x);
        assert_true(isnan(es_bfloat_read(es_bfloat_round(x))));
        assert_int_equal(es_bfloat_round(x) >> 15, nans[i] >> 31);
    }
}
