/**
 * Statistics of attention straight from queries and keys on a CUDA device:
 * es_qk_statistics (analyzer/entropy/entropy.h) with memory of the device, for
 * programs that load libentropytrain_cuda.so. Forward only: values are not
 * read, T x S is kept nowhere.
 *
 * The library takes es_fail and es_message from the program: load
 * libentropyrecord with its symbols global (RTLD_GLOBAL) before it.
 */
#ifndef ES_CUDA_QK_STATISTICS_H
#define ES_CUDA_QK_STATISTICS_H

#include "analyzer/entropy/entropy.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * One call. `size` is sizeof (es_cuda_qk). The structs are the caller's and
 * lie in the host's memory; every array that they name lies in the device's,
 * that of the workspace too, and is in use until the stream has come so far.
 */
typedef struct es_cuda_qk {
    size_t size;
    const es_rows *rows;   /* NULL: none; their arrays as es_qk_statistics's */
    const es_heads *heads; /* NULL: none */
    const es_entropy_input *q, *k;
    const es_attention_shape *shape;
    void *stream;    /* cudaStream_t of the current device; NULL: its default */
    void *workspace; /* aligned to 256 bytes */
    size_t workspace_bytes; /* es_cuda_qk_workspace at least */
} es_cuda_qk;

/** Bytes of workspace that a call with this shape needs, about 36 for each row;
 *  0 if the shape is refused. */
ES_API size_t es_cuda_qk_workspace(const es_attention_shape *shape);

/**
 * Puts the work into the stream and returns: nothing waits.
 *
 * Numbers, NaN and missing are es_qk_statistics's, to the same tolerances; sums
 * have one order, the same bits on the same kind of card. What differs: starts
 * are not checked, as they lie on the device; whatever they are, nothing beyond
 * the arrays is read. D is at most 256. Queries and keys have the same type.
 * There is no time_limit.
 *
 * ES_OK; ES_EARGUMENT: as es_qk_statistics, and the above; ES_ENOMEM; ES_EIO: a
 * launch failed, es_message says which. Failures after a launch are the
 * stream's.
 */
ES_API es_status es_cuda_qk_statistics(const es_cuda_qk *call) ES_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
