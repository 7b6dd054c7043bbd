/**
 * Declares the device that the back-end uses: its memory, a single stream, and
 * captured graphs. The first failure of an operation, called "trouble", is
 * stored and stops all further work. device.cu implements the device with the
 * CUDA runtime, and tests/emulation/device_host.cc implements it on the host.
 */
#ifndef ES_CUDA_DEVICE_H
#define ES_CUDA_DEVICE_H

extern "C" {
#include "analyzer/base/status.h"
}
#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "tests/emulation/types_host.h" /* dim3 without CUDA */
#endif

typedef struct es_device es_device;

/** Opens the first device with compute capability 8.0 or higher. Returns ES_OK
 *  or ES_ENOMEM. Returns ES_EIO, with a message that states the reason, if
 *  there is no driver or no device, or if the driver or the device is too
 *  old. */
es_status es_device_open(es_device **out) ES_MUST_USE;
void es_device_close(es_device *device); /* Closes the device, which may be
                                          * NULL. */

/** Properties of the device, on which the sizes and shapes of kernels
 *  depend. */
typedef struct es_device_facts {
    char name[256];
    int n_processors;    /* streaming multiprocessors */
    size_t shared_bytes; /* maximum shared memory of a block in bytes */
    int major, minor;    /* compute capability */
} es_device_facts;
const es_device_facts *es_device_facts_of(const es_device *device);

/** Reserves uninitialised device memory, aligned to 256 bytes. Returns ES_OK,
 *  or ES_ENOMEM with a message that states how much memory was free. */
es_status es_device_reserve(es_device *device, void **out,
                            size_t bytes) ES_MUST_USE;
/* Frees device memory; `memory` may be NULL. */
void es_device_release(es_device *device, void *memory);

/* The following operations run in the order in which they are called. */

void es_device_zero(es_device *device, void *out, size_t bytes);
/** Copies from host memory. The caller may change `in` immediately after the
 *  call, because the data are first copied to page-locked memory. */
void es_device_store(es_device *device, void *out, const void *in,
                     size_t bytes);
/** Copies to host memory and waits until the copy is complete. After a failure,
 *  fills `out` with bytes 0xff, which are NaN as floats and -1 as integers. */
void es_device_load(es_device *device, void *out, const void *in, size_t bytes);

/** es_device_fetch starts a copy to one of two page-locked buffers; `place` is
 *  the buffer's number, 0 or 1. es_device_fetched waits until this copy is
 *  complete and returns a pointer to the data, which is valid until the next
 *  fetch to the same buffer. Returns NULL after a failure. */
void es_device_fetch(es_device *device, int place, const void *in,
                     size_t bytes);
const void *es_device_fetched(es_device *device, int place);

/** Captures all launches until es_device_capture_end as a graph, which can then
 *  run repeatedly. The launches do not run during the capture. */
void es_device_capture(es_device *device);
void es_device_capture_end(es_device *device, int sequence);
bool es_device_captures(const es_device *device);
/** Runs the graph whose number is `sequence`. Returns false if the graph does
 *  not exist. */
bool es_device_replay(es_device *device, int sequence);

/** Records that `what` has failed with an error code of the runtime. Only the
 *  first failure is stored; it stops all further work. */
void es_device_trouble(es_device *device, const char *what, int code);
bool es_device_is_in_trouble(const es_device *device);
/** Waits until the device has finished. Returns ES_OK, or ES_EIO after a
 *  failure. */
es_status es_device_status(es_device *device);

#ifdef __CUDACC__
/** Implements es_launch. From compute capability 9.0 on, a kernel may start
 *  before the previous kernel has ended, if the two are launched one directly
 *  after the other and ENTROPY_TRAIN_OVERLAP is not "off". */
void es_device_launch(es_device *device, const char *name, const void *kernel,
                      dim3 grid, int n_threads, size_t shared_bytes,
                      void **arguments);
/** Returns the stream, for operations other than kernel launches. */
cudaStream_t es_device_stream(es_device *device);

/** Returns true if a call of the CUDA runtime succeeded. Otherwise records that
 *  `what` has failed with this code, and returns false. */
bool es_device_check(es_device *device, const char *what, cudaError_t code);

/** Records that `what` has failed in another library. The message is "what:
 *  why". */
void es_device_trouble_text(es_device *device, const char *what,
                            const char *why);

/** Stores the plans for matrix products, which gemm.cu allocates.
 *  es_device_close frees them with `free_plans`. */
typedef struct es_gemm_plans es_gemm_plans;
void es_device_set_gemm_plans(es_device *device, es_gemm_plans *plans,
                              void (*free_plans)(es_gemm_plans *plans));
/** Returns the stored plans for matrix products, or NULL if none have been
 *  stored. */
es_gemm_plans *es_device_gemm_plans(const es_device *device);
#endif

#endif
