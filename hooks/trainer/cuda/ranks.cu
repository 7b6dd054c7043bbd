/* Sums over the devices of several ranks, by NCCL: on a second stream, which
 * leaves the first one where a sum may begin and is waited for by it where all
 * have to be there. Captured as everything else: the two streams become two
 * branches of the graph. */
#include "hooks/trainer/cuda/nccl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct es_cuda_ranks {
    const es_nccl *nccl;
    es_nccl_comm comm; /* NULL: it was aborted */
    cudaStream_t stream;
    cudaEvent_t begins, ends;
    bool is_ahead; /* sums are under way that nobody has waited for */
};

void es_cuda_ranks_free(es_cuda_ranks *ranks)
{
    if (!ranks)
        return;
    /* Nobody is left to hear of it. */
    if (ranks->comm)
        (void)ranks->nccl->destroy(ranks->comm);
    if (ranks->begins)
        (void)cudaEventDestroy(ranks->begins);
    if (ranks->ends)
        (void)cudaEventDestroy(ranks->ends);
    if (ranks->stream)
        (void)cudaStreamDestroy(ranks->stream);
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
    const es_status status = es_nccl_find(&ranks->nccl);
    if (status != ES_OK)
        return status;
    memcpy(known.bytes, id, sizeof known.bytes);
    cudaError_t code =
        cudaStreamCreateWithFlags(&ranks->stream, cudaStreamNonBlocking);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&ranks->begins, cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&ranks->ends, cudaEventDisableTiming);
    if (code != cudaSuccess)
        return es_fail(ES_EIO, "CUDA: %s", cudaGetErrorString(code));
    const int failed = ranks->nccl->init_rank(&ranks->comm, world, known, rank);
    return failed == 0
               ? ES_OK
               : es_fail(ES_EIO,
                         "NCCL: %s: give each rank a device of its own, or set "
                         "NCCL_DEBUG=WARN",
                         ranks->nccl->error(failed));
}

/* The side stream goes on from where the first one is. */
static void reduce(es_backend *backend, es_mem *x, size_t n, es_rank_sum how)
{
    es_cuda_ranks *ranks = backend->ranks;
    es_device *device = backend->device;
    if (n == 0 || es_device_is_in_trouble(device) || !ranks->comm)
        return;
    if (!es_device_check(
            device, "a sum over ranks",
            cudaEventRecord(ranks->begins, es_device_stream(device))) ||
        !es_device_check(device, "a sum over ranks",
                         cudaStreamWaitEvent(ranks->stream, ranks->begins, 0)))
        return;
    const int code =
        es_nccl_reduce(ranks->nccl, ranks->comm, x, n, how, ranks->stream);
    ranks->is_ahead = true;
    if (code != 0)
        es_device_trouble_text(device, "NCCL", ranks->nccl->error(code));
}

static void finish(es_backend *backend)
{
    es_cuda_ranks *ranks = backend->ranks;
    es_device *device = backend->device;
    if (!ranks->is_ahead)
        return;
    ranks->is_ahead = false;
    /* Also after trouble: a capture has to get its branch back. */
    const cudaError_t code = cudaEventRecord(ranks->ends, ranks->stream);
    if (es_device_check(device, "a sum over ranks", code))
        es_device_check(
            device, "a sum over ranks",
            cudaStreamWaitEvent(es_device_stream(device), ranks->ends, 0));
}

/* Why no sum will come any more; NULL: it may. */
static const char *find_end(const es_cuda_ranks *ranks,
                            bool (*is_over)(void *user), void *user)
{
    int code = 0;
    if (is_over(user))
        return "a rank is gone";
    if (ranks->nccl->async_error(ranks->comm, &code) != 0 || code != 0)
        return ranks->nccl->error(code);
    return NULL;
}

static void wait(es_backend *backend, bool (*is_over)(void *user), void *user)
{
    es_cuda_ranks *ranks = backend->ranks;
    es_device *device = backend->device;
    const char *why = NULL;
    while (ranks->comm && !es_device_is_in_trouble(device)) {
        const cudaError_t code = cudaStreamQuery(es_device_stream(device));
        if (code == cudaSuccess)
            return;
        if (code != cudaErrorNotReady)
            es_device_check(device, "the device", code);
        else if ((why = find_end(ranks, is_over, user)))
            es_device_trouble_text(device, "NCCL", why);
        else
            (void)usleep(20);
    }
    /* A sum that waits for a rank which is gone would never end. */
    if (ranks->comm)
        (void)ranks->nccl->abort(ranks->comm);
    ranks->comm = NULL;
}

const es_rank_ops es_cuda_rank_ops = {es_nccl_is_there, es_nccl_make_id, join,
                                      reduce,           finish,          wait};
