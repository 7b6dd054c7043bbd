/**
 * Implements for a host compiler the extensions of C++ in which kernels are
 * written. The threads of a block are fibers, each of which runs until it must
 * wait for other threads. Blocks run one after another.
 *
 * If a kernel breaks the rules of kernel.h, the process ends with a line that
 * names the kernel, block and thread. This happens if not all threads reach the
 * same barrier or shuffle, if a mask is not full, or if the destination of a
 * copy is not shared memory. Memory is initialised to NaN.
 *
 * By default, the lanes of a warp run in order until the warp waits for the
 * other warps of the block; then the next warp runs. With
 * ENTROPY_TRAIN_EMULATION=reverse, blocks, warps and lanes run from the last to
 * the first. With random=SEED, a randomly chosen warp runs, with its lanes in
 * random order, until the lanes wait for each other. If a result depends on the
 * order, a barrier is missing.
 */
#ifndef ES_CUDA_KERNEL_HOST_H
#define ES_CUDA_KERNEL_HOST_H

#include "hooks/trainer/cuda/device.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The headers of the CUDA toolkit define the following macros as attributes
 * that only nvcc understands. */
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
/* Kernels are not inlined: with inlining and unrolling, the host compiler would
 * need five times as long, and the kernels would not run faster. Sanitizer
 * builds inline the functions of kernels nevertheless, because they do not
 * optimise, and function calls would cost minutes. */
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
    void (*body)(const void *kernel); /* runs the kernel for the current
                                       * thread */
} es_host_shape;

/** A launch with its arguments, as a structure that can be copied and run
 *  later. */
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

/** Runs a kernel launch. `kernel` is an es_host_kernel: an es_host_shape,
 *  followed by the function to call and its arguments. */
void es_host_run_kernel(es_device *device, const void *kernel);

/**
 * Calls work(device, argument) immediately or, while a graph is being captured,
 * adds the call to the graph, so that each replay makes the call. Copies the
 * argument.
 */
void es_host_do(es_device *device,
                void (*work)(es_device *device, const void *argument),
                const void *argument, size_t bytes);

template <class... P, class... A>
static inline void es_launch(es_device *device, const char *name,
                             void (*kernel)(P...), dim3 grid, int n_threads,
                             size_t shared_bytes, A... arguments)
{
    static_assert(sizeof...(P) == sizeof...(A),
                  "the launch must have as many arguments as the kernel");
    static_assert((... && __is_same(P, A)),
                  "the arguments of the launch and of the kernel must have the "
                  "same types");
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

/** Ends the process with a message that names the running kernel, block and
 *  thread. */
[[noreturn]] void es_host_abort(const char *what);

/** Waits until all threads of the block have reached the barrier in this source
 *  line. */
void es_host_block_barrier(int line);

/** Maximum number of bytes that a lane can exchange in one call. */
enum { ES_HOST_SLOT = 64 };

/**
 * Exchanges data between the lanes of a warp. Waits until all lanes have made a
 * call with the same `what` and line. Returns a pointer to the data of all
 * lanes: the `in` of lane l is at offset l * ES_HOST_SLOT. The data stay valid
 * during the calling lane's next call, and become invalid with the call after
 * it. If `together` is not NULL, it is called once with the data of all lanes.
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
        es_host_abort("uses a mask that is not full");
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, ES_HOST_HERE)
{
    es_host_check_mask(mask);
    es_host_warp("__syncwarp", line, NULL, 0, NULL);
}

/** Exchanges `value` between the lanes of a warp. Returns the value of lane
 *  `from`, or of the calling lane if `from` is -1. */
template <class T>
static inline T es_host_shuffle(const char *what, int line, unsigned mask,
                                T value, int from)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8,
                  "only values of 4 or 8 bytes can be shuffled");
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
        es_host_abort("stores to an address that is not aligned");
    *at = value;
}

template <class T, class U>
static inline T es_host_bits(U value)
{
    static_assert(sizeof(T) == sizeof(U), "both types must have the same size");
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
