/**
 * Matrix products of one thread, by one of the libraries that this machine
 * has: float32, and bfloat16 with sums in float32. linear.c and attention call
 * them for a thread's share of the rows; nothing here starts threads.
 */
#ifndef ES_CPU_PRODUCTS_H
#define ES_CPU_PRODUCTS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/cpu/kernels.h"

/** Of operands and results. */
typedef enum es_number_type { ES_NUMBER_F32, ES_NUMBER_BF16 } es_number_type;

/** Bytes of one. */
static inline size_t es_number_size(es_number_type type)
{
    return type == ES_NUMBER_F32 ? sizeof(float) : sizeof(es_bfloat);
}

/** Which product: C (m,n) = op(A) (m,k) op(B) (k,n), all of C order. */
typedef struct es_product {
    int m, n, k;                      /* m, n 1 or more */
    bool a_transposed, b_transposed;  /* A lies as (k,m), B as (n,k) */
    int a_stride, b_stride, c_stride; /* elements from row to row as it lies */
    es_number_type in;                /* of A and B */
    es_number_type out;               /* of C and the residual; f32 of f32 */
} es_product;

/**
 * One of them: C = residual + bias + op(A) op(B), all of it in float32 and
 * rounded once to the type of C.
 *
 *   c         written; must not overlap a, b
 *   residual  as c lies; NULL: 0; c itself: the product is added to it
 *   bias      (n) f32; NULL: 0
 *   scratch   ES_PRODUCT_SCRATCH floats of this thread alone, 64-byte aligned;
 *             NULL where all types are f32
 *   kernels   loops for what a library leaves out
 */
typedef struct es_product_call {
    es_product shape;
    void *c;
    const void *residual;
    const float *bias;
    const void *a, *b;
    float *scratch;
    const es_cpu_kernels *kernels;
} es_product_call;

#define ES_PRODUCT_SCRATCH (128 * 1024)

/**
 * A library. NaN and infinities go where the sums take them; the same call
 * gives the same bits. Products of bf16 take their operands as they are: what
 * they sum up is exact in float32 but for the order of the sum; units for
 * bfloat16 take subnormal operands for 0.
 */
typedef struct es_products {
    const char *name; /* "openblas" */

    /** ES_OK: the rest may be called; ES_EIO, ES_EVERSION (not there, or
     *  another than the program is built for). Any number of times. */
    es_status (*open)(void);
    /** Its name and version, "OpenBLAS 0.3.21", and that of its kernels,
     *  "SkylakeX", borrowed for good. */
    void (*version)(char *out, size_t size);
    const char *(*kernels)(void);
    /** Any thread, none but the caller's own. */
    void (*multiply)(const es_product_call *call);
    /** ES_OK; ES_ENOMEM: some product was made by another library, which is
     *  correct, but not what a resumed run would do. */
    es_status (*status)(void);
} es_products;

extern const es_products es_products_openblas; /* always there */
extern const es_products es_products_onednn;
/** Both: for each shape the one that is faster, always the same one. It opens
 *  where oneDNN does; version and kernels are those of oneDNN. */
extern const es_products es_products_by_shape;

/** --products. */
typedef enum es_products_choice {
    ES_PRODUCTS_AUTO,
    ES_PRODUCTS_OPENBLAS,
    ES_PRODUCTS_ONEDNN,
    ES_N_PRODUCTS
} es_products_choice;

/**
 * What back-ends that are opened from now on multiply with, in the whole
 * process. AUTO is by shape where oneDNN is there with kernels for AVX-512, and
 * becomes OPENBLAS where it is not.
 *
 *   choice  what it came to be
 *
 * ES_OK; as es_products.open, of a library that is named: nothing changes. One
 * thread, while no back-end is being opened.
 */
es_status es_products_use(es_products_choice *choice) ES_MUST_USE;

/** What is used, AUTO unless es_products_use has been called; `choice` as that
 *  leaves it. */
const es_products *es_products_used(es_products_choice *choice);

#endif
