/* Adds up arrays over the devices of several ranks with NCCL, on a second
 * stream. When a sum may begin, the second stream waits for the first
 * stream; when all sums are needed, the first stream waits for the second.
 * If the streams are captured in a CUDA graph, they become two branches of
 * the graph. */
#include "hooks/trainer/cuda/nccl.h"

#include <stdlib.h>
#include <unistd.h>

struct es_cuda_ranks {
    es_nccl_ranks all;
    cudaStream_t stream;
    cudaEvent_t begins, ends;
};

void es_cuda_ranks_free(es_cuda_ranks *ranks)
{
    if (!ranks)
        return;
    es_nccl_leave(&ranks->all);
    if (ranks->begins)
        (void)cudaEventDestroy(ranks->begins);
    if (ranks->ends)
        (void)cudaEventDestroy(ranks->ends);
    if (ranks->stream)
        (void)cudaStreamDestroy(ranks->stream);
    free(ranks);
}

/* Selects the device for the calling thread. CUDA would otherwise use the first
 * device, since each thread has a separate current device. Returns NULL, or the
 * reason for a failure. */
static const char *select_device(int device)
{
    const cudaError_t code = cudaSetDevice(device);
    return code == cudaSuccess ? NULL : cudaGetErrorString(code);
}

static es_status join(es_backend *backend, const char id[ES_RANK_ID_SIZE],
                      int rank, int world, const es_rank_patience *patience)
{
    int device = 0;
    es_cuda_ranks *ranks = (es_cuda_ranks *)calloc(1, sizeof *ranks);
    if (!ranks)
        return es_fail(ES_ENOMEM, "out of memory for the ranks' devices");
    backend->ranks = ranks;
    cudaError_t code =
        cudaStreamCreateWithFlags(&ranks->stream, cudaStreamNonBlocking);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&ranks->begins, cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&ranks->ends, cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaGetDevice(&device);
    return code == cudaSuccess
               ? es_nccl_join(&ranks->all, id, rank, world, patience,
                              select_device, device)
               : es_fail(ES_EIO, "CUDA: %s", cudaGetErrorString(code));
}

/* Starts a sum on the second stream. The sum begins when all operations that
 * are now queued on the first stream are complete. */
static void reduce(es_backend *backend, es_mem *x, size_t n, es_rank_sum how)
{
    es_cuda_ranks *ranks = backend->ranks;
    es_device *device = backend->device;
    if (n == 0 || es_device_is_in_trouble(device) || !ranks->all.comm)
        return;
    if (!es_device_check(
            device, "a sum over ranks",
            cudaEventRecord(ranks->begins, es_device_stream(device))) ||
        !es_device_check(device, "a sum over ranks",
                         cudaStreamWaitEvent(ranks->stream, ranks->begins, 0)))
        return;
    const int code = es_nccl_reduce(&ranks->all, x, n, how, ranks->stream);
    ranks->all.is_ahead = true;
    if (code != 0)
        es_device_trouble_text(device, "NCCL", ranks->all.nccl->error(code));
}

static void finish(es_backend *backend)
{
    es_cuda_ranks *ranks = backend->ranks;
    es_device *device = backend->device;
    if (!ranks->all.is_ahead)
        return;
    ranks->all.is_ahead = false;
    /* This call is made even after a failure, because the branches of a
     * captured CUDA graph must be joined. */
    const cudaError_t code = cudaEventRecord(ranks->ends, ranks->stream);
    if (es_device_check(device, "a sum over ranks", code))
        es_device_check(
            device, "a sum over ranks",
            cudaStreamWaitEvent(es_device_stream(device), ranks->ends, 0));
}

static void wait(es_backend *backend, const es_rank_patience *patience)
{
    es_nccl_ranks *all = &backend->ranks->all;
    es_device *device = backend->device;
    const double begin = es_nccl_now();
    const char *why = NULL;
    while (all->comm && !es_device_is_in_trouble(device)) {
        const cudaError_t code = cudaStreamQuery(es_device_stream(device));
        if (code == cudaSuccess)
            return;
        if (code != cudaErrorNotReady)
            es_device_check(device, "the device", code);
        else if ((why = es_nccl_find_end(all, patience, es_nccl_now() - begin)))
            es_device_trouble_text(device, "NCCL", why);
        else
            (void)usleep(20);
    }
    /* A sum that waits for a lost rank never ends, so NCCL is aborted. */
    if (all->comm)
        (void)all->nccl->abort(all->comm);
    all->comm = NULL;
}

const es_rank_ops es_cuda_rank_ops = {es_nccl_is_there,
                                      es_nccl_goes_alone,
                                      es_nccl_make_id,
                                      join,
                                      reduce,
                                      finish,
                                      wait};
