/* Implements device.h with the CUDA runtime. Uses a single stream, page-locked
 * buffers for copies, and captured graphs. */
#include "hooks/trainer/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_STAGES = 2,
    N_PLACES = 2, /* number of host buffers for es_device_fetch */
    STAGE_BYTES = 4 << 20,
    MAX_SEQUENCES = 64,
    FREE_SHARED = 48 << 10, /* shared memory in bytes that a kernel may use
                             * without requesting it */
    OLDEST = 8,             /* minimum compute capability (major number) */
    OVERLAPPING = 9         /* minimum major number of the compute capability
                             * for overlapping kernels */
};

/* A page-locked buffer, and an event that occurs when the last copy from or to
 * the buffer is complete. */
typedef struct stage {
    char *memory;
    cudaEvent_t done;
} stage;

struct es_device {
    es_device_facts facts;
    cudaStream_t stream;
    stage stages[N_STAGES];
    int next_stage;
    stage places[N_PLACES];
    size_t place_bytes[N_PLACES];
    cudaGraphExec_t graphs[MAX_SEQUENCES];
    bool captures;
    bool overlaps;     /* true if kernels may overlap; see es_begin_kernel */
    bool after_kernel; /* true if a kernel of this program was the last
                        * operation in the stream */
    bool in_trouble;
    char trouble[256];
    es_gemm_plans *plans; /* NULL before the first product */
    void (*free_plans)(es_gemm_plans *plans);
};

/* --- trouble -------------------------------------------------------------- */

void es_device_trouble_text(es_device *device, const char *what,
                            const char *why)
{
    if (device->in_trouble)
        return;
    device->in_trouble = true;
    snprintf(device->trouble, sizeof device->trouble, "%s: %s", what, why);
}

void es_device_trouble(es_device *device, const char *what, int code)
{
    es_device_trouble_text(device, what,
                           code == 0 ? "not in the expected state"
                                     : cudaGetErrorString((cudaError_t)code));
}

bool es_device_check(es_device *device, const char *what, cudaError_t code)
{
    if (code == cudaSuccess)
        return true;
    es_device_trouble(device, what, (int)code);
    return false;
}

bool es_device_is_in_trouble(const es_device *device)
{
    return device->in_trouble;
}

es_status es_device_status(es_device *device)
{
    if (!device->in_trouble)
        es_device_check(device, "the device",
                        cudaStreamSynchronize(device->stream));
    if (device->in_trouble)
        return es_fail(ES_EIO, "CUDA: %s", device->trouble);
    return ES_OK;
}

/* --- opening -------------------------------------------------------------- */

static es_status no_device(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        return es_fail(
            ES_EIO,
            "CUDA: no device is visible with CUDA_VISIBLE_DEVICES=%s: unset "
            "it, or give --backend cpu",
            visible);
    return es_fail(ES_EIO, "CUDA: no device is available; give --backend cpu");
}

/* Returns the oldest driver branch that supports programs built with this
 * version of CUDA, according to the release notes of CUDA. */
static int driver_for(int runtime)
{
    return runtime >= 13000 ? 580 : 525;
}

/* Counts the devices. If there is no device, the error states the reason. */
static es_status count_devices(int *n)
{
    int driver = 0, runtime = 0;
    *n = 0;
    cudaError_t code = cudaDriverGetVersion(&driver);
    if (code == cudaSuccess && driver == 0)
        return es_fail(ES_EIO,
                       "CUDA: no driver is installed; install one, or give "
                       "--backend cpu");
    if (code == cudaSuccess)
        code = cudaRuntimeGetVersion(&runtime);
    if (code == cudaSuccess)
        code = cudaGetDeviceCount(n);
    if (code == cudaErrorInsufficientDriver)
        return es_fail(ES_EIO,
                       "CUDA: the driver supports CUDA %d.%d, but this program "
                       "needs %d.%d: update the driver to version %d or newer "
                       "(nvidia-smi prints the version), or give --backend cpu",
                       driver / 1000, driver % 1000 / 10, runtime / 1000,
                       runtime % 1000 / 10, driver_for(runtime));
    if (code == cudaErrorNoDevice || (code == cudaSuccess && *n == 0))
        return no_device();
    if (code != cudaSuccess)
        return es_fail(ES_EIO, "CUDA: %s; give --backend cpu",
                       cudaGetErrorString(code));
    return ES_OK;
}

static void keep_facts(es_device_facts *facts, const cudaDeviceProp *p)
{
    snprintf(facts->name, sizeof facts->name, "%s", p->name);
    facts->n_processors = p->multiProcessorCount;
    facts->shared_bytes = p->sharedMemPerBlockOptin;
    facts->major = p->major;
    facts->minor = p->minor;
}

/* Selects the first device that is recent enough and that no other process has
 * reserved. If there is none, the error states the reason. */
static es_status choose_device(es_device_facts *facts)
{
    cudaDeviceProp p = {};
    cudaError_t code = cudaSuccess;
    int n;
    es_status status = count_devices(&n);
    const char *first = getenv("ENTROPY_TRAIN_DEVICE");
    for (int k = 0; status == ES_OK && k < n; k++) {
        const int i = (int)((k + (first ? strtoul(first, NULL, 10) : 0)) %
                            (unsigned long)n);
        cudaError_t known = cudaGetDeviceProperties(&p, i);
        if (known != cudaSuccess)
            return es_fail(ES_EIO, "CUDA: device %d: %s", i,
                           cudaGetErrorString(known));
        if (p.major < OLDEST)
            continue;
        keep_facts(facts, &p);
        code = cudaSetDevice(i);
        if (code != cudaErrorDevicesUnavailable)
            break;
    }
    if (status != ES_OK || (facts->major >= OLDEST && code == cudaSuccess))
        return status;
    if (code != cudaSuccess)
        return es_fail(code == cudaErrorMemoryAllocation ? ES_ENOMEM : ES_EIO,
                       "CUDA: %s: %s; give --backend cpu", facts->name,
                       cudaGetErrorString(code));
    return es_fail(ES_EIO,
                   "CUDA: %s has compute capability %d.%d, but %d.0 is "
                   "required; give --backend cpu",
                   p.name, p.major, p.minor, OLDEST);
}

/* Creates the stream and the page-locked buffers. */
static cudaError_t set_up(es_device *device)
{
    cudaError_t code =
        cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking);
    for (int i = 0; code == cudaSuccess && i < N_STAGES; i++) {
        stage *s = &device->stages[i];
        code = cudaHostAlloc((void **)&s->memory, STAGE_BYTES, 0);
        if (code == cudaSuccess)
            code = cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming);
    }
    return code;
}

es_status es_device_open(es_device **out)
{
    es_device *device = (es_device *)calloc(1, sizeof *device);
    *out = NULL;
    if (!device)
        return es_fail(ES_ENOMEM, "out of memory for the CUDA device");
    es_status status = choose_device(&device->facts);
    const char *overlap = getenv("ENTROPY_TRAIN_OVERLAP");
    device->overlaps = device->facts.major >= OVERLAPPING &&
                       !(overlap && strcmp(overlap, "off") == 0);
    if (status == ES_OK) {
        cudaError_t code = set_up(device);
        if (code != cudaSuccess)
            status = es_fail(
                code == cudaErrorMemoryAllocation ? ES_ENOMEM : ES_EIO,
                "CUDA: %s: %s", device->facts.name, cudaGetErrorString(code));
    }
    if (status != ES_OK)
        es_device_close(device);
    else
        *out = device;
    return status;
}

static void drop_stage(stage *s)
{
    if (s->done)
        (void)cudaEventDestroy(s->done);
    if (s->memory)
        (void)cudaFreeHost(s->memory);
}

void es_device_close(es_device *device)
{
    if (!device)
        return;
    /* errors while freeing resources are ignored, since the device is
     * closing */
    if (device->plans)
        device->free_plans(device->plans);
    for (int i = 0; i < MAX_SEQUENCES; i++)
        if (device->graphs[i])
            (void)cudaGraphExecDestroy(device->graphs[i]);
    for (int i = 0; i < N_STAGES; i++)
        drop_stage(&device->stages[i]);
    for (int i = 0; i < N_PLACES; i++)
        drop_stage(&device->places[i]);
    if (device->stream)
        (void)cudaStreamDestroy(device->stream);
    free(device);
}

const es_device_facts *es_device_facts_of(const es_device *device)
{
    return &device->facts;
}

cudaStream_t es_device_stream(es_device *device)
{
    device->after_kernel = false;
    return device->stream;
}

void es_device_set_gemm_plans(es_device *device, es_gemm_plans *plans,
                              void (*free_plans)(es_gemm_plans *plans))
{
    device->plans = plans;
    device->free_plans = free_plans;
}

es_gemm_plans *es_device_gemm_plans(const es_device *device)
{
    return device->plans;
}

/* --- memory --------------------------------------------------------------- */

es_status es_device_reserve(es_device *device, void **out, size_t bytes)
{
    size_t left = 0, all = 0;
    cudaError_t code = cudaMalloc(out, bytes);
    if (code == cudaSuccess)
        return ES_OK;
    *out = NULL;
    if (code != cudaErrorMemoryAllocation)
        return es_fail(ES_EIO, "CUDA: %s: %s", device->facts.name,
                       cudaGetErrorString(code));
    (void)cudaGetLastError(); /* resets the runtime's error, so that later
                               * calls do not report it */
    (void)cudaMemGetInfo(&left, &all);
    return es_fail(ES_ENOMEM,
                   "CUDA: %s is out of memory: %zu MiB wanted, %zu of %zu MiB "
                   "free",
                   device->facts.name, bytes >> 20, left >> 20, all >> 20);
}

void es_device_release(es_device *device, void *memory)
{
    /* This call succeeds even after other calls have run out of memory. */
    const cudaError_t code = memory ? cudaFree(memory) : cudaSuccess;
    es_device_check(device, "freeing memory", code);
}

void es_device_zero(es_device *device, void *out, size_t bytes)
{
    if (!device->in_trouble && bytes > 0)
        es_device_check(
            device, "zeroing memory",
            cudaMemsetAsync(out, 0, bytes, es_device_stream(device)));
}

/* Returns a buffer without pending copies, or NULL after an error. */
static stage *free_stage(es_device *device)
{
    stage *s = &device->stages[device->next_stage];
    device->next_stage = (device->next_stage + 1) % N_STAGES;
    if (device->in_trouble || !es_device_check(device, "a copy to the device",
                                               cudaEventSynchronize(s->done)))
        return NULL;
    return s;
}

void es_device_store(es_device *device, void *out, const void *in, size_t bytes)
{
    const char *from = (const char *)in;
    char *to = (char *)out;
    while (bytes > 0) {
        const size_t n = bytes < STAGE_BYTES ? bytes : (size_t)STAGE_BYTES;
        stage *s = free_stage(device);
        if (!s)
            return;
        memcpy(s->memory, from, n);
        if (!es_device_check(device, "a copy to the device",
                             cudaMemcpyAsync(to, s->memory, n,
                                             cudaMemcpyHostToDevice,
                                             es_device_stream(device))) ||
            !es_device_check(
                device, "a copy to the device",
                cudaEventRecord(s->done, es_device_stream(device))))
            return;
        from += n;
        to += n;
        bytes -= n;
    }
}

/* Copies n bytes from the device to host memory; n is at most STAGE_BYTES. */
static bool load_piece(es_device *device, char *to, const char *from, size_t n)
{
    stage *s = free_stage(device);
    if (!s ||
        !es_device_check(device, "a copy from the device",
                         cudaMemcpyAsync(s->memory, from, n,
                                         cudaMemcpyDeviceToHost,
                                         es_device_stream(device))) ||
        !es_device_check(device, "the device",
                         cudaStreamSynchronize(es_device_stream(device))))
        return false;
    memcpy(to, s->memory, n);
    return true;
}

void es_device_load(es_device *device, void *out, const void *in, size_t bytes)
{
    const char *from = (const char *)in;
    char *to = (char *)out;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < STAGE_BYTES ? bytes - at : (size_t)STAGE_BYTES;
        if (!load_piece(device, to + at, from + at, n)) {
            memset(out, 0xff, bytes);
            return;
        }
    }
}

/* Enlarges host buffer number `place` (see es_device_fetch) to at least `bytes`
 * bytes. Returns false after an error. */
static bool grow_place(es_device *device, int place, size_t bytes)
{
    stage *s = &device->places[place];
    if (device->in_trouble ||
        (!s->done && !es_device_check(device, "a copy from the device",
                                      cudaEventCreateWithFlags(
                                          &s->done, cudaEventDisableTiming))))
        return false;
    if (bytes <= device->place_bytes[place])
        return true;
    device->place_bytes[place] = 0;
    cudaError_t code = s->memory ? cudaFreeHost(s->memory) : cudaSuccess;
    s->memory = NULL;
    if (code == cudaSuccess)
        code = cudaHostAlloc((void **)&s->memory, bytes, 0);
    if (!es_device_check(device, "page-locked memory", code))
        return false;
    device->place_bytes[place] = bytes;
    return true;
}

void es_device_fetch(es_device *device, int place, const void *in, size_t bytes)
{
    stage *s = &device->places[place];
    if (grow_place(device, place, bytes) &&
        es_device_check(device, "a copy from the device",
                        cudaMemcpyAsync(s->memory, in, bytes,
                                        cudaMemcpyDeviceToHost,
                                        es_device_stream(device))))
        es_device_check(device, "a copy from the device",
                        cudaEventRecord(s->done, es_device_stream(device)));
}

const void *es_device_fetched(es_device *device, int place)
{
    const stage *s = &device->places[place];
    if (device->in_trouble ||
        !es_device_check(device, "the device", cudaEventSynchronize(s->done)))
        return NULL;
    return s->memory;
}

/* --- work ----------------------------------------------------------------- */

void es_device_launch(es_device *device, const char *name, const void *kernel,
                      dim3 grid, int n_threads, size_t shared_bytes,
                      void **arguments)
{
    if (device->in_trouble)
        return;
    if (shared_bytes > FREE_SHARED &&
        !es_device_check(
            device, name,
            cudaFuncSetAttribute(kernel,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)shared_bytes)))
        return;
    cudaLaunchAttribute overlaps = {};
    overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlaps.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = grid;
    how.blockDim = dim3((unsigned)n_threads);
    how.dynamicSmemBytes = shared_bytes;
    how.stream = device->stream;
    how.attrs = &overlaps;
    how.numAttrs = device->overlaps && device->after_kernel ? 1 : 0;
    device->after_kernel = es_device_check(
        device, name, cudaLaunchKernelExC(&how, kernel, arguments));
}

void es_device_capture(es_device *device)
{
    if (device->in_trouble)
        return;
    /* The relaxed mode permits other calls of the CUDA runtime during the
     * capture. Such calls are necessary if a kernel has not been loaded yet. */
    device->captures =
        es_device_check(device, "capturing a graph",
                        cudaStreamBeginCapture(es_device_stream(device),
                                               cudaStreamCaptureModeRelaxed));
}

void es_device_capture_end(es_device *device, int sequence)
{
    cudaGraph_t graph = NULL;
    if (!device->captures)
        return;
    device->captures = false;
    /* This call is made even after an error, because the stream must leave
     * capture mode. */
    cudaError_t code = cudaStreamEndCapture(es_device_stream(device), &graph);
    cudaGraphExec_t *kept = &device->graphs[sequence];
    if (code == cudaSuccess && *kept)
        code = cudaGraphExecDestroy(*kept);
    *kept = NULL;
    if (code == cudaSuccess)
        code = cudaGraphInstantiate(kept, graph, 0);
    if (code != cudaSuccess)
        *kept = NULL;
    if (graph)
        (void)cudaGraphDestroy(graph);
    es_device_check(device, "capturing a graph", code);
}

bool es_device_captures(const es_device *device)
{
    return device->captures;
}

bool es_device_replay(es_device *device, int sequence)
{
    if (!device->graphs[sequence])
        return device->in_trouble;
    if (!device->in_trouble)
        es_device_check(device, "a captured step",
                        cudaGraphLaunch(device->graphs[sequence],
                                        es_device_stream(device)));
    return true;
}
