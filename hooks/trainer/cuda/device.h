/**
 * The device as the back-end sees it: memory, one stream, captured graphs,
 * and the first thing that went wrong. device.cu is the CUDA runtime's,
 * tests/emulation/device_host.cc the host's.
 */
#ifndef ES_CUDA_DEVICE_H
#define ES_CUDA_DEVICE_H

extern "C" {
#include "analyzer/base/status.h"
}
#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "tests/emulation/types_host.h" /* dim3 */
#endif

typedef struct es_device es_device;

/** The first device that is not older than compute capability 8.0.
 *  ES_OK; ES_EIO (no driver, no device, too old: the message says which);
 *  ES_ENOMEM. */
es_status es_device_open(es_device **out) ES_MUST_USE;
void es_device_close(es_device *device); /* NULL is fine */

/** What a kernel's shape is chosen by. */
typedef struct es_device_facts {
    char name[256];
    int n_processors;    /* streaming multiprocessors */
    size_t shared_bytes; /* that a block can ask for */
    int major, minor;    /* compute capability */
} es_device_facts;
const es_device_facts *es_device_facts_of(const es_device *device);

/** Device memory, aligned to 256 bytes, not initialised. ES_OK; ES_ENOMEM (the
 *  message says how much of how much was free). */
es_status es_device_reserve(es_device *device, void **out,
                            size_t bytes) ES_MUST_USE;
void es_device_release(es_device *device, void *memory); /* NULL is fine */

/* In the order of the stream. */

void es_device_zero(es_device *device, void *out, size_t bytes);
/** `in` may be changed on return: it goes through page-locked memory. */
void es_device_store(es_device *device, void *out, const void *in,
                     size_t bytes);
/** Waits. After trouble `out` is filled with bytes 0xff: NaN, and -1. */
void es_device_load(es_device *device, void *out, const void *in, size_t bytes);

/** Copies into page-locked memory, `place` 0 or 1. es_device_fetched waits for
 *  that copy alone; borrowed until the next one to the place; NULL after
 *  trouble. */
void es_device_fetch(es_device *device, int place, const void *in,
                     size_t bytes);
const void *es_device_fetched(es_device *device, int place);

/** What the launches from here to es_device_capture_end are, as a graph that
 *  can be run again; they do not run meanwhile. */
void es_device_capture(es_device *device);
void es_device_capture_end(es_device *device, int sequence);
bool es_device_captures(const es_device *device);
/** Runs the graph; false if there is none under this number. */
bool es_device_replay(es_device *device, int sequence);

/** The first trouble is kept, and ends all work. */
void es_device_trouble(es_device *device, const char *what, int code);
bool es_device_is_in_trouble(const es_device *device);
/** Waits; ES_OK or ES_EIO. */
es_status es_device_status(es_device *device);

#ifdef __CUDACC__
/** es_launch's work. From 9.0 on blocks of a kernel that follows another one of
 *  these may be placed before that has ended, unless ENTROPY_TRAIN_OVERLAP is
 *  "off". */
void es_device_launch(es_device *device, const char *name, const void *kernel,
                      dim3 grid, int n_threads, size_t shared_bytes,
                      void **arguments);
/** For something else than a launch. */
cudaStream_t es_device_stream(es_device *device);

/** Whether a call of the CUDA runtime worked; else that is the device's
 *  trouble, reported with `what`. */
bool es_device_check(es_device *device, const char *what, cudaError_t code);

/** Trouble of another library, reported as "what: why". */
void es_device_trouble_text(es_device *device, const char *what,
                            const char *why);

/** What gemm.cu keeps with the device; freed by es_gemm_plans_free. */
struct es_gemm_plans **es_device_gemm_plans(es_device *device);
void es_gemm_plans_free(struct es_gemm_plans *plans); /* NULL is fine */
#endif

#endif
