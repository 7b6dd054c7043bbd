/* Implements the public functions of attention entropy: checks the caller's
   arguments and chooses the kernels. entropy_parts.c splits the rows into parts
   for the threads. */
#include "analyzer/base/sized.h"
#include "analyzer/entropy/entropy_internal.h"

#include <pthread.h>

#define MOST_LENGTH (1 << 30)

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
                       "attention entropy: %d queries, %d keys: at most %d",
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

/* --- calls ------------------------------------------------------------------
 */

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
        return es_fail(ES_EARGUMENT,
                       "attention entropy: weights support only causal and key "
                       "masks: use es_qk_statistics, or leave the other "
                       "members 0");
    return es_entropy_with(kernels(), &out, NULL, att, NULL, &taken, n_threads);
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
    return es_entropy_with(kernels(), &out, heads ? &means : NULL, q, k, &taken,
                           n_threads);
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
    es_heads_reduce(&out, &from, n_batch, n_heads, n_queries);
    return ES_OK;
}
