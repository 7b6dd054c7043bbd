/**
 * What the files of the entropy module share, and what its tests look into:
 * the keys that rows see, single rows in double precision, and the table of
 * vector kernels.
 */
#ifndef ES_ENTROPY_INTERNAL_H
#define ES_ENTROPY_INTERNAL_H

#include "analyzer/base/processor.h"
#include "analyzer/entropy/entropy.h"

#include <string.h>

/* --- a caller's numbers -----------------------------------------------------
 */

typedef struct es_numbers {
    const void *data;
    bool bf16; /* else float32 */
} es_numbers;

static inline es_numbers es_numbers_from(es_numbers numbers, ptrdiff_t position)
{
    ptrdiff_t size = numbers.bf16 ? 2 : 4;
    return (es_numbers){(const char *)numbers.data + position * size,
                        numbers.bf16};
}

static inline float es_number(es_numbers numbers, ptrdiff_t position)
{
    if (!numbers.bf16)
        return ((const float *)numbers.data)[position];
    uint32_t bits = (uint32_t)((const uint16_t *)numbers.data)[position] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/** Head `head`, counted from 0, of sequence `batch`. */
es_numbers es_entropy_head(const es_entropy_input *input, int batch, int head);

/** The head of keys that a head of queries looks at. */
int es_entropy_key_head(const es_attention_shape *shape, int head);

/* --- visible keys -----------------------------------------------------------
 */

/**
 * The keys of one sequence from the first to the last that its mask lets
 * through; positions are counted from that first one. All pointers are NULL if
 * nothing between the two is hidden.
 */
typedef struct es_entropy_keys {
    int first, n;              /* the first among all keys; how many */
    bool causal;               /* then row i sees none beyond offset + i */
    int offset;                /* can be negative */
    const unsigned char *mask; /* (n) */
    const int *index;          /* positions of the visible keys */
    const int *count;          /* (n + 1): visible ones among the first j */
} es_entropy_keys;

/** Row i sees no key from here on. */
static inline int es_key_limit(const es_entropy_keys *keys, int i)
{
    if (!keys->causal || i >= keys->n - 1 - keys->offset)
        return keys->n;
    return i < -keys->offset ? 0 : keys->offset + i + 1;
}

/** Number of keys that row i sees. */
static inline int es_visible_keys(const es_entropy_keys *keys, int i)
{
    int limit = es_key_limit(keys, i);
    return keys->count ? keys->count[limit] : limit;
}

/** The keys without a mask. */
es_entropy_keys es_entropy_keys_all(const es_attention_shape *shape);

/** The keys of one sequence; its mask is (S), `index` takes S and `count`
 *  S + 1 numbers. */
es_entropy_keys es_entropy_keys_masked(const es_attention_shape *shape,
                                       const unsigned char *mask, int *index,
                                       int *count);

/* --- rows in double precision -----------------------------------------------
 */

/** One attention row. NaN as for es_rows. */
typedef struct es_ref_row {
    double entropy, lse, max_logit, sink;
    int32_t nonfinite;
    bool unseen; /* it sees no key: all are missing */
} es_ref_row;

/** A row of which `count` visible weights are not finite; 0: it sees none. */
es_ref_row es_ref_row_nonfinite(int count);

/** One row of probabilities, those of the first n keys that the mask (n), or
 *  NULL, does not hide; lse and max_logit are NaN. */
es_ref_row es_ref_row_probs(es_numbers att, int n, const unsigned char *mask);

/**
 * One query against keys.
 *
 *   q            (D)
 *   k            (n,D), rows k_row numbers apart
 *   mask         (n), 0 for a key that is hidden; NULL: none is
 *   temperature  as it is stored, before the floor
 */
es_ref_row es_ref_row_qk(es_numbers q, es_numbers k, ptrdiff_t k_row, int n,
                         const unsigned char *mask, int head_width,
                         float temperature);

/** Writes row `position` of those outputs that are not NULL; the two scores
 *  only if `from_qk`. */
void es_rows_store(const es_rows *rows, size_t position, const es_ref_row *row,
                   bool from_qk);

/**
 * All rows, from weights where k is NULL, else from queries and keys: double
 * throughout, three passes over each row's scores, no storage. A product q.k,
 * or the largest score of a row, that float32 cannot hold counts as infinite,
 * so that the fast form can agree. The shape has to be one.
 */
void es_ref_entropy(const es_rows *rows, const es_entropy_input *in,
                    const es_entropy_input *k, const float *temperature,
                    const es_attention_shape *shape);

/** Temperatures below this count as this. NaN stays NaN. */
#define ES_TEMPERATURE_FLOOR 1e-4F
float es_temperature(const float *temperature, size_t position);

/* --- kernels ----------------------------------------------------------------
 */

/**
 * Some rows of one head, for one call of a kernel. Rows are numbered within
 * the head; `rows` points at the outputs of row 0 of the head.
 */
typedef struct es_entropy_part {
    es_rows rows;
    es_numbers in;             /* weights or queries: element (0,0) */
    es_numbers k;              /* key keys->first; not for weights */
    ptrdiff_t in_row, in_head; /* distances, in numbers */
    ptrdiff_t k_row;
    const float *temperature; /* (T) of this head, or NULL */
    const es_entropy_keys *keys;
    int n_queries, width;
    int first, end; /* rows; at most ES_QK_ROWS */
} es_entropy_part;

#define ES_QK_ROWS 1024
#define ES_QK_CHUNK 240 /* keys whose products are kept; whole tiles */

/* Above this width the packed blocks would not fit the scratch; the fast form
 * then computes row by row as the reference does. */
#define ES_QK_WIDTH_MAX 2048

/** Distance of copied queries, in floats: no power of two, so that the rows of
 *  a tile do not compete for the same lines of the cache. */
static inline ptrdiff_t es_qk_query_row(int width)
{
    return (ptrdiff_t)width / 16 * 16 + 32;
}

/** Keys that are packed at a time: 512 KiB of them, whole chunks or a little
 *  more than all there are. */
static inline int es_qk_block(int n_keys, int width)
{
    int most = (1 << 17) / width;
    most =
        most < ES_QK_CHUNK ? most / 16 * 16 : most / ES_QK_CHUNK * ES_QK_CHUNK;
    return n_keys < most ? (n_keys + 15) / 16 * 16 : most;
}

/** Floats of scratch that qk needs for this shape. */
size_t es_qk_scratch(const es_attention_shape *shape);

/** One set of kernels: the same source at another vector width. */
typedef struct es_entropy_kernels {
    const char *name;
    es_vectors needs; /* es_vectors_supported, before any call */
    void (*probs)(const es_entropy_part *part);
    /* scratch: es_qk_scratch floats, aligned to 64 bytes */
    void (*qk)(const es_entropy_part *part, float *scratch);
    /* The functions that the kernels are made of, for tests and benchmarks:
     * n a multiple of 16; 2^x for x >= -126, base-2 logarithm of normal
     * positive x. */
    void (*exp2)(float *out, const float *x, size_t n);
    void (*log2)(float *out, const float *x, size_t n);
} es_entropy_kernels;

extern const es_entropy_kernels es_entropy_kernels_avx512,
    es_entropy_kernels_avx2, es_entropy_kernels_plain;

/** All sets, fastest first; the last one runs everywhere. */
const es_entropy_kernels *const *es_entropy_kernels_all(size_t *n);

/** True if both kernels reproduce the reference on a small mixed input. */
bool es_entropy_kernels_agree(const es_entropy_kernels *kernels);

/** The first of n sets that this machine supports and that agrees with the
 *  reference; the last one if there is none. */
const es_entropy_kernels *
es_entropy_kernels_choose(const es_entropy_kernels *const *sets, size_t n);

/** es_entropy_probs (where k is NULL) and es_qk_statistics with given
 *  kernels. */
es_status es_entropy_with(const es_entropy_kernels *kernels,
                          const es_rows *rows, const es_entropy_input *in,
                          const es_entropy_input *k, const float *temperature,
                          const es_attention_shape *shape,
                          int n_threads) ES_MUST_USE;

#endif
