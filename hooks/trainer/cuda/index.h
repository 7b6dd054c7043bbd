/**
 * Computes the indices by which work is assigned to threads. Kernels and the
 * host share these functions, so that tests can check them without a device.
 * The code is valid C and CUDA.
 */
#ifndef ES_CUDA_INDEX_H
#define ES_CUDA_INDEX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ES_BOTH __host__ __device__ static inline
#else
#define ES_BOTH static inline
#endif

/** Number of bytes that a thread reads or writes at a time. */
enum { ES_PACK = 16 };

/** Returns n / unit, rounded up. */
ES_BOTH size_t es_ceil_div(size_t n, size_t unit)
{
    return (n + unit - 1) / unit;
}

/**
 * Returns the distance between two rows of activations in elements, for a row
 * of `width` elements. cuBLASLt's fast kernels require that rows begin at
 * multiples of 16 bytes.
 */
ES_BOTH int es_row_stride(int width)
{
    const int unit = 64; /* 64 elements of 2 bytes fill a cache line of 128
                          * bytes */
    return (width + unit - 1) / unit * unit;
}

/** --- arrays in packs of 16 bytes ---------------------------------------- */

/** Division of an array into single elements (head), packs of 16 bytes, and
 *  single elements (tail). */
typedef struct es_split {
    size_t head, n_packs, tail; /* head + n_packs * lanes + tail = number of
                                 * elements */
} es_split;

/** Divides an array of n elements of `size` bytes (a divisor of 16) at
 *  `address` into packs of 16 bytes, which begin at multiples of 16, and single
 *  elements before and after the packs. If the address is not a multiple of
 *  `size`, there are no packs. */
ES_BOTH es_split es_split_at(uintptr_t address, size_t size, size_t n)
{
    const size_t lanes = ES_PACK / size;
    size_t head = (ES_PACK - address % ES_PACK) % ES_PACK / size;
    es_split split = {n, 0, 0};
    if (address % size != 0 || head >= n)
        return split;
    split.head = head;
    split.n_packs = (n - head) / lanes;
    split.tail = n - head - split.n_packs * lanes;
    return split;
}

/** Returns the index in the array of the i-th single element. The elements
 *  before the packs (`head`) are counted first, then those after the packs
 *  (`tail`). */
ES_BOTH size_t es_split_single(const es_split *split, size_t i, size_t lanes)
{
    return i < split->head ? i : i + split->n_packs * lanes;
}

/* --- a warp's columns of a row -------------------------------------------
 *
 * The first lane processes the first `lanes` columns, the second lane the next
 * `lanes` columns, and so on; after the last lane, the first lane follows
 * again. Columns are stored so that no two lanes access the same bank of shared
 * memory. */

/** Each lane of a warp processes packs of `lanes` elements. Returns the slot in
 *  shared memory of element c of the k-th pack of lane `lane`. */
ES_BOTH int es_slot(int lane, int k, int c, int lanes)
{
    return (k * lanes + c) * 32 + lane;
}

ES_BOTH int es_slot_of_column(int j, int lanes)
{
    const int pack = j / lanes;
    return es_slot(pack % 32, pack / 32, j % lanes, lanes);
}

/** Returns how many slots of shared memory (one element each) a row of `width`
 *  columns occupies: `width`, rounded up so that all 32 lanes of the warp have
 *  the same number of packs of `lanes` elements. */
ES_BOTH int es_n_slots(int width, int lanes)
{
    return (int)es_ceil_div((size_t)width, (size_t)(32 * lanes)) * 32 * lanes;
}

/* --- rows in the order of their tokens -------------------------------------
 *
 * All keys differ, so their order is unique. Tiles of keys are sorted first;
 * the position of a key in the order is the number of smaller keys in all
 * tiles. Then different threads compute the sums of each chunk of the order. */

enum { ES_SORT_TILE = 1024, ES_SUM_CHUNK = 16 };

/** Sort key that is used as padding; it is greater than every other key. */
#define ES_SORT_PAD UINT64_MAX

ES_BOTH uint64_t es_sort_key(int32_t token, int row)
{
    return (uint64_t)(uint32_t)token << 32 | (uint32_t)row;
}

ES_BOTH int32_t es_key_token(uint64_t key)
{
    return (int32_t)(key >> 32);
}

ES_BOTH int es_key_row(uint64_t key)
{
    return (int)(key & UINT32_MAX);
}

/** Returns the index of the first element of the i-th pair in a step of bitonic
 *  sort, for i = 0 .. tile / 2 - 1. The second element follows `stride`
 *  elements later; stride is a power of 2. */
ES_BOTH int es_sort_first(int i, int stride)
{
    return 2 * i - (i & (stride - 1));
}

/** Returns true if element i is in an ascending block. Bitonic sort sorts
 *  blocks of `run` elements alternately in ascending and descending order. */
ES_BOTH int es_sort_ascends(int i, int run)
{
    return (i & run) == 0;
}

/** Returns how many elements of sorted (n), which is in ascending order, are
 *  smaller than `key`. */
ES_BOTH int es_count_smaller(const uint64_t *sorted, int n, uint64_t key)
{
    int first = 0;
    while (n > 0) {
        const int middle = n / 2;
        if (sorted[first + middle] < key) {
            first += middle + 1;
            n -= middle + 1;
        } else {
            n = middle;
        }
    }
    return first;
}

/** A range of consecutive chunks, each of which begins with rows that continue
 *  a run of rows with the same token from the previous chunk. */
typedef struct es_carries {
    int first, n;
} es_carries;

/** A run is a group of consecutive rows of `order` (n) with the same token. If
 *  a run begins in chunk `chunk` and continues beyond it, returns the later
 *  chunks into which the run continues; otherwise returns an empty range. */
ES_BOTH es_carries es_carries_of(const uint64_t *order, int n, int chunk)
{
    es_carries carries = {chunk + 1, 0};
    const int end = (chunk + 1) * ES_SUM_CHUNK;
    if (end >= n)
        return carries;
    const int32_t token = es_key_token(order[end - 1]);
    if (es_key_token(order[end]) != token)
        return carries;
    if (es_count_smaller(order, n, es_sort_key(token, 0)) < end - ES_SUM_CHUNK)
        return carries;
    /* greater than the key of any row with this token */
    const uint64_t last = es_sort_key(token, -1);
    const int behind = es_count_smaller(order, n, last);
    carries.n = (int)es_ceil_div((size_t)behind, ES_SUM_CHUNK) - carries.first;
    return carries;
}

#endif
