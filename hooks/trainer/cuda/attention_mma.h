/**
 * Operations on tiles of attention on tensor cores, for the kernels of the
 * forward and backward passes.
 *
 * A block has 4 warps. Warp w owns 16 * M rows, starting at row 16 * M * w: M
 * groups of the 16 rows that an mma instruction processes. In shared memory the
 * rows of a head are WIDTH wide, padded with zeros beyond the head's width, and
 * stored in the order of es_tile_chunk. There are two products, with sums in
 * f32 registers:
 *
 *     multiply  s[i][j]  = sum_c x[i][c] y[j][c]     q . k, dy . v
 *     gather    o[i][c] += sum_j p[i][j] y[j][c]     outputs, dq; dk, dv
 *
 * The results of multiply, after rounding, are the left operand of gather and
 * stay in their registers. The rows of y ("other" rows) are copied to shared
 * memory in tiles of 64; the next tile is copied while the current tile is
 * processed. A warp multiplies its rows by N other rows at a time.
 */
#ifndef ES_CUDA_ATTENTION_MMA_H
#define ES_CUDA_ATTENTION_MMA_H

#include "hooks/trainer/cuda/attention.h"
#include "hooks/trainer/cuda/mma.h"

enum {
    ES_MMA_WARPS = 4,
    ES_MMA_THREADS = 32 * ES_MMA_WARPS,
    ES_MMA_OTHERS = 64 /* rows in a tile of "other" rows, which the block does
                        * not own */
};

ES_DEVICE int es_mma_lane(void)
{
    return (int)threadIdx.x % 32;
}
ES_DEVICE int es_mma_warp(void)
{
    return (int)threadIdx.x / 32;
}
/** Reads the block number from its register and returns it. The compiler cannot
 *  know that the number is unchanged, and therefore does not keep values
 *  derived from it in registers. */
ES_DEVICE unsigned es_mma_block_anew(void)
{
#ifdef __CUDACC__
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
#else
    return blockIdx.x;
#endif
}

/* --- 16-bit numbers ------------------------------------------------------- */

/** Packs two elements into a 32-bit register; `low` becomes the lower half. */
template <class A>
ES_DEVICE uint32_t es_pair(float low, float high);
template <>
ES_DEVICE uint32_t es_pair<es_bf16>(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
template <>
ES_DEVICE uint32_t es_pair<es_fp16>(float low, float high)
{
    __half2 pair = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* --- copies to and from shared memory ------------------------------------- */

/* A row of WIDTH elements consists of CHUNKS chunks of 16 bytes. A thread
 * copies one chunk of every ROWS-th row, always from the same columns. */
template <int WIDTH>
struct es_mma_copies {
    enum { CHUNKS = WIDTH / 8, ROWS = ES_MMA_THREADS / CHUNKS };
    static_assert(ROWS % 8 == 0, "ROWS must be a multiple of 8");
};

/** Returns the address of the first chunk that this thread copies, if the rows
 *  to be copied begin at `first` and are `stride` elements apart. */
template <class A, int WIDTH>
ES_DEVICE const A *es_mma_source(const A *first, int stride)
{
    typedef es_mma_copies<WIDTH> copies;
    return first +
           (size_t)((int)threadIdx.x / copies::CHUNKS) * (size_t)stride +
           8 * ((int)threadIdx.x % copies::CHUNKS);
}

/** Starts copying N rows, from position `first` of the sequence on, to `tile`.
 *  `source` is the address from which this thread copies its first chunk.
 *  Positions beyond n_ctx and columns beyond `width` become 0. */
template <class A, int WIDTH, int N>
ES_DEVICE void es_mma_fetch(A *tile, const A *source, int stride, int first,
                            int n_ctx, int width)
{
    typedef es_mma_copies<WIDTH> copies;
    const int thread = (int)threadIdx.x;
    const int chunk = thread % copies::CHUNKS, row = thread / copies::CHUNKS;
    const size_t step = (size_t)copies::ROWS * (size_t)stride;
    const A *at = source;
    tile += 8 * es_tile_chunk(row, chunk, copies::CHUNKS);
    if (first + N <= n_ctx && width == WIDTH) {
#pragma unroll
        for (int i = 0; i < N; i += copies::ROWS, at += step)
            es_cp_async(tile + i * WIDTH, at, true);
        return;
    }
    source -= (size_t)row * (size_t)stride + (size_t)(8 * chunk);
#pragma unroll 1
    for (int i = 0; i < N; i += copies::ROWS, at += step) {
        const bool there = first + row + i < n_ctx && 8 * chunk < width;
        es_cp_async(tile + i * WIDTH, there ? at : source, there);
    }
}

/* Returns an address in `tile` for this lane, from which es_tile_move computes
 * the addresses of the lane's operands; `row`, the first row, is a multiple of
 * 8. The empty assembler statement makes the compiler compute these addresses
 * where they are used, because there are not enough registers to keep them. */
template <class A, int WIDTH>
ES_DEVICE uint32_t es_mma_spot_at(const A *tile, int row, es_tile_spot spot)
{
    uint32_t at = es_shared_address(tile + row * WIDTH) +
                  es_tile_spot_bytes(spot.row, spot.chunk, WIDTH / 8);
#ifdef __CUDACC__
    asm volatile("" : "+r"(at));
#endif
    return at;
}

/** Returns the address from which this lane helps to load a left operand (16
 *  rows by 16 columns) of multiply or gather, or a right operand of gather. */
template <class A, int WIDTH>
ES_DEVICE uint32_t es_mma_left_at(const A *tile, int row)
{
    return es_mma_spot_at<A, WIDTH>(tile, row,
                                    es_tile_left_spot(es_mma_lane()));
}
/** Returns the address from which this lane helps to load a right operand of
 *  multiply (16 rows by 16 columns). */
template <class A, int WIDTH>
ES_DEVICE uint32_t es_mma_right_at(const A *tile, int row)
{
    return es_mma_spot_at<A, WIDTH>(tile, row,
                                    es_tile_right_spot(es_mma_lane()));
}

/** Multiplies the sums of this warp's rows by the rows' factors and rounds
 *  them. Writes the results to the warp's own rows of `tile`, which no other
 *  warp may still be reading, and copies them to device memory. */
template <class A, int WIDTH, int M>
ES_DEVICE void es_mma_write(A *to, A *tile, const float out[M][WIDTH / 8][4],
                            const float factor[M][2], int stride, int first,
                            int n_ctx, int width)
{
    const int lane = es_mma_lane(), row = es_mma_warp() * 16 * M;
    const int n_chunks = WIDTH / 8;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < n_chunks; n++)
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
                uint32_t pair =
                    es_pair<A>(out[m][n][2 * upper] * factor[m][upper],
                               out[m][n][2 * upper + 1] * factor[m][upper]);
                int r = row + 16 * m + es_tile_sum_row(lane, 2 * upper);
                memcpy((void *)(tile + 8 * es_tile_chunk(r, n, n_chunks) +
                                es_tile_sum_column(lane, 0)),
                       &pair, sizeof pair);
            }
    __syncwarp();
    for (int e = lane; e < 16 * M * n_chunks; e += 32) {
        int r = row + e / n_chunks, chunk = e % n_chunks;
        size_t at = (size_t)(first + r) * (size_t)stride + (size_t)chunk * 8;
        if (first + r < n_ctx && 8 * chunk < width)
            *(uint4 *)(void *)(to + at) =
                *(const uint4 *)(const void *)(tile +
                                               8 * es_tile_chunk(r, chunk,
                                                                 n_chunks));
    }
}

/* --- masks ---------------------------------------------------------------- */

/**
 * Each call of the functions below processes the 16 * M rows of the warp and N
 * other rows. With DIAGONAL, both ranges of rows begin at the same position, so
 * the mask is known at compile time. Without DIAGONAL, nothing is masked.
 */

/** Returns true if any element of a block of 16 own rows and 16 other rows is
 *  visible. `own` and `other` are the first rows of the block, counted from the
 *  first of the warp's 16 * M rows and the first of the N other rows. */
template <es_tile_owner OWNER, bool DIAGONAL>
ES_DEVICE bool es_mma_meets(int own, int other)
{
    return !DIAGONAL ||
           es_tile_mask_of(own, 16, other, 16, OWNER) != ES_TILE_NONE;
}

/** Returns true if element i of this lane's sums is visible in a block of 8 own
 *  rows and 8 other rows, which start at `own` and `other`. The result is a
 *  constant except for blocks on the diagonal. */
template <es_tile_owner OWNER, bool DIAGONAL>
ES_DEVICE bool es_mma_sees(int own, int other, int i)
{
    const es_tile_mask mask = es_tile_mask_of(own, 8, other, 8, OWNER);
    const int lane = es_mma_lane();
    return !DIAGONAL || mask == ES_TILE_ALL ||
           (mask == ES_TILE_SOME &&
            es_tile_visible(es_tile_sum_row(lane, 0),
                            es_tile_sum_column(lane, i % 2), OWNER));
}

/* --- products ------------------------------------------------------------- */

/** Computes s = x y^T for this warp's rows of x, from row `row` on, and N rows
 *  of y, from row `other` on. Blocks of 16 by 16 that are completely masked
 *  become 0. */
template <class A, int WIDTH, int M, int N,
          es_tile_owner OWNER = ES_OWN_QUERIES, bool DIAGONAL = false>
ES_DEVICE void es_mma_multiply(float s[M][N / 8][4], const A *x, int row,
                               const A *y, int other)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][n][i] = 0;
    const uint32_t left = es_mma_left_at<A, WIDTH>(x, row);
    const uint32_t right = es_mma_right_at<A, WIDTH>(y, other);
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
            es_ldmatrix(a[m], es_tile_move(left, 16 * m, 2 * k, WIDTH / 8));
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            uint32_t b[4];
            /* b[0] and b[1] hold 8 rows of y from row 16 * n on; b[2] and b[3]
             * hold the next 8 rows */
            es_ldmatrix(b, es_tile_move(right, 16 * n, 2 * k, WIDTH / 8));
#pragma unroll
            for (int m = 0; m < M; m++)
                if (es_mma_meets<OWNER, DIAGONAL>(16 * m, 16 * n)) {
                    es_mma<A>(s[m][2 * n], a[m], b);
                    es_mma<A>(s[m][2 * n + 1], a[m], b + 2);
                }
        }
    }
}

/** Rounds 16 columns of sums, given as two blocks of 8 columns, and packs them
 *  into the registers of a left operand. */
template <class A>
ES_DEVICE void es_mma_turn(uint32_t a[4], const float low[4],
                           const float high[4])
{
    a[0] = es_pair<A>(low[0], low[1]);
    a[1] = es_pair<A>(low[2], low[3]);
    a[2] = es_pair<A>(high[0], high[1]);
    a[3] = es_pair<A>(high[2], high[3]);
}

/** Computes out += p y for this warp's rows of p, where y are N rows of a tile
 *  from row `row` on. */
template <class A, int WIDTH, int M, int N, es_tile_owner OWNER, bool DIAGONAL>
ES_DEVICE void es_mma_gather(float out[M][WIDTH / 8][4],
                             const float p[M][N / 8][4], const A *y, int row)
{
    uint32_t a[N / 16][M][4];
    const uint32_t turned = es_mma_left_at<A, WIDTH>(y, row);
#pragma unroll
    for (int n = 0; n < N / 16; n++)
#pragma unroll
        for (int m = 0; m < M; m++)
            es_mma_turn<A>(a[n][m], p[m][2 * n], p[m][2 * n + 1]);
#pragma unroll
    for (int n = 0; n < N / 16; n++)
#pragma unroll
        for (int c = 0; c < WIDTH / 16; c++) {
            uint32_t b[4];
            /* b[0] and b[1] hold 8 columns of y from column 16 * c on; b[2] and
             * b[3] hold the next 8 columns */
            es_ldmatrix_transposed(
                b, es_tile_move(turned, 16 * n, 2 * c, WIDTH / 8));
#pragma unroll
            for (int m = 0; m < M; m++)
                if (es_mma_meets<OWNER, DIAGONAL>(16 * m, 16 * n)) {
                    es_mma<A>(out[m][2 * c], a[n][m], b);
                    es_mma<A>(out[m][2 * c + 1], a[n][m], b + 2);
                }
        }
}

template <int WIDTH, int M>
ES_DEVICE void es_mma_clear(float out[M][WIDTH / 8][4])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                out[m][n][i] = 0;
}

/* --- rows, of four lanes each --------------------------------------------- */

ES_DEVICE float es_mma_row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
ES_DEVICE float es_mma_row_largest(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* --- non-finite numbers --------------------------------------------------- */

/** Sets the flag of each group of 16 rows, from row `own` on, that contains a
 *  number that is not finite: an output, a row's factor in `factor`, or a row's
 *  number in `more`. Without ADDS, clears the flags of the warp's other groups;
 *  with ADDS, leaves these flags unchanged. */
template <class A, int WIDTH, int M, bool ADDS>
ES_DEVICE void
es_mma_flag(const es_attention_call<A> *call, const float out[M][WIDTH / 8][4],
            const float factor[M][2], const float more[M], int head, int own)
{
#pragma unroll
    for (int m = 0; m < M; m++) {
        const int row = own + 16 * m;
        float x =
            fmaf(factor[m][0], 0.0f, fmaf(factor[m][1], 0.0f, more[m] * 0.0f));
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                /* x becomes NaN, and stays NaN, if a number is not finite */
                x = fmaf(out[m][n][i], 0.0f, x);
        const bool bad = __any_sync(0xffffffffu, x != 0) != 0;
        if (es_mma_lane() == 0 && row < call->n_ctx && (bad || !ADDS))
            *es_attention_flag(call, head, row) = bad;
    }
}

/* --- launches ------------------------------------------------------------- */

/** Returns true if the tensor-core kernels can process the call, which requires
 *  16-bit activations, a head width from 16 to 128 that is a multiple of 8, and
 *  arrays aligned to 16 bytes. */
template <class A>
static inline bool es_mma_can(const es_attention_call<A> *call)
{
    const uintptr_t all = (uintptr_t)call->qkv | (uintptr_t)call->y |
                          (uintptr_t)call->dy | (uintptr_t)call->dqkv;
    return call->width >= 16 && call->width <= 128 && call->width % 8 == 0 &&
           all % 16 == 0;
}

#endif
