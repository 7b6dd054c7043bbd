/**
 * Declares the device that the back-end uses: memory, one stream, captured
 * graphs, and the first failure, called trouble. device.cu implements it with
 * the CUDA runtime, tests/emulation/device_host.cc on the host.
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

/** Opens the first device with compute capability 8.0 or newer. Returns ES_OK;
 *  ES_EIO if there is no driver or no device, or if the driver or device is too
 *  old (the message states the reason); or ES_ENOMEM. */
es_status es_device_open(es_device **out) ES_MUST_USE;
void es_device_close(es_device *device); /* NULL is accepted */

/** Properties of the device, by which the shapes of kernels are chosen. */
typedef struct es_device_facts {
    char name[256];
    int n_processors;    /* streaming multiprocessors */
    size_t shared_bytes; /* maximum shared memory of a block in bytes */
    int major, minor;    /* compute capability */
} es_device_facts;
const es_device_facts *es_device_facts_of(const es_device *device);

/** Reserves device memory, aligned to 256 bytes and not initialised. Returns
 *  ES_OK, or ES_ENOMEM with a message that states how much memory was free. */
es_status es_device_reserve(es_device *device, void **out,
                            size_t bytes) ES_MUST_USE;
void es_device_release(es_device *device, void *memory); /* NULL is accepted */

/* The following operations take effect in the order of the stream. */

void es_device_zero(es_device *device, void *out, size_t bytes);
/** The caller may change `in` after the call, because it is first copied to
 *  page-locked memory. */
void es_device_store(es_device *device, void *out, const void *in,
                     size_t bytes);
/** Copies to host memory and waits for the copy. After trouble, fills `out`
 *  with bytes 0xff, which read as NaN or -1. */
void es_device_load(es_device *device, void *out, const void *in, size_t bytes);

/** es_device_fetch starts a copy to page-locked memory, `place` 0 or 1.
 *  es_device_fetched waits for this copy only, and returns a pointer to the
 *  data, which is valid until the next fetch to the same place; returns NULL
 *  after trouble. */
void es_device_fetch(es_device *device, int place, const void *in,
                     size_t bytes);
const void *es_device_fetched(es_device *device, int place);

/** Captures all launches until es_device_capture_end as a graph that can run
 *  repeatedly. The launches do not run during the capture. */
void es_device_capture(es_device *device);
void es_device_capture_end(es_device *device, int sequence);
bool es_device_captures(const es_device *device);
/** Runs the graph with the number `sequence`. Returns false if there is no such
 *  graph. */
bool es_device_replay(es_device *device, int sequence);

/** Records a failure of `what` with a code of the runtime. The first failure is
 *  kept and stops all work. */
void es_device_trouble(es_device *device, const char *what, int code);
bool es_device_is_in_trouble(const es_device *device);
/** Waits for the device. Returns ES_OK, or ES_EIO after trouble. */
es_status es_device_status(es_device *device);

#ifdef __CUDACC__
/** Implements es_launch. From compute capability 9.0 on, the blocks of a kernel
 *  that directly follows another kernel of this program may start before that
 *  kernel has ended, unless ENTROPY_TRAIN_OVERLAP is "off". */
void es_device_launch(es_device *device, const char *name, const void *kernel,
                      dim3 grid, int n_threads, size_t shared_bytes,
                      void **arguments);
/** Returns the stream, for operations other than kernel launches. */
cudaStream_t es_device_stream(es_device *device);

/** Returns true if a call of the CUDA runtime succeeded. Otherwise records the
 *  failure of `what` with the code as the device's trouble. */
bool es_device_check(es_device *device, const char *what, cudaError_t code);

/** Records a failure in another library as trouble, with the message "what:
 *  why". */
void es_device_trouble_text(es_device *device, const char *what,
                            const char *why);

/** Returns the address of the plans for products, which gemm.cu stores with the
 *  device. es_gemm_plans_free frees the plans. */
struct es_gemm_plans **es_device_gemm_plans(es_device *device);
void es_gemm_plans_free(struct es_gemm_plans *plans); /* NULL is accepted */
#endif

#endif
