/**
 * Computes attention entropy for any program, either from attention weights or
 * directly from queries and keys, without ever forming the weights. It is part
 * of libentropyrecord; this header is its manual.
 *
 *     #include <entropyscan.h>
 *
 *     float entropy[B * H * T];
 *     es_rows rows = {.size = sizeof rows, .entropy = entropy};
 *     es_attention_shape shape = {.size = sizeof shape, .n_batch = B,
 *                                 .n_heads = H, .n_queries = T, .n_keys = T,
 *                                 .head_width = D, .causal = true};
 *     es_entropy_input queries = {.data = q, .strides =
 *                                     es_strides_bthd(H, T, D)};
 *     es_entropy_input keys = {.data = k, .strides =
 *                                  es_strides_bthd(H, T, D)};
 *     if (es_qk_statistics(&rows, NULL, &queries, &keys, &shape, 0) < 0)
 *         fprintf(stderr, "%s\n", es_message());
 *
 * samples/embed/entropy.c is a complete program. Letters: B batch, H heads, T
 * queries, S keys, D width of one head. Logarithms are natural, and entropies
 * are in nats.
 *
 * **Layout.** Arrays may have any strides, which are counted in numbers, not in
 * bytes. es_strides_bhtd returns the strides of an array (B,H,T,D),
 * es_strides_bthd those of an array (B,T,H,D). A packed projection (B,T,3,H,D)
 * is read in place with row stride 3 * H * D. Numbers within a row are
 * contiguous. The types are float32, and bfloat16 and float16, which are passed
 * as their 16 bits and converted exactly.
 *
 * **Keys.** A causal row i sees keys j <= query_offset + i. The offset is 0 for
 * training and S - T for decoding with a cache, where the T new queries are at
 * the end of the S keys. A window hides all but the nearest keys. A mask (B,S)
 * hides keys, such as padding, from all rows of its sequence. Weights and keys
 * that no row sees are not read. A mask whose visible keys are contiguous, such
 * as a padding mask, costs nothing; other masks cost little in
 * es_qk_statistics, but about double the time of es_entropy_probs.
 *
 * **Grouped heads.** If n_kv_heads is below n_heads, each H / n_kv_heads
 * consecutive heads of queries share one head of keys.
 *
 * **Threads.** A call splits its heads, and long contexts, over at most
 * `n_threads` threads, including the calling thread. 0 means one thread per
 * available processor, or fewer for a small call. The additional threads wait
 * for the next call; they take no signals, do not exist in a forked child, and
 * end with the program. They are POSIX threads: callers need no OpenMP. The
 * results have the same bits for every number of threads. Several threads may
 * call at the same time.
 *
 * **Instructions.** The kernels exist for AMX, AVX-512, AVX2 and plain C. The
 * first call chooses a variant and compares it with the double-precision
 * reference before using it. If the processor has AMX, the first call requests
 * permission for its tiles from Linux, as PyTorch does: signal stacks that are
 * set later must have AT_MINSIGSTKSZ bytes.
 */
#ifndef ES_ENTROPY_H
#define ES_ENTROPY_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The shape and settings of an attention operation. `size` is sizeof
 * (es_attention_shape); it lets the library accept programs that were compiled
 * with an older header. If a member is 0 or NULL, the default in its comment
 * applies.
 *
 * es_entropy_probs supports only the members up to key_mask; the later members,
 * which must then be 0, apply only to es_qk_statistics.
 */
typedef struct es_attention_shape {
    size_t size;
    int n_batch;
    int n_heads;    /* number of query heads */
    int n_queries;  /* at most 2^30 */
    int n_keys;     /* at most 2^30 */
    int head_width; /* D; not used by es_entropy_probs */
    bool causal;    /* row i sees keys j <= query_offset + i */
    int n_kv_heads; /* number of key heads; divides n_heads; 0: same as n_heads
                     */
    int query_offset; /* -2^30 to 2^30: position of query 0 among the keys */
    const unsigned char *key_mask; /* (B,S), 0: the key is hidden; NULL: all
                                      keys are visible */

    /* The following members hide rows and keys of each sequence. */
    const unsigned char *query_mask; /* (B,T), 0: the row is not computed and
                                        becomes es_missing() */
    const int32_t *key_lengths;      /* (B): number of keys of each sequence;
                                        later keys are hidden */
    const int32_t *query_offsets;    /* (B): replaces query_offset for each
                                        sequence */
    const int32_t *query_starts;     /* (B + 1): starts of packed sequences,
                                        see es_qk_statistics */
    const int32_t *key_starts; /* (B + 1): starts of the packed sequences' keys;
                                  NULL: same as query_starts */
    int window; /* the row at position p sees keys j with |p - j| < window;
                   0: no window */

    /* The following members define how a product q.k becomes a score. */
    double scale;   /* factor by which q.k is multiplied; 0: 1 / sqrt(D) */
    double softcap; /* c: scores become c * tanh(score / c); 0: no softcap */
    /* (H,T), divisors of the scores; NULL: 1 everywhere */
    const float *temperature;
    const float *sink_logits; /* (H), logits of learnt sinks; NULL: no sinks */

    double time_limit; /* time limit of a call in seconds; 0: no limit */
} es_attention_shape;

typedef enum es_entropy_type {
    ES_ENTROPY_F32,
    ES_ENTROPY_BF16,
    ES_ENTROPY_F16
} es_entropy_type;

/**
 * Strides counted in numbers: element (b,h,i,c) is at b*batch + h*head + i*row
 * + c.
 */
typedef struct es_strides {
    ptrdiff_t batch, head, row;
} es_strides;

/** Weights (B,H,T,S), queries (B,H,T,D) or keys (B,n_kv_heads,S,D). */
typedef struct es_entropy_input {
    const void *data; /* array of float, or of uint16_t for bfloat16 and
                         float16 */
    es_entropy_type type;
    es_strides strides;
} es_entropy_input;

/**
 * Returns the strides of an array (B,H,N,W), where (N,W) is (T,S) for weights,
 * (T,D) for queries and (S,D) for keys.
 */
static inline es_strides es_strides_bhtd(int n_heads, int n, int width)
{
    es_strides out;
    out.row = width;
    out.head = n * out.row;
    out.batch = n_heads * out.head;
    return out;
}

/** Returns the strides of an array (B,N,H,W). */
static inline es_strides es_strides_bthd(int n_heads, int n, int width)
{
    es_strides out;
    out.head = width;
    out.row = n_heads * out.head;
    out.batch = n * out.row;
    return out;
}

/**
 * Statistics of every attention row. `size` is sizeof (es_rows). Each pointer
 * is (B,H,T), or (H,T) for packed rows, or NULL for an output that is not
 * needed; each is written completely, in the order b, h, i.
 *
 * A row is non-finite if one of its visible weights (es_entropy_probs) or
 * scores (es_qk_statistics) is NaN or infinite; a score of -inf counts as
 * non-finite. All floats of such a row are NaN, and `nonfinite` is the number
 * of its visible weights that are not finite; in es_qk_statistics these are all
 * visible weights, because a non-finite score makes the whole softmax
 * non-finite. These NaN are never es_missing(), even if the input contains
 * es_missing().
 *
 * A row that sees no key has no entropy: all its floats are es_missing() (also
 * a NaN), and `nonfinite` is 0. A row that query_mask hides, a packed row that
 * belongs to no sequence, and a row that was not computed because of time_limit
 * get the same values.
 *
 * A row with a negative weight counts as finite, but its entropy is NaN by the
 * formula.
 */
typedef struct es_rows {
    size_t size;
    float *entropy;   /* nats */
    float *lse;       /* log-sum-exp of the row's scores; written only by
                         es_qk_statistics */
    float *max_logit; /* largest score; written only by es_qk_statistics */
    float *sink; /* weight on key 0, or on the first unmasked key; 0 if a window
                    hides this key */
    int32_t *nonfinite; /* number of non-finite visible weights */
    float *missing; /* weight of the learnt sink, 0 without a sink; written only
                       by es_qk_statistics */
    float *distance; /* weighted mean distance |p - j| to the keys, in tokens;
                        written only by es_qk_statistics */
    float *top;      /* largest weight; written only by es_qk_statistics */
} es_rows;

/**
 * Statistics of every head over the whole batch, reduced in the same way as the
 * series of a run file (analyzer/heads). `size` is sizeof (es_heads). Each
 * pointer is (H) or NULL.
 *
 * Means and extremes cover the finite rows. They are NaN if a head has rows but
 * no finite row, and es_missing() if all its rows are missing or if a row was
 * not computed because of time_limit; counts are then 0.
 */
typedef struct es_heads {
    size_t size;
    float *entropy;     /* mean, nats */
    float *entropy_min; /* smallest of the sequences' mean entropies, each over
                           the sequence's finite rows */
    float *entropy_max; /* largest */
    float *max_logit;   /* largest */
    float *sink;        /* mean */
    float *missing;     /* mean */
    float *distance;    /* mean */
    float *top;         /* mean */
    int64_t *finite_rows;
    int64_t *nonfinite_rows;
    int64_t *nonfinite_weights;
} es_heads;

/**
 * Reduces statistics of rows to statistics of heads, for callers that already
 * have the rows' statistics.
 *
 *   heads  (H)     receives the statistics. If the input of a statistic in
 *          `rows` is NULL, the statistic becomes es_missing(), or 0 if it is a
 *          count
 *   rows   (B,H,T) rows->entropy is required; the other pointers may be NULL
 *
 * A row counts as finite if its entropy is finite, and is skipped if its
 * entropy is es_missing(). Sums are accumulated in double, in the order of the
 * rows.
 *
 * Returns ES_OK; ES_EARGUMENT if a size is wrong or rows->entropy is NULL.
 */
ES_API es_status es_rows_reduce(const es_heads *heads, const es_rows *rows,
                                int n_batch, int n_heads,
                                int n_queries) ES_MUST_USE;

/**
 * Computes the Shannon entropy of every attention row from its weights: e =
 * -sum_j a_ij * ln(a_ij + 1e-9) over the visible keys (AERO, eq. 10). The
 * weights of a row need not add up to 1.
 *
 *   rows  (B,H,T)    receives the statistics, except lse and max_logit
 *   att   (B,H,T,S)
 *
 * The largest error of e, compared with the double-precision result, is
 * 5e-7 * (1 + sum_j |a_ij * ln(a_ij + 1e-9)|), which for a softmax is
 * 5e-7 * (1 + e). A typical error is 1e-7 * (1 + e). Rows with non-finite or
 * negative weights are computed in double precision. The speed is limited by
 * reading memory.
 *
 * Returns ES_OK; ES_EARGUMENT if the shape is invalid (a size below 1 or too
 * large, or n_kv_heads that does not divide n_heads) or an input is NULL;
 * ES_ENOMEM (only a mask needs memory, 8 bytes per key).
 */
ES_API es_status es_entropy_probs(const es_rows *rows,
                                  const es_entropy_input *att,
                                  const es_attention_shape *shape,
                                  int n_threads) ES_MUST_USE;

/**
 * Computes statistics of rows and heads directly from queries and keys, without
 * T x S storage: a_ij = softmax over the visible keys j of the scores s_ij,
 *
 *   s_ij = scale * (q_i . k_j) / t_i
 *   (with a softcap c: c * tanh(s_ij / c) instead of s_ij)
 *   entropy e = -sum_j a_ij * ln(a_ij), lse = ln(sum_j exp(s_ij)), ...
 *
 *   rows   statistics of rows, or NULL; arrays that are NULL cost nothing
 *   heads  statistics of heads, or NULL; may be requested without `rows`
 *   q      (B,H,T,D); packed (T,H,D): strides.batch is not used
 *   k      (B,n_kv_heads,S,D); packed (S,n_kv_heads,D)
 *   shape  sizes, and the model's settings
 *
 * **Position.** Query i is at position p = query_offset + i: in a context that
 * is split over devices, the offset is the position of its first query; for
 * decoding it is S - T. The position determines which keys a causal row and a
 * window can see, and the distances. If the position is negative, causal rows
 * see no key.
 *
 * **Packed.** With query_starts (cu_seqlens), T and S are total numbers of
 * tokens. B sequences follow each other: sequence b has the queries
 * query_starts[b] to query_starts[b+1] - 1 and sees the keys key_starts[b] to
 * key_starts[b+1] - 1, with positions counted from there. key_mask is (S),
 * query_mask (T), rows (H,T). query_starts and key_starts begin with 0 and do
 * not decrease; sequences may be empty.
 *
 * **temperature** is used as max(t, 1e-4); a NaN makes its rows non-finite.
 *
 * **Learnt sink.** The model's softmax has sink_logits[h] as one additional
 * score that belongs to no key (gpt-oss). Its share is `missing`, 1 / (1 +
 * exp(lse - logit)). All other statistics describe the distribution over the
 * keys, which the sink does not change: a head that attends to nothing is not a
 * collapsed head, and entropies remain between 0 and ln n. The model's weights
 * are (1 - missing) a; with m = missing, the sum -sum w ln w of these weights
 * is (1 - m)(e - ln(1 - m)), and the entropy including the sink is (1 - m)(e -
 * ln(1 - m)) - m ln m. A logit of -inf means no sink; NaN and +inf make all
 * rows non-finite.
 *
 * **Non-finite.** A product q.k, or a part of its sum, that is not finite or
 * that float32 cannot represent makes its row non-finite, even with a softcap.
 *
 * e (in nats), sink and top agree with the double-precision results to 1e-5
 * however large the scores are; lse and max_logit agree to 1e-5 + 5e-7 * R,
 * where R is the row's largest sum_d |q_id * k_jd| * scale / t_i, and
 * `distance` to 1e-5 of the largest distance to a visible key. bfloat16 and
 * float16 are converted exactly.
 *
 * The method computes products in blocks and keeps a running maximum m of each
 * row: l = sum exp(s - m), c = sum exp(s - m)(s - m); e = ln l - c / l (never
 * the unshifted lse - sum a s, which loses four digits on peaked rows), lse = m
 * + ln l. This is the entropy without the 1e-9 inside the logarithm: it exceeds
 * the papers' entropy by n * 1e-9 for a flat row of n keys, and by less for
 * other rows.
 *
 * n_threads: largest number of threads; 0 means one thread per available
 * processor, or fewer for a small call.
 *
 * Returns ES_OK; ES_DONE if time_limit passed and the remaining results are
 * missing; ES_EARGUMENT for a size below 1 or too large, n_kv_heads that does
 * not divide n_heads, query_starts or key_starts that decrease, a window or
 * time_limit below 0 or not finite, a scale or softcap that is neither 0 nor
 * 1e-30 to 1e30, or an input that is NULL; ES_ENOMEM (the call needs less than
 * 1 MiB of scratch memory per thread). Outputs are unchanged on errors. D above
 * 2048 is computed in double precision, slowly.
 */
ES_API es_status es_qk_statistics(const es_rows *rows, const es_heads *heads,
                                  const es_entropy_input *q,
                                  const es_entropy_input *k,
                                  const es_attention_shape *shape,
                                  int n_threads) ES_MUST_USE;

/**
 * Returns the name of the kernels that es_entropy_probs and es_qk_statistics
 * use on this machine: "amx", "avx512", "avx2" or "plain".
 */
ES_API const char *es_entropy_variant(void);

#endif
