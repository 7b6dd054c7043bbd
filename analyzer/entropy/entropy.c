/* Attention entropy, the fast forms: checks what a caller gives, chooses the
   kernels, cuts the rows into parts and gives them to threads. */
#include "analyzer/entropy/entropy_internal.h"

#include "analyzer/base/checked.h"
#include <pthread.h>
#include <stdatomic.h>

#define MOST_LENGTH (1 << 30)
#define MOST_THREADS 256
#define THREAD_WORK 1e5 /* multiplications that are worth a thread */

/* --- which kernels ----------------------------------------------------------
 */

const es_entropy_kernels *const *es_entropy_kernels_all(size_t *n)
{
    static const es_entropy_kernels *const all[] = {&es_entropy_kernels_avx512,
                                                    &es_entropy_kernels_avx2,
                                                    &es_entropy_kernels_plain};
    *n = sizeof all / sizeof all[0];
    return all;
}

const es_entropy_kernels *
es_entropy_kernels_choose(const es_entropy_kernels *const *sets, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (es_vectors_supported(sets[i]->needs) &&
            es_entropy_kernels_agree(sets[i]))
            return sets[i];
    return sets[n - 1];
}

static const es_entropy_kernels *chosen;

static void choose_once(void)
{
    size_t n;
    const es_entropy_kernels *const *all = es_entropy_kernels_all(&n);
    chosen = es_entropy_kernels_choose(all, n);
}

static const es_entropy_kernels *kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_once);
    return chosen;
}

const char *es_entropy_variant(void)
{
    return kernels()->name;
}

/* --- which keys -------------------------------------------------------------
 */

es_entropy_keys es_entropy_keys_all(const es_attention_shape *shape)
{
    return (es_entropy_keys){.n = shape->n_keys,
                             .causal = shape->causal,
                             .offset = shape->query_offset};
}

es_entropy_keys es_entropy_keys_masked(const es_attention_shape *shape,
                                       const unsigned char *mask, int *index,
                                       int *count)
{
    es_entropy_keys keys = es_entropy_keys_all(shape);
    int n_visible = 0;
    while (keys.n > 0 && !mask[keys.n - 1])
        keys.n--;
    while (keys.first < keys.n && !mask[keys.first])
        keys.first++;
    keys.n -= keys.first;
    keys.offset -= keys.first;
    for (int j = 0; j < keys.n; j++) {
        count[j] = n_visible;
        if (mask[keys.first + j])
            index[n_visible++] = j;
    }
    count[keys.n] = n_visible;
    if (n_visible < keys.n) {
        keys.mask = mask + keys.first;
        keys.index = index;
        keys.count = count;
    }
    return keys;
}

/* --- parts ------------------------------------------------------------------
 */

/** One call of a public function; what its threads share. */
typedef struct entropy_call {
    const es_entropy_kernels *set;
    const es_rows *rows;
    const es_entropy_input *in, *k; /* k: NULL for weights */
    const float *temperature;
    const es_attention_shape *shape;
    es_entropy_keys all, *masked; /* masked: (B), or NULL */
    int *places;                  /* of the keys in `masked` */
    /* A part is some rows of a head of one sequence. The cut does not depend
     * on the number of threads. */
    int parts_per_head;
    int64_t n_parts;
    float *scratch; /* (threads,scratch_size) */
    size_t scratch_size;
    _Atomic int64_t next_part;
    _Atomic int next_thread;
} entropy_call;

static es_rows rows_from(const es_rows *rows, size_t position)
{
    return (es_rows){
        .entropy = rows->entropy ? rows->entropy + position : NULL,
        .lse = rows->lse ? rows->lse + position : NULL,
        .max_logit = rows->max_logit ? rows->max_logit + position : NULL,
        .sink = rows->sink ? rows->sink + position : NULL,
        .nonfinite = rows->nonfinite ? rows->nonfinite + position : NULL};
}

static es_entropy_part part_at(const entropy_call *call, int64_t index)
{
    const es_attention_shape *shape = call->shape;
    const es_entropy_input *k = call->k;
    const int64_t head_index = index / call->parts_per_head;
    const int b = (int)(head_index / shape->n_heads);
    const int h = (int)(head_index % shape->n_heads);
    const size_t n_queries = (size_t)shape->n_queries;
    /* Long rows first: they are the last of a causal head. */
    const int first =
        (call->parts_per_head - 1 - (int)(index % call->parts_per_head)) *
        ES_QK_ROWS;
    const int left = shape->n_queries - first;
    es_entropy_part part = {
        .rows = rows_from(call->rows, (size_t)head_index * n_queries),
        .in = es_entropy_head(call->in, b, h),
        .in_row = call->in->strides.row,
        .in_head = call->in->strides.head,
        .keys = call->masked ? &call->masked[b] : &call->all,
        .n_queries = shape->n_queries,
        .width = shape->head_width,
        .first = first,
        .end = first + (left < ES_QK_ROWS ? left : ES_QK_ROWS)};
    if (!k) {
        part.in = es_numbers_from(part.in, part.keys->first);
        return part;
    }
    part.k =
        es_numbers_from(es_entropy_head(k, b, es_entropy_key_head(shape, h)),
                        part.keys->first * k->strides.row);
    part.k_row = k->strides.row;
    if (call->temperature)
        part.temperature = call->temperature + (size_t)h * n_queries;
    return part;
}

/** A part of heads too wide for the kernels. */
static void wide_rows(const es_entropy_part *part)
{
    for (int i = part->first; i < part->end; i++) {
        es_ref_row row = es_ref_row_qk(
            es_numbers_from(part->in, i * part->in_row), part->k, part->k_row,
            es_key_limit(part->keys, i), part->keys->mask, part->width,
            es_temperature(part->temperature, (size_t)i));
        es_rows_store(&part->rows, (size_t)i, &row, true);
    }
}

static void *work(void *argument)
{
    entropy_call *call = argument;
    const size_t thread = (size_t)atomic_fetch_add(&call->next_thread, 1);
    for (;;) {
        const int64_t index = atomic_fetch_add(&call->next_part, 1);
        if (index >= call->n_parts)
            return NULL;
        es_entropy_part part = part_at(call, index);
        if (!call->k)
            call->set->probs(&part);
        else if (call->scratch)
            call->set->qk(&part, call->scratch + thread * call->scratch_size);
        else
            wide_rows(&part);
    }
}

/* --- calls ------------------------------------------------------------------
 */

static es_status check_shape(const es_attention_shape *shape, bool from_qk)
{
    const int n_kv_heads = shape->n_kv_heads;
    if (shape->n_batch < 1 || shape->n_heads < 1 || shape->n_queries < 1 ||
        shape->n_keys < 1 || (from_qk && shape->head_width < 1))
        return es_fail(ES_EARGUMENT, "attention entropy: a size is below 1");
    if (shape->n_queries > MOST_LENGTH || shape->n_keys > MOST_LENGTH)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: %d queries, %d keys: %d at most",
                       shape->n_queries, shape->n_keys, MOST_LENGTH);
    if (shape->query_offset < -MOST_LENGTH || shape->query_offset > MOST_LENGTH)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: query offset %d: it is -%d to %d",
                       shape->query_offset, MOST_LENGTH, MOST_LENGTH);
    if (n_kv_heads < 0 || (n_kv_heads && shape->n_heads % n_kv_heads))
        return es_fail(ES_EARGUMENT,
                       "attention entropy: %d heads of keys do not divide %d "
                       "of queries",
                       n_kv_heads, shape->n_heads);
    return ES_OK;
}

static es_status read_masks(entropy_call *call)
{
    const es_attention_shape *shape = call->shape;
    const size_t n_batch = (size_t)shape->n_batch;
    const size_t n_keys = (size_t)shape->n_keys, each = 2 * n_keys + 1;
    es_status status;
    if ((status = es_alloc(&call->masked, n_batch, sizeof *call->masked,
                           "masks of attention")) < 0 ||
        (status = es_alloc(&call->places, n_batch, each * sizeof *call->places,
                           "masks of attention")) < 0)
        return status;
    for (size_t b = 0; b < n_batch; b++)
        call->masked[b] = es_entropy_keys_masked(
            shape, shape->key_mask + b * n_keys, call->places + b * each,
            call->places + b * each + n_keys);
    return ES_OK;
}

size_t es_qk_scratch(const es_attention_shape *shape)
{
    size_t width = (size_t)shape->head_width;
    size_t keys = (size_t)es_qk_block(shape->n_keys, shape->head_width) * width;
    size_t queries = 16 * (size_t)es_qk_query_row(shape->head_width);
    return keys + queries + 16 * ES_QK_CHUNK + 5 * ES_QK_ROWS;
}

static es_status make_scratch(entropy_call *call, int n_threads)
{
    size_t bytes;
    if (!call->k || call->shape->head_width > ES_QK_WIDTH_MAX)
        return ES_OK;
    call->scratch_size = (es_qk_scratch(call->shape) + 15) / 16 * 16;
    if (!es_size_mul(&bytes, (size_t)n_threads,
                     call->scratch_size * sizeof *call->scratch) ||
        !(call->scratch = aligned_alloc(64, bytes)))
        return es_fail(ES_ENOMEM,
                       "out of memory: %d x %zu floats for attention entropy",
                       n_threads, call->scratch_size);
    return ES_OK;
}

/** How many threads to use: no more than there are parts, and each with
 *  something to do. */
static int threads_for(const entropy_call *call, int n_threads)
{
    const es_attention_shape *shape = call->shape;
    const double weights = (double)shape->n_batch * shape->n_heads *
                           (double)shape->n_queries * shape->n_keys;
    const double worth =
        1 + weights * (call->k ? shape->head_width : 1) / THREAD_WORK;
    int n = n_threads > 0 ? n_threads : es_count_processors();
    n = n < MOST_THREADS ? n : MOST_THREADS;
    n = call->n_parts < n ? (int)call->n_parts : n;
    return worth < n ? (int)worth : n;
}

/** Works with n_threads threads, this one among them; with fewer where the
 *  system gives no more. */
static void run_threads(entropy_call *call, int n_threads)
{
    pthread_t threads[MOST_THREADS];
    int n = 0;
    while (n < n_threads - 1 &&
           pthread_create(&threads[n], NULL, work, call) == 0)
        n++;
    work(call);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

es_status es_entropy_with(const es_entropy_kernels *set, const es_rows *rows,
                          const es_entropy_input *in, const es_entropy_input *k,
                          const float *temperature,
                          const es_attention_shape *shape, int n_threads)
{
    entropy_call call = {.set = set,
                         .rows = rows,
                         .in = in,
                         .k = k,
                         .temperature = temperature,
                         .shape = shape};
    es_status status;
    if ((status = check_shape(shape, k)) < 0)
        return status;
    call.all = es_entropy_keys_all(shape);
    call.parts_per_head = (shape->n_queries - 1) / ES_QK_ROWS + 1;
    call.n_parts =
        (int64_t)shape->n_batch * shape->n_heads * call.parts_per_head;
    n_threads = threads_for(&call, n_threads);
    if ((shape->key_mask && (status = read_masks(&call)) < 0) ||
        (status = make_scratch(&call, n_threads)) < 0)
        goto done;
    run_threads(&call, n_threads);
done:
    free(call.scratch);
    free(call.places);
    free(call.masked);
    return status;
}

/* A caller's struct, which begins with its size: one of an older header has
   fewer members, one of a newer header has to leave the additional ones 0. */
static es_status take_struct(void *out, size_t size, const void *from,
                             const char *name)
{
    size_t given;
    const unsigned char *bytes = from;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given || given > 4096)
        return es_fail(ES_EARGUMENT, "%s: size is %zu: set it to sizeof (%s)",
                       name, given, name);
    for (size_t i = size; i < given; i++)
        if (bytes[i])
            return es_fail(ES_EARGUMENT,
                           "%s: a member is set that this library does not "
                           "have: it takes a newer libentropyscan",
                           name);
    memset(out, 0, size);
    memcpy(out, from, given < size ? given : size);
    return ES_OK;
}

es_status es_entropy_probs(const es_rows *rows, const es_entropy_input *att,
                           const es_attention_shape *shape, int n_threads)
{
    es_rows out;
    es_attention_shape taken;
    es_status status;
    if ((status = take_struct(&out, sizeof out, rows, "es_rows")) < 0 ||
        (status = take_struct(&taken, sizeof taken, shape,
                              "es_attention_shape")) < 0)
        return status;
    return es_entropy_with(kernels(), &out, att, NULL, NULL, &taken, n_threads);
}

/* What es_qk_statistics does not do so far. */
static const char *unsupported(const es_rows *rows, const es_heads *heads,
                               const es_entropy_input *q,
                               const es_entropy_input *k,
                               const es_attention_shape *shape)
{
    return heads ? "es_heads"
           : rows->missing || rows->distance || rows->top
               ? "missing, distance and top"
           : q->type == ES_ENTROPY_F16 || k->type == ES_ENTROPY_F16 ? "float16"
           : shape->query_mask || shape->key_lengths || shape->query_offsets
               ? "query_mask, key_lengths and query_offsets"
           : shape->query_starts || shape->key_starts ? "packed sequences"
           : shape->window != 0                       ? "window"
           : shape->scale != 0 || shape->softcap != 0 ? "scale and softcap"
           : shape->sink_logits                       ? "sink_logits"
           : shape->time_limit != 0                   ? "time_limit"
                                                      : NULL;
}

es_status es_qk_statistics(const es_rows *rows, const es_heads *heads,
                           const es_entropy_input *q, const es_entropy_input *k,
                           const es_attention_shape *shape, int n_threads)
{
    es_rows out = {.size = sizeof out};
    es_attention_shape taken;
    es_status status;
    if ((rows &&
         (status = take_struct(&out, sizeof out, rows, "es_rows")) < 0) ||
        (status = take_struct(&taken, sizeof taken, shape,
                              "es_attention_shape")) < 0)
        return status;
    const char *name = unsupported(&out, heads, q, k, &taken);
    if (name)
        return es_fail(ES_EARGUMENT, "attention statistics: %s: not yet", name);
    return es_entropy_with(kernels(), &out, q, k, taken.temperature, &taken,
                           n_threads);
}
