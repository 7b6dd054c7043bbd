/**
 * Defines the language in which kernels are written, for the device (nvcc) and
 * for the host (tests/emulation/kernel_host.h). Kernels may use __global__,
 * __device__, threadIdx, blockIdx, blockDim, gridDim, __syncthreads,
 * __syncwarp, __shfl_sync, __shfl_xor_sync, __ballot_sync, __any_sync,
 * __all_sync and the functions of mma.h.
 *
 * A kernel that follows these rules is correct on the device and on the host:
 *
 *   - blocks have a multiple of 32 threads; a warp is 32 consecutive threads
 *   - every thread of a block reaches the same barriers, and every lane of a
 *     warp makes the same shuffles, always with the full mask
 *   - a kernel has a single array of shared memory, ES_DYNAMIC_SHARED, and
 *     divides this array into parts itself; the array's size is an argument of
 *     es_launch. On the host the array is initialised to NaN
 *   - a kernel is a plain function or function template, and is launched by
 *     es_launch, which also checks errors
 *   - the first statement of a kernel is es_begin_kernel()
 */
#ifndef ES_CUDA_KERNEL_H
#define ES_CUDA_KERNEL_H

#include "hooks/trainer/cuda/device.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stddef.h>
#include <stdint.h>

typedef __nv_bfloat16 es_bf16;
typedef __half es_fp16;

/** Marks a function that kernels call and that is always inlined. */
#define ES_DEVICE __device__ __forceinline__

#ifdef __CUDACC__

/** Declares `name` as the block's dynamic shared memory, aligned to 128
 *  bytes. */
#define ES_DYNAMIC_SHARED(type, name)                                          \
    extern __shared__ __align__(128) unsigned char es_shared_memory[];         \
    type *name = (type *)(void *)es_shared_memory

/**
 * Launches kernel<<<grid, n_threads, shared_bytes>>>(arguments...) on the
 * device's stream, and requests shared memory beyond 48 KiB if the kernel needs
 * it. A failed launch is stored as the device's failure (device.h) and reported
 * with `name`. After a failure, nothing is launched.
 */
template <class... P, class... A>
static inline void es_launch(es_device *device, const char *name,
                             void (*kernel)(P...), dim3 grid, int n_threads,
                             size_t shared_bytes, A... arguments)
{
    void *pointers[] = {(void *)&arguments...};
    static_assert(sizeof...(P) == sizeof...(A),
                  "the number of arguments must be that of the kernel");
    static_assert((... && __is_same(P, A)),
                  "the types of the arguments must be those of the kernel");
    es_device_launch(device, name, (const void *)kernel, grid, n_threads,
                     shared_bytes, pointers);
}

/** Waits for the end of the previous kernels, and permits the next kernel to
 *  begin. From compute capability 9.0 on, a kernel may overlap with the
 *  previous kernel until this call (es_device_launch). */
ES_DEVICE void es_begin_kernel()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/** Returns 2^x, computed by a single instruction, with an error of up to 2
 *  units in the last place. Returns 0 if the result would be subnormal. __log2f
 *  is the corresponding instruction for log2. */
ES_DEVICE float es_fast_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#include "tests/emulation/kernel_host.h"

static inline float es_fast_exp2(float x)
{
    return exp2f(x);
}
#endif

/** es_float converts an activation of any type to f32, and es_act_of converts
 *  f32 to the nearest value of an activation's type. */
ES_DEVICE float es_float(float x)
{
    return x;
}
ES_DEVICE float es_float(es_bf16 x)
{
    return __bfloat162float(x);
}
ES_DEVICE float es_float(es_fp16 x)
{
    return __half2float(x);
}
template <class A>
ES_DEVICE A es_act_of(float x);
template <>
ES_DEVICE float es_act_of<float>(float x)
{
    return x;
}
template <>
ES_DEVICE es_bf16 es_act_of<es_bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <>
ES_DEVICE es_fp16 es_act_of<es_fp16>(float x)
{
    return __float2half_rn(x);
}

#endif
