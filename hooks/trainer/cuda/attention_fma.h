/**
 * Tiles of attention for every head width up to 256 and every type of
 * activation: exact float32 arithmetic on tiles in shared memory. The parity of
 * fp32 and tf32 rests on it; bf16 and fp16 come here where attention_mma.h
 * cannot.
 *
 * A block has 256 threads, 16 by 16, and owns N rows of a head; thread (tx, ty)
 * has rows ty + 16 r of them and columns tx + 16 c of what they meet. Two
 * products serve all three kernels:
 *
 *     multiply  s[i][j]  = sum_c x[i][c] y[j][c]     q . k, dy . v
 *     gather    o[i][c] += sum_j p[i][j] y[j][c]     outputs, dq; dk, dv
 *
 * multiply sums in the order of c, whatever the tile: where a row is one weight
 * of 1, y is v, and dy . y is dy . v to the last bit.
 */
#ifndef ES_CUDA_ATTENTION_FMA_H
#define ES_CUDA_ATTENTION_FMA_H

#include "hooks/trainer/cuda/attention.h"

enum { ES_FMA_THREADS = 256, ES_FMA_SIDE = 16 };

/** Rows of a tile for heads up to WIDTH wide. */
template <int WIDTH>
struct es_fma_tile {
    enum {
        N = WIDTH <= 64    ? 64
            : WIDTH <= 128 ? 32
                           : 16,
        R = N / ES_FMA_SIDE,     /* rows, or columns, of a thread */
        C = WIDTH / ES_FMA_SIDE, /* columns of an output, of a thread */
        STRIDE = WIDTH + 4,      /* floats: rows in different banks */
        P_STRIDE = N + 4,        /* of a tile of weights */
        FLOATS = N * STRIDE,
        P_FLOATS = N * P_STRIDE
    };
};

/** Which head, and which of its rows a block owns. */
typedef struct es_fma_owned {
    int head, first;
    int tx, ty;
} es_fma_owned;

template <class A, int WIDTH>
ES_DEVICE es_fma_owned es_fma_find(const es_attention_call<A> *call,
                                   es_tile_owner owner)
{
    es_tile_place place =
        es_tile_place_of(blockIdx.x, call->n_ctx, es_fma_tile<WIDTH>::N, owner);
    es_fma_owned own = {place.head, place.first, (int)threadIdx.x % ES_FMA_SIDE,
                        (int)threadIdx.x / ES_FMA_SIDE};
    return own;
}

/* --- tiles ---------------------------------------------------------------- */

/** Rows first .. first + N - 1 of an array whose positions are `stride` apart;
 * zeros beyond its n_ctx rows and `width` columns. */
template <class A, int WIDTH>
__device__ void es_fma_load(float *out, const A *from, int stride, int first,
                            int n_ctx, int width)
{
    typedef es_fma_tile<WIDTH> tile;
    for (int e = (int)threadIdx.x; e < tile::N * WIDTH; e += ES_FMA_THREADS) {
        int row = e / WIDTH, c = e % WIDTH;
        bool inside = first + row < n_ctx && c < width;
        size_t at = (size_t)(first + row) * (size_t)stride + (size_t)c;
        out[row * tile::STRIDE + c] = inside ? es_float(from[at]) : 0;
    }
}

template <int WIDTH>
ES_DEVICE void
es_fma_multiply(float s[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::R],
                const float *x, const float *y, es_fma_owned own)
{
    typedef es_fma_tile<WIDTH> tile;
    for (int r = 0; r < tile::R; r++)
        for (int c = 0; c < tile::R; c++)
            s[r][c] = 0;
#pragma unroll 2
    for (int k = 0; k < WIDTH; k += 4) {
        float4 b[tile::R];
#pragma unroll
        for (int c = 0; c < tile::R; c++)
            b[c] =
                *(const float4 *)(const void *)&y[(own.tx + ES_FMA_SIDE * c) *
                                                      tile::STRIDE +
                                                  k];
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            float4 a =
                *(const float4 *)(const void *)&x[(own.ty + ES_FMA_SIDE * r) *
                                                      tile::STRIDE +
                                                  k];
#pragma unroll
            for (int c = 0; c < tile::R; c++) {
                s[r][c] = fmaf(a.x, b[c].x, s[r][c]);
                s[r][c] = fmaf(a.y, b[c].y, s[r][c]);
                s[r][c] = fmaf(a.z, b[c].z, s[r][c]);
                s[r][c] = fmaf(a.w, b[c].w, s[r][c]);
            }
        }
    }
}

/** Rows of x with the same rows of y; every thread of a row has it. */
template <int WIDTH>
__device__ void es_fma_multiply_rows(float s[es_fma_tile<WIDTH>::R],
                                     const float *x, const float *y,
                                     es_fma_owned own)
{
    typedef es_fma_tile<WIDTH> tile;
    for (int r = 0; r < tile::R; r++) {
        const int row = (own.ty + ES_FMA_SIDE * r) * tile::STRIDE;
        s[r] = 0;
        for (int k = 0; k < WIDTH; k++)
            s[r] = fmaf(x[row + k], y[row + k], s[r]);
    }
}

template <int WIDTH>
ES_DEVICE void
es_fma_gather_all(float out[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::C],
                  const float *p, const float *y, es_fma_owned own)
{
    typedef es_fma_tile<WIDTH> tile;
#pragma unroll 4
    for (int j = 0; j < tile::N; j++) {
        float a[tile::R];
#pragma unroll
        for (int r = 0; r < tile::R; r++)
            a[r] = p[(own.ty + ES_FMA_SIDE * r) * tile::P_STRIDE + j];
#pragma unroll
        for (int c = 0; c < tile::C; c++) {
            float b = y[j * tile::STRIDE + own.tx + ES_FMA_SIDE * c];
#pragma unroll
            for (int r = 0; r < tile::R; r++)
                out[r][c] = fmaf(a[r], b, out[r][c]);
        }
    }
}

/** Leaves out what is masked, where 0 * NaN would be NaN. */
template <int WIDTH>
ES_DEVICE void
es_fma_gather_visible(float out[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::C],
                      const float *p, const float *y, es_fma_owned own,
                      int other, es_tile_owner owner)
{
    typedef es_fma_tile<WIDTH> tile;
    for (int j = 0; j < tile::N; j++)
#pragma unroll
        for (int r = 0; r < tile::R; r++) {
            const int row = own.ty + ES_FMA_SIDE * r;
            const float a = p[row * tile::P_STRIDE + j];
            if (es_tile_visible(own.first + row, other + j, owner))
#pragma unroll
                for (int c = 0; c < tile::C; c++)
                    out[r][c] =
                        fmaf(a, y[j * tile::STRIDE + own.tx + ES_FMA_SIDE * c],
                             out[r][c]);
        }
}

template <int WIDTH>
ES_DEVICE void
es_fma_gather(float out[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::C],
              const float *p, const float *y, es_fma_owned own, int other,
              es_tile_owner owner)
{
    typedef es_fma_tile<WIDTH> tile;
    if (es_tile_mask_of(own.first, tile::N, other, tile::N, owner) ==
        ES_TILE_ALL)
        es_fma_gather_all<WIDTH>(out, p, y, own);
    else
        es_fma_gather_visible<WIDTH>(out, p, y, own, other, owner);
}

template <int WIDTH>
ES_DEVICE void
es_fma_keep(float *p,
            const float a[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::R],
            es_fma_owned own)
{
    typedef es_fma_tile<WIDTH> tile;
#pragma unroll
    for (int r = 0; r < tile::R; r++)
#pragma unroll
        for (int c = 0; c < tile::R; c++)
            p[(own.ty + ES_FMA_SIDE * r) * tile::P_STRIDE + own.tx +
              ES_FMA_SIDE * c] = a[r][c];
}

/** Rows of an output, each times its factor. */
template <class A, int WIDTH>
__device__ void
es_fma_write(A *out,
             const float from[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::C],
             const float factor[es_fma_tile<WIDTH>::R], int stride,
             es_fma_owned own, int n_ctx, int width)
{
    typedef es_fma_tile<WIDTH> tile;
#pragma unroll
    for (int r = 0; r < tile::R; r++) {
        const int row = own.first + own.ty + ES_FMA_SIDE * r;
#pragma unroll
        for (int c = 0; c < tile::C; c++) {
            const int column = own.tx + ES_FMA_SIDE * c;
            if (row < n_ctx && column < width)
                out[(size_t)row * (size_t)stride + (size_t)column] =
                    es_act_of<A>(from[r][c] * factor[r]);
        }
    }
}

template <int WIDTH>
ES_DEVICE void
es_fma_clear(float out[es_fma_tile<WIDTH>::R][es_fma_tile<WIDTH>::C])
{
    for (int r = 0; r < es_fma_tile<WIDTH>::R; r++)
        for (int c = 0; c < es_fma_tile<WIDTH>::C; c++)
            out[r][c] = 0;
}

/** Over the 16 threads of a row. */
ES_DEVICE float es_fma_row_sum(float x)
{
    for (int across = ES_FMA_SIDE / 2; across > 0; across /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, across);
    return x;
}
ES_DEVICE float es_fma_row_largest(float x)
{
    for (int across = ES_FMA_SIDE / 2; across > 0; across /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, across));
    return x;
}

/* --- launches ------------------------------------------------------------- */

/** Bytes of n_tiles tiles of rows and one of weights. */
template <int WIDTH>
static size_t es_fma_shared(int n_tiles)
{
    return (size_t)(n_tiles * es_fma_tile<WIDTH>::FLOATS +
                    es_fma_tile<WIDTH>::P_FLOATS) *
           sizeof(float);
}

/** A block for each tile of each head. */
template <class A, int WIDTH>
static dim3 es_fma_grid(const es_attention_call<A> *call)
{
    return dim3((unsigned)(call->n_batch * call->n_head *
                           es_tile_count(call->n_ctx, es_fma_tile<WIDTH>::N)));
}

#endif
