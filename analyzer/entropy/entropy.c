/* Computes attention entropy for callers of the library. The file begins with
   the reference, which computes rows in double precision: kernels are compared
   with it before their first use, and call it for non-finite rows and for heads
   that are too wide. A call checks the arguments, determines the rows and keys
   of each sequence, splits them into parts, runs the kernels on the parts and
   reduces the results to heads. The split does not depend on the number of
   threads, so neither do the results. */
#include "analyzer/base/checked.h"
#include "analyzer/base/sized.h"
#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy_internal.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define LOG_EPSILON 1e-9 /* epsilon inside the logarithm (AERO, eq. 10) */
#define MOST_LENGTH (1 << 30)
#define MOST_THREADS 256
/* Number of multiplications for which an additional thread pays off. */
#define THREAD_WORK 1e5

/* --- rows in double precision --------------------------------------------- */

/** Returns -a ln(a + 1e-9), one summand of a row's entropy. */
static double surprise(double a)
{
    return -a * log(a + LOG_EPSILON);
}

static bool is_visible(const unsigned char *mask, int j)
{
    return !mask || mask[j];
}

static int count_visible(const unsigned char *mask, int n)
{
    int count = 0;
    for (int j = 0; mask && j < n; j++)
        count += mask[j] != 0;
    return mask ? count : n;
}

es_ref_row es_ref_row_nonfinite(int count)
{
    es_ref_row row = {.nonfinite = count, .unseen = count == 0};
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        row.values[i] = NAN;
    return row;
}

es_ref_row es_ref_row_probs(es_numbers att, int n, const unsigned char *mask)
{
    es_ref_row row = {.nonfinite = 0};
    int count = 0, first = -1;
    for (int j = 0; j < n; j++) {
        if (!is_visible(mask, j))
            continue;
        first = first < 0 ? j : first;
        count += !isfinite(es_number(att, j));
    }
    if (count || first < 0)
        return es_ref_row_nonfinite(count);
    for (int j = first; j < n; j++)
        if (is_visible(mask, j))
            row.values[ES_ROW_ENTROPY] += surprise((double)es_number(att, j));
    row.values[ES_ROW_SINK] = (double)es_number(att, first);
    return row;
}

/** Returns false for NaN, infinity and numbers that overflow a float32. */
static bool fits_float(double x)
{
    return fabs(x) <= (double)FLT_MAX;
}

static double dot(es_numbers a, es_numbers b, int n)
{
    double sum = 0;
    for (int c = 0; c < n; c++)
        sum += (double)es_number(a, c) * (double)es_number(b, c);
    return sum;
}

static double score_key(const es_ref_query *x, int j)
{
    const double product =
        x->scale * dot(x->q, es_numbers_from(x->k, j * x->k_row), x->width);
    return x->softcap > 0 ? x->softcap * tanh(product / x->softcap) : product;
}

static bool has_odd_product(const es_ref_query *x)
{
    for (int j = x->start; j < x->n; j++)
        if (is_visible(x->mask, j) &&
            !fits_float(
                dot(x->q, es_numbers_from(x->k, j * x->k_row), x->width)))
            return true;
    return false;
}

/**
 * Returns the largest score of the row. Sets *sum to the sum of exp(score -
 * largest score) over the row.
 */
static double top_of(const es_ref_query *x, double *sum)
{
    double top = -INFINITY;
    *sum = 0;
    for (int j = x->start; j < x->n; j++)
        if (is_visible(x->mask, j))
            top = fmax(top, score_key(x, j));
    for (int j = x->start; j < x->n; j++)
        if (is_visible(x->mask, j))
            *sum += exp(score_key(x, j) - top);
    return top;
}

es_ref_row es_ref_row_qk(const es_ref_query *x)
{
    const int n_visible =
        count_visible(x->mask, x->n) - count_visible(x->mask, x->start);
    double sum;
    const double top = top_of(x, &sum);
    if (has_odd_product(x) || isnan(x->scale) || !fits_float(top) ||
        (x->sink_logit && !(*x->sink_logit < INFINITY)))
        return es_ref_row_nonfinite(n_visible);
    es_ref_row row = {.values = {[ES_ROW_LSE] = top + log(sum),
                                 [ES_ROW_MAX_LOGIT] = top,
                                 [ES_ROW_TOP] = 1 / sum}};
    double *const values = row.values;
    int sink = 0;
    while (!is_visible(x->mask, sink))
        sink++;
    for (int j = x->start; j < x->n; j++) {
        if (!is_visible(x->mask, j))
            continue;
        const double weight = exp(score_key(x, j) - top) / sum;
        values[ES_ROW_ENTROPY] += surprise(weight);
        values[ES_ROW_DISTANCE] += weight * fabs(x->position - j);
        if (j == sink)
            values[ES_ROW_SINK] = weight;
    }
    if (x->sink_logit)
        values[ES_ROW_MISSING] =
            1 / (1 + exp(values[ES_ROW_LSE] - (double)*x->sink_logit));
    return row;
}

float es_temperature(const float *temperature, size_t position)
{
    if (!temperature)
        return 1;
    return temperature[position] < ES_TEMPERATURE_FLOOR ? ES_TEMPERATURE_FLOOR
                                                        : temperature[position];
}

void es_rows_store(const es_row_arrays *rows, size_t position,
                   const es_ref_row *row)
{
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (rows->floats[i])
            rows->floats[i][position] =
                row->unseen ? es_missing() : (float)row->values[i];
    if (rows->nonfinite)
        rows->nonfinite[position] = row->nonfinite;
}

/* --- reference kernels ---------------------------------------------------- */

static void reference_probs(const es_entropy_part *part)
{
    for (int i = part->first; i < part->end; i++) {
        const es_ref_row row =
            es_ref_row_probs(es_numbers_from(part->in, i * part->in_row),
                             es_key_limit(part->keys, i), part->keys->mask);
        es_rows_store(&part->rows, (size_t)(i - part->first), &row);
    }
}

static void reference_qk(const es_entropy_part *part, float *scratch)
{
    (void)scratch;
    for (int i = part->first; i < part->end && !es_is_late(part); i++) {
        const es_ref_query query = {
            .q = es_numbers_from(part->in, i * part->in_row),
            .k = part->k,
            .k_row = part->k_row,
            .start = es_key_start(part->keys, i),
            .n = es_key_limit(part->keys, i),
            .mask = part->keys->mask,
            .width = part->width,
            .scale = es_scale(part, i),
            .softcap = part->softcap,
            .sink_logit = part->sink_logit,
            .position = (double)part->keys->offset + i};
        if (!es_is_wanted(part, i))
            continue;
        const es_ref_row row = es_ref_row_qk(&query);
        es_rows_store(&part->rows, (size_t)(i - part->first), &row);
    }
}

const es_entropy_kernels es_entropy_kernels_reference = {
    .name = "reference", .probs = reference_probs, .qk = reference_qk};

/* --- sequences ------------------------------------------------------------ */

/** The rows and keys of one sequence, and their positions in the arrays. */
typedef struct sequence {
    es_entropy_keys keys;
    int n_queries;
    size_t row;     /* index of head 0's row 0 in the output arrays */
    size_t setting; /* index of row 0 in a head's array of temperatures */
    ptrdiff_t in, k;
    const unsigned char *query_mask;
    int parts_per_head;
    int64_t first_part;
} sequence;

/**
 * Sums over the rows of one part of a head. A thread computes one part at a
 * time; the sums of all parts are then added.
 */
typedef struct part_result {
    es_head_sums share;
    bool is_done;
} part_result;

typedef struct entropy_call {
    const es_entropy_kernels *set;
    const es_row_arrays *rows;
    /* in: weights or queries; k: keys, or NULL if `in` is weights. */
    const es_entropy_input *in, *k;
    const es_attention_shape *shape;
    sequence *sequences; /* (B) */
    int *places; /* memory for the arrays `index` and `count` of all sequences'
                    keys; used only if there is a key mask */
    int64_t n_parts;
    /* Results of all n_parts parts; NULL if no head statistics are
     * requested. */
    part_result *results;
    float *scratch; /* scratch memory of the kernels: scratch_size floats for
                       each thread */
    size_t scratch_size, kernel_size;
    bool needs[ES_N_ROW_STATISTICS]; /* row statistics from which the requested
                                        head statistics are computed */
    double deadline;                 /* 0: no limit */
    int n_threads;
    _Atomic int64_t next_part;
    _Atomic int next_thread;
    _Atomic bool is_late;
} entropy_call;

/**
 * Hides the keys for which `mask` (keys->n) is 0. `index` must have space for
 * keys->n numbers, `count` for one more.
 */
static void mask_keys(es_entropy_keys *keys, const unsigned char *mask,
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
    /* Each sequence needs n numbers for `index` and n + 1 for `count`. */
    index = call->places + 2 * lead + b;
    mask_keys(keys, shape->key_mask + lead, index, index + keys->n);
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
 * Returns the distance, in rows, between the outputs of consecutive heads of a
 * sequence.
 */
static size_t rows_of_head(const entropy_call *call)
{
    return (size_t)call->shape->n_queries;
}

/* --- parts ---------------------------------------------------------------- */

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

/** Returns the key head that a query head uses. */
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
 * Provides scratch memory for the row statistics that head statistics need but
 * the caller has not requested.
 */
static void add_rows(const entropy_call *call, es_row_arrays *rows, float *from)
{
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (call->needs[i] && i != ES_ROW_NONFINITE && !rows->floats[i])
            rows->floats[i] = from + i * ES_QK_ROWS;
    if (call->needs[ES_ROW_NONFINITE] && !rows->nonfinite)
        rows->nonfinite =
            (int32_t *)(void *)(from + ES_ROW_NONFINITE * (size_t)ES_QK_ROWS);
}

static void store_unseen(const es_row_arrays *rows, size_t position)
{
    const es_ref_row row = es_ref_row_nonfinite(0);
    es_rows_store(rows, position, &row);
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

static void leave_part(const es_entropy_part *part)
{
    for (int i = part->first; i < part->end; i++)
        store_unseen(&part->rows, (size_t)(i - part->first));
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
        leave_part(&part);
        return;
    }
    if (call->results)
        add_rows(call, &part.rows, scratch + call->kernel_size);
    run_kernel(call, &part, index, scratch);
    if (is_late(call)) {
        leave_part(&part);
        return;
    }
    for (int i = part.first; part.query_mask && i < part.end; i++)
        if (!es_is_wanted(&part, i))
            store_unseen(&part.rows, (size_t)(i - part.first));
    if (call->results)
        call->results[index] = (part_result){
            es_rows_share(&part.rows, (size_t)(part.end - part.first)), true};
}

static void do_parts(void *argument)
{
    entropy_call *call = argument;
    const size_t thread = (size_t)atomic_fetch_add(&call->next_thread, 1);
    float *scratch =
        call->scratch ? call->scratch + thread * call->scratch_size : NULL;
    int64_t index;
    while ((index = atomic_fetch_add(&call->next_part, 1)) < call->n_parts)
        do_part(call, index, scratch);
}

/* --- heads ---------------------------------------------------------------- */

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

static void finish_heads(const entropy_call *call, const es_head_arrays *heads)
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
static void note_needs(entropy_call *call, const es_head_arrays *heads)
{
    call->needs[ES_ROW_ENTROPY] = true;
    call->needs[ES_ROW_NONFINITE] = heads->nonfinite_weights;
    for (int i = 0; i < ES_N_HEAD_SERIES; i++)
        if (heads->floats[i])
            call->needs[es_head_row((es_head_series)i)] = true;
}

/* --- whole call ----------------------------------------------------------- */

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
 * Sets the statistics of rows after the last packed sequence, which belong to
 * no sequence, to missing.
 */
static void hide_surplus(const entropy_call *call)
{
    const es_attention_shape *shape = call->shape;
    if (!shape->query_starts)
        return;
    for (int h = 0; h < shape->n_heads; h++)
        for (int i = shape->query_starts[shape->n_batch]; i < shape->n_queries;
             i++)
            store_unseen(call->rows,
                         (size_t)h * rows_of_head(call) + (size_t)i);
}

/* Same as es_entropy_with, but takes arrays that are indexed by statistic. */
static es_status run_call(const es_entropy_kernels *set,
                          const es_row_arrays *rows,
                          const es_head_arrays *heads,
                          const es_entropy_input *in, const es_entropy_input *k,
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
    es_entropy_threads(do_parts, &call, call.n_threads);
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

/* --- arrays of the caller ------------------------------------------------- */

/* Returns true if the statistic is computed for this kind of input: queries and
   keys if `from_qk` is true, otherwise weights. */
static bool is_computed(es_row_statistic statistic, bool from_qk)
{
    if (from_qk)
        return !es_row_statistic_is_of_scores(statistic);
    return statistic == ES_ROW_ENTROPY || statistic == ES_ROW_SINK;
}

static es_row_arrays number_rows(const es_rows *rows)
{
    return (es_row_arrays){.floats = {[ES_ROW_ENTROPY] = rows->entropy,
                                      [ES_ROW_LSE] = rows->lse,
                                      [ES_ROW_MAX_LOGIT] = rows->max_logit,
                                      [ES_ROW_SINK] = rows->sink,
                                      [ES_ROW_MISSING] = rows->missing,
                                      [ES_ROW_DISTANCE] = rows->distance,
                                      [ES_ROW_TOP] = rows->top},
                           .nonfinite = rows->nonfinite};
}

static es_head_arrays number_heads(const es_heads *heads)
{
    return (es_head_arrays){
        .floats = {[ES_HEAD_ENTROPY] = heads->entropy,
                   [ES_HEAD_ENTROPY_MIN] = heads->entropy_min,
                   [ES_HEAD_ENTROPY_MAX] = heads->entropy_max,
                   [ES_HEAD_MAX_LOGIT] = heads->max_logit,
                   [ES_HEAD_SINK] = heads->sink,
                   [ES_HEAD_MISSING_MASS] = heads->missing,
                   [ES_HEAD_DISTANCE] = heads->distance,
                   [ES_HEAD_TOP] = heads->top},
        .finite_rows = heads->finite_rows,
        .nonfinite_rows = heads->nonfinite_rows,
        .nonfinite_weights = heads->nonfinite_weights};
}

es_status es_entropy_with(const es_entropy_kernels *set, const es_rows *rows,
                          const es_heads *heads, const es_entropy_input *in,
                          const es_entropy_input *k,
                          const es_attention_shape *shape, int n_threads)
{
    es_row_arrays row_arrays = number_rows(rows);
    es_head_arrays head_arrays;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (!is_computed((es_row_statistic)i, k))
            row_arrays.floats[i] = NULL;
    if (heads)
        head_arrays = number_heads(heads);
    return run_call(set, &row_arrays, heads ? &head_arrays : NULL, in, k, shape,
                    n_threads);
}

/* --- comparison with the reference ---------------------------------------- */

static const float trial_sink = 0.5F;

/* Shapes with which the kernels are tried: the first is causal, with whole and
   partial tiles and a learnt sink; the second has more keys than fit into one
   chunk. */
static const es_attention_shape trial_shapes[] = {{.n_batch = 1,
                                                   .n_heads = 1,
                                                   .n_queries = 67,
                                                   .n_keys = 67,
                                                   .head_width = 35,
                                                   .causal = true,
                                                   .sink_logits = &trial_sink},
                                                  {.n_batch = 1,
                                                   .n_heads = 1,
                                                   .n_queries = 9,
                                                   .n_keys = ES_QK_CHUNK + 21,
                                                   .head_width = 5,
                                                   .causal = false}};

#define TRIAL_ROWS 67
#define TRIAL_WEIGHTS (TRIAL_ROWS * TRIAL_ROWS)
#define TRIAL_NUMBERS (TRIAL_ROWS * 35)

typedef struct trial_results {
    float floats[ES_N_ROW_STATISTICS][TRIAL_ROWS];
    int32_t nonfinite[TRIAL_ROWS];
} trial_results;

static es_row_arrays trial_rows(trial_results *out, bool from_qk)
{
    es_row_arrays rows = {.nonfinite = out->nonfinite};
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (is_computed((es_row_statistic)i, from_qk))
            rows.floats[i] = out->floats[i];
    return rows;
}

/** Returns the next number, in [0,1), of a fixed pseudo-random sequence. */
static float next_number(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return (float)(*state >> 8) * 0x1p-24F;
}

static bool close_enough(float got, float wanted)
{
    if (isnan(got) || isnan(wanted))
        return isnan(got) && isnan(wanted);
    return fabsf(got - wanted) <= 1e-5F + 1e-5F * fabsf(wanted);
}

/* Returns true if the first n rows of both results agree. Statistics that are
   not computed are 0 in both results. */
static bool same_results(const trial_results *got, const trial_results *wanted,
                         int n)
{
    for (int s = 0; s < ES_N_ROW_STATISTICS; s++)
        for (int i = 0; i < n; i++)
            if (!close_enough(got->floats[s][i], wanted->floats[s][i]))
                return false;
    return memcmp(got->nonfinite, wanted->nonfinite,
                  (size_t)n * sizeof *got->nonfinite) == 0;
}

/**
 * Fills rows alternately with random, nearly one-hot (with denormals), flat and
 * zero weights; one row gets a NaN, another an infinity. Weights that must not
 * be read are NaN, so that a kernel which reads them produces NaN.
 */
static void fill_weights(float *att, const es_attention_shape *shape)
{
    uint32_t state = 1;
    for (int i = 0; i < shape->n_queries; i++) {
        int n = shape->causal ? i + 1 : shape->n_keys;
        float *row = att + (ptrdiff_t)i * shape->n_keys;
        for (int j = 0; j < shape->n_keys; j++) {
            const float kinds[] = {next_number(&state) * 2 / (float)n,
                                   j == i / 2 ? 0.99999F : 1e-41F, 1 / (float)n,
                                   0};
            row[j] = j < n ? kinds[i % 4] : NAN;
        }
        if (i == 5)
            row[n - 1] = NAN;
        if (i == 6)
            row[0] = INFINITY;
    }
}

/**
 * Fills queries alternately with random, long (for peaked rows) and zero
 * vectors (for flat rows); one query gets a NaN. Among the last keys, one has
 * an infinity and one a NaN.
 */
static void fill_queries_and_keys(float *q, float *k,
                                  const es_attention_shape *shape)
{
    uint32_t state = 2;
    int width = shape->head_width;
    const float lengths[] = {2, 20, 0};
    for (int i = 0; i < shape->n_queries; i++)
        for (int c = 0; c < width; c++)
            q[i * width + c] = (next_number(&state) - 0.5F) * lengths[i % 3];
    for (int j = 0; j < shape->n_keys * width; j++)
        k[j] = (next_number(&state) - 0.5F) * 2;
    q[4 * width] = NAN;
    if (shape->causal) {
        k[(shape->n_keys - 5) * width] = -INFINITY;
        k[(shape->n_keys - 2) * width + 1] = NAN;
    }
}

/**
 * Computes the same rows with the reference and with the kernels, and compares
 * the results.
 */
static bool rows_agree(const es_entropy_kernels *set,
                       const es_entropy_input *in, const es_entropy_input *k,
                       const es_attention_shape *shape)
{
    trial_results got = {.nonfinite = {0}}, wanted = {.nonfinite = {0}};
    const es_row_arrays got_rows = trial_rows(&got, k);
    const es_row_arrays wanted_rows = trial_rows(&wanted, k);
    return run_call(&es_entropy_kernels_reference, &wanted_rows, NULL, in, k,
                    shape, 1) == ES_OK &&
           run_call(set, &got_rows, NULL, in, k, shape, 1) == ES_OK &&
           same_results(&got, &wanted, shape->n_queries);
}

static bool shape_agrees(const es_entropy_kernels *set,
                         const es_attention_shape *shape)
{
    float att[TRIAL_WEIGHTS], q[TRIAL_NUMBERS], k[TRIAL_NUMBERS + ES_QK_CHUNK];
    es_entropy_input weights = {.data = att, .strides.row = shape->n_keys};
    es_entropy_input queries = {.data = q, .strides.row = shape->head_width};
    es_entropy_input keys = {.data = k, .strides.row = shape->head_width};
    fill_weights(att, shape);
    fill_queries_and_keys(q, k, shape);
    return rows_agree(set, &weights, NULL, shape) &&
           rows_agree(set, &queries, &keys, shape);
}

bool es_entropy_kernels_agree(const es_entropy_kernels *set)
{
    for (size_t i = 0; i < sizeof trial_shapes / sizeof trial_shapes[0]; i++)
        if (!shape_agrees(set, &trial_shapes[i]))
            return false;
    return true;
}

/* --- choice of kernels ---------------------------------------------------- */

const es_entropy_kernels *const *es_entropy_kernels_all(size_t *n)
{
    static const es_entropy_kernels *const all[] = {
        &es_entropy_kernels_amx, &es_entropy_kernels_avx512,
        &es_entropy_kernels_avx2, &es_entropy_kernels_plain};
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

/**
 * Returns the kernels that suit this machine. The first call selects them.
 */
static const es_entropy_kernels *get_kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_once);
    return chosen;
}

/* --- arguments ------------------------------------------------------------ */

static es_status check_starts(const int32_t *starts, int n_batch, int total,
                              const char *name)
{
    bool is_ordered = starts[0] == 0 && starts[n_batch] <= total;
    for (int b = 0; b < n_batch; b++)
        is_ordered = is_ordered && starts[b] <= starts[b + 1];
    return is_ordered
               ? ES_OK
               : es_fail(
                     ES_EARGUMENT,
                     "attention entropy: %s: expected offsets that begin with "
                     "0, do not decrease and end at %d or below",
                     name, total);
}

static es_status check_sequences(const es_attention_shape *shape)
{
    const int32_t *starts = shape->query_starts;
    const int32_t *key_starts = shape->key_starts ? shape->key_starts : starts;
    es_status status;
    if (!starts && shape->key_starts)
        return es_fail(ES_EARGUMENT, "attention entropy: key_starts without "
                                     "query_starts: set both");
    if (starts &&
        ((status = check_starts(starts, shape->n_batch, shape->n_queries,
                                "query_starts")) < 0 ||
         (status = check_starts(key_starts, shape->n_batch, shape->n_keys,
                                "key_starts")) < 0))
        return status;
    for (int b = 0; b < shape->n_batch; b++)
        if ((shape->key_lengths && shape->key_lengths[b] < 0) ||
            (shape->query_offsets && (shape->query_offsets[b] < -MOST_LENGTH ||
                                      shape->query_offsets[b] > MOST_LENGTH)))
            return es_fail(
                ES_EARGUMENT,
                "attention entropy: sequence %d: key length or query "
                "offset is out of range",
                b);
    return ES_OK;
}

/**
 * Returns true for 0, and for numbers that are normal in float32 and whose
 * inverse is also normal in float32.
 */
static bool is_size(double x)
{
    return x == 0 || (x >= 1e-30 && x <= 1e30);
}

static es_status check_scores(const es_attention_shape *shape)
{
    const double sizes[] = {shape->scale, shape->softcap};
    static const char *const names[] = {"scale", "softcap"};
    for (int i = 0; i < 2; i++)
        if (!is_size(sizes[i]))
            return es_fail(
                ES_EARGUMENT,
                "attention entropy: %s is %g: expected 1e-30 to 1e30, "
                "or 0 for the default",
                names[i], sizes[i]);
    if (!(shape->time_limit >= 0 && shape->time_limit <= 1e30))
        return es_fail(ES_EARGUMENT,
                       "attention entropy: time_limit is %g: expected a number "
                       "above 0, or 0 for no limit",
                       shape->time_limit);
    if (shape->window < 0)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: window is %d: expected a number "
                       "above 0, or 0 for no window",
                       shape->window);
    return ES_OK;
}

/**
 * Returns true if the shape sets none of the members that only es_qk_statistics
 * supports.
 */
static bool is_plain(const es_attention_shape *shape)
{
    return !shape->query_mask && !shape->key_lengths && !shape->query_offsets &&
           !shape->query_starts && !shape->key_starts && shape->window == 0 &&
           shape->scale == 0 && shape->softcap == 0 && !shape->temperature &&
           !shape->sink_logits && shape->time_limit == 0;
}

static es_status check_input(const es_entropy_input *input)
{
    if (!input || !input->data)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: an input is NULL: pass weights, or "
                       "queries and keys");
    if ((unsigned)input->type > ES_ENTROPY_F16)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: unknown type %d: expected float32, "
                       "bfloat16 or float16",
                       (int)input->type);
    return ES_OK;
}

static es_status check_shape(const es_attention_shape *shape, bool from_qk)
{
    const int n_kv_heads = shape->n_kv_heads;
    if (shape->n_batch < 1 || shape->n_heads < 1 || shape->n_queries < 1 ||
        shape->n_keys < 1 || (from_qk && shape->head_width < 1))
        return es_fail(ES_EARGUMENT, "attention entropy: a size is below 1");
    if (shape->n_queries > MOST_LENGTH || shape->n_keys > MOST_LENGTH)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: %d queries, %d keys: at most %d of "
                       "each are supported",
                       shape->n_queries, shape->n_keys, MOST_LENGTH);
    if (shape->query_offset < -MOST_LENGTH || shape->query_offset > MOST_LENGTH)
        return es_fail(ES_EARGUMENT,
                       "attention entropy: query offset %d: expected -%d to %d",
                       shape->query_offset, MOST_LENGTH, MOST_LENGTH);
    if (n_kv_heads < 0 || (n_kv_heads && shape->n_heads % n_kv_heads))
        return es_fail(ES_EARGUMENT,
                       "attention entropy: %d heads of keys do not divide %d "
                       "heads of queries",
                       n_kv_heads, shape->n_heads);
    return ES_OK;
}

/* --- public functions ----------------------------------------------------- */

const char *es_entropy_variant(void)
{
    return get_kernels()->name;
}

es_status es_entropy_probs(const es_rows *rows, const es_entropy_input *att,
                           const es_attention_shape *shape, int n_threads)
{
    es_rows out;
    es_attention_shape taken;
    es_status status;
    if ((status = es_sized_take(&out, sizeof out, rows, "es_rows")) < 0 ||
        (status = es_sized_take(&taken, sizeof taken, shape,
                                "es_attention_shape")) < 0 ||
        (status = check_shape(&taken, false)) < 0 ||
        (status = check_input(att)) < 0)
        return status;
    if (!is_plain(&taken))
        return es_fail(
            ES_EARGUMENT,
            "attention entropy: weights support only causal and key "
            "masks; use es_qk_statistics, or set the other members to 0");
    return es_entropy_with(get_kernels(), &out, NULL, att, NULL, &taken,
                           n_threads);
}

es_status es_qk_statistics(const es_rows *rows, const es_heads *heads,
                           const es_entropy_input *q, const es_entropy_input *k,
                           const es_attention_shape *shape, int n_threads)
{
    es_rows out = {.size = sizeof out};
    es_heads means;
    es_attention_shape taken;
    es_status status;
    if ((rows &&
         (status = es_sized_take(&out, sizeof out, rows, "es_rows")) < 0) ||
        (heads && (status = es_sized_take(&means, sizeof means, heads,
                                          "es_heads")) < 0) ||
        (status = es_sized_take(&taken, sizeof taken, shape,
                                "es_attention_shape")) < 0 ||
        (status = check_shape(&taken, true)) < 0 ||
        (status = check_sequences(&taken)) < 0 ||
        (status = check_scores(&taken)) < 0 || (status = check_input(q)) < 0 ||
        (status = check_input(k)) < 0)
        return status;
    return es_entropy_with(get_kernels(), &out, heads ? &means : NULL, q, k,
                           &taken, n_threads);
}

es_status es_rows_reduce(const es_heads *heads, const es_rows *rows,
                         int n_batch, int n_heads, int n_queries)
{
    es_heads out;
    es_rows from;
    es_status status;
    if ((status = es_sized_take(&out, sizeof out, heads, "es_heads")) < 0 ||
        (status = es_sized_take(&from, sizeof from, rows, "es_rows")) < 0)
        return status;
    if (!from.entropy)
        return es_fail(ES_EARGUMENT, "heads of attention: rows->entropy is "
                                     "NULL: pass the rows' entropies");
    const es_head_arrays heads_by_number = number_heads(&out);
    const es_row_arrays rows_by_number = number_rows(&from);
    es_heads_reduce(&heads_by_number, &rows_by_number, n_batch, n_heads,
                    n_queries);
    return ES_OK;
}
