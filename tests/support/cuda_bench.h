/**
 * A workbench for single operations of the CUDA back-end, on the emulation or,
 * if ENTROPY_TRAIN_CUDA names the device's library, on a device. An operation
 * is run on arrays that have been laid out with sentinels around them; what it
 * writes was poisoned before; it is run three times, and gives the same bits:
 * on the emulation the second time with all threads in the opposite order, then
 * in one of chance.
 */
#ifndef ES_TESTS_CUDA_BENCH_H
#define ES_TESTS_CUDA_BENCH_H

#include "hooks/trainer/model/ops.h"

enum { ES_BENCH_MOST = 16, ES_BENCH_AGAIN = 2 };

/** What an operation may do to an array. */
typedef enum es_bench_role { ES_READ, ES_WRITE, ES_CHANGE } es_bench_role;

typedef struct es_bench_array {
    es_bench_role role;
    es_mem *whole, *memory;
    size_t bytes;
    unsigned char *before, *after; /* with what is around them */
    float *floats;
} es_bench_array;

/** How arrays lie, so that packs of 16 bytes do not fit always. */
typedef enum es_bench_lie {
    ES_LIE_ALIGNED,
    ES_LIE_SHIFTED, /* each by an element */
    ES_LIE_APART,   /* every other one by an element */
    ES_N_LIES
} es_bench_lie;

typedef struct es_bench {
    const es_ops *ops;
    es_backend *backend, *again[ES_BENCH_AGAIN];
    es_precision precision;
    es_bench_lie lie;
    bool emulated; /* not on a device */
    bool bare;     /* products are had neither with a bias nor with more */
    es_bench_array arrays[ES_BENCH_MOST];
    int n_arrays;
} es_bench;

/**
 * check(bench) in every precision that has activations of its own (fp32, bf16,
 * fp16) and for every lie; skips the test where there is no library (built
 * without CUDA) or no device.
 */
void es_bench_each(void (*check)(es_bench *bench), const es_extents *largest);
/** The same with `bare`, which only the emulation can be: skips on a device. */
void es_bench_each_bare(void (*check)(es_bench *bench),
                        const es_extents *largest);
/** As es_bench_each in fp32 alone: for operations that touch no activations. */
void es_bench_fp32(void (*check)(es_bench *bench), const es_extents *largest);

/** An array of bytes; `values` NULL: poison, all bits set. */
es_mem *es_bench_put(es_bench *bench, es_bench_role role, const void *values,
                     size_t n, size_t size);
es_mem *es_bench_put_floats(es_bench *bench, es_bench_role role,
                            const float *values, size_t n);
/** Activations: values (n), rounded in place to what was put; or NULL. */
es_mem *es_bench_put_acts(es_bench *bench, es_bench_role role, float *values,
                          size_t n);

/** Runs the operation again and again on all arrays that were put, and fails
 * the test unless it keeps its promises. */
void es_bench_run(es_bench *bench,
                  void (*call)(const es_ops *ops, es_backend *backend,
                               void *context),
                  void *context);

/** What is in an array afterwards; borrowed until es_bench_clear. */
const void *es_bench_get(es_bench *bench, const es_mem *memory);
const float *es_bench_get_acts(es_bench *bench, const es_mem *memory);

/** Takes all arrays away. */
void es_bench_clear(es_bench *bench);

/**
 * Fails the test unless each of got (n) is what is wanted: |got - want| <=
 * 2e-5 rms(want) + 1e-6, and for activations 1.01 times what one rounding
 * changes at most; NaN stands against NaN, infinity against itself.
 */
void es_bench_expect(es_bench *bench, const char *what, const float *got,
                     const double *want, size_t n, bool acts);
/** The same with slack (n) added to what an entry may be off by; or NULL. */
void es_bench_expect_within(es_bench *bench, const char *what, const float *got,
                            const double *want, const double *slack, size_t n,
                            bool acts);

/** Repeatable random numbers in [-1, 1): one, and (n) times `scale`; zeros (n);
 *  the same numbers in double. To be freed. */
double es_bench_random(void);
float *es_bench_draw(size_t n, double scale);
double *es_bench_doubles(size_t n);
double *es_bench_widen(const float *from, size_t n);

/** The precision's value nearest to x. */
float es_bench_round(es_precision precision, float x);

#endif
