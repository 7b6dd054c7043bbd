/**
 * Attention entropy: the plain reference in double precision, and the fast
 * forms. Letters: B batch, H heads, T queries, S keys, D width of one head.
 * Natural logarithms; entropies in nats.
 */
#ifndef ES_ENTROPY_H
#define ES_ENTROPY_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * B sequences, H heads, T queries, S keys; a causal row i sees keys j <= i.
 * A size below 1 means that there are no rows: nothing is read or written.
 */
typedef struct es_attention_shape {
    int n_batch;
    int n_heads;
    int n_queries;  /* at most 2^30 */
    int n_keys;     /* at most 2^30 */
    int head_width; /* D; 0 where only probabilities are involved */
    bool causal;    /* then n_keys >= n_queries is not needed: row i sees
                       min(i + 1, n_keys) keys */
} es_attention_shape;

/**
 * What is known of every attention row. Each pointer is (B,H,T) or NULL for
 * "not wanted"; written whole, in the order b, h, i.
 *
 * A row that holds a NaN or an infinity among its visible weights (from
 * probabilities) or scores (from Q,K; a score of -inf alone counts as a
 * non-finite score) is a non-finite row: its entropy, lse, max_logit, sink and
 * missing are NaN, its nonfinite says how many visible weights are not finite.
 * From Q,K that is every visible one: a softmax cannot tell them apart any
 * more. These NaN are never es_missing(), whatever NaN came in.
 *
 * A negative weight is finite; its row's entropy is NaN by the formula.
 */
typedef struct es_rows {
    float *entropy;     /* nats */
    float *lse;         /* log-sum-exp of the row's scores; from Q,K only */
    float *max_logit;   /* largest score after scaling; from Q,K only */
    float *sink;        /* weight on key 0 */
    int32_t *nonfinite; /* non-finite visible weights */
    float *missing;     /* 1 - sum of the weights; from a trainer with weights
                           that do not sum to 1, never written here */
} es_rows;

/** One head over the whole batch. */
typedef struct es_head_stats {
    double entropy;     /* mean over its finite rows; NaN if it has none */
    double entropy_min; /* smallest mean of one sequence's finite rows */
    double entropy_max; /* largest; both NaN if no row is finite */
    double max_logit;   /* largest over finite rows; NaN if none or unknown */
    double sink;        /* mean over finite rows; NaN if none or unknown */
    double missing;     /* missing mass; as sink */
    int64_t nonfinite_rows;
    int64_t nonfinite_weights;
} es_head_stats;

/**
 * Means over batch and queries of what es_rows holds, finite rows only.
 *
 *   out    (H)     written
 *   rows   (B,H,T) rows->entropy is needed; the others may be NULL
 *
 * A row counts as finite when its entropy is. Without rows->nonfinite the
 * number of weights is 0. Accumulates in double, left to right.
 * spec/model.md, section 3.
 */
void es_rows_reduce(es_head_stats *out, const es_rows *rows, int n_batch,
                    int n_heads, int n_queries);

/**
 * Shannon entropy of every attention row from probabilities: the reference.
 *
 *   rows  (B,H,T)    written; lse and max_logit are left alone
 *   att   (B,H,T,S)  f32; causal rows read only keys j <= i
 *
 * e = -sum a ln(a + 1e-9), in double, left to right: the same on every run.
 * spec/model.md section 3; AERO, eq. 10.
 * Rows need not sum to 1. O(B H T S), no allocation, any thread.
 */
void es_ref_entropy_probs(const es_rows *rows, const float *att,
                          const es_attention_shape *shape);

/**
 * The same from queries and keys: s_ij = q_i . k_j / (t_i sqrt(D)), softmax
 * over the visible keys, then e as above. Double throughout, three passes
 * over each row's scores, no storage: O(B H T S D).
 *
 *   q            (B,H,T,D)  f32
 *   k            (B,H,S,D)  f32
 *   temperature  (H,T) f32 or NULL for 1; used as max(t, 1e-4); a NaN makes
 *                its rows non-finite
 *
 * A product q.k, or the largest score of a row, that float32 cannot hold
 * counts as infinite, so that the fast form can agree.
 */
void es_ref_entropy_qk(const es_rows *rows, const float *q, const float *k,
                       const float *temperature,
                       const es_attention_shape *shape);

/**
 * Strides of q or k in floats, so that a packed (B,T,3d) projection can be
 * read where it lies: element (b,h,i,c) is at b*batch + h*head + i*row + c.
 */
typedef struct es_strides {
    ptrdiff_t batch, head, row;
} es_strides;

/**
 * The fast form of es_ref_entropy_probs: AVX-512, AVX2 or plain C, chosen on
 * first use and checked there against the reference.
 *
 * e agrees with the reference to 5e-7 (1 + sum_j |a_j ln(a_j + 1e-9)|), which
 * for a softmax is 5e-7 (1 + e); typically to 1e-7 (1 + e). Rows that hold
 * non-finite or negative weights are those of the reference.
 * Splits heads and long contexts over `n_threads` threads (0: as many as there
 * are processors to run on); the result does not depend on n_threads.
 */
void es_entropy_probs(const es_rows *rows, const float *att,
                      const es_attention_shape *shape, int n_threads);

/**
 * The fast form of es_ref_entropy_qk: no T x S storage. Blocked products with
 * a running row maximum m: l = sum exp(s - m), c = sum exp(s - m)(s - m);
 * e = ln l - c / l (so never the unshifted lse - sum a s, which loses four
 * digits on peaked rows), lse = m + ln l.
 *
 *   q_at, k_at   where q and k lie; any strides that keep rows apart
 *   temperature  (H,T) or NULL, as for the reference
 *
 * This is the entropy without the 1e-9 inside the logarithm: n * 1e-9 above
 * the reference's for a flat row of n keys, by less for others. Beside that,
 * with R the largest sum_c |q_c k_jc| / (t sqrt(D)) of the row (scores are
 * float32 sums: for peaked rows this decides),
 *
 *   e, lse            agree with the reference to 5e-7 (1 + R)(1 + ln n)
 *   max_logit, sink   to 5e-7 (1 + R)
 *
 * typically e to 1e-7 (1 + e). The same rows are non-finite, except where
 * partial sums of a product leave float32's range and the product does not.
 * Threads as for es_entropy_probs.
 *
 * ES_OK; ES_EARGUMENT if a size is below 1; ES_ENOMEM: it takes less than
 * 1 MiB of scratch a thread. D above 2048 is computed like the reference.
 */
es_status es_entropy_qk(const es_rows *rows, const float *q, es_strides q_at,
                        const float *k, es_strides k_at,
                        const float *temperature,
                        const es_attention_shape *shape,
                        int n_threads) ES_MUST_USE;

/** "avx512", "avx2" or "plain": what the fast forms use on this machine. */
const char *es_entropy_variant(void);

#endif
