/**
 * Declarations shared by the files of the entropy module and its tests: the
 * keys that rows see, single rows in double precision, and the table of vector
 * kernels.
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

/** Converts a float16 to float32 exactly. */
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
 * The keys of one sequence from the first to the last visible key; positions
 * are counted from the first visible key. index and count are NULL if no key
 * between the first and the last visible key is hidden. Kernels number the
 * visible keys from 0.
 */
typedef struct es_entropy_keys {
    int first, n; /* first: index of the first visible key among all keys; n:
                     number of keys from the first to the last visible key */
    bool causal;  /* true if row i sees no key beyond offset + i */
    int offset;   /* position of row 0; may be negative */
    int window;   /* 0: no window */
    const unsigned char *mask; /* (n) */
    const int *index;          /* position of each visible key */
    const int *count; /* (n + 1) count[j] is the number of visible keys among
                         the first j keys */
} es_entropy_keys;

/**
 * Returns the end of the keys that row i may see: the row sees only keys before
 * this position.
 */
static inline int es_key_limit(const es_entropy_keys *keys, int i)
{
    int64_t end = keys->n;
    if (keys->causal)
        end = (int64_t)keys->offset + i + 1;
    else if (keys->window)
        end = (int64_t)keys->offset + i + keys->window;
    return end < 0 ? 0 : end > keys->n ? keys->n : (int)end;
}

/** Returns the first position that row i can see; at most es_key_limit. */
static inline int es_key_start(const es_entropy_keys *keys, int i)
{
    const int limit = es_key_limit(keys, i);
    const int64_t start =
        keys->window ? (int64_t)keys->offset + i + 1 - keys->window : 0;
    return start < 0 ? 0 : start > limit ? limit : (int)start;
}

/**
 * Return the range of visible keys that row i sees, from es_keys_begin to
 * es_keys_end - 1. Neither bound decreases as i grows.
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

/* --- rows in double precision -----------------------------------------------
 */

/** Statistics of one attention row; NaN in the same cases as es_rows. */
typedef struct es_ref_row {
    double values[ES_N_ROW_STATISTICS]; /* except ES_ROW_NONFINITE */
    int32_t nonfinite;
    bool unseen; /* true if the row sees no key; all statistics are then
                    missing */
} es_ref_row;

/**
 * Returns the statistics of a non-finite row with `count` visible weights that
 * are not finite. If `count` is 0, returns the statistics of a row that sees no
 * key.
 */
es_ref_row es_ref_row_nonfinite(int count);

/**
 * Computes entropy and sink of one row from its weights on the first n keys.
 * Leaves out the keys that the mask (n) hides; the mask may be NULL.
 */
es_ref_row es_ref_row_probs(es_numbers att, int n, const unsigned char *mask);

/** One query and the keys that it is multiplied by. */
typedef struct es_ref_query {
    es_numbers q;              /* (D) */
    es_numbers k;              /* (n,D), stride k_row */
    ptrdiff_t k_row;           /* numbers */
    int start, n;              /* the query sees keys [start, n) */
    const unsigned char *mask; /* mask (n), 0 for a hidden key; may be NULL */
    int width;
    double scale;            /* factor of q . k; NaN makes the row non-finite */
    double softcap;          /* 0: no softcap */
    const float *sink_logit; /* NULL if the head has no learnt sink */
    double position;         /* position of the query among the keys */
} es_ref_query;

/**
 * Computes the statistics of the query's row in double throughout, with three
 * passes over the scores. The entropy includes the 1e-9 of the formula in
 * entropy.h. A product that float32 cannot represent counts as infinite, as in
 * the fast kernels.
 */
es_ref_row es_ref_row_qk(const es_ref_query *query);

/**
 * The arrays of es_rows, indexed by es_row_statistic. An array that the caller
 * does not need, or that es_rows does not have, is NULL.
 */
typedef struct es_row_arrays {
    float *floats[ES_N_ROW_STATISTICS]; /* except ES_ROW_NONFINITE */
    int32_t *nonfinite;
} es_row_arrays;

/** Writes row `position` to the output arrays that are not NULL. */
void es_rows_store(const es_row_arrays *rows, size_t position,
                   const es_ref_row *row);

/**
 * Returns the temperature at `position`, but at least ES_TEMPERATURE_FLOOR. NaN
 * stays NaN.
 */
#define ES_TEMPERATURE_FLOOR 1e-4F
float es_temperature(const float *temperature, size_t position);

/* --- kernels ----------------------------------------------------------------
 */

/**
 * A part is a range of rows of one sequence and head that one kernel call
 * processes. Rows are numbered within their sequence and head; `rows` points to
 * the outputs of row `first`.
 */
typedef struct es_entropy_part {
    es_row_arrays rows;
    es_numbers in; /* weights or queries, starting at element
                      (0,0) */
    /* Keys, starting at key keys->first; unused if `in` is weights. */
    es_numbers k;
    ptrdiff_t in_row, in_head; /* distances between rows and between heads, in
                                  elements */
    ptrdiff_t k_row;
    /* Queries and keys of the next part, to be prefetched; their `data` is NULL
     * if there is no next part. */
    es_numbers next_in, next_k;
    const float *temperature;        /* (T) temperatures of this head, or
                                        NULL */
    const float *sink_logit;         /* logit of this head's learnt sink, or
                                        NULL */
    const unsigned char *query_mask; /* (T) mask of this sequence's rows, or
                                        NULL */
    /* scale: factor by which the products q . k are multiplied; softcap: 0
     * without a softcap. */
    double scale, softcap;
    const es_entropy_keys *keys;
    int n_queries, width;
    int first, end;  /* the part has the rows first .. end - 1, at most
                        ES_QK_ROWS */
    double deadline; /* time by es_entropy_now at which the kernel stops; 0:
                        no limit */
} es_entropy_part;

/** Returns the time of the monotonic clock in seconds. */
static inline double es_entropy_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/**
 * Returns true if the deadline has passed. Kernels that work on queries and
 * keys then end early, and the caller discards their output.
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

/** Returns the factor by which the products of row i's query with the keys are
 *  multiplied; NaN if the row's temperature is NaN. */
static inline double es_scale(const es_entropy_part *part, int i)
{
    return part->scale / (double)es_temperature(part->temperature, (size_t)i);
}

/**
 * Returns the weight of the learnt sink in a row whose keys have the
 * log-sum-exp `lse`.
 */
static inline double es_sink_share(const es_entropy_part *part, double lse)
{
    return part->sink_logit ? 1 / (1 + exp(lse - (double)*part->sink_logit))
                            : 0;
}

/**
 * Returns true if the logit of the learnt sink is NaN or +inf. With a logit of
 * +inf all weight would go to the sink.
 */
static inline bool es_sink_is_broken(const es_entropy_part *part)
{
    return part->sink_logit && !(*part->sink_logit < INFINITY);
}

#define ES_QK_ROWS 1024
/* Number of keys whose products are stored at a time; a multiple of
   ES_QK_TILE. */
#define ES_QK_CHUNK 192
/* The number of keys in a block is a multiple of ES_QK_TILE, which is divisible
   by every variant's TILE. */
#define ES_QK_TILE 48
/* Number of scratch floats and doubles for each row of a part. */
#define ES_QK_ROW_FLOATS (6 + ES_N_ROW_SUMS)
#define ES_QK_ROW_DOUBLES (2 + ES_N_ROW_SUMS)

/* Largest head width for which the packed blocks fit into the scratch memory.
 * Wider heads are computed row by row, like the reference. */
#define ES_QK_WIDTH_MAX 2048

/**
 * AMX tiles compute the products of heads up to the width ES_QK_WIDTH_SPLIT;
 * for float32 inputs the width must also be above ES_QK_WIDTH_FIXED.
 */
#define ES_QK_WIDTH_SPLIT 512
#define ES_QK_WIDTH_FIXED 32

/** Returns the width of a packed query or key, padded to whole vectors. */
static inline int es_qk_width(int width)
{
    return (width + 31) / 32 * 32;
}

/**
 * Returns the number of scratch floats for n packed keys or queries. The space
 * is enough for float32 numbers, or for two bfloat16 per number, or for three
 * bytes per number and a float per row.
 */
static inline size_t es_qk_packed(int n, int width)
{
    const size_t numbers = (size_t)n * (size_t)es_qk_width(width);
    return width <= ES_QK_WIDTH_SPLIT ? numbers * 3 / 2 + (size_t)n : numbers;
}

/**
 * Returns the number of keys that are packed at a time: so many that together
 * they have about 85,000 elements. The result is a multiple of ES_QK_CHUNK, or
 * of ES_QK_TILE for wide heads. If there are fewer keys, the result is n_keys,
 * rounded up to a multiple of ES_QK_TILE.
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

/**
 * Returns the number of scratch floats that the kernel `qk` needs for this
 * shape.
 */
size_t es_qk_scratch(const es_attention_shape *shape);

/**
 * One variant of the kernels: the same source compiled for one vector width.
 */
typedef struct es_entropy_kernels {
    const char *name;
    es_vectors needs; /* required instructions; callers check them with
                         es_vectors_supported */
    void (*probs)(const es_entropy_part *part);
    /* Computes the rows of a part from queries and keys. `scratch` has
     * es_qk_scratch floats and is aligned to 64 bytes. Rows that query_mask
     * hides are not written. */
    void (*qk)(const es_entropy_part *part, float *scratch);
    /* Functions that the kernels use, exported for tests and benchmarks; n is a
     * multiple of 16. exp2 computes 2^x for x >= -126, log2 the base-2
     * logarithm of normal positive x. */
    void (*exp2)(float *out, const float *x, size_t n);
    void (*log2)(float *out, const float *x, size_t n);
} es_entropy_kernels;

extern const es_entropy_kernels es_entropy_kernels_amx,
    es_entropy_kernels_avx512, es_entropy_kernels_avx2,
    es_entropy_kernels_plain;

/**
 * Returns all variants, fastest first. The last variant runs on every machine.
 */
const es_entropy_kernels *const *es_entropy_kernels_all(size_t *n);

/**
 * Returns true if both kernels, for weights and for queries and keys, reproduce
 * the reference on a small mixed input.
 */
bool es_entropy_kernels_agree(const es_entropy_kernels *kernels);

/**
 * Returns the first of n variants that this machine supports and that agrees
 * with the reference; otherwise the last variant.
 */
const es_entropy_kernels *
es_entropy_kernels_choose(const es_entropy_kernels *const *sets, size_t n);

/**
 * Kernels that compute row by row in double precision. They define the correct
 * results.
 */
extern const es_entropy_kernels es_entropy_kernels_reference;

/**
 * Runs es_entropy_probs (if k is NULL) or es_qk_statistics with the given
 * kernels. The structs must be of this header's version; their `size` is not
 * checked.
 */
es_status es_entropy_with(const es_entropy_kernels *kernels,
                          const es_rows *rows, const es_heads *heads,
                          const es_entropy_input *in, const es_entropy_input *k,
                          const es_attention_shape *shape,
                          int n_threads) ES_MUST_USE;

/* --- heads ------------------------------------------------------------------
 */

/**
 * The arrays of es_heads, indexed by es_head_series. Arrays that the caller
 * does not need are NULL.
 */
typedef struct es_head_arrays {
    float *floats[ES_N_HEAD_SERIES]; /* NULL for series of counts */
    int64_t *finite_rows, *nonfinite_rows, *nonfinite_weights;
} es_head_arrays;

/** Returns output pointers advanced to row `position`. */
es_row_arrays es_rows_from(const es_row_arrays *rows, size_t position);

/**
 * Reduces n rows of one sequence and head to sums that have not yet been
 * divided by the number of rows. The entropies are required; missing rows are
 * skipped.
 */
es_head_sums es_rows_share(const es_row_arrays *rows, size_t n);

/** Adds the sums of all rows of one sequence to the sums of the head. */
void es_heads_add(es_head_sums *sums, const es_head_sums *sequence);

/**
 * Same as es_rows_reduce, but takes arrays that are indexed by statistic and
 * series.
 */
void es_heads_reduce(const es_head_arrays *heads, const es_row_arrays *rows,
                     int n_batch, int n_heads, int n_queries);

/**
 * Writes the statistics of head `head`. They are missing if no row was added.
 */
void es_heads_store(const es_head_arrays *heads, int head,
                    const es_head_sums *sums);

/* --- threads ----------------------------------------------------------------
 */

/**
 * Calls work(argument) on n_threads threads including the calling one, or on
 * fewer if the system refuses more. Returns when all calls have returned.
 */
void es_entropy_threads(void (*work)(void *argument), void *argument,
                        int n_threads);

#endif
