/**
 * Functions for tensor cores and asynchronous copies. On the device, they are
 * PTX instructions; on the host, they are loops over the lanes of a warp. All
 * lanes of a warp must call them together.
 *
 * A fragment is the part of a matrix that a lane holds in registers. Fragments
 * have the layout that the PTX manual describes for mma.m16n8k16 with 16-bit
 * elements. For lane l, let g = l / 4 and t = l % 4. A register holds two
 * 16-bit elements; its lower half holds the element with the lower index:
 *
 *   a[4] of a (16,16)  row g in a[0], a[2]; row g + 8 in a[1], a[3];
 *                      columns 2t, 2t+1 in a[0], a[1]; + 8 in a[2], a[3]
 *   b[2] of b (16,8)   column g; rows 2t, 2t+1 in b[0]; + 8 in b[1]
 *   d[4] of d (16,8)   columns 2t, 2t+1; row g in d[0], d[1]; row g + 8 in
 *                      d[2], d[3]
 */
#ifndef ES_CUDA_MMA_H
#define ES_CUDA_MMA_H

#include "hooks/trainer/cuda/kernel.h"

#ifndef __CUDACC__
#include "tests/emulation/mma_host.h"
#endif

/** Adds the product of a (16,16) and b (16,8) to d (16,8). d is f32; a and b
 *  have type A, es_bf16 or es_fp16. */
template <class A>
ES_DEVICE void es_mma(float *d, const uint32_t *a, const uint32_t *b);

#ifdef __CUDACC__

template <>
ES_DEVICE void es_mma<es_bf16>(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
}

template <>
ES_DEVICE void es_mma<es_fp16>(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
}

#else

template <>
inline void es_mma<es_bf16>(float *d, const uint32_t *a, const uint32_t *b)
{
    es_host_mma(d, a, b, true);
}

template <>
inline void es_mma<es_fp16>(float *d, const uint32_t *a, const uint32_t *b)
{
    es_host_mma(d, a, b, false);
}

#endif

/** Converts a pointer to an address in shared memory that instructions accept.
 *  The block's shared memory starts at a multiple of 128. */
ES_DEVICE uint32_t es_shared_address(const void *shared)
{
#ifdef __CUDACC__
    return (uint32_t)__cvta_generic_to_shared(shared);
#else
    return es_host_shared_address(shared);
#endif
}

/**
 * Loads four matrices (8,8) of 16-bit elements from shared memory. Lane l
 * passes the address of row l % 8 of matrix l / 8; a row has 16 bytes and is
 * aligned to 16 bytes. out[i] receives the two elements of matrix i that belong
 * to this lane: row l / 4, columns 2 * (l % 4) and 2 * (l % 4) + 1.
 */
ES_DEVICE void es_ldmatrix(uint32_t *out, uint32_t row)
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(row)
                 : "memory");
#else
    es_host_ldmatrix(out, row, false);
#endif
}

/** Same as es_ldmatrix, but transposes the matrices: lane l receives rows
 *  2 * (l % 4) and 2 * (l % 4) + 1 of column l / 4 in out[i]. */
ES_DEVICE void es_ldmatrix_transposed(uint32_t *out, uint32_t row)
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(row)
                 : "memory");
#else
    es_host_ldmatrix(out, row, true);
#endif
}

/**
 * Starts copying 16 bytes from device memory to shared memory; both addresses
 * are multiples of 16. If `there` is false, writes zeros and does not read
 * `from`. The copy is complete after es_cp_wait. Until then, no thread may read
 * the destination, or write to the source or the destination.
 */
ES_DEVICE void es_cp_async(void *shared, const void *from, bool there)
{
#ifdef __CUDACC__
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     es_shared_address(shared)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
#else
    es_host_copy(shared, there ? from : NULL);
#endif
}

/** Combines the copies that this thread has started since its last es_cp_commit
 *  into a group. */
ES_DEVICE void es_cp_commit()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    es_host_copy_commit();
#endif
}

/** Waits until all groups of copies that this thread has started, except the
 *  last n, are complete. Other threads see the copied data after a barrier. */
template <int n>
ES_DEVICE void es_cp_wait()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#else
    es_host_copy_wait(n);
#endif
}

#endif
