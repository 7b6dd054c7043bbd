/**
 * Shared by the files of the CUDA back-end: C++17 used as C with kernels.
 *
 * Every .cu file of this folder is compiled twice: by nvcc for the device, and
 * by the host's compiler with tests/emulation/, where a block's threads run one
 * after another and products are plain loops. The differences between the two
 * are hidden behind kernel.h (the language of kernels), device.h (memory,
 * stream, graphs) and gemm.h (matrix products); no other file may depend on
 * them.
 *
 * `A` is the type of an activation: float, es_bf16 or es_fp16. Operations that
 * use activations are templates of it. All arithmetic is f32 or better,
 * whatever A is.
 */
#ifndef ES_CUDA_H
#define ES_CUDA_H

/* ops.h leaves the back-end's structure open; here it has a different name. */
#define es_backend es_cuda_backend
extern "C" {
#include "hooks/trainer/model/ops.h"
}
#include "hooks/trainer/cuda/device.h"
#include "hooks/trainer/cuda/kernel.h"

struct es_cuda_backend {
    es_device *device;
    es_precision precision;
    /* Working memory of operations, sized by `prepare`; an operation uses it
     * from its beginning, and only while its kernels run. */
    es_mem *scratch;
    size_t scratch_bytes;
    /* used by backend.cu: copies of weights, host buffers */
    struct es_cuda_own *own;
    struct es_cuda_ranks *ranks; /* see nccl.h; NULL: no other ranks */
};

/** Casts memory to the type of its contents. */
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

/** In backend.cu: returns the copy of kept weights in the precision of
 *  products, or `weights` itself with fp32 and tf32 or if the weights were not
 *  kept. *is_copy: true for a copy. */
const es_mem *es_cuda_weights(const es_backend *backend, const es_mem *weights,
                              bool *is_copy);

/** Return the bytes of scratch that operations up to these sizes need. Each
 *  file that uses scratch has such a function, and `prepare` takes the largest
 *  result. */
size_t es_cuda_attention_scratch(const es_extents *largest);
size_t es_cuda_linear_scratch(const es_extents *largest);
size_t es_cuda_normed_scratch(const es_extents *largest);
/* Also for the other files of row operations and sums. */
size_t es_cuda_rows_scratch(const es_extents *largest);
size_t es_cuda_embed_scratch(const es_extents *largest);
size_t es_cuda_peaks_scratch(void); /* the same for any size */

/** Put each file's operations, as in ops.h, into the table; the first ones are
 *  for activations of A. */
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
