/**
 * A workbench for single operations of the CUDA back-end, on the emulation or,
 * if ENTROPY_TRAIN_CUDA names the device's library, on a device. An operation
 * is run on arrays that have been laid out with sentinels around them; what it
 * writes was poisoned before; it is run three times, and gives the same bits:
 * on the emulation the second time with all threads in the opposite order, then
 * in one of chance. Under sanitizers it is run once.
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
    const es_mem *kept; /* es_bench_keep */
    size_t n_kept;
    int n_runs;
} es_bench;

/** In which precisions an operation is tried. */
typedef enum es_bench_kind {
    ES_BENCH_ACTS, /* all that have activations of their own: fp32, bf16, fp16
                    */
    ES_BENCH_BARE, /* the same with `bare`, which only the emulation can be:
                      skips on a device */
    ES_BENCH_FP32  /* operations that touch no activations */
} es_bench_kind;

/**
 * for (ES_EACH_BENCH(bench, kind, largest)) ...: in each precision for every
 * lie; arrays are cleared after each. Skips the test where there is no library
 * (built without CUDA) or no device.
 */
#define ES_EACH_BENCH(bench, kind, largest)                                    \
    es_bench *bench = es_bench_first(kind, largest);                           \
    bench;                                                                     \
    bench = es_bench_next(bench)
es_bench *es_bench_first(es_bench_kind kind, const es_extents *largest);
es_bench *es_bench_next(es_bench *bench);

/** An array of bytes; `values` NULL: poison, all bits set. */
es_mem *es_bench_put(es_bench *bench, es_bench_role role, const void *values,
                     size_t n, size_t size);
es_mem *es_bench_put_floats(es_bench *bench, es_bench_role role,
                            const float *values, size_t n);
/** Activations: values (n), rounded in place to what was put; or NULL. */
es_mem *es_bench_put_acts(es_bench *bench, es_bench_role role, float *values,
                          size_t n);

/** Weights (n) that products read while they run: keep of ops.h. */
void es_bench_keep(es_bench *bench, const es_mem *weights, size_t n);

/**
 * for (ES_EACH_RUN(on, bench)) bench->ops->...(on, ...): an operation, again
 * and again, on all arrays that were put; fails the test unless it keeps its
 * promises.
 */
#define ES_EACH_RUN(on, bench)                                                 \
    es_backend *on = es_bench_begin(bench);                                    \
    on;                                                                        \
    on = es_bench_again(bench, on)
es_backend *es_bench_begin(es_bench *bench);
es_backend *es_bench_again(es_bench *bench, es_backend *on);

/** What is in an array afterwards; borrowed until es_bench_clear. */
const void *es_bench_get(es_bench *bench, const es_mem *memory);
const float *es_bench_get_acts(es_bench *bench, const es_mem *memory);

/** Takes all arrays away, and what the functions below have drawn. */
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
/** The same of what is in an array. */
void es_bench_expect_acts(es_bench *bench, const char *what,
                          const es_mem *memory, const double *want, size_t n);
void es_bench_expect_floats(es_bench *bench, const char *what,
                            const es_mem *memory, const double *want, size_t n);

/** Repeatable random numbers in [-1, 1): one, and (n) times `scale`; zeros (n);
 *  the same numbers in double; tokens (n) in [0,vocab). Freed by
 *  es_bench_clear. */
double es_bench_random(void);
float *es_bench_draw(size_t n, double scale);
double *es_bench_doubles(size_t n);
double *es_bench_widen(const float *from, size_t n);
int32_t *es_bench_tokens(size_t n, int vocab);

/** The precision's value nearest to x. */
float es_bench_round(es_precision precision, float x);

#endif
