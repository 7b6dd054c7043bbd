/* Adds up arrays over the emulated devices of several ranks. The NCCL library
 * must be a fake that adds arrays in host memory, such as
 * tests/gpu/fake_nccl.c. */
#include "hooks/trainer/cuda/nccl.h"

#include <stdio.h>
#include <stdlib.h>

struct es_cuda_ranks {
    es_nccl_ranks all;
};

void es_cuda_ranks_free(es_cuda_ranks *ranks)
{
    if (ranks)
        es_nccl_leave(&ranks->all);
    free(ranks);
}

static es_status join(es_backend *backend, const char id[ES_RANK_ID_SIZE],
                      int rank, int world, const es_rank_patience *patience)
{
    es_cuda_ranks *ranks = (es_cuda_ranks *)calloc(1, sizeof *ranks);
    if (!ranks)
        return es_fail(ES_ENOMEM, "out of memory for the ranks' devices");
    backend->ranks = ranks;
    return es_nccl_join(&ranks->all, id, rank, world, patience, NULL, 0);
}

typedef struct sum {
    const es_nccl_ranks *all;
    es_mem *x;
    size_t n;
    es_rank_sum how;
} sum;

static void add(es_device *device, const void *argument)
{
    const sum *s = (const sum *)argument;
    const int code = es_nccl_reduce(s->all, s->x, s->n, s->how, NULL);
    if (code != 0)
        es_device_trouble(device, "NCCL", code);
}

static void reduce(es_backend *backend, es_mem *x, size_t n, es_rank_sum how)
{
    es_nccl_ranks *all = &backend->ranks->all;
    const sum s = {all, x, n, how};
    all->is_ahead = true;
    es_host_do(backend->device, add, &s, sizeof s);
}

static void finish(es_backend *backend)
{
    backend->ranks->all.is_ahead = false;
}

static void wait(es_backend *backend, const es_rank_patience *patience)
{
    if (backend->ranks->all.is_ahead) {
        fprintf(stderr, "host emulation: a sum over ranks is not finished at "
                        "the end of a step\n");
        abort();
    }
    if (es_device_is_in_trouble(backend->device))
        (void)patience->is_over(patience->user);
}

const es_rank_ops es_cuda_rank_ops = {es_nccl_is_there,
                                      es_nccl_goes_alone,
                                      es_nccl_make_id,
                                      join,
                                      reduce,
                                      finish,
                                      wait};
