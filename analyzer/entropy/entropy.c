/* The fast forms: which kernels, which parts, which threads. */
#include "analyzer/entropy/entropy_internal.h"

#include "analyzer/base/checked.h"
#include <assert.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>

bool es_vectors_supported(es_vectors vectors)
{
    if (vectors == ES_VECTORS_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (vectors == ES_VECTORS_AVX512)
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    return true;
}

const es_kernels *const *es_kernels_all(size_t *n)
{
    static const es_kernels *const all[] = {
        &es_kernels_avx512, &es_kernels_avx2, &es_kernels_plain};
    *n = sizeof all / sizeof all[0];
    return all;
}

const es_kernels *es_kernels_choose(const es_kernels *const *sets, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (es_vectors_supported(sets[i]->needs) && es_kernels_agree(sets[i]))
            return sets[i];
    return sets[n - 1];
}

static const es_kernels *chosen;

static void choose_once(void)
{
    size_t n;
    const es_kernels *const *all = es_kernels_all(&n);
    chosen = es_kernels_choose(all, n);
}

static const es_kernels *kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_once);
    return chosen;
}

const char *es_entropy_variant(void)
{
    return kernels()->name;
}

/** A head of one sequence and some of its rows: what one thread does at a
 *  time. The cut does not depend on the number of threads. */
typedef struct parts {
    int rows; /* of a part, at most */
    int per_head;
    int64_t n;
} parts;

static parts cut(const es_attention_shape *shape)
{
    parts out = {.rows = ES_QK_ROWS};
    out.per_head = (shape->n_queries - 1) / out.rows + 1;
    out.n = (int64_t)shape->n_batch * shape->n_heads * out.per_head;
    return out;
}

/** Where a part lies. */
typedef struct place {
    int b, h, first, end;
    size_t row; /* row 0 of the head within (B,H,T) */
} place;

static place locate(const parts *all, const es_attention_shape *shape,
                    int64_t index)
{
    /* Long rows first: they are the last of a causal head. */
    int part = all->per_head - 1 - (int)(index % all->per_head);
    int64_t head = index / all->per_head;
    place out = {.b = (int)(head / shape->n_heads),
                 .h = (int)(head % shape->n_heads),
                 .first = part * all->rows,
                 .row = (size_t)head * (size_t)shape->n_queries};
    int left = shape->n_queries - out.first;
    out.end = out.first + (left < all->rows ? left : all->rows);
    return out;
}

static es_rows rows_from(const es_rows *rows, size_t at)
{
    return (es_rows){.entropy = rows->entropy ? rows->entropy + at : NULL,
                     .lse = rows->lse ? rows->lse + at : NULL,
                     .max_logit = rows->max_logit ? rows->max_logit + at : NULL,
                     .sink = rows->sink ? rows->sink + at : NULL,
                     .nonfinite =
                         rows->nonfinite ? rows->nonfinite + at : NULL};
}

static int threads_for(int n_threads, int64_t n_parts)
{
    int n = n_threads > 0 ? n_threads : omp_get_num_procs();
    return n_parts < n ? (int)n_parts : n;
}

void es_entropy_probs_with(const es_kernels *set, const es_rows *rows,
                           const float *att, const es_attention_shape *shape,
                           int n_threads)
{
    if (!es_shape_has_rows(shape))
        return;
    parts all = cut(shape);
#pragma omp parallel for schedule(dynamic)                                     \
    num_threads(threads_for(n_threads, all.n))
    for (int64_t p = 0; p < all.n; p++) {
        place at = locate(&all, shape, p);
        es_probs_part part = {.rows = rows_from(rows, at.row),
                              .att = att + at.row * (size_t)shape->n_keys,
                              .shape = shape,
                              .first = at.first,
                              .end = at.end};
        set->probs(&part);
    }
}

void es_entropy_probs(const es_rows *rows, const float *att,
                      const es_attention_shape *shape, int n_threads)
{
    es_entropy_probs_with(kernels(), rows, att, shape, n_threads);
}

/** All of a call to es_entropy_qk. */
typedef struct qk_call {
    const es_rows *rows;
    const float *q, *k, *temperature;
    es_strides q_at, k_at;
    const es_attention_shape *shape;
} qk_call;

static es_qk_part qk_part(const qk_call *call, const place *at)
{
    size_t n_queries = (size_t)call->shape->n_queries;
    return (es_qk_part){
        .rows = rows_from(call->rows, at->row),
        .q = call->q + at->b * call->q_at.batch + at->h * call->q_at.head,
        .k = call->k + at->b * call->k_at.batch + at->h * call->k_at.head,
        .q_row = call->q_at.row,
        .k_row = call->k_at.row,
        .temperature = call->temperature
                           ? call->temperature + (size_t)at->h * n_queries
                           : NULL,
        .shape = call->shape,
        .first = at->first,
        .end = at->end};
}

/** A part of heads too wide for the kernels. */
static void wide_rows(const es_qk_part *part)
{
    for (int i = part->first; i < part->end; i++) {
        es_ref_row row = es_ref_row_qk(
            part->q + i * part->q_row, part->k, part->k_row,
            es_visible_keys(part->shape, i), part->shape->head_width,
            es_temperature(part->temperature, (size_t)i));
        es_rows_store(&part->rows, (size_t)i, &row, true);
    }
}

size_t es_qk_scratch(const es_attention_shape *shape)
{
    size_t width = (size_t)shape->head_width;
    size_t keys = (size_t)es_qk_block(shape) * width;
    size_t queries = 16 * (size_t)es_qk_query_row(shape->head_width);
    return keys + queries + 16 * ES_QK_CHUNK + 5 * ES_QK_ROWS;
}

static void qk_parts(const es_kernels *set, const qk_call *call,
                     const parts *all, float *scratch, size_t scratch_size,
                     int n_threads)
{
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t p = 0; p < all->n; p++) {
        place at = locate(all, call->shape, p);
        es_qk_part part = qk_part(call, &at);
        size_t thread = (size_t)omp_get_thread_num();
        if (scratch)
            set->qk(&part, scratch + thread * scratch_size);
        else
            wide_rows(&part);
    }
}

es_status es_entropy_qk_with(const es_kernels *set, const es_rows *rows,
                             const float *q, es_strides q_at, const float *k,
                             es_strides k_at, const float *temperature,
                             const es_attention_shape *shape, int n_threads)
{
    qk_call call = {rows, q, k, temperature, q_at, k_at, shape};
    if (!es_shape_has_rows(shape) || shape->head_width < 1)
        return es_fail(ES_EARGUMENT, "attention entropy: a size is below 1");
    parts all = cut(shape);
    float *scratch = NULL;
    size_t size = 0, bytes;
    n_threads = threads_for(n_threads, all.n);
    if (shape->head_width <= ES_QK_WIDTH_MAX) {
        size = es_qk_scratch(shape);
        if (!es_size_mul(&bytes, (size_t)n_threads, size * sizeof *scratch) ||
            !(scratch = aligned_alloc(64, bytes)))
            return es_fail(ES_ENOMEM,
                           "attention entropy: no memory for %zu"
                           " floats of scratch",
                           size);
    }
    qk_parts(set, &call, &all, scratch, size, n_threads);
    free(scratch);
    return ES_OK;
}

es_status es_entropy_qk(const es_rows *rows, const float *q, es_strides q_at,
                        const float *k, es_strides k_at,
                        const float *temperature,
                        const es_attention_shape *shape, int n_threads)
{
    return es_entropy_qk_with(kernels(), rows, q, q_at, k, k_at, temperature,
                              shape, n_threads);
}
