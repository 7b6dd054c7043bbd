/**
 * What tries the language of kernels itself, on the device and on the host:
 * tests/cuda/test_cuda_host.c loads it as a plugin.
 */
#ifndef ES_TESTS_GPU_PROBE_H
#define ES_TESTS_GPU_PROBE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct es_device es_device;

/** Rules of kernel.h and what the host does when one is broken. */
typedef enum es_broken {
    ES_BREAK_BARRIER,   /* not all reach it: ends the process */
    ES_BREAK_SHUFFLE,   /* not all reach it: ends the process */
    ES_BREAK_MASK,      /* is not full: ends the process */
    ES_BREAK_COPY,      /* not to shared memory: ends the process */
    ES_BREAK_BLOCK,     /* is no number of warps: ends the process */
    ES_BREAK_WAIT,      /* a copy is not waited for: NaN */
    ES_BREAK_COMMIT,    /* a copy is waited for, but in no group: NaN */
    ES_BREAK_UNWRITTEN, /* shared memory that nobody wrote: NaN */
    ES_BREAK_ORDER,     /* no barrier between a write and a read: NaN */
    ES_N_BREAKS
} es_broken;

typedef struct es_probe {
    es_status (*open)(es_device **out);
    void (*close)(es_device *device);
    es_status (*status)(es_device *device);

    /** d (16,8) = a (16,16) b (16,8) by ldmatrix and mma; bf16 or else fp16 in
     *  a and b. b_transposed: b is laid out (8,16). */
    void (*multiply)(es_device *device, float *d, const uint16_t *a,
                     const uint16_t *b, bool bf16, bool b_transposed);

    /** What each of 32 lanes gets from x (32) by __shfl_sync from 5
     *  and __shfl_xor_sync by 6, in halves of 16 lanes, and the ballot of x >
     *  0: out (3,32). */
    void (*shuffle)(es_device *device, int32_t *out, const int32_t *x);

    /** out (n) = x (n) reversed by each of many blocks of 96 threads, through
     *  shared memory; n may be any. */
    void (*reverse)(es_device *device, float *out, const float *x, int n);

    /** sum (1) = of x (n), x in 16-byte pieces that arrive while the ones
     *  before are summed; n a multiple of 128. */
    void (*sum)(es_device *device, float *sum, const float *x, int n);

    /** A count after launches that add 11 to it have been captured, and after
     *  they have been replayed three times: counts (2). */
    void (*capture)(es_device *device, int32_t *counts);

    /** Breaks a rule (es_broken) with 64 threads, which write out (64). */
    void (*break_rule)(es_device *device, float *out, int rule);
} es_probe;

#endif
