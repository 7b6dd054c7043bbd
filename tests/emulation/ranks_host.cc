/* Sums over the devices of several ranks, where each is the host: NCCL's
 * library has to be one that adds up memory of the host
 * (tests/gpu/fake_nccl.c).
 */
#include "hooks/trainer/cuda/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct es_cuda_ranks {
    const es_nccl *nccl;
    es_nccl_comm comm;
    bool is_ahead;
};

void es_cuda_ranks_free(es_cuda_ranks *ranks)
{
    if (ranks && ranks->comm)
        (void)ranks->nccl->destroy(ranks->comm);
    free(ranks);
}

static es_status join(es_backend *backend, const char id[ES_RANK_ID_SIZE],
                      int rank, int world)
{
    es_nccl_id known;
    es_cuda_ranks *ranks = (es_cuda_ranks *)calloc(1, sizeof *ranks);
    if (!ranks)
        return es_fail(ES_ENOMEM, "out of memory for the ranks' devices");
    backend->ranks = ranks;
    memcpy(known.bytes, id, sizeof known.bytes);
    const es_status status = es_nccl_find(&ranks->nccl);
    if (status != ES_OK)
        return status;
    const int code = ranks->nccl->init_rank(&ranks->comm, world, known, rank);
    return code == 0 ? ES_OK
                     : es_fail(ES_EIO, "NCCL: %s", ranks->nccl->error(code));
}

typedef struct sum {
    es_cuda_ranks *ranks;
    es_mem *x;
    size_t n;
    es_rank_sum how;
} sum;

static void add(es_device *device, const void *argument)
{
    const sum *s = (const sum *)argument;
    const int code = es_nccl_reduce(s->ranks->nccl, s->ranks->comm, s->x, s->n,
                                    s->how, NULL);
    if (code != 0)
        es_device_trouble(device, "NCCL", code);
}

static void reduce(es_backend *backend, es_mem *x, size_t n, es_rank_sum how)
{
    const sum s = {backend->ranks, x, n, how};
    backend->ranks->is_ahead = true;
    es_host_do(backend->device, add, &s, sizeof s);
}

static void finish(es_backend *backend)
{
    backend->ranks->is_ahead = false;
}

static void wait(es_backend *backend, bool (*is_over)(void *user), void *user)
{
    if (backend->ranks->is_ahead) {
        fprintf(stderr, "host emulation: nobody has waited for a sum\n");
        abort();
    }
    if (es_device_is_in_trouble(backend->device))
        (void)is_over(user);
}

const es_rank_ops es_cuda_rank_ops = {es_nccl_is_there, es_nccl_make_id, join,
                                      reduce,           finish,          wait};
