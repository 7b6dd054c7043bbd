/* Opens and closes the CPU back-end, reserves its working memory and lists its
 * operations. A team of threads splits the rows of each operation, and each
 * thread computes its matrix products without further threads. */
#include "hooks/trainer/cpu/activations.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/processor.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

static es_status open_as(es_backend **out, int n_threads, bool bf16)
{
    *out = NULL;
    es_products_choice choice;
    es_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return es_fail(ES_ENOMEM, "out of memory for the CPU back-end");
    backend->n_threads = n_threads > 0 ? n_threads : es_count_processors();
    backend->bf16 = bf16;
    backend->tiles = bf16 ? es_cpu_tiles_choose() : NULL;
    backend->kernels = es_cpu_kernels_choose();
    backend->products = es_products_used(&choice);
    es_status status = es_alloc(&backend->peaks, (size_t)backend->n_threads,
                                sizeof *backend->peaks, "threads");
    if (status == ES_OK)
        status = es_team_new(&backend->team, backend->n_threads);
    if (status != ES_OK) {
        free(backend->peaks);
        free(backend);
        return status;
    }
    openblas_set_num_threads(1);
    *out = backend;
    return ES_OK;
}

static es_status open_backend(es_backend **out, int n_threads)
{
    return open_as(out, n_threads, false);
}

static es_status open_bf16(es_backend **out, int n_threads)
{
    return open_as(out, n_threads, true);
}

static void close_backend(es_backend *backend)
{
    if (!backend)
        return;
    es_team_free(backend->team);
    free(backend->scratch);
    free(backend->peaks);
    free(backend->row_sums);
    free(backend->turns);
    es_cpu_drop_copies(backend);
    free(backend->panels);
    free(backend->sums);
    free(backend->viewed);
    free(backend);
}

static void emulate_fp16(es_backend *backend)
{
    backend->half = true;
}

static int n_threads(const es_backend *backend)
{
    return backend->n_threads;
}

static es_status status_of(es_backend *backend)
{
    return backend->products->status();
}

/* Grows *array to at least n floats and discards its contents. */
static es_status grow_floats(float **array, size_t n)
{
    float *larger = es_cpu_reserve(n, sizeof *larger);
    if (!larger)
        return es_fail(
            ES_ENOMEM,
            "out of memory: cannot reserve %zu MiB of working memory", n >> 18);
    free(*array);
    *array = larger;
    return ES_OK;
}

/* Reserves the additional working memory that bf16 activations need. */
static es_status prepare_bf16(es_backend *backend, const es_extents *largest)
{
    const size_t n = (size_t)backend->n_threads;
    size_t size = (size_t)largest->width, total;
    size = size > ES_CPU_LEAST_PANEL ? size : ES_CPU_LEAST_PANEL;
    backend->panel_size = (size + 15) / 16 * 16;
    if (!es_size_mul(&total, backend->panel_size, n * ES_CPU_N_PANELS))
        total = SIZE_MAX;
    es_status status = grow_floats(&backend->panels, total);
    return status == ES_OK ? grow_floats(&backend->sums, n * ES_PRODUCT_SCRATCH)
                           : status;
}

static es_status prepare(es_backend *backend, const es_extents *largest)
{
    size_t size = es_cpu_attention_scratch(backend, largest), total;
    if (largest->sees_all)
        size += es_cpu_whole_scratch(largest->n_ctx, largest->head_width);
    const size_t polynomial = es_cpu_polynomial_scratch(largest->n_ctx);
    size = size > polynomial ? size : polynomial;
    /* normed.c needs two doubles and two floats per column, as much space as 6
     * floats */
    size_t norms = 6 * (size_t)largest->width;
    size = size > norms ? size : norms;
    /* details.c needs the entropies of one head in all sequences, and the
     * histogram bin of each entropy */
    const size_t rows = 2 * (size_t)largest->n_rows + ALIGNMENT;
    size = (size > rows ? size : rows) + ALIGNMENT;
    size = size / ALIGNMENT * ALIGNMENT;
    if (!es_size_mul(&total, size, (size_t)backend->n_threads))
        total = SIZE_MAX;
    /* rotary embeddings rotate part of a head in Pythia, the whole head in
     * Llama */
    const int part = es_cpu_n_rotated(largest->head_width);
    const int n_rotated =
        part > largest->head_width ? part : largest->head_width;
    es_status status;
    if ((status = grow_floats(&backend->scratch, total)) < 0 ||
        (status = grow_floats(&backend->row_sums,
                              (size_t)largest->n_rows *
                                  (size_t)largest->n_head)) < 0 ||
        (status = grow_floats(&backend->turns, (size_t)largest->n_ctx *
                                                   (size_t)n_rotated)) < 0 ||
        (backend->bf16 && (status = prepare_bf16(backend, largest)) < 0))
        return status;
    backend->n_turns = largest->n_ctx;
    backend->n_rotated = 0;
    backend->scratch_size = size;
    return ES_OK;
}

static es_status reserve(es_backend *backend, es_mem **out, size_t bytes)
{
    (void)backend;
    *out = es_cpu_reserve(bytes, 1);
    if (!*out)
        return es_fail(ES_ENOMEM, "out of memory: the model needs %zu MiB more",
                       bytes >> 20);
    return ES_OK;
}

static void release(es_backend *backend, es_mem *memory)
{
    (void)backend;
    free(memory);
}

typedef struct zeroing {
    char *out;
    size_t bytes;
} zeroing;

static void zero_part(void *argument, es_share share)
{
    const zeroing *z = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, z->bytes, ALIGNMENT);
    if (first < end)
        memset(z->out + first, 0, end - first);
}

static void zero(es_backend *backend, es_mem *out, size_t bytes)
{
    zeroing z = {(char *)out, bytes};
    es_team_run(backend->team, zero_part, &z);
}

static void store_bytes(es_backend *backend, es_mem *out, const void *in,
                        size_t bytes)
{
    (void)backend;
    memcpy(out, in, bytes);
}

static void load_bytes(es_backend *backend, void *out, const es_mem *in,
                       size_t bytes)
{
    (void)backend;
    memcpy(out, in, bytes);
}

static const float *view(es_backend *backend, const es_mem *in, size_t n)
{
    if (!backend->bf16)
        return es_cpu_read(in);
    if (n > backend->n_viewed) {
        float *larger = es_resize(backend->viewed, n, sizeof *larger);
        if (!larger)
            return NULL;
        backend->viewed = larger;
        backend->n_viewed = n;
    }
    backend->kernels->widen(backend->viewed, es_cpu_halves(in), n);
    return backend->viewed;
}

#define ENTRY(name) .name = es_cpu_##name,

/* Returns how many rows of logits the loss processes at a time. For each block
 * of rows, the loss reads the whole vocabulary matrix, so small blocks are
 * slow. With GPT-2's vocabulary and 1,024 rows, blocks of 256 rows make a step
 * 2 to 4 % slower than a single block, and blocks of 512 rows are as fast as a
 * single block. */
static int loss_rows(int vocab)
{
    const int rows = (8 << 20) / vocab;
    return rows > 512 ? rows : 512;
}

/* The operations that do not depend on the precision. */
#define COMMON                                                                 \
    .name = "cpu", .close = close_backend, .n_threads = n_threads,             \
    .status = status_of, .prepare = prepare, .reserve = reserve,               \
    .release = release, .zero = zero, .store = store_bytes,                    \
    .load = load_bytes, .view = view, .loss_rows = loss_rows,                  \
    .details = &es_cpu_details, ES_CPU_OPERATIONS(ENTRY)

const es_ops es_cpu_ops = {.activation_size = sizeof(float),
                           .weighs_plain_scores = true,
                           .finds_peaks = true,
                           .open = open_backend,
                           .polynomial = &es_cpu_polynomial,
                           .emulate_fp16 = emulate_fp16,
                           COMMON};

const es_ops es_cpu_bf16_ops = {.activation_size = sizeof(es_bfloat),
                                .weighs_plain_scores = true,
                                .finds_peaks = true,
                                .open = open_bf16,
                                .keep = es_cpu_keep,
                                .refresh = es_cpu_refresh,
                                COMMON};
