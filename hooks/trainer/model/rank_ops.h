/** The part of a back-end that adds up over several ranks without the host. */
#ifndef ES_RANK_OPS_H
#define ES_RANK_OPS_H

#include "hooks/trainer/model/operands.h"

/** What es_rank_ops adds up: f32, f64; or the largest of f32. */
typedef enum es_rank_sum {
    ES_REDUCE_SUM,
    ES_REDUCE_SUM_DOUBLE,
    ES_REDUCE_LARGEST,
    ES_N_RANK_SUMS
} es_rank_sum;

/** How long other ranks are waited for. */
typedef struct es_rank_patience {
    double seconds;
    bool (*is_over)(void *user); /* one of them is gone or has failed */
    void *user;
} es_rank_patience;

/** Sums over the devices of several ranks, each of which makes the same calls.
 */
enum { ES_RANK_ID_SIZE = 128 };
typedef struct es_rank_ops {
    /** ES_OK; ES_EIO: what it takes is not on this machine. */
    es_status (*find)(void);
    /** Whether a process by itself goes this way as well: to test it. */
    bool (*alone)(void);
    /** By the first rank, for all. ES_OK; ES_EIO. */
    es_status (*make_id)(char id[ES_RANK_ID_SIZE]);
    /** Once, by all; waits for them. ES_OK; ES_EIO; ES_ENOMEM. */
    es_status (*join)(es_backend *backend, const char id[ES_RANK_ID_SIZE],
                      int rank, int world, const es_rank_patience *patience);
    /** x (n) in place, of all ranks. Beside the operations that follow, which
     *  leave x alone up to `finish`; those see what has come of it. */
    void (*reduce)(es_backend *backend, es_mem *x, size_t n, es_rank_sum how);
    void (*finish)(es_backend *backend);
    /** Waits for everything, but for ranks as long as there is patience. */
    void (*wait)(es_backend *backend, const es_rank_patience *patience);
} es_rank_ops;

#endif
