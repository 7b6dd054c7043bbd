/**
 * Attention entropy of any program: from the attention weights that it has, or
 * straight from queries and keys without ever forming the weights. Part of
 * libentropyscan; this header is the manual.
 *
 *     #include <entropyscan.h>
 *
 *     float entropy[B * H * T];
 *     es_rows rows = {.entropy = entropy};
 *     es_attention_shape shape = {.n_batch = B, .n_heads = H, .n_queries = T,
 *                                 .n_keys = T, .head_width = D,
 *                                 .causal = true};
 *     es_entropy_input queries = {.data = q, .strides =
 *                                     es_strides_bthd(H, T, D)};
 *     es_entropy_input keys = {.data = k, .strides =
 *                                  es_strides_bthd(H, T, D)};
 *     if (es_entropy_qk(&rows, &queries, &keys, NULL, &shape, 0) < 0)
 *         fprintf(stderr, "%s\n", es_message());
 *
 * samples/embed/entropy.c is a whole program. Letters: B batch, H heads, T
 * queries, S keys, D width of one head. Natural logarithms; entropies in nats.
 *
 * **Layout.** Arrays of numbers have any strides, in numbers: es_strides_bhtd
 * and es_strides_bthd are those of (B,H,T,D) and (B,T,H,D). A packed projection
 * (B,T,3,H,D) is read where it lies: row stride 3HD. Numbers within a row are
 * one after the other. Types: float32, or bfloat16 as its 16 bits; bfloat16 is
 * computed in float32, so that results are those of the numbers converted.
 *
 * **Keys.** A causal row i sees keys j <= query_offset + i; the offset is 0
 * for training and S - T for decoding with a cache, where T new queries stand
 * at the end of S keys. A mask (B,S) hides keys, such as padding, from all
 * rows of its sequence. Neither weights nor keys that no row sees are read.
 * A mask whose visible keys are one run, as that of padding, costs nothing;
 * others cost little from queries and keys, and a factor of two or so from
 * weights.
 *
 * **Grouped heads.** With n_kv_heads below n_heads, H / n_kv_heads heads of
 * queries in succession share one head of keys.
 *
 * **Threads.** A call splits its heads, and long contexts, over at most
 * `n_threads` threads of its own, which end with it: 0 for as many as there
 * are processors to run on, fewer where there is little to do. POSIX threads:
 * callers need no OpenMP. Results have the same bits whatever the number.
 * Calls may be made from several threads at a time.
 *
 * **Instructions.** AVX-512, AVX2 or plain C: chosen on the first call, which
 * compares each with the double-precision form before it is trusted.
 */
#ifndef ES_ENTROPY_H
#define ES_ENTROPY_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Zero or NULL for what is not set: it is then as the comment says. */
typedef struct es_attention_shape {
    int n_batch;
    int n_heads;      /* of queries */
    int n_queries;    /* at most 2^30 */
    int n_keys;       /* at most 2^30 */
    int head_width;   /* D; unused where only weights are involved */
    bool causal;      /* row i sees keys j <= query_offset + i */
    int n_kv_heads;   /* divides n_heads; 0: as many as n_heads */
    int query_offset; /* at most 2^30; for causal rows */
    const unsigned char *key_mask; /* (B,S), 0: hidden; NULL: all visible */
} es_attention_shape;

typedef enum es_entropy_type {
    ES_ENTROPY_F32,
    ES_ENTROPY_BF16
} es_entropy_type;

/** Distances in numbers: element (b,h,i,c) lies at b*batch + h*head + i*row
 *  + c. */
typedef struct es_strides {
    ptrdiff_t batch, head, row;
} es_strides;

/** Weights (B,H,T,S), queries (B,H,T,D) or keys (B,n_kv_heads,S,D). */
typedef struct es_entropy_input {
    const void *data; /* float, or uint16_t for bfloat16 */
    es_entropy_type type;
    es_strides strides;
} es_entropy_input;

/** Of (B,H,N,W): weights (N = T, W = S), queries (T,D), keys (S,D). */
static inline es_strides es_strides_bhtd(int n_heads, int n, int width)
{
    es_strides out;
    out.row = width;
    out.head = n * out.row;
    out.batch = n_heads * out.head;
    return out;
}

/** Of (B,N,H,W). */
static inline es_strides es_strides_bthd(int n_heads, int n, int width)
{
    es_strides out;
    out.head = width;
    out.row = n_heads * out.head;
    out.batch = n * out.row;
    return out;
}

/**
 * What is known of every attention row. Each pointer is (B,H,T) or NULL for an
 * output that is not needed; written whole, in the order b, h, i.
 *
 * A row that holds a NaN or an infinity among its visible weights (from
 * weights) or scores (from Q,K; a score of -inf alone counts as a non-finite
 * score) is a non-finite row: its entropy, lse, max_logit and sink are NaN, its
 * nonfinite says how many visible weights are not finite. From Q,K that is
 * every visible one: a softmax cannot distinguish them any more. These NaN are
 * never es_missing(), whatever NaN came in.
 *
 * A row that sees no key has no entropy: es_missing() in every float, which is
 * a NaN too, and 0 in nonfinite.
 *
 * A negative weight is finite; its row's entropy is NaN by the formula.
 */
typedef struct es_rows {
    float *entropy;     /* nats */
    float *lse;         /* log-sum-exp of the row's scores; from Q,K only */
    float *max_logit;   /* largest score after scaling; from Q,K only */
    float *sink;        /* weight on key 0, or the first that is not masked */
    int32_t *nonfinite; /* non-finite visible weights */
} es_rows;

/** One head over the whole batch. */
typedef struct es_head_stats {
    double entropy;     /* mean over its finite rows; NaN if it has none */
    double entropy_min; /* smallest mean of one sequence's finite rows */
    double entropy_max; /* largest; both NaN if no row is finite */
    double max_logit;   /* largest over finite rows; NaN if none or unknown */
    double sink;        /* mean over finite rows; NaN if none or unknown */
    int64_t nonfinite_rows;
    int64_t nonfinite_weights;
} es_head_stats;

/**
 * Means over batch and queries of what es_rows holds, finite rows only.
 *
 *   out    (H)     written
 *   rows   (B,H,T) rows->entropy is needed; the others may be NULL
 *
 * A row counts as finite when its entropy is, and does not count at all where
 * that is es_missing(). Without rows->nonfinite the number of weights is 0.
 * Accumulates in double, left to right.
 */
ES_API void es_rows_reduce(es_head_stats *out, const es_rows *rows, int n_batch,
                           int n_heads, int n_queries);

/**
 * Shannon entropy of every attention row from its weights:
 * e = -sum_j a_ij ln(a_ij + 1e-9) over the visible keys (AERO, eq. 10). Rows
 * need not sum to 1.
 *
 *   rows  (B,H,T)    written; lse and max_logit are left alone
 *   att   (B,H,T,S)
 *
 * e agrees with the double-precision form to 5e-7 (1 + sum_j |a_j ln(a_j +
 * 1e-9)|), which for a softmax is 5e-7 (1 + e); typically to 1e-7 (1 + e). Rows
 * that hold non-finite or negative weights are those of that form. It is as
 * fast as memory is read.
 *
 * ES_OK; ES_EARGUMENT if the shape is none: a size below 1, too large or
 * heads that do not divide; ES_ENOMEM: it takes memory for a mask only, 8
 * bytes a key.
 */
ES_API es_status es_entropy_probs(const es_rows *rows,
                                  const es_entropy_input *att,
                                  const es_attention_shape *shape,
                                  int n_threads) ES_MUST_USE;

/**
 * The same from queries and keys: s_ij = q_i . k_j / (t_i sqrt(D)), softmax
 * over the visible keys, no T x S storage.
 *
 *   q            (B,H,T,D)
 *   k            (B,n_kv_heads,S,D)
 *   temperature  (H,T) or NULL for 1; used as max(t, 1e-4); a NaN makes its
 *                rows non-finite. A model that multiplies by c instead of
 *                1 / sqrt(D) has t = 1 / (c sqrt(D)).
 *
 * Blocked products with a running row maximum m: l = sum exp(s - m),
 * c = sum exp(s - m)(s - m); e = ln l - c / l (so never the unshifted
 * lse - sum a s, which loses four digits on peaked rows), lse = m + ln l.
 *
 * This is the entropy without the 1e-9 inside the logarithm: n * 1e-9 above
 * the other's for a flat row of n keys, by less for others. Beside that, with
 * R the largest sum_c |q_c k_jc| / (t sqrt(D)) of the row (scores are float32
 * sums: for peaked rows this decides),
 *
 *   e, lse            agree with the double-precision form to
 *                     5e-7 (1 + R)(1 + ln n)
 *   max_logit, sink   to 5e-7 (1 + R)
 *
 * typically e to 1e-7 (1 + e). A product that float32 cannot hold is
 * infinite.
 *
 * ES_OK; ES_EARGUMENT as es_entropy_probs; ES_ENOMEM: it takes less than 1 MiB
 * of scratch a thread. D above 2048 is computed in double precision, slowly.
 */
ES_API es_status es_entropy_qk(const es_rows *rows, const es_entropy_input *q,
                               const es_entropy_input *k,
                               const float *temperature,
                               const es_attention_shape *shape,
                               int n_threads) ES_MUST_USE;

/** "avx512", "avx2" or "plain": what the two use on this machine. */
ES_API const char *es_entropy_variant(void);

#endif
