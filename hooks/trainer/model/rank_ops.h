/** Operations with which a back-end adds up values over several ranks without
 *  copying them to the host. */
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

/** Determines how long an operation waits for other ranks. */
typedef struct es_rank_patience {
    double seconds;
    bool (*is_over)(void *user); /* returns true if another rank has exited or
                                    failed */
    void *user;
} es_rank_patience;

/** Size in bytes of the id that make_id creates. */
enum { ES_RANK_ID_SIZE = 128 };

/** Operations that reduce values over the devices of several ranks; every rank
 *  must make the same calls. */
typedef struct es_rank_ops {
    /** Checks that the required library can be loaded. Returns ES_OK or
     *  ES_EIO. */
    es_status (*find)(void);
    /** Returns true if these operations must be used even with a single
     *  process, as tests request. */
    bool (*alone)(void);
    /** Creates the id that all ranks pass to `join`; only the first rank calls
     *  it. Returns ES_OK or ES_EIO. */
    es_status (*make_id)(char id[ES_RANK_ID_SIZE]);
    /** Connects this rank to the others; every rank calls it once and waits for
     *  the other ranks. Returns ES_OK, ES_EIO or ES_ENOMEM. */
    es_status (*join)(es_backend *backend, const char id[ES_RANK_ID_SIZE],
                      int rank, int world, const es_rank_patience *patience);
    /** Reduces x (n) over all ranks in place, concurrently with the following
     *  operations, which must not touch x before `finish`; operations after
     *  `finish` see the result. */
    void (*reduce)(es_backend *backend, es_mem *x, size_t n, es_rank_sum how);
    void (*finish)(es_backend *backend);
    /** Waits until all operations have ended. Waits for other ranks at most as
     *  long as `patience` allows. */
    void (*wait)(es_backend *backend, const es_rank_patience *patience);
} es_rank_ops;

#endif
