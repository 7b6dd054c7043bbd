/**
 * Computes matrix products on the calling thread with one of the installed
 * libraries, in float32, or in bfloat16 with sums in float32. linear.c calls
 * these functions for a thread's share of the rows; the functions start no
 * threads.
 */
#ifndef ES_CPU_PRODUCTS_H
#define ES_CPU_PRODUCTS_H

#include "hooks/trainer/cpu/bf16.h"
#include "hooks/trainer/cpu/kernels.h"

/** Type of the numbers in operands and results. */
typedef enum es_number_type { ES_NUMBER_F32, ES_NUMBER_BF16 } es_number_type;

/** Returns the size of a number in bytes. */
static inline size_t es_number_size(es_number_type type)
{
    return type == ES_NUMBER_F32 ? sizeof(float) : sizeof(es_bfloat);
}

/** Shape of a matrix product C = op(A) * op(B), where C is (m,n), op(A) is
 *  (m,k) and op(B) is (k,n); op may transpose its operand. All matrices are
 *  stored row by row. */
typedef struct es_product {
    int m, n, k;                      /* sizes; m and n are at least 1 */
    bool a_transposed, b_transposed;  /* true if A is stored as (k,m), or B
                                       * as (n,k) */
    int a_stride, b_stride, c_stride; /* distance between successive stored
                                       * rows, in elements */
    es_number_type in;                /* type of A and B */
    es_number_type out; /* type of C and of the residual; F32 if `in` is F32 */
} es_product;

/**
 * A matrix product C = residual + bias + op(A) * op(B), computed in float32 and
 * rounded once to the type of C.
 *
 *   c         written; must not overlap a, b
 *   residual  in the layout of c; NULL is treated as 0; may be c itself
 *   bias      (n) f32; NULL is treated as 0
 *   scratch   ES_PRODUCT_SCRATCH floats owned by this thread, 64-byte aligned;
 *             NULL if all types are f32
 *   kernels   inner loops for the operations that the library lacks
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
 * A library of matrix products. A NaN or infinity in an operand makes the
 * affected sums NaN or infinite. Repeating a call gives the same bits. bf16
 * operands are not rounded, and the product of two bf16 numbers is exact in
 * float32, so the result only depends on the order of summation. Matrix units
 * for bfloat16 treat subnormal operands as 0.
 */
typedef struct es_products {
    const char *name; /* for example "openblas" */

    /** Opens the library. Returns ES_OK if the other functions may be called,
     *  ES_EIO if the library is missing or unusable, and ES_EVERSION if the
     *  program is built for another version of the library. May be called
     *  repeatedly. */
    es_status (*open)(void);
    /** version writes the library's name and version, such as "OpenBLAS
     *  0.3.21". kernels returns the name of the library's kernels, such as
     *  "SkylakeX"; the string stays valid. */
    void (*version)(char *out, size_t size);
    const char *(*kernels)(void);
    /** Computes a product on the calling thread; thread-safe. */
    void (*multiply)(const es_product_call *call);
    /** Returns ES_OK, or ES_ENOMEM if memory ran out and another library
     *  computed a product instead. The product is correct, but a resumed run
     *  would not reproduce its bits. */
    es_status (*status)(void);
} es_products;

extern const es_products es_products_openblas; /* always available */
extern const es_products es_products_onednn;
/** Computes each product with the library that is faster for the product's
 *  shape. Requires oneDNN; `version` and `kernels` describe oneDNN. */
extern const es_products es_products_by_shape;

/** Values of the option --products. */
typedef enum es_products_choice {
    ES_PRODUCTS_AUTO,
    ES_PRODUCTS_OPENBLAS,
    ES_PRODUCTS_ONEDNN,
    ES_N_PRODUCTS
} es_products_choice;

/**
 * Sets the product library of all back-ends that the process opens after this
 * call. AUTO chooses a library for each shape if oneDNN is installed and has
 * kernels for AVX-512; otherwise AUTO becomes OPENBLAS.
 *
 *   choice  the requested choice; receives the actual choice
 *
 * Returns ES_OK. If the requested library cannot be opened, returns the status
 * of es_products.open and changes nothing. Must not be called by several
 * threads at once, or while a back-end is being opened.
 */
es_status es_products_use(es_products_choice *choice) ES_MUST_USE;

/** Returns the library in use, which is the library that AUTO selects unless
 *  es_products_use has been called. Writes the actual choice to *choice. */
const es_products *es_products_used(es_products_choice *choice);

#endif
