/**
 * Declares functions that test the extensions of C++ that kernel.h defines for
 * kernels, on the device and on the host. tests/cuda/test_cuda_host.c loads
 * them as a plugin.
 */
#ifndef ES_TESTS_GPU_PROBE_H
#define ES_TESTS_GPU_PROBE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct es_device es_device;

/** Rules of kernel.h that a kernel can break, and what then happens in the
 *  emulation on the host. */
typedef enum es_broken {
    ES_BREAK_BARRIER,   /* not all threads reach a barrier: the process ends */
    ES_BREAK_SHUFFLE,   /* not all lanes take part in a shuffle: the process
                         * ends */
    ES_BREAK_MASK,      /* a shuffle's mask lacks lanes: the process ends */
    ES_BREAK_COPY,      /* a copy writes to memory that is not shared: the
                         * process ends */
    ES_BREAK_BLOCK,     /* a block has an incomplete warp: the process ends */
    ES_BREAK_WAIT,      /* no thread waits for a copy: the data are NaN */
    ES_BREAK_COMMIT,    /* a thread waits for a copy without es_cp_commit:
                         * the data are NaN */
    ES_BREAK_UNWRITTEN, /* a kernel reads uninitialised shared memory: the
                         * data are NaN */
    ES_BREAK_ORDER,     /* no barrier separates a write from a read: the data
                         * are NaN */
    ES_N_BREAKS
} es_broken;

typedef struct es_probe {
    es_status (*open)(es_device **out);
    void (*close)(es_device *device);
    es_status (*status)(es_device *device);

    /** Computes the matrix product d = a * b with es_ldmatrix and es_mma, where
     *  d is (16,8), a is (16,16) and b is (16,8); a and b are bf16 or fp16. If
     *  b_transposed is true, b is stored as (8,16). */
    void (*multiply)(es_device *device, float *d, const uint16_t *a,
                     const uint16_t *b, bool bf16, bool b_transposed);

    /** Writes three results for each of 32 lanes to out (3,32), where lane i
     *  has the number x[i]: __shfl_sync from lane 5 and __shfl_xor_sync by 6,
     *  both within halves of 16 lanes, and the ballot of x > 0. */
    void (*shuffle)(es_device *device, int32_t *out, const int32_t *x);

    /** Writes x (n) to out (n) in reverse order. Uses shared memory and many
     *  blocks of 96 threads; n may be any number. */
    void (*reverse)(es_device *device, float *out, const float *x, int n);

    /** Writes the sum of x (n) to sum (1). x is copied 16 bytes at a time,
     *  while earlier parts are summed; n is a multiple of 128. */
    void (*sum)(es_device *device, float *sum, const float *x, int n);

    /** Captures launches that add 11 to a counter, and replays them three
     *  times. Writes the counter after the capture to counts[0], and the
     *  counter after the replays to counts[1]. */
    void (*capture)(es_device *device, int32_t *counts);

    /** Runs a kernel of 64 threads that breaks the rule `rule` (es_broken).
     *  Writes the threads' results to out (64). */
    void (*break_rule)(es_device *device, float *out, int rule);
} es_probe;

#endif
