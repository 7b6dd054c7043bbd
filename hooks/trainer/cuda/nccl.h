/**
 * Declares the functions of NCCL, which are loaded at run time from
 * libnccl.so.2, or from the file that ENTROPY_TRAIN_NCCL names. The
 * declarations follow NCCL 2, so NCCL's headers are not needed to build the
 * program.
 */
#ifndef ES_CUDA_NCCL_H
#define ES_CUDA_NCCL_H

#include "hooks/trainer/cuda/cuda.h"

typedef struct ncclComm *es_nccl_comm;
typedef struct es_nccl_id {
    char bytes[ES_RANK_ID_SIZE];
} es_nccl_id;

/** NCCL's constants for number types. */
enum { ES_NCCL_FLOAT32 = 7, ES_NCCL_FLOAT64 = 8 };
enum { ES_NCCL_SUM = 0, ES_NCCL_MAX = 2 };

/** The functions of NCCL that the back-end calls. Functions that return int
 *  return 0 on success, otherwise an error code. */
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

/** Loads NCCL. Sets NCCL_ALGO and NCCL_PROTO, unless they are already set, to
 *  one ring and the simple protocol, which fix the order of sums. The settings
 *  apply to the whole process, so the first call must be made while the process
 *  has a single thread. Returns ES_OK or ES_EIO. */
es_status es_nccl_find(const es_nccl **out) ES_MUST_USE;

/** This process's connection to the other ranks through NCCL. */
typedef struct es_nccl_ranks {
    const es_nccl *nccl;
    es_nccl_comm comm; /* NULL before joining and after an abort */
    bool is_ahead;     /* true if sums have been started but not waited for */
} es_nccl_ranks;

/**
 * Joins all ranks. NCCL would wait forever for missing ranks, so a separate
 * thread calls NCCL, and is abandoned after the timeout.
 *
 *   enter   called with `device` at the start of that thread; returns NULL, or
 *           the reason why the thread cannot use the device. `enter` itself may
 *           be NULL
 *
 * Returns ES_OK, ES_EIO or ES_ENOMEM.
 */
es_status es_nccl_join(es_nccl_ranks *out, const char id[ES_RANK_ID_SIZE],
                       int rank, int world, const es_rank_patience *patience,
                       const char *(*enter)(int device),
                       int device) ES_MUST_USE;
void es_nccl_leave(es_nccl_ranks *ranks);

/** Adds up x (n) over all ranks; each rank's x receives the result. Returns
 *  NCCL's code. */
int es_nccl_reduce(const es_nccl_ranks *ranks, void *x, size_t n,
                   es_rank_sum how, void *stream);

/** Returns the reason why a sum that has been running for `waited` seconds can
 *  no longer complete; NULL if it still can. */
const char *es_nccl_find_end(const es_nccl_ranks *ranks,
                             const es_rank_patience *patience, double waited);

/** Returns the time of a monotonic clock in seconds. */
double es_nccl_now(void);

/** Implement the members `find`, `alone` and `make_id` of es_rank_ops.
 *  es_nccl_goes_alone returns true if ENTROPY_TRAIN_NCCL_ALONE is 1. */
es_status es_nccl_is_there(void) ES_MUST_USE;
bool es_nccl_goes_alone(void);
es_status es_nccl_make_id(char id[ES_RANK_ID_SIZE]) ES_MUST_USE;

/** NCCL state of a back-end that has joined the ranks. */
struct es_cuda_ranks;
void es_cuda_ranks_free(struct es_cuda_ranks *ranks); /* `ranks` may be NULL */

/** The operations on ranks. Defined in ranks.cu, and in the emulation. */
extern const es_rank_ops es_cuda_rank_ops;

#endif
