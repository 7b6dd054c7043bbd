/* Opens and closes the CUDA back-end, reserves its memory, captures sequences
 * of launches, and fills the tables of operations for each precision. */
#include "hooks/trainer/cuda/gemm.h"
#include "hooks/trainer/cuda/nccl.h"
#include "hooks/trainer/cuda/reduce.h"

#include <stdlib.h>
#include <string.h>

struct es_cuda_own {
    char *viewed; /* host memory that `view` returns, owned by the back-end */
    size_t viewed_bytes;
    /* has_run marks the sequences of operations that have run once. A sequence
     * is captured as a CUDA graph only after its first run, so that the set-up
     * of the first run is not captured. `sequence` is the current sequence. */
    bool has_run[ES_MAX_SEQUENCES];
    bool captures;
    int sequence;
};

/* --- opening -------------------------------------------------------------- */

template <es_precision precision>
static es_status open_backend(es_backend **out, int)
{
    es_backend *backend = (es_backend *)calloc(1, sizeof *backend);
    es_cuda_own *own = (es_cuda_own *)calloc(1, sizeof *own);
    *out = NULL;
    const es_status status =
        backend && own
            ? es_device_open(&backend->device)
            : es_fail(ES_ENOMEM, "out of memory for the CUDA back-end");
    if (status != ES_OK) {
        free(backend);
        free(own);
        return status;
    }
    backend->precision = precision;
    backend->own = own;
    *out = backend;
    return ES_OK;
}

static void close_backend(es_backend *backend)
{
    if (!backend)
        return;
    es_cuda_drop_copies(backend);
    es_device_release(backend->device, backend->scratch);
    es_cuda_ranks_free(backend->ranks);
    es_device_close(backend->device);
    free(backend->own->viewed);
    free(backend->own);
    free(backend);
}

static int n_threads(const es_backend *)
{
    return 1;
}

static const char *device_name(const es_backend *backend)
{
    return es_device_facts_of(backend->device)->name;
}

static es_status status(es_backend *backend)
{
    return es_device_status(backend->device);
}

static const char *note(es_backend *backend)
{
    return es_gemm_note(backend->device);
}

/* --- memory --------------------------------------------------------------- */

static es_status reserve(es_backend *backend, es_mem **out, size_t bytes)
{
    void *memory;
    *out = NULL;
    es_status status =
        es_device_reserve(backend->device, &memory, bytes ? bytes : 1);
    if (status != ES_OK)
        return status;
    es_device_zero(backend->device, memory, bytes ? bytes : 1);
    *out = (es_mem *)memory;
    return ES_OK;
}

static void release(es_backend *backend, es_mem *memory)
{
    es_device_release(backend->device, memory);
}

static es_status prepare(es_backend *backend, const es_extents *largest)
{
    const size_t all[] = {
        es_cuda_attention_scratch(largest), es_cuda_linear_scratch(largest),
        es_cuda_rows_scratch(largest), es_cuda_normed_scratch(largest),
        es_cuda_peaks_scratch()};
    size_t most = 0;
    es_mem *scratch;
    for (size_t bytes : all)
        most = bytes > most ? bytes : most;
    const es_status status = reserve(backend, &scratch, most);
    if (status != ES_OK)
        return status;
    es_device_release(backend->device, backend->scratch);
    backend->scratch = scratch;
    backend->scratch_bytes = most;
    return ES_OK;
}

static void zero(es_backend *backend, es_mem *out, size_t bytes)
{
    es_device_zero(backend->device, out, bytes);
}

static void store(es_backend *backend, es_mem *out, const void *in,
                  size_t bytes)
{
    es_device_store(backend->device, out, in, bytes);
}

static void load(es_backend *backend, void *out, const es_mem *in, size_t bytes)
{
    es_device_load(backend->device, out, in, bytes);
}

static void fetch(es_backend *backend, int place, const es_mem *in,
                  size_t bytes)
{
    es_device_fetch(backend->device, place, in, bytes);
}

static es_status fetched(es_backend *backend, const void **out, int place)
{
    *out = es_device_fetched(backend->device, place);
    return *out ? ES_OK : es_device_status(backend->device);
}

/* Copies n activations to host memory as f32. The back-end owns this memory and
 * enlarges it as needed; the caller may read it until the next call. 16-bit
 * numbers are first loaded into the upper part of the memory; the conversion to
 * f32 reads each of them before overwriting it. */
template <class A>
static const float *view(es_backend *backend, const es_mem *in, size_t n)
{
    es_cuda_own *own = backend->own;
    const size_t bytes = n * sizeof(float) + 1;
    if (own->viewed_bytes < bytes) {
        free(own->viewed);
        own->viewed = (char *)malloc(bytes);
        own->viewed_bytes = own->viewed ? bytes : 0;
    }
    char *memory = own->viewed;
    if (!memory)
        return NULL;
    char *narrow = memory + n * (sizeof(float) - sizeof(A));
    es_device_load(backend->device, narrow, in, n * sizeof(A));
    for (size_t i = 0; sizeof(A) < sizeof(float) && i < n; i++) {
        A from;
        memcpy(&from, narrow + i * sizeof from, sizeof from);
        float x = es_float(from);
        memcpy(memory + i * sizeof x, &x, sizeof x);
    }
    return (const float *)(const void *)memory;
}

/* --- sequences ------------------------------------------------------------ */

static bool replay(es_backend *backend, int sequence)
{
    es_cuda_own *own = backend->own;
    if (es_device_replay(backend->device, sequence))
        return true;
    own->captures = own->has_run[sequence];
    own->sequence = sequence;
    if (own->captures)
        es_device_capture(backend->device);
    return false;
}

static void launch(es_backend *backend)
{
    es_cuda_own *own = backend->own;
    own->has_run[own->sequence] = true;
    if (!own->captures)
        return;
    own->captures = false;
    es_device_capture_end(backend->device, own->sequence);
    if (!es_device_replay(backend->device, own->sequence))
        es_device_trouble(backend->device, "a captured sequence", 0);
}

/* --- tables --------------------------------------------------------------- */

template <class A, es_precision precision>
static es_ops table(void)
{
    es_ops ops = {};
    ops.name = "cuda";
    ops.activation_size = sizeof(A);
    ops.scales_loss = precision == ES_FP16;
    ops.open = open_backend<precision>;
    ops.close = close_backend;
    ops.n_threads = n_threads;
    ops.device_name = device_name;
    ops.status = status;
    ops.note = note;
    ops.prepare = prepare;
    ops.reserve = reserve;
    ops.release = release;
    ops.zero = zero;
    ops.store = store;
    ops.load = load;
    ops.fetch = fetch;
    ops.fetched = fetched;
    ops.view = view<A>;
    ops.ranks = &es_cuda_rank_ops;
    ops.replay = replay;
    ops.launch = launch;
    ops.row_stride = es_row_stride;
    es_cuda_copy_ops<A>(&ops);
    es_cuda_embed_ops<A>(&ops);
    es_cuda_norm_ops<A>(&ops);
    es_cuda_linear_ops<A>(&ops);
    es_cuda_rotate_ops<A>(&ops);
    es_cuda_attention_ops<A>(&ops);
    es_cuda_statistics_ops<A>(&ops);
    es_cuda_residual_ops<A>(&ops);
    es_cuda_loss_ops<A>(&ops);
    es_cuda_peaks_ops<A>(&ops);
    es_cuda_normed_ops(&ops);
    es_cuda_update_ops<A>(&ops);
    es_cuda_qk_clip_ops(&ops);
    return ops;
}

static const es_ops tables[ES_N_PRECISIONS] = {
    table<float, ES_FP32>(), table<float, ES_TF32>(), table<es_bf16, ES_BF16>(),
    table<es_fp16, ES_FP16>()};

extern "C" ES_API const unsigned es_cuda_ops_stamp;
const unsigned es_cuda_ops_stamp = ES_OPS_STAMP;

extern "C" ES_API const es_ops *es_cuda_ops(es_precision precision);
const es_ops *es_cuda_ops(es_precision precision)
{
    return &tables[precision];
}
