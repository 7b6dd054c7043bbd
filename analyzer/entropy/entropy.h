/**
 * Attention entropy of any program: from the attention weights that it has, or
 * straight from queries and keys without ever forming the weights. Part of
 * libentropyrecord; this header is the manual.
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
 * samples/embed/entropy.c is a whole program. Letters: B batch, H heads, T
 * queries, S keys, D width of one head. Natural logarithms; entropies in nats.
 *
 * **Layout.** Arrays of numbers have any strides, in numbers: es_strides_bhtd
 * and es_strides_bthd are those of (B,H,T,D) and (B,T,H,D). A packed projection
 * (B,T,3,H,D) is read where it lies: row stride 3HD. Numbers within a row are
 * one after the other. Types: float32, or bfloat16 and float16 as their 16
 * bits, converted exactly.
 *
 * **Keys.** A causal row i sees keys j <= query_offset + i; the offset is 0
 * for training and S - T for decoding with a cache, where T new queries stand
 * at the end of S keys. A window hides all but the nearest. A mask (B,S) hides
 * keys, such as padding, from all rows of its sequence. Neither weights nor
 * keys that no row sees are read. A mask whose visible keys are one run, as
 * that of padding, costs nothing; others cost little from queries and keys, and
 * a factor of two or so from weights.
 *
 * **Grouped heads.** With n_kv_heads below n_heads, H / n_kv_heads heads of
 * queries in succession share one head of keys.
 *
 * **Threads.** A call splits its heads, and long contexts, over at most
 * `n_threads` threads, its own among them: 0 for as many as there are
 * processors to run on, fewer where there is little to do. The others wait for
 * the next call; they take no signals, a fork leaves them behind, and the end
 * of a program ends them. POSIX threads: callers need no OpenMP. Results have
 * the same bits whatever the number. Calls may be made from several threads at
 * a time.
 *
 * **Instructions.** AMX, AVX-512, AVX2 or plain C: chosen on the first call,
 * which compares each with the double-precision form before it is trusted.
 * Where the processor has AMX that call requests its tiles of Linux, as PyTorch
 * does: signal stacks that are set later have to be of AT_MINSIGSTKSZ bytes.
 */
#ifndef ES_ENTROPY_H
#define ES_ENTROPY_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * What an attention is like. `size` is sizeof (es_attention_shape), which lets
 * programs that were compiled with an older header live on; zero or NULL for
 * what is not set: it is then as the comment says.
 *
 * Weights (es_entropy_probs) are read by the first group alone: what makes
 * scores, and rows that are packed or cut, is for es_qk_statistics.
 */
typedef struct es_attention_shape {
    size_t size;
    int n_batch;
    int n_heads;      /* of queries */
    int n_queries;    /* at most 2^30 */
    int n_keys;       /* at most 2^30 */
    int head_width;   /* D; unused where only weights are involved */
    bool causal;      /* row i sees keys j <= query_offset + i */
    int n_kv_heads;   /* divides n_heads; 0: as many as n_heads */
    int query_offset; /* -2^30 to 2^30: the position of query 0 among keys */
    const unsigned char *key_mask; /* (B,S), 0: hidden; NULL: all visible */

    /* Which rows and keys there are. */
    const unsigned char *query_mask; /* (B,T), 0: the row is es_missing() */
    const int32_t *key_lengths;      /* (B): keys from there on are hidden */
    const int32_t *query_offsets;    /* (B), instead of query_offset */
    const int32_t *query_starts;     /* (B + 1): packed, see below */
    const int32_t *key_starts;       /* (B + 1); NULL: as query_starts */
    int window; /* the row at position p sees keys |p - j| < window */

    /* What becomes of a product q.k. */
    double scale;             /* of scores; 0: 1 / sqrt(D) */
    double softcap;           /* c: scores are c tanh(score / c); 0: none */
    const float *temperature; /* (H,T), divides scores; NULL: 1 */
    const float *sink_logits; /* (H), learnt sinks; NULL: none */

    double time_limit; /* seconds; 0: none */
} es_attention_shape;

typedef enum es_entropy_type {
    ES_ENTROPY_F32,
    ES_ENTROPY_BF16,
    ES_ENTROPY_F16
} es_entropy_type;

/** Distances in numbers: element (b,h,i,c) lies at b*batch + h*head + i*row
 *  + c. */
typedef struct es_strides {
    ptrdiff_t batch, head, row;
} es_strides;

/** Weights (B,H,T,S), queries (B,H,T,D) or keys (B,n_kv_heads,S,D). */
typedef struct es_entropy_input {
    const void *data; /* float; uint16_t for bfloat16 and float16 */
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
 * What is known of every attention row. `size` is sizeof (es_rows); each
 * pointer is (B,H,T), of packed rows (H,T), or NULL for an output that is not
 * needed; written whole, in the order b, h, i.
 *
 * A row that holds a NaN or an infinity among its visible weights (from
 * weights) or scores (from Q,K; a score of -inf alone counts as a non-finite
 * score) is a non-finite row: it is NaN in every float, its nonfinite says how
 * many visible weights are not finite. From Q,K that is every visible one: a
 * softmax cannot distinguish them any more. These NaN are never es_missing(),
 * whatever NaN came in.
 *
 * A row that sees no key has no entropy: es_missing() in every float, which is
 * a NaN too, and 0 in nonfinite. So is a row that query_mask hides, a packed
 * row that belongs to no sequence, and one that time_limit left out.
 *
 * A negative weight is finite; its row's entropy is NaN by the formula.
 */
typedef struct es_rows {
    size_t size;
    float *entropy;     /* nats */
    float *lse;         /* log-sum-exp of the row's scores; from Q,K only */
    float *max_logit;   /* largest score; from Q,K only */
    float *sink;        /* weight on key 0, or the first that is not masked; 0
                           where a window hides it */
    int32_t *nonfinite; /* non-finite visible weights */
    float *missing;     /* share of the learnt sink, 0 without; from Q,K only */
    float *distance;    /* mean |p - j| of its keys, tokens; from Q,K only */
    float *top;         /* largest weight; from Q,K only */
} es_rows;

/**
 * What is known of every head, over the whole batch: by the reductions of
 * analyzer/heads, as the series of a run file. `size` is sizeof (es_heads);
 * each pointer is (H) or NULL.
 *
 * Means and extremes are over finite rows: NaN where a head has rows but no
 * finite one, es_missing() where all its rows are missing, or time_limit left
 * one out; counts are 0 then.
 */
typedef struct es_heads {
    size_t size;
    float *entropy;     /* mean, nats */
    float *entropy_min; /* smallest mean of one sequence's finite rows */
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
 * From rows to heads, for callers that have rows.
 *
 *   heads  (H)     written; what there are no rows of is es_missing(), and 0
 *                  among counts
 *   rows   (B,H,T) rows->entropy is needed; the others may be NULL
 *
 * A row counts as finite when its entropy is, and does not count at all where
 * that is es_missing(). Accumulates in double, left to right.
 *
 * ES_OK; ES_EARGUMENT: a size is wrong, or rows->entropy NULL.
 */
ES_API es_status es_rows_reduce(const es_heads *heads, const es_rows *rows,
                                int n_batch, int n_heads,
                                int n_queries) ES_MUST_USE;

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
 * ES_OK; ES_EARGUMENT: the shape is none (a size below 1, too large or heads
 * that do not divide), an input of NULL; ES_ENOMEM: it takes memory for a mask
 * only, 8 bytes a key.
 */
ES_API es_status es_entropy_probs(const es_rows *rows,
                                  const es_entropy_input *att,
                                  const es_attention_shape *shape,
                                  int n_threads) ES_MUST_USE;

/**
 * Statistics of rows and heads straight from queries and keys, without T x S
 * storage: a_ij = softmax over the visible keys j of the scores s_ij,
 *
 *   s_ij = scale q_i . k_j / t_i, with a softcap c tanh(that / c)
 *   entropy e = -sum_j a_ij ln a_ij, lse = ln sum_j exp(s_ij), ...
 *
 *   rows   outputs of rows, or NULL; what is not requested costs nothing
 *   heads  outputs of heads, or NULL; they need no rows
 *   q      (B,H,T,D); packed (T,H,D): strides.batch is not used
 *   k      (B,n_kv_heads,S,D); packed (S,n_kv_heads,D)
 *   shape  sizes, and what the model does
 *
 * **Position.** Query i stands at p = query_offset + i: of a context that is
 * split over devices, the place of its first query; S - T for decoding. It
 * decides what a causal row and a window let through, and distances. Where it
 * is negative, causal rows see no key.
 *
 * **Packed.** With query_starts (cu_seqlens), T and S are totals of tokens;
 * B sequences follow each other, sequence b has the queries query_starts[b] to
 * query_starts[b+1] - 1 and sees the keys key_starts[b] to key_starts[b+1] - 1,
 * positions counted from there. key_mask is (S), query_mask (T), rows (H,T).
 * Starts begin at 0 and do not decrease; sequences may be empty.
 *
 * **temperature** is used as max(t, 1e-4); a NaN makes its rows non-finite.
 *
 * **Learnt sink.** The model's softmax has sink_logits[h] as one more score,
 * which belongs to no key (gpt-oss). Its share is `missing`, 1 / (1 + exp(lse -
 * logit)). All else is of the distribution over the keys, which that leaves
 * alone: a head that attends to nothing is no collapsed head, and entropies
 * remain between 0 and ln n. The model's weights are (1 - missing) a; their
 * -sum w ln w is (1 - m)(e - ln(1 - m)), the entropy with the sink that plus
 * -m ln m. A logit of -inf is no sink; NaN and +inf make rows non-finite.
 *
 * **Non-finite.** A product q.k, or a part of its sum, that is not finite or
 * that float32 cannot hold makes its row non-finite, with a softcap too.
 *
 * e and sink, top agree with double precision to 1e-5 (nats; shares) at every
 * scale of scores, lse and max_logit to 1e-5 + 5e-7 R, R the row's largest
 * sum_c |q_c k_jc| scale / t, and distance to 1e-5 of the largest visible one.
 * bfloat16 and float16 are converted exactly.
 *
 * Blocked products with a running row maximum m: l = sum exp(s - m),
 * c = sum exp(s - m)(s - m); e = ln l - c / l (so never the unshifted
 * lse - sum a s, which loses four digits on peaked rows), lse = m + ln l. This
 * is the entropy without the 1e-9 inside the logarithm: n * 1e-9 above the
 * papers' for a flat row of n keys, by less for others.
 *
 * n_threads: 0 for as many as there are processors to run on, fewer where there
 * is little to do.
 *
 * ES_OK; ES_DONE: time_limit passed, what was not done is missing;
 * ES_EARGUMENT: a size below 1 or too large, heads that do not divide, starts
 * that decrease, a window or limit below 0 or not finite, a scale or softcap
 * that is neither 0 nor 1e-30 to 1e30, an input of NULL; ES_ENOMEM: it takes
 * less than 1 MiB of scratch a thread. Outputs are untouched on errors. D above
 * 2048 is computed in double precision, slowly.
 */
ES_API es_status es_qk_statistics(const es_rows *rows, const es_heads *heads,
                                  const es_entropy_input *q,
                                  const es_entropy_input *k,
                                  const es_attention_shape *shape,
                                  int n_threads) ES_MUST_USE;

/** "amx", "avx512", "avx2" or "plain": what the two use on this machine. */
ES_API const char *es_entropy_variant(void);

#endif
