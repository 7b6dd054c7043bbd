/**
 * Declares products of row-major matrices. gemm.cu implements the products with
 * cuBLASLt; tests/emulation/gemm_host.cc implements them with plain loops that
 * round as the device does.
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
 * Operation that is applied to the sum of products before rounding. "GELU"
 * means its tanh form. Its argument is the sum for ES_GEMM_GELU, and the stored
 * sum in aux for ES_GEMM_DGELU. The device's tanh may have an error of 2^-11,
 * which causes an error of up to 2^-12 of the argument in gelu and of 2^-8 in
 * gelu'. Powers of the argument may overflow: gelu(-infinity) may be 0,
 * -infinity or NaN, and gelu' may be NaN beyond 1e12.
 */
typedef enum es_gemm_epilogue {
    ES_GEMM_PLAIN, /* d = sum */
    ES_GEMM_GELU,  /* aux = sum, d = gelu(sum) */
    ES_GEMM_DGELU  /* d = sum gelu'(aux) */
} es_gemm_epilogue;

/**
 * A product d (m,n) = epilogue(a (m,k) * b (k,n) + beta * c + bias). Sums are
 * in f32; for ES_GEMM_F32, the products are exact.
 *
 *   type          type of a and b; with TF32 the operands are f32 and are
 *                 rounded when they are read
 *   wide          true if d and c are f32 for every type of a and b
 *   a_transposed  true if a is stored as (k,m)
 *   b_transposed  true if b is stored as (n,k)
 *   lda, ldb, ldd distance between stored rows in elements; ldd also applies
 *                 to c and aux
 *   c             may be d; not read if c is NULL or beta is 0
 *   bias          (n) of d's type, aligned to 16 bytes; or NULL
 *   aux           (m,n) of d's type; written by GELU, read by DGELU
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

/** Returns true if the back-end may ask cuBLASLt to fuse a product of this kind
 *  with its bias and epilogue. An epilogue requires that d is bf16 or fp16,
 *  that the distance between rows is a multiple of 8 elements, that aux is
 *  aligned to 16 bytes, and that c is NULL; ES_GEMM_DGELU also requires that
 *  there is no bias. */
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

/** Computes the product. If it cannot be fused with its bias or epilogue,
 *  computes nothing and returns false; never returns false for a product that
 *  has neither. The device keeps the plans of all products. */
bool es_device_gemm(es_device *device, const es_gemm *product) ES_MUST_USE;

/** Returns a one-line warning about the file that stores the chosen algorithms
 *  (choices.h), or "". */
const char *es_gemm_note(es_device *device);

#endif
