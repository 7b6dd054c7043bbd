/* Replaces the library of the "cuda" back-end in tests of entropy-train: wraps
   the CPU's operations and simulates the faults of a device. The environment
   variable WRAPPED selects a fault:
 *
 *   no-device  no device can be opened
 *   fails      the device fails at the fifth call of `wait`; from then on all
 *              memory is NaN
 *   fp16       the device supports fp16 and scales the loss
 *
 * If built with STAMP, the library claims to be from another build. */
#include "hooks/trainer/model/ops.h"

#include <stdlib.h>
#include <string.h>

#ifndef STAMP
#define STAMP ES_OPS_STAMP
#endif

static bool is_wrapped(const char *how)
{
    const char *fault = getenv("WRAPPED");
    return fault && strcmp(fault, how) == 0;
}

static int n_waits;

static es_status open_device(es_backend **out, int n_threads)
{
    *out = NULL;
    if (is_wrapped("no-device"))
        return es_fail(ES_EIO, "CUDA: no device: --backend cpu needs none");
    return es_cpu_ops.open(out, n_threads);
}

/* Releases memory. Aborts if the back-end is already closed. */
static void release(es_backend *backend, es_mem *memory)
{
    if (!backend)
        abort();
    es_cpu_ops.release(backend, memory);
}

static bool has_failed(void)
{
    return is_wrapped("fails") && n_waits >= 5;
}

static es_status status(es_backend *backend)
{
    (void)backend;
    n_waits++;
    return has_failed() ? es_fail(ES_EIO, "CUDA: an illegal address was used")
                        : ES_OK;
}

static void load(es_backend *backend, void *out, const es_mem *in, size_t bytes)
{
    es_cpu_ops.load(backend, out, in, bytes);
    if (has_failed())
        memset(out, 0xff, bytes);
}

ES_API extern const unsigned es_cuda_ops_stamp;
const unsigned es_cuda_ops_stamp = STAMP;

ES_API const es_ops *es_cuda_ops(es_precision precision);
const es_ops *es_cuda_ops(es_precision precision)
{
    static es_ops table;
    if (precision != (is_wrapped("fp16") ? ES_FP16 : ES_FP32))
        return NULL;
    table = es_cpu_ops;
    table.name = "cuda";
    table.scales_loss = precision == ES_FP16;
    table.open = open_device;
    table.release = release;
    table.status = status;
    table.load = load;
    return &table;
}
