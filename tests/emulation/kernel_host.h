/**
 * Defines the language of kernels for a host compiler. The threads of a block
 * are fibers, each of which runs until it must wait for other threads. Blocks
 * run one after another.
 *
 * A kernel that breaks the rules of kernel.h ends the process with a line that
 * names the kernel, block and thread: if not all threads reach a barrier or
 * shuffle, if a mask is not full, or if the destination of a copy is not shared
 * memory. Uninitialised memory reads as NaN.
 *
 * By default a warp runs, with its lanes in order, until it waits for the
 * block; then the next warp runs. ENTROPY_TRAIN_EMULATION=reverse runs blocks,
 * warps and lanes from the last to the first; random=SEED lets a randomly
 * chosen warp run until its lanes wait for each other, in random order. A
 * result that changes reveals a missing barrier.
 */
#ifndef ES_CUDA_KERNEL_HOST_H
#define ES_CUDA_KERNEL_HOST_H

#include "hooks/trainer/cuda/device.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The toolkit's headers define these macros with attributes for nvcc. */
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __grid_constant__
/* With inlining and unrolling the host compiler would take five times as long
 * for a kernel that runs no faster. Sanitizer builds inline nevertheless: they
 * do not optimise, and calls would cost minutes. */
#if defined __SANITIZE_ADDRESS__ && !defined ES_NOT_INLINED
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline
#endif

/* --- thread indices ------------------------------------------------------- */

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
enum { warpSize = 32 };

/* --- launching ------------------------------------------------------------ */

typedef struct es_host_shape {
    const char *name;
    dim3 grid;
    int n_threads;
    size_t shared_bytes;
    void (*body)(const void *kernel); /* runs the kernel in one thread */
} es_host_shape;

/** A launch and its arguments, which can be copied and run later. */
template <class C>
struct es_host_kernel {
    es_host_shape shape;
    C call;
};

template <class C>
void es_host_body(const void *kernel)
{
    ((const es_host_kernel<C> *)kernel)->call();
}

/** Runs a kernel whose structure begins with an es_host_shape. */
void es_host_run_kernel(es_device *device, const void *kernel);

/** Calls work(device, argument) with a copy of the argument: immediately or, if
 *  the device is capturing, each time the graph is replayed. */
void es_host_do(es_device *device,
                void (*work)(es_device *device, const void *argument),
                const void *argument, size_t bytes);

template <class... P, class... A>
static inline void es_launch(es_device *device, const char *name,
                             void (*kernel)(P...), dim3 grid, int n_threads,
                             size_t shared_bytes, A... arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "arguments of the kernel");
    static_assert((... && __is_same(P, A)), "types of the kernel's arguments");
    auto call = [=]() { kernel(arguments...); };
    es_host_kernel<decltype(call)> launched = {
        {name, grid, n_threads, shared_bytes, es_host_body<decltype(call)>},
        call};
    es_host_do(device, es_host_run_kernel, &launched, sizeof launched);
}

static inline void es_begin_kernel(void)
{
}

/* --- shared memory -------------------------------------------------------- */

void *es_host_shared(void);

#define ES_DYNAMIC_SHARED(type, name) type *name = (type *)es_host_shared()

/* --- barriers and exchanges ----------------------------------------------- */

/** Ends the process with a line that names the running thread. */
[[noreturn]] void es_host_abort(const char *what);

/** Waits until all threads of the block have reached this barrier. */
void es_host_block_barrier(int line);

/** Maximum number of bytes that a lane can exchange at a time. */
enum { ES_HOST_SLOT = 64 };

/**
 * Waits for the other lanes of the warp, which must make a call with the same
 * `what` and line. Returns a pointer to the data of all lanes: `in` (bytes) of
 * lane l is at offset l ES_HOST_SLOT, and is valid until the second next call.
 * Calls `together`, unless NULL, once with the data of all lanes.
 */
unsigned char *es_host_warp(const char *what, int line, const void *in,
                            size_t bytes,
                            void (*together)(unsigned char *slots));

/** Returns 0 .. 31. */
int es_host_lane(void);

#define ES_HOST_HERE int line = __builtin_LINE()

static inline void __syncthreads(ES_HOST_HERE)
{
    es_host_block_barrier(line);
}

static inline void es_host_check_mask(unsigned mask)
{
    if (mask != 0xffffffffu)
        es_host_abort("a mask that is not full");
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, ES_HOST_HERE)
{
    es_host_check_mask(mask);
    es_host_warp("__syncwarp", line, NULL, 0, NULL);
}

/** Returns the value of lane `from`; if `from` is -1, the value of the calling
 *  lane. */
template <class T>
static inline T es_host_shuffle(const char *what, int line, unsigned mask,
                                T value, int from)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "what can be shuffled");
    es_host_check_mask(mask);
    unsigned char *slots = es_host_warp(what, line, &value, sizeof value, NULL);
    int lane = from >= 0 ? from : es_host_lane();
    memcpy(&value, slots + lane * ES_HOST_SLOT, sizeof value);
    return value;
}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from,
                            int width = warpSize, ES_HOST_HERE)
{
    int first = es_host_lane() & ~(width - 1);
    return es_host_shuffle("__shfl_sync", line, mask, value,
                           first + (from & (width - 1)));
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int across,
                                int width = warpSize, ES_HOST_HERE)
{
    int end = (es_host_lane() & ~(width - 1)) + width;
    int from = es_host_lane() ^ across;
    return es_host_shuffle("__shfl_xor_sync", line, mask, value,
                           from < end ? from : -1);
}

unsigned es_host_ballot(const char *what, int line, bool value);

static inline unsigned __ballot_sync(unsigned mask, int value, ES_HOST_HERE)
{
    es_host_check_mask(mask);
    return es_host_ballot("__ballot_sync", line, value != 0);
}

static inline int __any_sync(unsigned mask, int value, ES_HOST_HERE)
{
    es_host_check_mask(mask);
    return es_host_ballot("__any_sync", line, value != 0) != 0;
}

static inline int __all_sync(unsigned mask, int value, ES_HOST_HERE)
{
    es_host_check_mask(mask);
    return es_host_ballot("__all_sync", line, value != 0) == 0xffffffffu;
}

/* --- arithmetic ----------------------------------------------------------- */

template <class T>
static inline void __stwb(T *at, T value)
{
    if ((uintptr_t)at % alignof(T) != 0)
        es_host_abort("stores what is not aligned");
    *at = value;
}

template <class T, class U>
static inline T es_host_bits(U value)
{
    static_assert(sizeof(T) == sizeof(U), "as many bits");
    T result;
    memcpy(&result, &value, sizeof result);
    return result;
}

#define __float_as_uint es_host_bits<unsigned, float>
#define __log2f(x) log2f(x)

static inline int min(int a, int b)
{
    return a < b ? a : b;
}

#endif
