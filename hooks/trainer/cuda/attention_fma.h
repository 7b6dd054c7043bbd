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

/** Which head, and which of its rows a block owns. */
typedef struct es_fma_owned {
    int head, first;
    int tx, ty;
} es_fma_owned;

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

/** What the kernels of heads up to WIDTH wide do with their tiles. */
template <class A, int WIDTH>
struct es_fma {
    enum {
        /* Rows of a tile. */
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

    static ES_DEVICE es_fma_owned find(const es_attention_call<A> *call,
                                       es_tile_owner owner)
    {
        es_tile_place place =
            es_tile_place_of(blockIdx.x, call->n_ctx, N, owner);
        es_fma_owned own = {place.head, place.first,
                            (int)threadIdx.x % ES_FMA_SIDE,
                            (int)threadIdx.x / ES_FMA_SIDE};
        return own;
    }

    /** Rows first .. first + N - 1 of an array whose positions are `stride`
     * apart; zeros beyond its n_ctx rows and `width` columns. */
    static __device__ void load(float *out, const A *from, int stride,
                                int first, int n_ctx, int width)
    {
        for (int e = (int)threadIdx.x; e < N * WIDTH; e += ES_FMA_THREADS) {
            int row = e / WIDTH, c = e % WIDTH;
            bool inside = first + row < n_ctx && c < width;
            size_t at = (size_t)(first + row) * (size_t)stride + (size_t)c;
            out[row * STRIDE + c] = inside ? es_float(from[at]) : 0;
        }
    }

    static ES_DEVICE float4 four_at(const float *x, int row, int k)
    {
        return *(const float4 *)(const void *)&x[row * STRIDE + k];
    }

    static ES_DEVICE void multiply(float s[R][R], const float *x,
                                   const float *y, es_fma_owned own)
    {
        for (int r = 0; r < R; r++)
            for (int c = 0; c < R; c++)
                s[r][c] = 0;
#pragma unroll 2
        for (int k = 0; k < WIDTH; k += 4) {
            float4 b[R];
#pragma unroll
            for (int c = 0; c < R; c++)
                b[c] = four_at(y, own.tx + ES_FMA_SIDE * c, k);
#pragma unroll
            for (int r = 0; r < R; r++) {
                float4 a = four_at(x, own.ty + ES_FMA_SIDE * r, k);
#pragma unroll
                for (int c = 0; c < R; c++) {
                    s[r][c] = fmaf(a.x, b[c].x, s[r][c]);
                    s[r][c] = fmaf(a.y, b[c].y, s[r][c]);
                    s[r][c] = fmaf(a.z, b[c].z, s[r][c]);
                    s[r][c] = fmaf(a.w, b[c].w, s[r][c]);
                }
            }
        }
    }

    /** Rows of x with the same rows of y; every thread of a row has it. */
    static __device__ void multiply_rows(float s[R], const float *x,
                                         const float *y, es_fma_owned own)
    {
        for (int r = 0; r < R; r++) {
            const int row = (own.ty + ES_FMA_SIDE * r) * STRIDE;
            s[r] = 0;
            for (int k = 0; k < WIDTH; k++)
                s[r] = fmaf(x[row + k], y[row + k], s[r]);
        }
    }

    static ES_DEVICE void gather_all(float out[R][C], const float *p,
                                     const float *y, es_fma_owned own)
    {
#pragma unroll 4
        for (int j = 0; j < N; j++) {
            float a[R];
#pragma unroll
            for (int r = 0; r < R; r++)
                a[r] = p[(own.ty + ES_FMA_SIDE * r) * P_STRIDE + j];
#pragma unroll
            for (int c = 0; c < C; c++) {
                float b = y[j * STRIDE + own.tx + ES_FMA_SIDE * c];
#pragma unroll
                for (int r = 0; r < R; r++)
                    out[r][c] = fmaf(a[r], b, out[r][c]);
            }
        }
    }

    /** Leaves out what is masked, where 0 * NaN would be NaN. */
    static ES_DEVICE void gather_visible(float out[R][C], const float *p,
                                         const float *y, es_fma_owned own,
                                         int other, es_tile_owner owner)
    {
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int r = 0; r < R; r++) {
                const int row = own.ty + ES_FMA_SIDE * r;
                const float a = p[row * P_STRIDE + j];
                if (es_tile_visible(own.first + row, other + j, owner))
#pragma unroll
                    for (int c = 0; c < C; c++)
                        out[r][c] =
                            fmaf(a, y[j * STRIDE + own.tx + ES_FMA_SIDE * c],
                                 out[r][c]);
            }
    }

    static ES_DEVICE void gather(float out[R][C], const float *p,
                                 const float *y, es_fma_owned own, int other,
                                 es_tile_owner owner)
    {
        if (es_tile_mask_of(own.first, N, other, N, owner) == ES_TILE_ALL)
            gather_all(out, p, y, own);
        else
            gather_visible(out, p, y, own, other, owner);
    }

    static ES_DEVICE void keep(float *p, const float a[R][R], es_fma_owned own)
    {
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < R; c++)
                p[(own.ty + ES_FMA_SIDE * r) * P_STRIDE + own.tx +
                  ES_FMA_SIDE * c] = a[r][c];
    }

    /** Rows of an output, each times its factor. */
    static __device__ void write(A *out, const float from[R][C],
                                 const float factor[R], int stride,
                                 es_fma_owned own, int n_ctx, int width)
    {
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int row = own.first + own.ty + ES_FMA_SIDE * r;
#pragma unroll
            for (int c = 0; c < C; c++) {
                const int column = own.tx + ES_FMA_SIDE * c;
                if (row < n_ctx && column < width)
                    out[(size_t)row * (size_t)stride + (size_t)column] =
                        es_act_of<A>(from[r][c] * factor[r]);
            }
        }
    }

    static ES_DEVICE void clear(float out[R][C])
    {
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++)
                out[r][c] = 0;
    }

    /** Bytes of n_tiles tiles of rows and one of weights. */
    static size_t shared(int n_tiles)
    {
        return (size_t)(n_tiles * FLOATS + P_FLOATS) * sizeof(float);
    }

    /** A block for each tile of each head. */
    static dim3 grid(const es_attention_call<A> *call)
    {
        return dim3((unsigned)(call->n_batch * call->n_head *
                               es_tile_count(call->n_ctx, N)));
    }
};

#endif
