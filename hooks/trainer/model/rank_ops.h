/** Operations with which a back-end reduces values over several ranks without
 *  the host. */
#ifndef ES_RANK_OPS_H
#define ES_RANK_OPS_H

#include "hooks/trainer/model/operands.h"

/** Kinds of reductions in es_rank_ops: sum of f32, sum of f64, maximum of
 *  f32. */
typedef enum es_rank_sum {
    ES_REDUCE_SUM,
    ES_REDUCE_SUM_DOUBLE,
    ES_REDUCE_LARGEST,
    ES_N_RANK_SUMS
} es_rank_sum;

/** Limits of waiting for other ranks. */
typedef struct es_rank_patience {
    double seconds;
    bool (*is_over)(void *user); /* returns true if another rank has exited or
                                    failed */
    void *user;
} es_rank_patience;

/** Operations that reduce over the devices of several ranks; every rank must
 *  make the same calls. */
enum { ES_RANK_ID_SIZE = 128 };
typedef struct es_rank_ops {
    /** Checks that the required library exists. ES_OK; ES_EIO. */
    es_status (*find)(void);
    /** Returns true if these operations are to be used with a single process,
     *  too; for tests. */
    bool (*alone)(void);
    /** Called by the first rank, whose id all ranks then use. ES_OK; ES_EIO. */
    es_status (*make_id)(char id[ES_RANK_ID_SIZE]);
    /** Called once by every rank; waits for the other ranks. ES_OK; ES_EIO;
     *  ES_ENOMEM. */
    es_status (*join)(es_backend *backend, const char id[ES_RANK_ID_SIZE],
                      int rank, int world, const es_rank_patience *patience);
    /** Reduces x (n) over all ranks in place, concurrently with the following
     *  operations, which must not touch x before `finish`; operations after
     *  `finish` see the result. */
    void (*reduce)(es_backend *backend, es_mem *x, size_t n, es_rank_sum how);
    void (*finish)(es_backend *backend);
    /** Waits for all operations, and for other ranks as long as the patience
     *  allows. */
    void (*wait)(es_backend *backend, const es_rank_patience *patience);
} es_rank_ops;

#endif
