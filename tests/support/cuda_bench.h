/**
 * Runs single operations of the CUDA back-end in tests, on the emulation or, if
 * ENTROPY_TRAIN_CUDA names the device's library, on a device. An operation runs
 * on arrays (the bench) with sentinel bytes around them, and its outputs are
 * first filled with poison. It runs three times and must give the same bits
 * each time; on the emulation, the second run reverses the order of threads,
 * and the third uses a random order. Under sanitizers it runs once.
 */
#ifndef ES_TESTS_CUDA_BENCH_H
#define ES_TESTS_CUDA_BENCH_H

#include "hooks/trainer/model/ops.h"

enum { ES_BENCH_MOST = 16, ES_BENCH_AGAIN = 2 };

/** How an operation uses an array. */
typedef enum es_bench_role { ES_READ, ES_WRITE, ES_CHANGE } es_bench_role;

typedef struct es_bench_array {
    es_bench_role role;
    es_mem *whole, *memory;
    size_t bytes;
    /* contents before and after a run, including sentinels */
    unsigned char *before, *after;
    float *floats;
} es_bench_array;

/** How arrays are placed in memory. Shifted arrays cannot be accessed in
 *  aligned packs of 16 bytes. */
typedef enum es_bench_lie {
    ES_LIE_ALIGNED,
    ES_LIE_SHIFTED, /* each array is shifted by one element */
    ES_LIE_APART,   /* every second array is shifted by one element */
    ES_N_LIES
} es_bench_lie;

typedef struct es_bench {
    const es_ops *ops;
    es_backend *backend, *again[ES_BENCH_AGAIN];
    es_precision precision;
    es_bench_lie lie;
    bool emulated; /* true for the emulation, false for a device */
    /* true if the library for matrix products cannot fuse a bias or an
     * activation into a product */
    bool bare;
    es_bench_array arrays[ES_BENCH_MOST];
    int n_arrays;
    const es_mem *kept; /* weights that were passed to es_bench_keep */
    size_t n_kept;
    int n_runs;
} es_bench;

/** Precisions in which ES_EACH_BENCH runs a test. */
typedef enum es_bench_kind {
    ES_BENCH_ACTS, /* fp32, bf16 and fp16: for operations on activations */
    ES_BENCH_BARE, /* fp32, bf16 and fp16 with es_bench.bare set (no fused
                      products); the test is skipped on a device */
    ES_BENCH_FP32  /* fp32 only: for operations without activations */
} es_bench_kind;

/**
 * for (ES_EACH_BENCH(bench, kind, largest)) ...: runs the body in each
 * precision with each alignment of arrays, and clears the arrays after each
 * pass. Skips the test without a library (a build without CUDA) or without a
 * device.
 */
#define ES_EACH_BENCH(bench, kind, largest)                                    \
    es_bench *bench = es_bench_first(kind, largest);                           \
    bench;                                                                     \
    bench = es_bench_next(bench)
es_bench *es_bench_first(es_bench_kind kind, const es_extents *largest);
es_bench *es_bench_next(es_bench *bench);

/** Adds an array of n elements of `size` bytes to the bench. If `values` is
 *  NULL, the array is filled with poison (all bits set). */
es_mem *es_bench_put(es_bench *bench, es_bench_role role, const void *values,
                     size_t n, size_t size);
es_mem *es_bench_put_floats(es_bench *bench, es_bench_role role,
                            const float *values, size_t n);
/** Adds an array of activations to the bench. values (n), unless NULL, are
 *  rounded in place to numbers that the precision represents. */
es_mem *es_bench_put_acts(es_bench *bench, es_bench_role role, float *values,
                          size_t n);

/** Passes weights (n) to the back-end's `keep` (see ops.h), which is required
 *  before a matrix product may read them. */
void es_bench_keep(es_bench *bench, const es_mem *weights, size_t n);

/**
 * for (ES_EACH_RUN(on, bench)) bench->ops->...(on, ...): runs an operation
 * repeatedly on all arrays of the bench. Fails the test if the bits of two runs
 * differ, or if an operation writes memory that it must not write.
 */
#define ES_EACH_RUN(on, bench)                                                 \
    es_backend *on = es_bench_begin(bench);                                    \
    on;                                                                        \
    on = es_bench_again(bench, on)
es_backend *es_bench_begin(es_bench *bench);
es_backend *es_bench_again(es_bench *bench, es_backend *on);

/** Returns the contents of an array after the runs; borrowed until
 *  es_bench_clear. */
const void *es_bench_get(es_bench *bench, const es_mem *memory);
const float *es_bench_get_acts(es_bench *bench, const es_mem *memory);

/** Removes all arrays from the bench, and frees the memory that the functions
 *  below have returned. */
void es_bench_clear(es_bench *bench);

/**
 * Fails the test unless each of got (n) is near the expected value: |got -
 * want| <= 2e-5 * rms(want) + 1e-6. For activations, the tolerance is larger by
 * 1.01 times the maximum change by one rounding. A NaN must be NaN in both, and
 * an infinity must have the same sign.
 */
void es_bench_expect(es_bench *bench, const char *what, const float *got,
                     const double *want, size_t n, bool acts);
/** Same as es_bench_expect, with slack (n) added to the tolerance of each
 *  entry; slack may be NULL. */
void es_bench_expect_within(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *slack, size_t n,
                            bool acts);
/** Same as es_bench_expect, for the contents of an array. */
void es_bench_expect_acts(es_bench *bench, const char *what,
                          const es_mem *memory, const double *want, size_t n);
void es_bench_expect_floats(es_bench *bench, const char *what,
                            const es_mem *memory, const double *want, size_t n);

/** Return reproducible data: a random number in [-1, 1); n such numbers
 *  multiplied by `scale`; n zeros; a copy of n numbers in double; n random
 *  tokens in [0,vocab). es_bench_clear frees the memory. */
double es_bench_random(void);
float *es_bench_draw(size_t n, double scale);
double *es_bench_doubles(size_t n);
double *es_bench_widen(const float *from, size_t n);
int32_t *es_bench_tokens(size_t n, int vocab);

/** Rounds x to the nearest number that the precision represents. */
float es_bench_round(es_precision precision, float x);

#endif
