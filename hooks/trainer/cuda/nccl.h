/**
 * NCCL, opened at run time: libnccl.so.2, or the file that ENTROPY_TRAIN_NCCL
 * names. Declared here as NCCL 2 has it, so that nobody needs its headers.
 */
#ifndef ES_CUDA_NCCL_H
#define ES_CUDA_NCCL_H

#include "hooks/trainer/cuda/cuda.h"

typedef struct ncclComm *es_nccl_comm;
typedef struct es_nccl_id {
    char bytes[ES_RANK_ID_SIZE];
} es_nccl_id;

/** Types of numbers and sums, as NCCL numbers them. */
enum { ES_NCCL_FLOAT32 = 7, ES_NCCL_FLOAT64 = 8 };
enum { ES_NCCL_SUM = 0, ES_NCCL_MAX = 2 };

/** What is called of it; 0 is success, but where a text is returned. */
typedef struct es_nccl {
    const char *(*error)(int code);
    int (*unique_id)(es_nccl_id *out);
    int (*init_rank)(es_nccl_comm *out, int world, es_nccl_id id, int rank);
    int (*async_error)(es_nccl_comm comm, int *code);
    int (*all_reduce)(const void *in, void *out, size_t n, int type, int op,
                      es_nccl_comm comm, void *stream);
    int (*destroy)(es_nccl_comm comm);
    int (*abort)(es_nccl_comm comm);
} es_nccl;

/** The library; algorithm and protocol are one ring and the simple one unless
 *  NCCL_ALGO and NCCL_PROTO say otherwise: sums have one order then. Process-
 *  wide, first called from one thread. ES_OK; ES_EIO. */
es_status es_nccl_find(const es_nccl **out) ES_MUST_USE;

/** The ranks as NCCL has them. */
typedef struct es_nccl_ranks {
    const es_nccl *nccl;
    es_nccl_comm comm; /* NULL: not joined, or aborted */
    bool is_ahead;     /* sums are under way that nobody has waited for */
} es_nccl_ranks;

/**
 * Joins all ranks. NCCL waits for those that do not come without end: it does
 * so in a thread, which is left to itself once there is no patience.
 *
 *   enter   called with `device` in that thread before: NULL, or why it cannot
 *           be used there; may be NULL
 *
 * ES_OK; ES_EIO; ES_ENOMEM.
 */
es_status es_nccl_join(es_nccl_ranks *out, const char id[ES_RANK_ID_SIZE],
                       int rank, int world, const es_rank_patience *patience,
                       const char *(*enter)(int device),
                       int device) ES_MUST_USE;
void es_nccl_leave(es_nccl_ranks *ranks);

/** All-reduces x in place. Returns NCCL's code. */
int es_nccl_reduce(const es_nccl_ranks *ranks, void *x, size_t n,
                   es_rank_sum how, void *stream);

/** Why no sum will come any more, after so many seconds; NULL: it may. */
const char *es_nccl_find_end(const es_nccl_ranks *ranks,
                             const es_rank_patience *patience, double waited);

/** Seconds of a clock that never goes back. */
double es_nccl_now(void);

/** The members find, alone (if ENTROPY_TRAIN_NCCL_ALONE is 1) and make_id of
 *  es_rank_ops. */
es_status es_nccl_is_there(void) ES_MUST_USE;
bool es_nccl_goes_alone(void);
es_status es_nccl_make_id(char id[ES_RANK_ID_SIZE]) ES_MUST_USE;

/** What a back-end keeps of the ranks; NULL: it has not joined any. */
struct es_cuda_ranks;
void es_cuda_ranks_free(struct es_cuda_ranks *ranks); /* NULL is fine */

/** By ranks.cu, or the emulation. */
extern const es_rank_ops es_cuda_rank_ops;

#endif
