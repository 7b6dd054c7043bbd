/**
 * Row statistics from queries and keys of 16 bits on tensor cores. A block of 4
 * warps owns 64 queries, a warp 16 of them; keys come 64 at a time into one of
 * two stages, the next ones while these are worked on. What becomes of scores
 * is qk_rows.h's.
 */
#include "hooks/trainer/cuda/attention_mma.h"
#include "hooks/trainer/cuda/qk_rows.h"

/* A lane has two columns of each eight, of rows lane / 4 and 8 further on. */
struct mma_columns {
    enum {
        N = ES_MMA_OTHERS,
        COUNT = N / 4,
        LANES = 4,
        BLUR = 4 /* they cut off where float32 rounds */
    };
    static ES_DEVICE int at(int first, int i)
    {
        return first + 8 * (i / 2) + i % 2;
    }
};
static_assert(mma_columns::N == 16 * ES_MMA_WARPS, "as many rows as keys");

/* Starts the copy of 64 rows from row `first` on of an array that begins at
 * `from`. */
template <class A, int WIDTH>
static ES_DEVICE void fetch(A *tile, const A *from, ptrdiff_t stride, int first,
                            int n, int width)
{
    es_mma_fetch<A, WIDTH, mma_columns::N>(
        tile, es_mma_source<A, WIDTH>(from + first * stride, (int)stride),
        (int)stride, first, n, width);
}

/* The scores of one tile, added to this lane's two rows. */
template <class A, int WIDTH>
static ES_DEVICE void absorb_tile(es_qk_state state[2], const A *q, const A *k,
                                  const es_qk_block<mma_columns::N> *kept,
                                  int key, bool capped)
{
    const int warp = es_mma_warp(), lane = es_mma_lane();
    float s[1][mma_columns::N / 8][4], row[mma_columns::COUNT];
    es_mma_multiply<A, WIDTH, 1, mma_columns::N>(s, q, 16 * warp, k, 0);
#pragma unroll
    for (int upper = 0; upper < 2; upper++) {
#pragma unroll
        for (int c = 0; c < mma_columns::COUNT; c++)
            row[c] = s[0][c / 2][2 * upper + c % 2];
        es_qk_absorb<mma_columns>(&state[upper], row, kept,
                                  16 * warp + es_tile_sum_row(lane, 2 * upper),
                                  key, es_tile_sum_column(lane, 0), capped);
    }
}

template <class A, int WIDTH>
static __global__ void __launch_bounds__(ES_MMA_THREADS, 2)
    qk_mma_kernel(es_qk_call call)
{
    es_begin_kernel();
    enum { N = mma_columns::N, SIZE = N * WIDTH };
    ES_DYNAMIC_SHARED(A, q);
    A *stages = q + SIZE;
    es_qk_block<N> *kept = (es_qk_block<N> *)(void *)(stages + 2 * SIZE);
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_queries, N, ES_OWN_QUERIES);
    const int b = place.head / call.n_heads, h = place.head % call.n_heads;
    const int kv = h / (call.n_heads / call.n_kv_heads);
    const A *keys = (const A *)call.k + es_qk_at(call.k_strides, b, kv, 0);
    const int first = 16 * es_mma_warp() + es_tile_sum_row(es_mma_lane(), 0);
    es_qk_state state[2] = {es_qk_open(&call, h, place.first + first),
                            es_qk_open(&call, h, place.first + first + 8)};
    int now = 0;
    es_qk_find_rows(&call, kept, b, place.first);
    fetch<A, WIDTH>(q, (const A *)call.q + es_qk_at(call.q_strides, b, h, 0),
                    call.q_strides.row, place.first, call.n_queries,
                    call.width);
    if (kept->from < kept->until)
        fetch<A, WIDTH>(stages, keys, call.k_strides.row, kept->from,
                        call.n_keys, call.width);
    es_cp_commit();
    for (int key = kept->from; key < kept->until; key += N) {
        if (key + N < kept->until)
            fetch<A, WIDTH>(stages + (1 - now) * SIZE, keys, call.k_strides.row,
                            key + N, call.n_keys, call.width);
        es_cp_commit();
        es_qk_look(&call, kept, b, key);
        es_cp_wait<1>();
        __syncthreads();
        absorb_tile<A, WIDTH>(state, q, stages + now * SIZE, kept, key,
                              call.softcap > 0);
        now = 1 - now;
        __syncthreads();
    }
    es_cp_wait<0>();
#pragma unroll
    for (int upper = 0; upper < 2; upper++)
        es_qk_end<mma_columns>(&call, &state[upper], place, first + 8 * upper,
                               es_mma_lane() % 4 == 0);
}

/* --- launches ------------------------------------------------------------- */

static bool is_aligned(const void *data, es_strides strides)
{
    return (uintptr_t)data % 16 == 0 && strides.batch % 8 == 0 &&
           strides.head % 8 == 0 && strides.row % 8 == 0 && strides.row >= 0 &&
           strides.row <= INT_MAX;
}

bool es_qk_mma_can(const es_qk_call *call)
{
    return call->type != ES_ENTROPY_F32 && call->width <= 128 &&
           call->width % 8 == 0 && is_aligned(call->q, call->q_strides) &&
           is_aligned(call->k, call->k_strides);
}

template <class A, int WIDTH>
static void launch(es_device *device, const es_qk_call *call)
{
    enum { N = mma_columns::N };
    es_launch(device, "statistics of rows on tensor cores",
              qk_mma_kernel<A, WIDTH>,
              dim3((unsigned)(call->n_batch * call->n_heads *
                              es_tile_count(call->n_queries, N))),
              ES_MMA_THREADS,
              3 * N * WIDTH * sizeof(A) + sizeof(es_qk_block<N>), *call);
}

template <class A>
static void launch_of(es_device *device, const es_qk_call *call)
{
    if (call->width <= 64)
        launch<A, 64>(device, call);
    else
        launch<A, 128>(device, call);
}

void es_qk_launch_mma(es_device *device, const es_qk_call *call)
{
    if (call->type == ES_ENTROPY_BF16)
        launch_of<es_bf16>(device, call);
    else
        launch_of<es_fp16>(device, call);
}
