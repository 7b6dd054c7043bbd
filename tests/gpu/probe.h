/**
 * Functions that test the language of kernels, on the device and on the host;
 * tests/cuda/test_cuda_host.c loads them as a plugin.
 */
#ifndef ES_TESTS_GPU_PROBE_H
#define ES_TESTS_GPU_PROBE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct es_device es_device;

/** Rules of kernel.h, and the effect on the host of breaking them. */
typedef enum es_broken {
    ES_BREAK_BARRIER,   /* not reached by all threads: ends the process */
    ES_BREAK_SHUFFLE,   /* not reached by all lanes: ends the process */
    ES_BREAK_MASK,      /* not full: ends the process */
    ES_BREAK_COPY,      /* outside shared memory: ends the process */
    ES_BREAK_BLOCK,     /* not a multiple of a warp: ends the process */
    ES_BREAK_WAIT,      /* no wait for a copy: NaN */
    ES_BREAK_COMMIT,    /* a wait without a commit: NaN */
    ES_BREAK_UNWRITTEN, /* uninitialised shared memory: NaN */
    ES_BREAK_ORDER,     /* no barrier between write and read: NaN */
    ES_N_BREAKS
} es_broken;

typedef struct es_probe {
    es_status (*open)(es_device **out);
    void (*close)(es_device *device);
    es_status (*status)(es_device *device);

    /** d (16,8) = a (16,16) b (16,8) by ldmatrix and mma; a and b are bf16, or
     *  fp16. b_transposed: b is stored as (8,16). */
    void (*multiply)(es_device *device, float *d, const uint16_t *a,
                     const uint16_t *b, bool bf16, bool b_transposed);

    /** The results in each of 32 lanes, from x (32), of __shfl_sync from lane 5
     *  and __shfl_xor_sync by 6, in halves of 16 lanes, and the ballot of x >
     *  0: out (3,32). */
    void (*shuffle)(es_device *device, int32_t *out, const int32_t *x);

    /** out (n) = x (n) reversed, by many blocks of 96 threads through shared
     *  memory, for any n. */
    void (*reverse)(es_device *device, float *out, const float *x, int n);

    /** sum (1) = sum of x (n), which is copied in 16-byte pieces while earlier
     *  ones are summed; n is a multiple of 128. */
    void (*sum)(es_device *device, float *sum, const float *x, int n);

    /** Counts after launches that add 11 were captured, and after three
     *  replays: counts (2). */
    void (*capture)(es_device *device, int32_t *counts);

    /** Breaks a rule (es_broken) with 64 threads, which write out (64). */
    void (*break_rule)(es_device *device, float *out, int rule);
} es_probe;

#endif
