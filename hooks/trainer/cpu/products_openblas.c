/* Computes products with OpenBLAS, which is always available. OpenBLAS does not
 * multiply bfloat16 on every processor, so bfloat16 operands are converted to
 * float32, panel by panel. */
#include "hooks/trainer/cpu/products.h"

#include <cblas.h>
#include <stdio.h>

/* Size of a panel: C is computed in panels of PANEL_M rows and PANEL_N columns,
 * and sums over k in parts of PANEL_K. The three panels of A, B and C fill
 * ES_PRODUCT_SCRATCH. */
#define PANEL_M 128
#define PANEL_N 256
#define PANEL_K 256

/* Computes C (m,n) = beta * C + op(A) * op(B) in float32, where op transposes
 * an operand if required. */
static void multiply_f32(const es_product *p, float *c, const float *a,
                         const float *b, float beta)
{
    cblas_sgemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
                p->b_transposed ? CblasTrans : CblasNoTrans, p->m, p->n, p->k,
                1, a, p->a_stride, b, p->b_stride, beta, c, p->c_stride);
}

/* Sets C to the residual plus the bias, to which OpenBLAS then adds the
 * product. This costs no additional time, because OpenBLAS would otherwise have
 * to set C to 0. */
static void start_sums(const es_product_call *call)
{
    const es_product *p = &call->shape;
    const float *residual = call->residual;
    if (residual == call->c && !call->bias)
        return;
    if (p->c_stride == p->n) {
        call->kernels->start_rows(call->c, residual, call->bias, p->m, p->n);
        return;
    }
    for (size_t i = 0; i < (size_t)p->m; i++) {
        const size_t row = i * (size_t)p->c_stride;
        call->kernels->start_rows((float *)call->c + row,
                                  residual ? residual + row : NULL, call->bias,
                                  1, p->n);
    }
}

/* --- bfloat16 ------------------------------------------------------------- */

static void widen_row(float *out, const es_bfloat *x, size_t n)
{
#pragma omp simd
    for (size_t j = 0; j < n; j++)
        out[j] = es_bfloat_read(x[j]);
}

static void round_row(es_bfloat *out, const float *x, size_t n)
{
#pragma omp simd
    for (size_t j = 0; j < n; j++)
        out[j] = es_bfloat_round(x[j]);
}

/* Converts n_rows rows of n_columns numbers of a bf16 matrix, whose rows are
 * `stride` apart, to a float32 panel (n_rows,n_columns). */
static void widen_rows(float *panel, const es_bfloat *x, int stride, int n_rows,
                       int n_columns)
{
    for (size_t i = 0; i < (size_t)n_rows; i++)
        widen_row(panel + i * (size_t)n_columns, x + i * (size_t)stride,
                  (size_t)n_columns);
}

/* A panel of the result C, with m rows and n columns, starting at row i and
 * column j. */
typedef struct tile {
    int i, j, m, n;
    float *sums; /* (m,n) */
} tile;

static size_t offset_of(int i, int j, int stride)
{
    return (size_t)i * (size_t)stride + (size_t)j;
}

/* Sets a panel of the result C to the residual plus the bias. The product is
 * added to the panel later. */
static void start_tile(const tile *t, const es_product_call *call)
{
    const es_product *p = &call->shape;
    for (int i = 0; i < t->m; i++) {
        float *row = t->sums + (size_t)i * (size_t)t->n;
        const size_t first = offset_of(t->i + i, t->j, p->c_stride);
        const float *floats = call->residual;
        const es_bfloat *halves = call->residual;
        for (int j = 0; j < t->n; j++) {
            const size_t at = first + (size_t)j;
            row[j] = call->bias ? call->bias[t->j + j] : 0;
            if (call->residual)
                row[j] += p->out == ES_NUMBER_F32 ? floats[at]
                                                  : es_bfloat_read(halves[at]);
        }
    }
}

static void add_products(const tile *t, const es_product_call *call)
{
    const es_product *p = &call->shape;
    float *a = t->sums + (size_t)PANEL_M * PANEL_N;
    float *b = a + (size_t)PANEL_M * PANEL_K;
    es_product part = {.m = t->m,
                       .n = t->n,
                       .a_transposed = p->a_transposed,
                       .b_transposed = p->b_transposed,
                       .c_stride = t->n};
    for (int l = 0; l < p->k; l += part.k) {
        part.k = p->k - l < PANEL_K ? p->k - l : PANEL_K;
        part.a_stride = p->a_transposed ? t->m : part.k;
        part.b_stride = p->b_transposed ? part.k : t->n;
        if (p->a_transposed)
            widen_rows(
                a, (const es_bfloat *)call->a + offset_of(l, t->i, p->a_stride),
                p->a_stride, part.k, t->m);
        else
            widen_rows(
                a, (const es_bfloat *)call->a + offset_of(t->i, l, p->a_stride),
                p->a_stride, t->m, part.k);
        if (p->b_transposed)
            widen_rows(
                b, (const es_bfloat *)call->b + offset_of(t->j, l, p->b_stride),
                p->b_stride, t->n, part.k);
        else
            widen_rows(
                b, (const es_bfloat *)call->b + offset_of(l, t->j, p->b_stride),
                p->b_stride, part.k, t->n);
        multiply_f32(&part, t->sums, a, b, 1);
    }
}

static void write_tile(const tile *t, const es_product_call *call)
{
    const es_product *p = &call->shape;
    for (int i = 0; i < t->m; i++) {
        const float *row = t->sums + (size_t)i * (size_t)t->n;
        const size_t first = offset_of(t->i + i, t->j, p->c_stride);
        if (p->out == ES_NUMBER_F32)
            memcpy((float *)call->c + first, row, (size_t)t->n * sizeof *row);
        else
            round_row((es_bfloat *)call->c + first, row, (size_t)t->n);
    }
}

static void multiply_bf16(const es_product_call *call)
{
    const es_product *p = &call->shape;
    tile t = {.sums = call->scratch};
    for (t.i = 0; t.i < p->m; t.i += PANEL_M)
        for (t.j = 0; t.j < p->n; t.j += PANEL_N) {
            t.m = p->m - t.i < PANEL_M ? p->m - t.i : PANEL_M;
            t.n = p->n - t.j < PANEL_N ? p->n - t.j : PANEL_N;
            start_tile(&t, call);
            add_products(&t, call);
            write_tile(&t, call);
        }
}

static void multiply(const es_product_call *call)
{
    const bool is_added = call->residual || call->bias;
    if (call->shape.in != ES_NUMBER_F32) {
        multiply_bf16(call);
        return;
    }
    if (is_added)
        start_sums(call);
    multiply_f32(&call->shape, call->c, call->a, call->b, is_added ? 1 : 0);
}

static es_status nothing(void)
{
    return ES_OK;
}

/* Writes the first two words of OpenBLAS's description, for example "OpenBLAS
 * 0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
static void version(char *out, size_t size)
{
    const char *configuration = openblas_get_config();
    size_t n = strcspn(configuration, " ");
    n += strspn(configuration + n, " ");
    n += strcspn(configuration + n, " ");
    snprintf(out, size, "%.*s", (int)n, configuration);
}

static const char *kernels(void)
{
    return openblas_get_corename();
}

const es_products es_products_openblas = {.name = "openblas",
                                          .open = nothing,
                                          .version = version,
                                          .kernels = kernels,
                                          .multiply = multiply,
                                          .status = nothing};
