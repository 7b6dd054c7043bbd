/* Implements gemm.h on the host: computes matrix products with plain loops.
 * Inputs are rounded as on a device, and sums are computed in f32 in the order
 * of k. */
#include "hooks/trainer/cuda/gemm.h"
#include "hooks/trainer/cuda/kernel.h"
#include "tests/emulation/host.h"
#include "tests/emulation/mma_host.h"

#include <stdlib.h>

/* Rounds x to 10 bits of mantissa, to the nearest number with ties away from
 * zero. */
static float round_tf32(float x)
{
    uint32_t bits = es_host_bits<uint32_t>(x);
    return isfinite(x) ? es_host_bits<float>((bits + 0x1000u) & ~0x1fffu) : x;
}

/* Returns element `at` of an operand as f32, rounded to the operand's type. */
static float input(const void *from, size_t at, es_gemm_type type)
{
    if (type == ES_GEMM_BF16 || type == ES_GEMM_FP16)
        return es_host_half(((const uint16_t *)from)[at], type == ES_GEMM_BF16);
    float x = ((const float *)from)[at];
    return type == ES_GEMM_TF32 ? round_tf32(x) : x;
}

/* Returns a copy (rows,columns) of a matrix, without gaps and not
 * transposed. */
static float *densify(const void *from, int rows, int columns, int stride,
                      bool transposed, es_gemm_type type)
{
    float *out =
        (float *)malloc((size_t)rows * (size_t)columns * sizeof(float));
    if (!out)
        return NULL;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            size_t at = transposed ? (size_t)j * (size_t)stride + (size_t)i
                                   : (size_t)i * (size_t)stride + (size_t)j;
            out[(size_t)i * (size_t)columns + (size_t)j] =
                input(from, at, type);
        }
    return out;
}

static bool is_narrow(const es_gemm *p)
{
    return !p->wide && (p->type == ES_GEMM_BF16 || p->type == ES_GEMM_FP16);
}

/* Returns element `at` of the matrix c, the bias or aux, whose elements have
 * the same type as the result d. */
static float read(const es_gemm *p, const void *from, size_t at)
{
    return is_narrow(p) ? input(from, at, p->type) : ((const float *)from)[at];
}

static void write(const es_gemm *p, void *to, size_t at, float x)
{
    if (!is_narrow(p))
        ((float *)to)[at] = x;
    else if (p->type == ES_GEMM_BF16)
        ((es_bf16 *)to)[at] = __float2bfloat16_rn(x);
    else
        ((es_fp16 *)to)[at] = __float2half_rn(x);
}

/* Returns the tanh approximation of GELU, and writes its derivative. Powers of
 * x may overflow, as on a device. */
static float gelu(float *derivative, float x)
{
    const float a = 0.79788456f, b = 0.044715f;
    float t = tanhf(a * (x + b * x * x * x));
    *derivative =
        0.5f * (1 + t) + 0.5f * x * (1 - t * t) * a * (1 + 3 * b * x * x);
    return 0.5f * x * (1 + t);
}

static float after(const es_gemm *p, size_t at, float sum)
{
    float derivative;
    if (p->epilogue == ES_GEMM_GELU) {
        write(p, p->aux, at, sum);
        return gelu(&derivative, sum);
    }
    if (p->epilogue == ES_GEMM_DGELU) {
        gelu(&derivative, read(p, p->aux, at));
        return sum * derivative;
    }
    return sum;
}

/* Computes row i of d; `sums` (n) is working memory. */
static void multiply_row(const es_gemm *p, int i, const float *a,
                         const float *b, float *sums)
{
    const size_t n = (size_t)p->n;
    memset(sums, 0, n * sizeof *sums);
    for (int k = 0; k < p->k; k++)
        for (size_t j = 0; j < n; j++)
            sums[j] += a[k] * b[(size_t)k * n + j];
    for (size_t j = 0; j < n; j++) {
        size_t at = (size_t)i * (size_t)p->ldd + j;
        float sum = sums[j] + (p->bias ? read(p, p->bias, j) : 0);
        if (p->c && p->beta != 0)
            sum += p->beta * read(p, p->c, at);
        write(p, p->d, at, after(p, at, sum));
    }
}

static void multiply(es_device *device, const void *argument)
{
    const es_gemm *p = (const es_gemm *)argument;
    float *a = densify(p->a, p->m, p->k, p->lda, p->a_transposed, p->type);
    float *b = densify(p->b, p->k, p->n, p->ldb, p->b_transposed, p->type);
    float *sums = (float *)malloc((size_t)p->n * sizeof *sums);
    if (!a || !b || !sums)
        es_device_trouble(device, "memory for a product", 2);
    else
        for (int i = 0; i < p->m; i++)
            multiply_row(p, i, a + (size_t)i * (size_t)p->k, b, sums);
    free(a);
    free(b);
    free(sums);
}

bool es_device_gemm(es_device *device, const es_gemm *product)
{
    const bool bare = !product->bias && product->epilogue == ES_GEMM_PLAIN;
    /* Refuses the same fused products as a device, so that the tests also cover
     * the code that computes these products without fusion. */
    if (!es_gemm_is_offered(product) ||
        (!bare && es_host_faults_of(device)->bare))
        return false;
    es_host_do(device, multiply, product, sizeof *product);
    return true;
}

const char *es_gemm_note(es_device *)
{
    return "";
}
