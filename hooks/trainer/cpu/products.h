/**
 * Matrix products on the calling thread, by one of the machine's libraries:
 * float32, and bfloat16 with sums in float32. linear.c calls them for a
 * thread's share of the rows; nothing here starts threads.
 */
#ifndef ES_CPU_PRODUCTS_H
#define ES_CPU_PRODUCTS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/cpu/kernels.h"

/** Type of operands and results. */
typedef enum es_number_type { ES_NUMBER_F32, ES_NUMBER_BF16 } es_number_type;

/** Returns the bytes of a number. */
static inline size_t es_number_size(es_number_type type)
{
    return type == ES_NUMBER_F32 ? sizeof(float) : sizeof(es_bfloat);
}

/** Shape of a product C (m,n) = op(A) (m,k) op(B) (k,n); all matrices are in C
 *  (row-major) order. */
typedef struct es_product {
    int m, n, k;                      /* m and n are at least 1 */
    bool a_transposed, b_transposed;  /* A is stored as (k,m), B as (n,k) */
    int a_stride, b_stride, c_stride; /* between stored rows, in elements */
    es_number_type in;                /* type of A and B */
    es_number_type out; /* type of C and the residual; f32 if `in` is f32 */
} es_product;

/**
 * A product C = residual + bias + op(A) op(B), computed in float32 and rounded
 * once to the type of C.
 *
 *   c         written; must not overlap a, b
 *   residual  in the layout of c; NULL: 0; may be c: adds the product to c
 *   bias      (n) f32; NULL: 0
 *   scratch   ES_PRODUCT_SCRATCH floats owned by this thread, 64-byte aligned;
 *             NULL if all types are f32
 *   kernels   loops for operations that a library lacks
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
 * A library of products. NaN and infinities propagate through the sums; the
 * same call gives the same bits. Products of bf16 read their operands
 * unchanged; their products are exact in float32, so only the order of
 * summation matters. Matrix units for bfloat16 treat subnormal operands as 0.
 */
typedef struct es_products {
    const char *name; /* such as "openblas" */

    /** Returns ES_OK if the other functions may be called; ES_EIO if the
     *  library is missing, ES_EVERSION if the program is built for another
     *  version. May be called repeatedly. */
    es_status (*open)(void);
    /** Writes the name and version, such as "OpenBLAS 0.3.21", and the name of
     *  the kernels, such as "SkylakeX", which stays valid. */
    void (*version)(char *out, size_t size);
    const char *(*kernels)(void);
    /** Computes a product on the calling thread; thread-safe. */
    void (*multiply)(const es_product_call *call);
    /** Returns ES_OK, or ES_ENOMEM if another library computed some product:
     *  the result is correct, but a resumed run would not repeat it. */
    es_status (*status)(void);
} es_products;

extern const es_products es_products_openblas; /* always available */
extern const es_products es_products_onednn;
/** Uses both libraries, always the faster one for a shape. Opens if oneDNN
 *  opens; version and kernels are those of oneDNN. */
extern const es_products es_products_by_shape;

/** Values of --products. */
typedef enum es_products_choice {
    ES_PRODUCTS_AUTO,
    ES_PRODUCTS_OPENBLAS,
    ES_PRODUCTS_ONEDNN,
    ES_N_PRODUCTS
} es_products_choice;

/**
 * Chooses the products of all back-ends that the process opens from now on.
 * AUTO chooses by shape if oneDNN is present with kernels for AVX-512, and
 * becomes OPENBLAS otherwise.
 *
 *   choice  in: request; out: the actual choice
 *
 * Returns ES_OK, or a status of es_products.open of a named library, in which
 * case nothing changes. Not thread-safe, and not while a back-end is being
 * opened.
 */
es_status es_products_use(es_products_choice *choice) ES_MUST_USE;

/** Returns the products in use, AUTO unless es_products_use has been called,
 *  and writes the choice as es_products_use does. */
const es_products *es_products_used(es_products_choice *choice);

#endif
