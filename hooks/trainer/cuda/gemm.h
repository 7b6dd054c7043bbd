/**
 * Matrix products, C order: gemm.cu is cuBLASLt, host/gemm_host.cc plain
 * loops that round as the device does.
 */
#ifndef ES_CUDA_GEMM_H
#define ES_CUDA_GEMM_H

#include "hooks/trainer/cuda/device.h"

typedef enum es_gemm_type {
    ES_GEMM_F32,
    ES_GEMM_TF32,
    ES_GEMM_BF16,
    ES_GEMM_FP16
} es_gemm_type;

/**
 * d (m,n) = a (m,k) b (k,n) + beta c + bias; sums in f32 and, for
 * ES_GEMM_F32, exact products.
 *
 *   type          of a and b (TF32: f32 rounded on the way in)
 *   wide          d and c are f32, whatever a and b are
 *   a_transposed  a is laid out (k,m); likewise b (n,k)
 *   lda, ldb, ldd of a row as it is laid out; c has ldd, too
 *   c             may be d; NULL or beta 0: not read
 *   bias          (n) of d's type, aligned to 16 bytes, or NULL
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
} es_gemm;

/** False: this product cannot be had together with its bias, and nothing has
 *  been done. Plans of the products seen are kept with the device. */
bool es_device_gemm(es_device *device, const es_gemm *product) ES_MUST_USE;

#endif
