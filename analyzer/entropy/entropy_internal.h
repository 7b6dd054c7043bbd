/**
 * What the files of the entropy module share, and what its tests look into:
 * single rows in double precision, and the table of vector kernels.
 */
#ifndef ES_ENTROPY_INTERNAL_H
#define ES_ENTROPY_INTERNAL_H

#include "analyzer/entropy/entropy.h"

/** One attention row in double precision. NaN as for es_rows. */
typedef struct es_ref_row {
    double entropy, lse, max_logit, sink;
    int32_t nonfinite;
} es_ref_row;

/** One row of n >= 1 probabilities; lse and max_logit are NaN. */
es_ref_row es_ref_row_probs(const float *att, int n);

/**
 * One query against n >= 1 keys.
 *
 *   q            (D)
 *   k            (n,D), rows k_row floats apart
 *   temperature  as it is stored, before the floor
 */
es_ref_row es_ref_row_qk(const float *q, const float *k, ptrdiff_t k_row, int n,
                         int head_width, float temperature);

/** Writes row `at` of those outputs that are wanted; the two scores only if
 *  `from_qk`. */
void es_rows_store(const es_rows *rows, size_t at, const es_ref_row *row,
                   bool from_qk);

/** Temperatures below this count as this: spec/model.md, section 3. NaN stays
 *  NaN. */
#define ES_TEMPERATURE_FLOOR 1e-4F
float es_temperature(const float *temperature, size_t at);

/** Keys that row i sees. */
static inline int es_visible_keys(const es_attention_shape *shape, int i)
{
    return shape->causal && i < shape->n_keys ? i + 1 : shape->n_keys;
}

/** False if some size is below 1, so that there is no row or no key. */
static inline bool es_shape_has_rows(const es_attention_shape *shape)
{
    return shape->n_batch > 0 && shape->n_heads > 0 && shape->n_queries > 0 &&
           shape->n_keys > 0;
}

/**
 * Some rows of one head, for one call of a kernel. Rows are numbered within
 * the head; `rows` points at the outputs of row 0 of the head.
 */
typedef struct es_probs_part {
    es_rows rows;
    const float *att; /* (T,S) of this head */
    const es_attention_shape *shape;
    int first, end; /* rows [first, end) */
} es_probs_part;

typedef struct es_qk_part {
    es_rows rows;
    const float *q, *k;       /* element (0,0) of this head */
    ptrdiff_t q_row, k_row;   /* distance of rows, in floats */
    const float *temperature; /* (T) of this head, or NULL */
    const es_attention_shape *shape;
    int first, end; /* at most ES_QK_ROWS rows */
} es_qk_part;

#define ES_QK_ROWS 1024
#define ES_QK_CHUNK                                                            \
    240 /* keys whose products are kept; a multiple of tiles                   \
         */

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
static inline int es_qk_block(const es_attention_shape *shape)
{
    int most = (1 << 17) / shape->head_width;
    most =
        most < ES_QK_CHUNK ? most / 16 * 16 : most / ES_QK_CHUNK * ES_QK_CHUNK;
    return shape->n_keys < most ? (shape->n_keys + 15) / 16 * 16 : most;
}

/** What a set of kernels needs of the machine. */
typedef enum es_vectors {
    ES_VECTORS_PLAIN, /* nothing: compilers make do with what there is */
    ES_VECTORS_AVX2,  /* and FMA */
    ES_VECTORS_AVX512 /* F, BW, DQ and VL */
} es_vectors;

bool es_vectors_supported(es_vectors vectors);

/** One set of kernels: the same source at another vector width. */
typedef struct es_kernels {
    const char *name;
    es_vectors needs; /* es_vectors_supported, before any call */
    void (*probs)(const es_probs_part *part);
    /* scratch: es_qk_scratch floats, aligned to 64 bytes */
    void (*qk)(const es_qk_part *part, float *scratch);
    /* The functions that the kernels are made of, for tests and benchmarks:
     * n a multiple of 16; 2^x for x >= -126, base-2 logarithm of normal
     * positive x. */
    void (*exp2)(float *out, const float *x, size_t n);
    void (*log2)(float *out, const float *x, size_t n);
} es_kernels;

extern const es_kernels es_kernels_avx512, es_kernels_avx2, es_kernels_plain;

/** All sets, fastest first; the last one runs everywhere. */
const es_kernels *const *es_kernels_all(size_t *n);

/** Floats of scratch that qk needs for this shape. */
size_t es_qk_scratch(const es_attention_shape *shape);

/** True if both kernels reproduce the reference on a small mixed input. */
bool es_kernels_agree(const es_kernels *kernels);

/** The first of n sets that this machine supports and that agrees with the
 *  reference; the last one if there is none. */
const es_kernels *es_kernels_choose(const es_kernels *const *sets, size_t n);

/** es_entropy_probs and es_entropy_qk with given kernels. */
void es_entropy_probs_with(const es_kernels *kernels, const es_rows *rows,
                           const float *att, const es_attention_shape *shape,
                           int n_threads);
es_status es_entropy_qk_with(const es_kernels *kernels, const es_rows *rows,
                             const float *q, es_strides q_at, const float *k,
                             es_strides k_at, const float *temperature,
                             const es_attention_shape *shape,
                             int n_threads) ES_MUST_USE;

#endif
