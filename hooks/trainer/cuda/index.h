/**
 * Functions on indices, which assign work to threads. Kernels share them with
 * the host, where they are tested without a device. Valid C and CUDA.
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
 * Returns the distance between two rows of activations in elements. cuBLASLt's
 * fast kernels require rows that begin at multiples of 16 bytes.
 */
ES_BOTH int es_row_stride(int width)
{
    const int unit = 64; /* at 2 bytes per element, a cache line */
    return (width + unit - 1) / unit * unit;
}

/** --- arrays in packs of 16 bytes ---------------------------------------- */

/** The division of an array into single elements, whole packs, and single
 *  elements again. */
typedef struct es_split {
    size_t head, n_packs, tail; /* head + n_packs * lanes + tail = number of
                                 * elements */
} es_split;

/** Splits n elements of `size` bytes (a divisor of 16) at `address` so that the
 *  packs are aligned. If the address is not a multiple of `size`, there are no
 *  packs. */
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

/** Returns the index of the i-th of the head + tail single elements. */
ES_BOTH size_t es_split_single(const es_split *split, size_t i, size_t lanes)
{
    return i < split->head ? i : i + split->n_packs * lanes;
}

/* --- a warp's columns of a row -------------------------------------------
 *
 * A lane has `lanes` consecutive columns; the other lanes have the following
 * ones, and so on in turn. Column j is stored where no two lanes share a bank
 * of shared memory. */

/** Returns the slot of element c in the lane's k-th pack. */
ES_BOTH int es_slot(int lane, int k, int c, int lanes)
{
    return (k * lanes + c) * 32 + lane;
}

ES_BOTH int es_slot_of_column(int j, int lanes)
{
    const int pack = j / lanes;
    return es_slot(pack % 32, pack / 32, j % lanes, lanes);
}

/** Returns the number of slots that `width` columns need. */
ES_BOTH int es_n_slots(int width, int lanes)
{
    return (int)es_ceil_div((size_t)width, (size_t)(32 * lanes)) * 32 * lanes;
}

/* --- rows in the order of their tokens -------------------------------------
 *
 * All keys differ, so their order is unique: tiles are sorted, and the place of
 * a key among all keys is the number of smaller keys in all tiles. Then chunks
 * of the order are summed, each by different threads. */

enum { ES_SORT_TILE = 1024, ES_SUM_CHUNK = 16 };

/** A key that follows every other key in sorted order. */
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

/** Returns the first element of the i-th pair (0 .. tile / 2 - 1) of elements
 *  that are `stride` apart; stride is a power of 2. The second element is
 *  `stride` elements further. */
ES_BOTH int es_sort_first(int i, int stride)
{
    return 2 * i - (i & (stride - 1));
}

/** Returns true if element i belongs to an ascending run when runs have length
 *  `run`. */
ES_BOTH int es_sort_ascends(int i, int run)
{
    return (i & run) == 0;
}

/** Returns how many elements of sorted (n) are smaller than `key`. */
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

/** Range of chunks whose first sums belong to a run that began in an earlier
 *  chunk. */
typedef struct es_carries {
    int first, n;
} es_carries;

/** Returns the carries of the run that begins in chunk `chunk` of the order (n)
 *  and continues beyond this chunk; an empty range if there is no such run. */
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
    const uint64_t last = es_sort_key(token, -1); /* greater than the key of any
                                                   * row of the token */
    const int behind = es_count_smaller(order, n, last);
    carries.n = (int)es_ceil_div((size_t)behind, ES_SUM_CHUNK) - carries.first;
    return carries;
}

#endif
