/**
 * Shared by the files of the entropy module and by its tests: the keys that
 * rows see, single rows in double precision, and the table of vector kernels.
 */
#ifndef ES_ENTROPY_INTERNAL_H
#define ES_ENTROPY_INTERNAL_H

#include "analyzer/base/processor.h"
#include "analyzer/entropy/entropy.h"
#include "analyzer/heads/heads.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* --- input numbers -------------------------------------------------------- */

typedef struct es_numbers {
    const void *data;
    es_entropy_type type;
} es_numbers;

static inline es_numbers es_numbers_from(es_numbers numbers, ptrdiff_t position)
{
    ptrdiff_t size = numbers.type == ES_ENTROPY_F32 ? 4 : 2;
    return (es_numbers){(const char *)numbers.data + position * size,
                        numbers.type};
}

/** Converts a float16 exactly. */
static inline float es_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                        : exponent
                            ? ldexpf((float)(mantissa | 1024), exponent - 25)
                            : ldexpf((float)mantissa, -24);
    return bits & 0x8000 ? -value : value;
}

static inline float es_number(es_numbers numbers, ptrdiff_t position)
{
    if (numbers.type == ES_ENTROPY_F32)
        return ((const float *)numbers.data)[position];
    const uint16_t half = ((const uint16_t *)numbers.data)[position];
    if (numbers.type == ES_ENTROPY_F16)
        return es_half(half);
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* --- visible keys -----------------------------------------------------------
 */

/**
 * The keys of one sequence from the first to the last visible one; positions
 * are counted from that first one. The pointers are NULL if no key between the
 * two is hidden. Kernels number the visible keys from 0.
 */
typedef struct es_entropy_keys {
    int first, n;              /* index of the first among all keys; number of
                                  keys */
    bool causal;               /* row i sees no key beyond offset + i */
    int offset;                /* may be negative */
    int window;                /* 0: no window */
    const unsigned char *mask; /* (n) */
    const int *index;          /* positions of the visible keys */
    const int *count;          /* (n + 1): number of visible keys among the
                                  first j */
} es_entropy_keys;

/** Returns the position from which on row i sees no key. */
static inline int es_key_limit(const es_entropy_keys *keys, int i)
{
    int64_t end = keys->n;
    if (keys->causal)
        end = (int64_t)keys->offset + i + 1;
    else if (keys->window)
        end = (int64_t)keys->offset + i + keys->window;
    return end < 0 ? 0 : end > keys->n ? keys->n : (int)end;
}

/** Returns the first position that row i may see; at most es_key_limit. */
static inline int es_key_start(const es_entropy_keys *keys, int i)
{
    const int limit = es_key_limit(keys, i);
    const int64_t start =
        keys->window ? (int64_t)keys->offset + i + 1 - keys->window : 0;
    return start < 0 ? 0 : start > limit ? limit : (int)start;
}

/**
 * Return the range of visible keys that row i sees: numbers es_keys_begin to
 * es_keys_end - 1. Neither decreases with i.
 */
static inline int es_keys_begin(const es_entropy_keys *keys, int i)
{
    if (!keys->window)
        return 0;
    const int start = es_key_start(keys, i);
    return keys->count ? keys->count[start] : start;
}

static inline int es_keys_end(const es_entropy_keys *keys, int i)
{
    const int limit = es_key_limit(keys, i);
    return keys->count ? keys->count[limit] : limit;
}

/** Returns the number of keys that row i sees. */
static inline int es_visible_keys(const es_entropy_keys *keys, int i)
{
    return es_keys_end(keys, i) - es_keys_begin(keys, i);
}

/**
 * Hides the keys whose mask (n) is 0. `index` has space for n numbers and
 * `count` for n + 1.
 */
void es_entropy_keys_mask(es_entropy_keys *keys, const unsigned char *mask,
                          int *index, int *count);

/* --- rows in double precision -----------------------------------------------
 */

/** One attention row; NaN as for es_rows. */
typedef struct es_ref_row {
    double entropy, lse, max_logit, sink;
    int32_t nonfinite;
    bool unseen; /* the row sees no key: all statistics are missing */
    double missing, distance, top;
} es_ref_row;

/**
 * Returns a row of which `count` visible weights are not finite; 0: the row
 * sees no key.
 */
es_ref_row es_ref_row_nonfinite(int count);

/**
 * Computes one row of probabilities: those of the first n keys that the mask
 * (n) does not hide; the mask may be NULL. lse and max_logit are NaN.
 */
es_ref_row es_ref_row_probs(es_numbers att, int n, const unsigned char *mask);

/** One query and the keys it is multiplied with. */
typedef struct es_ref_query {
    es_numbers q;              /* (D) */
    es_numbers k;              /* (n,D), with a distance of k_row numbers */
    ptrdiff_t k_row;           /* numbers */
    int start, n;              /* the query sees keys [start, n) */
    const unsigned char *mask; /* (n), 0 for a hidden key; may be NULL */
    int width;
    double scale;            /* factor of products; NaN: the row is not
                                finite */
    double softcap;          /* 0: no softcap */
    const float *sink_logit; /* NULL: no sink */
    double position;         /* position of the query among the keys */
} es_ref_query;

/**
 * Computes the query's row in double throughout, with three passes over the
 * scores. The entropy includes the 1e-9. A product that float32 cannot
 * represent counts as infinite, so that the fast form can agree.
 */
es_ref_row es_ref_row_qk(const es_ref_query *query);

/**
 * Writes row `position` to the outputs that are not NULL; statistics of scores
 * only if `from_qk`.
 */
void es_rows_store(const es_rows *rows, size_t position, const es_ref_row *row,
                   bool from_qk);

/** Smaller temperatures are treated as this. NaN stays NaN. */
#define ES_TEMPERATURE_FLOOR 1e-4F
float es_temperature(const float *temperature, size_t position);

/* --- kernels ----------------------------------------------------------------
 */

/**
 * Some rows of one head, for one call of a kernel. Rows are numbered within
 * the head of their sequence; `rows` points to the outputs of row `first`.
 */
typedef struct es_entropy_part {
    es_rows rows;
    es_numbers in;             /* weights or queries; points to element (0,0) */
    es_numbers k;              /* keys, from key keys->first on; unused with
                                  weights */
    ptrdiff_t in_row, in_head; /* distances, counted in numbers */
    ptrdiff_t k_row;
    es_numbers next_in, next_k;      /* rows to prefetch; data NULL: none */
    const float *temperature;        /* (T) of this head, or NULL */
    const float *sink_logit;         /* of this head, or NULL */
    const unsigned char *query_mask; /* (T) of this sequence, or NULL */
    double scale, softcap;           /* factor of products; softcap 0: none */
    const es_entropy_keys *keys;
    int n_queries, width;
    int first, end;  /* rows; at most ES_QK_ROWS */
    double deadline; /* compared with es_entropy_now; 0: none */
} es_entropy_part;

/** Returns the seconds of the monotonic clock. */
static inline double es_entropy_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/**
 * Returns true if the deadline has passed. Kernels from queries and keys then
 * end early, and their output is not used.
 */
static inline bool es_is_late(const es_entropy_part *part)
{
    return part->deadline > 0 && es_entropy_now() > part->deadline;
}

/** Returns true unless query_mask hides row i. */
static inline bool es_is_wanted(const es_entropy_part *part, int i)
{
    return !part->query_mask || part->query_mask[i];
}

/** Returns the factor of row i's products; NaN if its temperature is NaN. */
static inline double es_scale(const es_entropy_part *part, int i)
{
    return part->scale / (double)es_temperature(part->temperature, (size_t)i);
}

/** Returns the share of a learnt sink in a row whose keys have this lse. */
static inline double es_sink_share(const es_entropy_part *part, double lse)
{
    return part->sink_logit ? 1 / (1 + exp(lse - (double)*part->sink_logit))
                            : 0;
}

/**
 * Returns true if the learnt sink is +inf, which leaves nothing to the keys,
 * or NaN.
 */
static inline bool es_sink_is_broken(const es_entropy_part *part)
{
    return part->sink_logit && !(*part->sink_logit < INFINITY);
}

#define ES_QK_ROWS 1024
#define ES_QK_CHUNK 192 /* keys whose products are kept; whole tiles */
#define ES_QK_TILE 48   /* keys; a multiple of every set's TILE */
/* Scratch for each row of a part. */
#define ES_QK_ROW_FLOATS 9
#define ES_QK_ROW_DOUBLES 5

/* Above this width the packed blocks would not fit the scratch, and the fast
 * form computes row by row like the reference. */
#define ES_QK_WIDTH_MAX 2048

/**
 * Largest width for products by matrix tiles; float32 also has a smallest
 * width.
 */
#define ES_QK_WIDTH_SPLIT 512
#define ES_QK_WIDTH_FIXED 32

/** Returns the padded width of a packed query or key, in whole vectors. */
static inline int es_qk_width(int width)
{
    return (width + 31) / 32 * 32;
}

/**
 * Returns the floats of scratch for n packed keys or queries: enough for
 * float32 numbers, and for two bfloat16, or three bytes per number and a float
 * per row.
 */
static inline size_t es_qk_packed(int n, int width)
{
    const size_t numbers = (size_t)n * (size_t)es_qk_width(width);
    return width <= ES_QK_WIDTH_SPLIT ? numbers * 3 / 2 + (size_t)n : numbers;
}

/**
 * Returns the number of keys that are packed at a time: 85,000 numbers, in
 * whole chunks, or slightly more than all keys if there are fewer.
 */
static inline int es_qk_block(int n_keys, int width)
{
    const int fit = 85000 / es_qk_width(width);
    const int most =
        fit < ES_QK_CHUNK
            ? ES_QK_TILE * (fit > ES_QK_TILE ? fit / ES_QK_TILE : 1)
            : fit / ES_QK_CHUNK * ES_QK_CHUNK;
    return n_keys < most ? (n_keys + ES_QK_TILE - 1) / ES_QK_TILE * ES_QK_TILE
                         : most;
}

/** Returns the floats of scratch that `qk` needs for this shape. */
size_t es_qk_scratch(const es_attention_shape *shape);

/** One set of kernels: the same source compiled for one vector width. */
typedef struct es_entropy_kernels {
    const char *name;
    es_vectors needs; /* checked by es_vectors_supported before any call */
    void (*probs)(const es_entropy_part *part);
    /* scratch: es_qk_scratch floats, aligned to 64 bytes. Hidden rows are not
     * written. */
    void (*qk)(const es_entropy_part *part, float *scratch);
    /* Functions inside the kernels, for tests and benchmarks: n is a multiple
     * of 16; 2^x for x >= -126, base-2 logarithm of normal positive x. */
    void (*exp2)(float *out, const float *x, size_t n);
    void (*log2)(float *out, const float *x, size_t n);
} es_entropy_kernels;

extern const es_entropy_kernels es_entropy_kernels_amx,
    es_entropy_kernels_avx512, es_entropy_kernels_avx2,
    es_entropy_kernels_plain;

/** Returns all sets, fastest first; the last one runs everywhere. */
const es_entropy_kernels *const *es_entropy_kernels_all(size_t *n);

/**
 * Returns true if both kernels reproduce the reference on a small mixed input.
 */
bool es_entropy_kernels_agree(const es_entropy_kernels *kernels);

/**
 * Returns the first of n sets that this machine supports and that agrees with
 * the reference; the last one if there is none.
 */
const es_entropy_kernels *
es_entropy_kernels_choose(const es_entropy_kernels *const *sets, size_t n);

/** Computes row by row in double precision: the definition. */
extern const es_entropy_kernels es_entropy_kernels_reference;

/**
 * Runs es_entropy_probs (if k is NULL) or es_qk_statistics with the given
 * kernels. The structs have this header's version.
 */
es_status es_entropy_with(const es_entropy_kernels *kernels,
                          const es_rows *rows, const es_heads *heads,
                          const es_entropy_input *in, const es_entropy_input *k,
                          const es_attention_shape *shape,
                          int n_threads) ES_MUST_USE;

/* --- heads ------------------------------------------------------------------
 */

/** Returns the outputs from row `position` on. */
es_rows es_rows_from(const es_rows *rows, size_t position);

/**
 * Reduces n rows of one sequence to shares of their head, not yet ended.
 * rows->entropy is required; missing rows are skipped.
 */
es_head_sums es_rows_share(const es_rows *rows, size_t n);

/** Adds the shares of all rows of one sequence. */
void es_heads_add(es_head_sums *sums, const es_head_sums *sequence);

/** es_rows_reduce for structs of this header's version. */
void es_heads_reduce(const es_heads *heads, const es_rows *rows, int n_batch,
                     int n_heads, int n_queries);

/** Writes the statistics of head `head`; missing if no row was added. */
void es_heads_store(const es_heads *heads, int head, const es_head_sums *sums);

/* --- threads ----------------------------------------------------------------
 */

/**
 * Calls work(argument) on n_threads threads including the calling one, or on
 * fewer if the system refuses more. Returns when all have returned.
 */
void es_entropy_threads(void (*work)(void *argument), void *argument,
                        int n_threads);

#endif
