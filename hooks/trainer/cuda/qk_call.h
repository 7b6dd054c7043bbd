/** Between the files of the statistics from queries and keys: what kernels get,
 *  and which keys a row sees. */
#ifndef ES_CUDA_QK_CALL_H
#define ES_CUDA_QK_CALL_H

extern "C" {
#include "analyzer/entropy/entropy.h"
}
#include "hooks/trainer/cuda/kernel.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    ES_QK_WIDEST = 256,
    ES_QK_CHUNKS = 16,  /* parts of the keys of a head, for their extents */
    ES_QK_BLURRED = -1, /* in place of a count of non-finite weights */
    ES_QK_SUMS = 9      /* of a sequence: rows, finite ones, non-finite weights,
                           largest logit; five sums of finite rows */
};

/** What kernels read of a call; arrays on the device. */
typedef struct es_qk_call {
    const void *q, *k;
    es_strides q_strides, k_strides;
    es_entropy_type type;
    int n_batch, n_sequences; /* n_batch is 1 where they are packed */
    int n_heads, n_kv_heads, n_queries, n_keys, width;
    bool causal, packed;
    int window, query_offset;
    const unsigned char *key_mask, *query_mask;
    const int32_t *key_lengths, *query_offsets, *query_starts, *key_starts;
    const float *temperature, *sink_logits;
    double scale, softcap;
    es_rows rows;        /* all of them */
    int32_t *first_keys; /* (n_sequences), with a mask */
    float *extents;      /* (n_batch,n_kv_heads,CHUNKS,2) */
    double *sums;        /* (SUMS,n_sequences,n_heads) */
} es_qk_call;

/** The row's keys are begin up to but not end of its batch; its own place among
 *  them, and the key that is its sink. */
typedef struct es_qk_row {
    int begin, end, first;
    int64_t place;
} es_qk_row;

ES_DEVICE int es_qk_clamp(int64_t x, int64_t low, int64_t high)
{
    return (int)(x < low ? low : x > high ? high : x);
}

/** The sequence that packed row `row` belongs to, or the last. */
ES_DEVICE int es_qk_sequence(const es_qk_call *call, int row)
{
    int sequence = 0, behind = call->n_sequences;
    while (behind - sequence > 1) {
        const int middle = (sequence + behind) / 2;
        if (call->query_starts[middle] <= row)
            sequence = middle;
        else
            behind = middle;
    }
    return sequence;
}

/** Keys that some row of a sequence may see. */
ES_DEVICE void es_qk_keys(const es_qk_call *call, int sequence, int *first,
                          int *end)
{
    *first = 0;
    *end = call->n_keys;
    if (call->packed) {
        *first = es_qk_clamp(call->key_starts[sequence], 0, call->n_keys);
        *end =
            es_qk_clamp(call->key_starts[sequence + 1], *first, call->n_keys);
    }
    if (call->key_lengths)
        *end = es_qk_clamp((int64_t)*first + call->key_lengths[sequence],
                           *first, *end);
}

/** Row `row` of batch `b`; nothing between begin and end if there is no such
 *  row, or it is not wanted. */
ES_DEVICE es_qk_row es_qk_row_of(const es_qk_call *call, int b, int row)
{
    es_qk_row out = {0, 0, 0, 0};
    int sequence = b, own = row, first, end;
    if (row >= call->n_queries ||
        (call->query_mask &&
         !call->query_mask[(size_t)b * (size_t)call->n_queries + (size_t)row]))
        return out;
    if (call->packed) {
        sequence = es_qk_sequence(call, row);
        own = row - call->query_starts[sequence];
        if (own < 0 || row >= call->query_starts[sequence + 1])
            return out;
    }
    es_qk_keys(call, sequence, &first, &end);
    out.first = call->key_mask ? call->first_keys[sequence] : first;
    out.place = (int64_t)first + own +
                (call->query_offsets ? call->query_offsets[sequence]
                                     : call->query_offset);
    out.begin = first;
    out.end = end;
    if (call->causal)
        out.end = es_qk_clamp(out.place + 1, first, end);
    else if (call->window)
        out.end = es_qk_clamp(out.place + call->window, first, end);
    if (call->window)
        out.begin = es_qk_clamp(out.place + 1 - call->window, first, out.end);
    return out;
}

/** Whether the mask lets key j of batch b through. */
ES_DEVICE bool es_qk_sees(const es_qk_call *call, int b, int j)
{
    return !call->key_mask ||
           call->key_mask[(size_t)b * (size_t)call->n_keys + (size_t)j] != 0;
}

/** Number `at` of queries or keys. */
ES_DEVICE float es_qk_number(const void *data, es_entropy_type type,
                             ptrdiff_t at)
{
    if (type == ES_ENTROPY_F32)
        return ((const float *)data)[at];
    if (type == ES_ENTROPY_BF16)
        return es_float(((const es_bf16 *)data)[at]);
    return es_float(((const es_fp16 *)data)[at]);
}

/** Where the numbers of row `row` begin. */
ES_DEVICE ptrdiff_t es_qk_at(es_strides strides, int b, int head, int row)
{
    return b * strides.batch + head * strides.head + row * strides.row;
}

/** By what products of a row are multiplied; NaN where its temperature is. */
ES_DEVICE double es_qk_scale(const es_qk_call *call, int h, int row)
{
    float t;
    if (!call->temperature)
        return call->scale;
    t = call->temperature[(size_t)h * (size_t)call->n_queries + (size_t)row];
    return call->scale / (double)(t < 1e-4F ? 1e-4F : t);
}

ES_DEVICE float es_qk_missing(void)
{
    const uint32_t bits = 0x7fc007a2u;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ES_DEVICE bool es_qk_is_missing(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == 0x7fc007a2u;
}

/** What is known of a row when all its keys have been seen: x relative to the
 *  largest score, logarithms natural. */
typedef struct es_qk_sums {
    double peak;   /* the largest score */
    double weight; /* sum p, p = exp(x) */
    double spread; /* sum p x; NaN where a product was not finite */
    double far;    /* sum p |place - j| */
    double first;  /* p of the first key; 0 where it is not seen */
    int n_seen;
} es_qk_sums;

/** Writes row `row` of head `h`; at: its number among all. `mark`: what its
 *  count is if it is finite, 0 or ES_QK_BLURRED. */
template <class X>
ES_DEVICE void es_qk_write(const es_qk_call *call, size_t at, int h,
                           const es_qk_sums *sums, int mark)
{
    const es_rows *rows = &call->rows;
    const float other = sums->n_seen > 0 ? NAN : es_qk_missing();
    const X entropy = log((X)sums->weight) - (X)(sums->spread / sums->weight);
    const double lse = sums->peak + (double)log((X)sums->weight);
    const float logit = call->sink_logits ? call->sink_logits[h] : -INFINITY;
    const bool good = sums->n_seen > 0 && fabs(sums->spread) < INFINITY &&
                      fabs(lse) < INFINITY && logit < INFINITY;
    const double inverse = 1 / sums->weight;
    rows->entropy[at] = good ? (float)(entropy > 0 ? entropy : 0) : other;
    rows->lse[at] = good ? (float)lse : other;
    rows->max_logit[at] = good ? (float)sums->peak : other;
    rows->sink[at] = good ? (float)(sums->first * inverse) : other;
    rows->missing[at] =
        good ? (float)(1 / (1 + exp(lse - (double)logit))) : other;
    rows->distance[at] = good ? (float)(sums->far * inverse) : other;
    rows->top[at] = good ? (float)inverse : other;
    rows->nonfinite[at] = good ? mark : sums->n_seen;
}

/** Whether tensor cores do its rows, and how: qk_mma.cu. 16 bits, heads up to
 *  128 wide, a multiple of 8, and rows that begin at multiples of 16 bytes. */
bool es_qk_mma_can(const es_qk_call *call);
void es_qk_launch_mma(es_device *device, const es_qk_call *call);

/** Puts all that computes rows into the stream: qk_rows.cu. */
void es_qk_launch_rows(es_device *device, const es_qk_call *call);

#endif
