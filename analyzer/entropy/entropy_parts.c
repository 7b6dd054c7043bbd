/* Executes one call of attention entropy: determines the rows and keys of each
   sequence, splits them into parts, runs the kernels on the parts and reduces
   the results. The split does not depend on the number of threads, so neither
   do the results. */
#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy_internal.h"

#include <stdatomic.h>

#define MOST_THREADS 256
/* Number of multiplications that make another thread worthwhile. */
#define THREAD_WORK 1e5

/** The rows and keys of one sequence, and their positions in the arrays. */
typedef struct sequence {
    es_entropy_keys keys;
    int n_queries;
    size_t row;     /* index in the output arrays of row 0 of head 0 */
    size_t setting; /* index of row 0 in the array of temperatures of a head */
    ptrdiff_t in, k;
    const unsigned char *query_mask;
    int parts_per_head;
    int64_t first_part;
} sequence;

/**
 * Sums over the rows of one part, which are later added to the sums of the
 * part's head.
 */
typedef struct part_result {
    es_head_sums share;
    bool is_done;
} part_result;

typedef struct entropy_call {
    const es_entropy_kernels *set;
    const es_rows *rows;
    const es_entropy_input *in, *k; /* in: weights or queries; k: keys, or
                                       NULL with weights */
    const es_attention_shape *shape;
    sequence *sequences; /* (B) */
    int *places;         /* arrays of es_entropy_keys for masked keys */
    int64_t n_parts;
    part_result *results; /* (n_parts), or NULL if no statistics of heads are
                             requested */
    float *scratch;       /* (threads,scratch_size) floats of scratch for the
                             kernels */
    size_t scratch_size, kernel_size;
    bool needs[ES_N_ROW_STATISTICS]; /* statistics of rows that the requested
                                        head statistics need */
    double deadline;                 /* 0: no limit */
    int n_threads;
    _Atomic int64_t next_part;
    _Atomic int next_thread;
    _Atomic bool is_late;
} entropy_call;

/* --- sequences --------------------------------------------------------------
 */

void es_entropy_keys_mask(es_entropy_keys *keys, const unsigned char *mask,
                          int *index, int *count)
{
    int n_visible = 0;
    while (keys->n > 0 && !mask[keys->n - 1])
        keys->n--;
    while (keys->first < keys->n && !mask[keys->first])
        keys->first++;
    keys->n -= keys->first;
    keys->offset -= keys->first;
    for (int j = 0; j < keys->n; j++) {
        count[j] = n_visible;
        if (mask[keys->first + j])
            index[n_visible++] = j;
    }
    count[keys->n] = n_visible;
    if (n_visible < keys->n) {
        keys->mask = mask + keys->first;
        keys->index = index;
        keys->count = count;
    }
}

/** Applies the key mask and the key lengths to the keys of sequence b. */
static void hide_keys(const entropy_call *call, int b, int first_key)
{
    const es_attention_shape *shape = call->shape;
    es_entropy_keys *keys = &call->sequences[b].keys;
    const size_t n_keys = (size_t)shape->n_keys;
    const size_t lead =
        shape->query_starts ? (size_t)first_key : (size_t)b * n_keys;
    int *index;
    if (shape->key_lengths && shape->key_lengths[b] < keys->n)
        keys->n = shape->key_lengths[b];
    if (!shape->key_mask)
        return;
    /* Each sequence needs an array of n and an array of n + 1 numbers. */
    index = call->places + 2 * lead + b;
    es_entropy_keys_mask(keys, shape->key_mask + lead, index, index + keys->n);
}

static void make_sequence(const entropy_call *call, int b)
{
    const es_attention_shape *shape = call->shape;
    const int32_t *starts = shape->query_starts;
    const int32_t *key_starts = shape->key_starts ? shape->key_starts : starts;
    const size_t n_queries = (size_t)shape->n_queries;
    const int first = starts ? starts[b] : 0;
    const int first_key = starts ? key_starts[b] : 0;
    sequence *out = &call->sequences[b];
    *out = (sequence){
        .keys = {.n = starts ? key_starts[b + 1] - first_key : shape->n_keys,
                 .causal = shape->causal,
                 .offset = shape->query_offsets ? shape->query_offsets[b]
                                                : shape->query_offset,
                 .window = shape->window},
        .n_queries = starts ? starts[b + 1] - first : shape->n_queries,
        .row = starts ? (size_t)first
                      : (size_t)b * (size_t)shape->n_heads * n_queries,
        .setting = (size_t)first,
        .in = starts ? first * call->in->strides.row
                     : b * call->in->strides.batch};
    if (shape->query_mask)
        out->query_mask =
            shape->query_mask + (starts ? out->row : (size_t)b * n_queries);
    hide_keys(call, b, first_key);
    if (call->k)
        out->k = (starts ? 0 : b * call->k->strides.batch) +
                 (first_key + out->keys.first) * call->k->strides.row;
    else
        out->in += out->keys.first;
    out->parts_per_head = (out->n_queries + ES_QK_ROWS - 1) / ES_QK_ROWS;
}

static es_status make_sequences(entropy_call *call)
{
    const es_attention_shape *shape = call->shape;
    const size_t n_batch = (size_t)shape->n_batch;
    const size_t n_keys =
        (size_t)shape->n_keys * (shape->query_starts ? 1 : n_batch);
    es_status status;
    if ((status = es_alloc(&call->sequences, n_batch, sizeof *call->sequences,
                           "sequences of attention")) < 0 ||
        (shape->key_mask &&
         (status = es_alloc(&call->places, 2 * n_keys + n_batch,
                            sizeof *call->places, "masks of attention")) < 0))
        return status;
    for (int b = 0; b < shape->n_batch; b++) {
        make_sequence(call, b);
        call->sequences[b].first_part = call->n_parts;
        call->n_parts +=
            (int64_t)call->sequences[b].parts_per_head * shape->n_heads;
    }
    return ES_OK;
}

/**
 * Returns the distance between the outputs of consecutive heads of a sequence.
 */
static size_t rows_of_head(const entropy_call *call)
{
    return (size_t)call->shape->n_queries;
}

/* --- parts ------------------------------------------------------------------
 */

static const sequence *sequence_of(const entropy_call *call, int64_t part)
{
    int low = 0, high = call->shape->n_batch;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (call->sequences[middle].first_part <= part)
            low = middle;
        else
            high = middle;
    }
    return &call->sequences[low];
}

/** Returns the head of keys that a head of queries uses. */
static int key_head(const es_attention_shape *shape, int head)
{
    return shape->n_kv_heads ? head / (shape->n_heads / shape->n_kv_heads)
                             : head;
}

static es_numbers numbers_at(const es_entropy_input *input, ptrdiff_t position)
{
    return es_numbers_from((es_numbers){input->data, input->type}, position);
}

static es_entropy_part part_at(const entropy_call *call, int64_t index)
{
    const es_attention_shape *shape = call->shape;
    const sequence *s = sequence_of(call, index);
    const int rest = (int)(index - s->first_part);
    const int h = rest / s->parts_per_head;
    /* Start with the rows that see most keys, which are the last rows of a
     * causal head. */
    const int first =
        (s->parts_per_head - 1 - rest % s->parts_per_head) * ES_QK_ROWS;
    const int left = s->n_queries - first;
    es_entropy_part part = {
        .rows = es_rows_from(call->rows, s->row + (size_t)first +
                                             (size_t)h * rows_of_head(call)),
        .in = numbers_at(call->in, s->in + h * call->in->strides.head),
        .in_row = call->in->strides.row,
        .in_head = call->in->strides.head,
        .query_mask = s->query_mask,
        .keys = &s->keys,
        .n_queries = s->n_queries,
        .width = shape->head_width,
        .first = first,
        .end = first + (left < ES_QK_ROWS ? left : ES_QK_ROWS),
        .deadline = call->deadline};
    if (!call->k)
        return part;
    part.k =
        numbers_at(call->k, s->k + key_head(shape, h) * call->k->strides.head);
    part.k_row = call->k->strides.row;
    part.scale = shape->scale > 0 ? shape->scale : 1 / sqrt(shape->head_width);
    part.softcap = shape->softcap;
    if (shape->sink_logits)
        part.sink_logit = shape->sink_logits + h;
    if (shape->temperature)
        part.temperature =
            shape->temperature + (size_t)h * rows_of_head(call) + s->setting;
    return part;
}

/**
 * Some row statistics are needed for the statistics of heads although the
 * caller has not requested them. Sets their pointers in `rows` to scratch
 * memory.
 */
static void add_rows(const entropy_call *call, es_rows *rows, float *from)
{
    float **const arrays[ES_N_ROW_STATISTICS] = {
        [ES_ROW_ENTROPY] = &rows->entropy,
        [ES_ROW_MAX_LOGIT] = &rows->max_logit,
        [ES_ROW_SINK] = &rows->sink,
        [ES_ROW_MISSING] = &rows->missing,
        [ES_ROW_DISTANCE] = &rows->distance,
        [ES_ROW_TOP] = &rows->top};
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (call->needs[i] && arrays[i] && !*arrays[i])
            *arrays[i] = from + i * ES_QK_ROWS;
    if (call->needs[ES_ROW_NONFINITE] && !rows->nonfinite)
        rows->nonfinite =
            (int32_t *)(void *)(from + ES_ROW_NONFINITE * (size_t)ES_QK_ROWS);
}

static void store_unseen(const es_rows *rows, size_t position, bool from_qk)
{
    const es_ref_row row = es_ref_row_nonfinite(0);
    es_rows_store(rows, position, &row, from_qk);
}

static void hide_rows(const es_entropy_part *part)
{
    for (int i = part->first; part->query_mask && i < part->end; i++)
        if (!es_is_wanted(part, i))
            store_unseen(&part->rows, (size_t)(i - part->first), true);
}

static bool is_late(entropy_call *call)
{
    if (call->deadline > 0 && !atomic_load(&call->is_late) &&
        es_entropy_now() > call->deadline)
        atomic_store(&call->is_late, true);
    return atomic_load(&call->is_late);
}

/**
 * Stores the part that this thread is likely to process next, for prefetching.
 */
static void note_next(const entropy_call *call, es_entropy_part *part,
                      int64_t index)
{
    const int64_t next_index = index + call->n_threads;
    if (next_index >= call->n_parts)
        return;
    const es_entropy_part next = part_at(call, next_index);
    part->next_in =
        es_numbers_from(next.in, (ptrdiff_t)next.first * next.in_row);
    part->next_k = next.k;
}

static void leave_part(const entropy_call *call, const es_entropy_part *part)
{
    for (int i = part->first; i < part->end; i++)
        store_unseen(&part->rows, (size_t)(i - part->first), call->k);
}

static void run_kernel(const entropy_call *call, es_entropy_part *part,
                       int64_t index, float *scratch)
{
    if (!call->k)
        call->set->probs(part);
    else if (part->width > ES_QK_WIDTH_MAX)
        es_entropy_kernels_reference.qk(part, NULL);
    else {
        note_next(call, part, index);
        call->set->qk(part, scratch);
    }
}

static void do_part(entropy_call *call, int64_t index, float *scratch)
{
    es_entropy_part part = part_at(call, index);
    if (is_late(call)) {
        leave_part(call, &part);
        return;
    }
    if (call->results)
        add_rows(call, &part.rows, scratch + call->kernel_size);
    run_kernel(call, &part, index, scratch);
    if (is_late(call)) {
        leave_part(call, &part);
        return;
    }
    hide_rows(&part);
    if (call->results)
        call->results[index] = (part_result){
            es_rows_share(&part.rows, (size_t)(part.end - part.first)), true};
}

static void work(void *argument)
{
    entropy_call *call = argument;
    const size_t thread = (size_t)atomic_fetch_add(&call->next_thread, 1);
    float *scratch =
        call->scratch ? call->scratch + thread * call->scratch_size : NULL;
    int64_t index;
    while ((index = atomic_fetch_add(&call->next_part, 1)) < call->n_parts)
        do_part(call, index, scratch);
}

/* --- heads ------------------------------------------------------------------
 */

/**
 * Adds the sums of one sequence's parts to the sums of a head. Returns false if
 * a part was not computed because of the time limit.
 */
static bool add_sequence(es_head_sums *sums, const entropy_call *call,
                         const sequence *s, int head)
{
    const part_result *parts =
        call->results + s->first_part + (int64_t)head * s->parts_per_head;
    if (s->parts_per_head == 0)
        return true;
    es_head_sums whole = parts[0].share;
    bool is_done = parts[0].is_done;
    for (int p = 1; p < s->parts_per_head; p++) {
        is_done = is_done && parts[p].is_done;
        whole.finite_rows += parts[p].share.finite_rows;
        for (int i = 0; i < ES_N_HEAD_SERIES; i++)
            whole.values[i] = es_head_share_merge(
                whole.values[i], parts[p].share.values[i], (es_head_series)i);
    }
    es_heads_add(sums, &whole);
    return is_done;
}

static void finish_heads(const entropy_call *call, const es_heads *heads)
{
    for (int h = 0; h < call->shape->n_heads; h++) {
        es_head_sums sums = es_head_sums_start();
        bool is_done = true;
        for (int b = 0; b < call->shape->n_batch; b++)
            is_done =
                add_sequence(&sums, call, &call->sequences[b], h) && is_done;
        if (!is_done)
            sums = es_head_sums_start();
        es_heads_store(heads, h, &sums);
    }
}

/** Determines the row statistics that the requested head statistics need. */
static void note_needs(entropy_call *call, const es_heads *heads)
{
    call->needs[ES_ROW_ENTROPY] = true;
    call->needs[ES_ROW_MAX_LOGIT] = heads->max_logit;
    call->needs[ES_ROW_SINK] = heads->sink;
    call->needs[ES_ROW_MISSING] = heads->missing;
    call->needs[ES_ROW_DISTANCE] = heads->distance;
    call->needs[ES_ROW_TOP] = heads->top;
    call->needs[ES_ROW_NONFINITE] = heads->nonfinite_weights;
}

/* --- calls ------------------------------------------------------------------
 */

size_t es_qk_scratch(const es_attention_shape *shape)
{
    const int width = shape->head_width;
    return es_qk_packed(es_qk_block(shape->n_keys, width), width) +
           es_qk_packed(32, width) + 33 * ES_QK_CHUNK +
           ES_QK_ROW_FLOATS * ES_QK_ROWS +
           2 * (16 * ES_QK_CHUNK + ES_QK_ROW_DOUBLES * ES_QK_ROWS);
}

static es_status make_scratch(entropy_call *call, int n_threads)
{
    size_t bytes;
    if (call->k && call->shape->head_width <= ES_QK_WIDTH_MAX)
        call->kernel_size = (es_qk_scratch(call->shape) + 15) / 16 * 16;
    call->scratch_size =
        call->kernel_size +
        (call->results ? (size_t)ES_N_ROW_STATISTICS * ES_QK_ROWS : 0);
    if (call->scratch_size == 0)
        return ES_OK;
    if (!es_size_mul(&bytes, (size_t)n_threads,
                     call->scratch_size * sizeof *call->scratch) ||
        !(call->scratch = aligned_alloc(64, bytes)))
        return es_fail(ES_ENOMEM,
                       "out of memory: %d x %zu floats for attention entropy",
                       n_threads, call->scratch_size);
    return ES_OK;
}

/**
 * Returns the number of threads to use: at most one per part, and so few that
 * each thread has enough work.
 */
static int threads_for(const entropy_call *call, int n_threads)
{
    const es_attention_shape *shape = call->shape;
    double worth = 1;
    for (int b = 0; b < shape->n_batch; b++) {
        const sequence *s = &call->sequences[b];
        worth += (double)s->n_queries * s->keys.n * shape->n_heads *
                 (call->k ? shape->head_width : 1) / THREAD_WORK;
    }
    int n = n_threads > 0 ? n_threads : es_count_processors();
    n = n < MOST_THREADS ? n : MOST_THREADS;
    n = call->n_parts < n ? (int)call->n_parts : n;
    return worth < n ? (int)worth : n;
}

/**
 * Marks packed rows after the last sequence, which belong to no sequence, as
 * missing.
 */
static void hide_surplus(const entropy_call *call)
{
    const es_attention_shape *shape = call->shape;
    if (!shape->query_starts)
        return;
    for (int h = 0; h < shape->n_heads; h++)
        for (int i = shape->query_starts[shape->n_batch]; i < shape->n_queries;
             i++)
            store_unseen(call->rows, (size_t)h * rows_of_head(call) + (size_t)i,
                         true);
}

es_status es_entropy_with(const es_entropy_kernels *set, const es_rows *rows,
                          const es_heads *heads, const es_entropy_input *in,
                          const es_entropy_input *k,
                          const es_attention_shape *shape, int n_threads)
{
    entropy_call call = {
        .set = set, .rows = rows, .in = in, .k = k, .shape = shape};
    es_status status;
    if (shape->time_limit > 0)
        call.deadline = es_entropy_now() + shape->time_limit;
    if (heads)
        note_needs(&call, heads);
    if ((status = make_sequences(&call)) < 0 ||
        (heads &&
         (status = es_alloc(&call.results, (size_t)call.n_parts,
                            sizeof *call.results, "heads of attention")) < 0))
        goto done;
    call.n_threads = threads_for(&call, n_threads);
    if ((status = make_scratch(&call, call.n_threads)) < 0)
        goto done;
    es_entropy_threads(work, &call, call.n_threads);
    hide_surplus(&call);
    if (heads)
        finish_heads(&call, heads);
    status = atomic_load(&call.is_late) ? ES_DONE : ES_OK;
done:
    free(call.scratch);
    free(call.results);
    free(call.places);
    free(call.sequences);
    return status;
}
