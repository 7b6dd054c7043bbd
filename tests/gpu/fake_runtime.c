/* A fake CUDA runtime and cuBLASLt for a machine without CUDA. The back-end's
 * real object files are linked with this file, so that tests can run all host
 * code of device.cu and gemm.cu. Device memory is host memory, and kernels do
 * nothing.
 *
 * The fake ends the process if a launch could not be accepted by any device, if
 * a copy does not use page-locked memory, or if a call is not permitted during
 * a capture. At the end of the process, it reports resources that have not been
 * released.
 *
 * The environment variable FAKE_CUDA contains words separated by commas:
 *
 *   driver=N devices=N   version of the driver (0: none), number of devices
 *   major=N              compute capability
 *   FUNCTION=N:CODE      call number N returns CODE; a CODE of 700 or more
 *                        persists, and every later call returns it
 *
 * If FAKE_CUDA_LOG names a file, the fake adds a line for each launch: the name
 * of the kernel or cublasLtMatmul, the grid, the number of threads, the bytes
 * of shared memory, 1 if the launch was captured, and 1 if it may overlap with
 * the previous launch. */
#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CALLS = 64,
    MAX_KERNELS = 1024,
    MAX_PINNED = 16,
    STICKY = 700,
    LARGE = 1 << 20,
    /* bytes of shared memory that every kernel may use; a kernel must first
     * request a larger amount */
    FREE_SHARED = 48 << 10,
    MOST_SHARED = 227 << 10
};

static const char *settings(void)
{
    const char *words = getenv("FAKE_CUDA");
    return words ? words : "";
}

/* Returns the number after "name=" in FAKE_CUDA, and the code after ':' in
 * *code. Returns `otherwise` if FAKE_CUDA does not contain the name. */
static long setting(const char *name, long otherwise, int *code)
{
    const size_t n = strlen(name);
    for (const char *at = settings(); *at; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, name, n) != 0 || at[n] != '=')
            continue;
        char *end;
        const long number = strtol(at + n + 1, &end, 10);
        if (code && *end == ':')
            *code = atoi(end + 1);
        return number;
    }
    return otherwise;
}

static _Noreturn void illegal(const char *what)
{
    fprintf(stderr, "fake runtime: %s\n", what);
    abort();
}

/* --- calls ---------------------------------------------------------------- */

static struct {
    const char *name;
    long n;
} calls[MAX_CALLS];
static int stuck; /* error code that all calls return from now on, or 0 */
static bool captures;

/* Counts a call of the function `name`. Returns the code that the call must
 * return. */
static int begin(const char *name)
{
    int i = 0, code = 0;
    if (stuck)
        return stuck;
    while (i < MAX_CALLS && calls[i].name && strcmp(calls[i].name, name) != 0)
        i++;
    if (i == MAX_CALLS)
        illegal("too many functions: raise the limit");
    calls[i].name = name;
    if (++calls[i].n != setting(name, 0, &code))
        return 0;
    stuck = code >= STICKY ? code : 0;
    return code;
}

#define BEGIN()                                                                \
    do {                                                                       \
        const int code = begin(__func__);                                      \
        if (code)                                                              \
            return (cudaError_t)code;                                          \
    } while (0)

/* Ends the process with the message `what` if a capture is in progress. */
static void outside_captures(const char *what)
{
    if (captures)
        illegal(what);
}

/* --- held resources ------------------------------------------------------- */

static long n_held;

static void *hold(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    n_held += memory != NULL;
    return memory;
}

static void drop(void *memory)
{
    n_held -= memory != NULL;
    free(memory);
}

__attribute__((destructor)) static void report(void)
{
    if (n_held != 0)
        fprintf(stderr, "fake runtime: %ld resources have not been released\n",
                n_held);
}

/* These macros define functions that create and destroy resources, and
 * functions that wait or add work to a stream. */
#define MAKES(name, handle, arguments)                                         \
    cudaError_t name arguments                                                 \
    {                                                                          \
        BEGIN();                                                               \
        *out = (handle)hold(16);                                               \
        return cudaSuccess;                                                    \
    }
#define ENDS(name, handle)                                                     \
    cudaError_t name(handle old)                                               \
    {                                                                          \
        drop(old);                                                             \
        BEGIN();                                                               \
        return cudaSuccess;                                                    \
    }
#define QUEUES(name, arguments, forbidden)                                     \
    cudaError_t name arguments                                                 \
    {                                                                          \
        BEGIN();                                                               \
        outside_captures(forbidden);                                           \
        return cudaSuccess;                                                    \
    }

/* --- devices -------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version)
{
    BEGIN();
    *version = (int)setting("driver", 13000, NULL);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    BEGIN();
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    BEGIN();
    *n = (int)setting("devices", 1, NULL);
    return *n > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    BEGIN();
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Fake %d", device);
    p->major = (int)setting("major", 9, NULL);
    p->multiProcessorCount = 132;
    p->sharedMemPerBlockOptin = MOST_SHARED;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    BEGIN();
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    BEGIN();
    *device = 0;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    static char text[32];
    snprintf(text, sizeof text, "error %d", (int)code);
    return text;
}

cudaError_t cudaGetLastError(void)
{
    return (cudaError_t)stuck;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    BEGIN();
    *left = 5 << 20;
    *all = 7 << 20;
    return cudaSuccess;
}

/* --- memory --------------------------------------------------------------- */

static struct {
    char *first;
    size_t bytes;
} pinned[MAX_PINNED];

static bool is_pinned(const void *memory, size_t bytes)
{
    const uintptr_t first = (uintptr_t)memory;
    for (int i = 0; i < MAX_PINNED; i++) {
        const uintptr_t begins = (uintptr_t)pinned[i].first;
        if (begins && first >= begins &&
            first + bytes <= begins + pinned[i].bytes)
            return true;
    }
    return false;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    BEGIN();
    outside_captures("device memory is allocated during a stream capture");
    *out = hold(bytes);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* Frees memory even after a persistent error, so that all memory has been
 * released at the end of the process. */
cudaError_t cudaFree(void *memory)
{
    outside_captures("device memory is freed during a stream capture");
    drop(memory);
    BEGIN();
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    int i = 0;
    (void)flags;
    BEGIN();
    while (i < MAX_PINNED && pinned[i].first)
        i++;
    if (i == MAX_PINNED)
        return cudaErrorMemoryAllocation;
    *out = hold(bytes);
    pinned[i].first = (char *)*out;
    pinned[i].bytes = bytes;
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* The real runtime is allowed to refuse NULL, so the fake always refuses
 * NULL. */
cudaError_t cudaFreeHost(void *memory)
{
    if (!memory)
        return cudaErrorInvalidValue;
    for (int i = 0; i < MAX_PINNED; i++)
        if (pinned[i].first == memory)
            pinned[i].first = NULL;
    drop(memory);
    BEGIN();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)stream;
    BEGIN();
    outside_captures(
        "memory is copied to or from the host during a stream capture");
    if (!is_pinned(kind == cudaMemcpyHostToDevice ? from : to, bytes))
        illegal("a copy uses host memory that is not page-locked");
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream)
{
    (void)stream;
    BEGIN();
    if (!captures && bytes <= LARGE) /* larger arrays are not zeroed here,
                                      * since calloc has zeroed them */
        memset(to, value, bytes);
    return cudaSuccess;
}

/* --- streams, events, graphs ---------------------------------------------- */

MAKES(cudaStreamCreateWithFlags, cudaStream_t,
      (cudaStream_t * out, unsigned flags __attribute__((unused))))
MAKES(cudaEventCreateWithFlags, cudaEvent_t,
      (cudaEvent_t * out, unsigned flags __attribute__((unused))))
MAKES(cudaEventCreate, cudaEvent_t, (cudaEvent_t * out))
cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t first,
                                 cudaEvent_t last)
{
    (void)first, (void)last;
    BEGIN();
    outside_captures(
        "the time between two events is read during a stream capture");
    *out = 1;
    return cudaSuccess;
}
ENDS(cudaStreamDestroy, cudaStream_t)
ENDS(cudaEventDestroy, cudaEvent_t)
ENDS(cudaGraphDestroy, cudaGraph_t)
ENDS(cudaGraphExecDestroy, cudaGraphExec_t)
QUEUES(cudaStreamSynchronize, (cudaStream_t stream __attribute__((unused))),
       "the host waits for a stream during a stream capture")
QUEUES(cudaStreamQuery, (cudaStream_t stream __attribute__((unused))),
       "a stream is queried during a stream capture")
QUEUES(cudaGraphLaunch,
       (cudaGraphExec_t graph __attribute__((unused)),
        cudaStream_t stream __attribute__((unused))),
       "a graph is launched during a stream capture")

/* State of an event: the stream that last recorded it, and whether the
 * recording was captured. A capture consists of a trunk, which is the stream
 * that began the capture, and a branch, which begins when a second stream waits
 * for an event of the trunk. The trunk must wait for an event of the branch
 * before the capture ends. */
typedef struct recorded {
    cudaStream_t stream;
    bool is_captured;
} recorded;
static cudaStream_t trunk;
static bool has_branch;

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN();
    if (captures && stream != trunk && !has_branch)
        illegal(
            "an event is recorded in a stream that is not part of the capture");
    *(recorded *)(void *)event = (recorded){stream, captures};
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    BEGIN();
    outside_captures("the host waits for an event during a stream capture");
    if (((recorded *)(void *)event)->is_captured)
        illegal("the host waits for an event that was recorded in a capture");
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags)
{
    const recorded *known = (recorded *)(void *)event;
    (void)flags;
    BEGIN();
    if (known->is_captured != captures)
        illegal("a stream waits for an event, but only one of the two belongs "
                "to the capture");
    if (captures && stream != trunk)
        has_branch = true;
    else if (captures && known->stream != trunk)
        has_branch = false;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode)
{
    (void)mode;
    BEGIN();
    outside_captures("a capture begins within another capture");
    captures = true;
    trunk = stream;
    has_branch = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    (void)stream;
    captures = false;
    BEGIN();
    if (has_branch)
        return cudaErrorStreamCaptureUnjoined;
    *out = (cudaGraph_t)hold(1);
    return cudaSuccess;
}

/* If the call fails, the handle is not a graph and must not be used. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags)
{
    static char nothing;
    (void)graph;
    (void)flags;
    *out = (cudaGraphExec_t)(void *)&nothing;
    BEGIN();
    *out = (cudaGraphExec_t)hold(1);
    return cudaSuccess;
}

/* --- kernels -------------------------------------------------------------- */

static struct {
    const void *function;
    const char *name;
    size_t shared; /* bytes of shared memory that the kernel may use */
} kernels[MAX_KERNELS];
static int n_kernels;

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *function, char *device,
                            const char *name)
{
    (void)handle;
    (void)device;
    if (n_kernels == MAX_KERNELS)
        illegal("too many kernels: raise the limit");
    kernels[n_kernels].function = function;
    kernels[n_kernels].name = name;
    kernels[n_kernels++].shared = FREE_SHARED;
}

/* The compiler generates calls of these functions for launches with <<<>>>.
 * Such launches are forbidden, because their results are not checked. */
#define NOT_OURS(name)                                                         \
    void name(void)                                                            \
    {                                                                          \
        illegal("a kernel is launched without checking the result");           \
    }
NOT_OURS(__cudaPopCallConfiguration)
NOT_OURS(__cudaLaunchKernel)
NOT_OURS(__cudaGetKernel)

static int find(const void *function)
{
    for (int i = 0; i < n_kernels; i++)
        if (kernels[i].function == function)
            return i;
    illegal("the launched kernel is not registered");
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute a,
                                 int value)
{
    BEGIN();
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        value > MOST_SHARED)
        return cudaErrorInvalidValue;
    kernels[find(function)].shared = (size_t)value;
    return cudaSuccess;
}

static void note(const char *name, dim3 grid, dim3 block, size_t shared,
                 unsigned n_attributes)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log)
        return;
    fprintf(log, "%s %u,%u,%u %u %zu %d %u\n", name, grid.x, grid.y, grid.z,
            block.x, shared, captures, n_attributes);
    fclose(log);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how,
                                const void *function, void **arguments)
{
    const dim3 grid = how->gridDim, block = how->blockDim;
    const size_t shared = how->dynamicSmemBytes;
    (void)arguments;
    BEGIN();
    const int kernel = find(function);
    note(kernels[kernel].name, grid, block, shared, how->numAttrs);
    if (how->numAttrs > 0 &&
        (setting("major", 9, NULL) < 9 || how->numAttrs > 1 ||
         how->attrs->id != cudaLaunchAttributeProgrammaticStreamSerialization))
        illegal("a launch has an attribute that the device does not support");
    if (grid.x < 1 || grid.x > INT32_MAX || grid.y < 1 || grid.y > 65535 ||
        grid.z < 1 || grid.z > 65535)
        illegal("a launch has a grid that no device supports");
    if (block.x < 1 || block.x > 1024 || block.y != 1 || block.z != 1)
        illegal("a launch has a block that no device supports");
    if (shared > kernels[kernel].shared)
        illegal("a launch uses more shared memory than was requested");
    return cudaSuccess;
}

/* --- products ------------------------------------------------------------- */

#define LT_MAKES(name)                                                         \
    int name(void **out)                                                       \
    {                                                                          \
        const int code = begin(#name);                                         \
        if (code == 0)                                                         \
            *out = hold(1);                                                    \
        return code;                                                           \
    }
#define LT_ENDS(name)                                                          \
    int name(void *old)                                                        \
    {                                                                          \
        drop(old);                                                             \
        return begin(#name);                                                   \
    }
#define LT_DOES(name)                                                          \
    int name(void)                                                             \
    {                                                                          \
        return begin(#name);                                                   \
    }
LT_MAKES(cublasLtCreate)
LT_MAKES(cublasLtMatmulDescCreate)
LT_MAKES(cublasLtMatrixLayoutCreate)
LT_MAKES(cublasLtMatmulPreferenceCreate)
LT_ENDS(cublasLtDestroy)
LT_ENDS(cublasLtMatmulDescDestroy)
LT_ENDS(cublasLtMatrixLayoutDestroy)
LT_ENDS(cublasLtMatmulPreferenceDestroy)
LT_DOES(cublasLtMatmulDescSetAttribute)
LT_DOES(cublasLtMatmulPreferenceSetAttribute)

int cublasLtMatmul(void)
{
    note("cublasLtMatmul", (dim3){1, 1, 1}, (dim3){1, 1, 1}, 0, 0);
    return begin(__func__);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *how, void *a, void *b,
                                   void *c, void *d, void *preference,
                                   int n_wanted, void *found, int *n_found)
{
    (void)handle, (void)how, (void)a, (void)b, (void)c, (void)d;
    (void)preference, (void)found;
    const int code = begin("cublasLtMatmulAlgoGetHeuristic");
    /* the fake leaves the state of each algorithm at 0, which means that the
     * algorithm can be used */
    *n_found = code == 0 ? n_wanted : 0;
    return code;
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

const char *cublasLtGetStatusName(int status)
{
    static char text[32];
    snprintf(text, sizeof text, "status %d", status);
    return text;
}
