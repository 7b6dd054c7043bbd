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

/** Ways to break the rules of kernel.h, and what happens on the host. */
typedef enum es_broken {
    ES_BREAK_BARRIER,   /* a barrier without all threads: ends the process */
    ES_BREAK_SHUFFLE,   /* a shuffle without all lanes: ends the process */
    ES_BREAK_MASK,      /* an incomplete mask: ends the process */
    ES_BREAK_COPY,      /* a copy to other memory: ends the process */
    ES_BREAK_BLOCK,     /* an incomplete warp: ends the process */
    ES_BREAK_WAIT,      /* a copy that nothing waits for: reads NaN */
    ES_BREAK_COMMIT,    /* a wait for a copy without a commit: reads NaN */
    ES_BREAK_UNWRITTEN, /* a read of uninitialised shared memory: NaN */
    ES_BREAK_ORDER,     /* no barrier between a write and a read: reads NaN */
    ES_N_BREAKS
} es_broken;

typedef struct es_probe {
    es_status (*open)(es_device **out);
    void (*close)(es_device *device);
    es_status (*status)(es_device *device);

    /** Computes d (16,8) = a (16,16) b (16,8) with ldmatrix and mma; a and b
     *  are bf16 or fp16. With b_transposed, b is stored as (8,16). */
    void (*multiply)(es_device *device, float *d, const uint16_t *a,
                     const uint16_t *b, bool bf16, bool b_transposed);

    /** Writes to out (3,32), for each of 32 lanes with numbers x (32): the
     *  result of __shfl_sync from lane 5, the result of __shfl_xor_sync by 6,
     *  both in halves of 16 lanes, and the ballot of x > 0. */
    void (*shuffle)(es_device *device, int32_t *out, const int32_t *x);

    /** out (n) = x (n) reversed. Uses many blocks of 96 threads and shared
     *  memory; n may be any number. */
    void (*reverse)(es_device *device, float *out, const float *x, int n);

    /** sum (1) = sum of x (n), which is copied in pieces of 16 bytes while
     *  earlier pieces are summed; n is a multiple of 128. */
    void (*sum)(es_device *device, float *sum, const float *x, int n);

    /** Captures launches that add 11 to a counter, and replays them three
     *  times. counts (2) receives the counter after the capture and after the
     *  replays. */
    void (*capture)(es_device *device, int32_t *counts);

    /** Breaks a rule (es_broken) with 64 threads, which write out (64). */
    void (*break_rule)(es_device *device, float *out, int rule);
} es_probe;

#endif
