/**
 * Matrix products in C order. gemm.cu implements them with cuBLASLt,
 * tests/emulation/gemm_host.cc with plain loops that round like the device.
 */
#ifndef ES_CUDA_GEMM_H
#define ES_CUDA_GEMM_H

#include "hooks/trainer/cuda/device.h"

#include <stdint.h>

typedef enum es_gemm_type {
    ES_GEMM_F32,
    ES_GEMM_TF32,
    ES_GEMM_BF16,
    ES_GEMM_FP16
} es_gemm_type;

/**
 * The operation on the sum before rounding. GELU has the tanh form, of the sum
 * or of the sum as stored in aux. Its tanh may have an error of 2^-11, which
 * causes an error of 2^-12 of the operand in gelu and of 2^-8 in gelu'. Its
 * cubes may overflow: for -infinity gelu is 0, -infinity or NaN, and gelu' of
 * numbers beyond 1e12 may be NaN.
 */
typedef enum es_gemm_epilogue {
    ES_GEMM_PLAIN, /* d = sum */
    ES_GEMM_GELU,  /* aux = sum, d = gelu(sum) */
    ES_GEMM_DGELU  /* d = sum gelu'(aux) */
} es_gemm_epilogue;

/**
 * d (m,n) = epilogue(a (m,k) b (k,n) + beta c + bias); sums in f32 and, for
 * ES_GEMM_F32, exact products.
 *
 *   type          type of a and b (TF32: f32, rounded when read)
 *   wide          d and c are f32 for every type of a and b
 *   a_transposed  a is stored as (k,m); with b_transposed, b as (n,k)
 *   lda, ldb, ldd distance between stored rows in elements; ldd also applies to
 * c and aux c             may be d; NULL or beta 0: not read bias          (n)
 * of d's type, aligned to 16 bytes, or NULL aux           (m,n) of d's type:
 * written by GELU, read by DGELU
 */
typedef struct es_gemm {
    int m, n, k;
    es_gemm_type type;
    bool wide;
    bool a_transposed, b_transposed;
    int lda, ldb, ldd;
    const void *a, *b, *c;
    void *d;
    const void *bias;
    float beta;
    es_gemm_epilogue epilogue;
    void *aux;
} es_gemm;

/** Returns true if the back-end may request that a product of this kind is
 *  fused with its bias and epilogue. An epilogue requires d in bf16 or fp16,
 *  rows of a multiple of 8 elements, aux aligned to 16 bytes, and no c; DGELU
 *  also excludes a bias. */
static inline bool es_gemm_is_offered(const es_gemm *p)
{
    const bool narrow =
        !p->wide && (p->type == ES_GEMM_BF16 || p->type == ES_GEMM_FP16);
    if (p->bias && (uintptr_t)p->bias % 16 != 0)
        return false;
    if (p->epilogue == ES_GEMM_PLAIN)
        return true;
    if (p->c || (p->epilogue == ES_GEMM_DGELU && p->bias))
        return false;
    return narrow && p->ldd % 8 == 0 && p->aux && (uintptr_t)p->aux % 16 == 0;
}

/** Computes the product. Returns false, without having done anything, if the
 *  product cannot be fused with its bias or epilogue; a product without both
 *  never returns false. The device keeps the plans of all products so far. */
bool es_device_gemm(es_device *device, const es_gemm *product) ES_MUST_USE;

/** Returns one line about a problem with the file of choices (choices.h), or
 *  "". */
const char *es_gemm_note(es_device *device);

#endif
