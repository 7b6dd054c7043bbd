/**
 * Declarations shared by the files of the CUDA back-end. These files are
 * written in C style; only kernels use templates and other features of C++17.
 *
 * Every .cu file of this folder is compiled twice: by nvcc for the device, and
 * by the host's compiler with tests/emulation/, which runs a block's threads
 * one after another and computes products in plain loops. kernel.h (the
 * language of kernels), device.h (memory, stream, graphs) and gemm.h (matrix
 * products) hide the differences between device and host; no other file may
 * depend on these differences.
 *
 * `A` is the type of an activation: float, es_bf16 or es_fp16. Operations on
 * activations are templates with the parameter A. For every A, arithmetic is in
 * f32 or f64.
 */
#ifndef ES_CUDA_H
#define ES_CUDA_H

/* ops.h declares es_backend as an incomplete type. In this folder, the
 * structure has another name, so that each back-end can define its own
 * structure. */
#define es_backend es_cuda_backend
extern "C" {
#include "hooks/trainer/model/ops.h"
}
#include "hooks/trainer/cuda/device.h"
#include "hooks/trainer/cuda/kernel.h"

struct es_cuda_backend {
    es_device *device;
    es_precision precision;
    /* Scratch memory of operations; `prepare` determines its size. Each
     * operation uses the memory from the beginning, and only until the
     * operation's kernels have finished. */
    es_mem *scratch;
    size_t scratch_bytes;
    struct es_cuda_copies *copies; /* copies of the weights in the precision of
                                    * products; see copies.cu */
    /* host buffers and captured sequences, only used in backend.cu */
    struct es_cuda_own *own;
    struct es_cuda_ranks *ranks; /* see nccl.h; NULL without other ranks */
};

/** Returns device memory as a pointer to its contents of type A. */
template <class A>
static inline A *es_at(es_mem *memory)
{
    return (A *)(void *)memory;
}
template <class A>
static inline const A *es_at(const es_mem *memory)
{
    return (const A *)(const void *)memory;
}

/** Returns the copy of `weights` in the precision of products, and sets
 *  *is_copy to true. If there is no copy, as in fp32 and tf32, returns
 *  `weights` and sets *is_copy to false. */
const es_mem *es_cuda_weights(const es_backend *backend, const es_mem *weights,
                              bool *is_copy);
/** Frees all copies of weights. */
void es_cuda_drop_copies(es_backend *backend);

/** Return the bytes of scratch memory that the operations of one file need if
 *  no size exceeds `largest`. Each file that uses scratch memory has such a
 *  function; `prepare` reserves the largest result. */
size_t es_cuda_attention_scratch(const es_extents *largest);
size_t es_cuda_linear_scratch(const es_extents *largest);
size_t es_cuda_normed_scratch(const es_extents *largest);
/* This function serves all files with row operations and sums. */
size_t es_cuda_rows_scratch(const es_extents *largest);
size_t es_cuda_embed_scratch(const es_extents *largest);
size_t es_cuda_peaks_scratch(void); /* the same for all sizes */

/** Each function adds the operations that one file implements to a table
 *  (ops.h). Functions with the parameter A add operations on activations of
 *  type A. */
template <class A>
void es_cuda_copy_ops(es_ops *ops);
template <class A>
void es_cuda_linear_ops(es_ops *ops);
template <class A>
void es_cuda_embed_ops(es_ops *ops);
template <class A>
void es_cuda_norm_ops(es_ops *ops);
template <class A>
void es_cuda_loss_ops(es_ops *ops);
template <class A>
void es_cuda_residual_ops(es_ops *ops);
template <class A>
void es_cuda_rotate_ops(es_ops *ops);
template <class A>
void es_cuda_attention_ops(es_ops *ops);
template <class A>
void es_cuda_statistics_ops(es_ops *ops);
template <class A>
void es_cuda_peaks_ops(es_ops *ops);
template <class A>
void es_cuda_update_ops(es_ops *ops);
void es_cuda_qk_clip_ops(es_ops *ops);
void es_cuda_normed_ops(es_ops *ops);

#define ES_OF_ACTIVATIONS(ops_of)                                              \
    template void ops_of<float>(es_ops *);                                     \
    template void ops_of<es_bf16>(es_ops *);                                   \
    template void ops_of<es_fp16>(es_ops *);

#endif
