/**
 * Row statistics from queries and keys: tiles of float32 in shared memory, for
 * what qk_mma.cu does not take, with one pass over the keys and no values. A
 * block has 16 by 16 threads; thread (x, y) has rows y + 16 r of its tile and
 * columns x + 16 c of the keys. A row keeps its largest score so far, and
 * relative to that sum p, sum p x and sum p |place - j|. Rows whose entropy
 * float32 products may blur by more than 2.5e-6 nats
 * (analyzer/entropy/entropy_exact.inc.h) are done again in double.
 */
#include "hooks/trainer/cuda/qk_rows.h"

enum { EXTENT_THREADS = 128, EXACT_ROWS = 16, SIDE = 16 };

/* --- keys ----------------------------------------------------------------- */

/* The largest sum of squares, and the largest square, of the visible keys of a
 * chunk: a warp for each key. */
static __global__ void __launch_bounds__(EXTENT_THREADS)
    qk_extents_kernel(es_qk_call call)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, largest); /* (2,warps) */
    enum { WARPS = EXTENT_THREADS / 32 };
    const int chunk = (int)blockIdx.x % ES_QK_CHUNKS;
    const int head = (int)blockIdx.x / ES_QK_CHUNKS;
    const int b = head / call.n_kv_heads, kv = head % call.n_kv_heads;
    const int size = (call.n_keys - 1) / ES_QK_CHUNKS + 1;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float longest = 0, highest = 0;
    for (int i = warp; i < size; i += WARPS) {
        const int64_t j = (int64_t)chunk * size + i;
        const bool seen = j < call.n_keys && es_qk_sees(&call, b, (int)j);
        float sum = 0;
        for (int c = lane; seen && c < call.width; c += 32) {
            const float x = es_qk_number(
                call.k, call.type, es_qk_at(call.k_strides, b, kv, (int)j) + c);
            sum = fmaf(x, x, sum);
            highest = fmaxf(highest, x * x);
        }
        longest = fmaxf(longest, es_warp_sum(sum));
    }
    highest = es_warp_max(highest);
    if (lane == 0) {
        largest[warp] = longest;
        largest[WARPS + warp] = highest;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        float x = 0;
        for (int i = 0; i < WARPS; i++)
            x = fmaxf(x, largest[(int)threadIdx.x * WARPS + i]);
        call.extents[2 * blockIdx.x + threadIdx.x] = x;
    }
}

/* The first key of each sequence that the mask lets through; else their end. */
static __global__ void __launch_bounds__(32) qk_first_kernel(es_qk_call call)
{
    es_begin_kernel();
    const int sequence = (int)blockIdx.x;
    const int b = call.packed ? 0 : sequence;
    int first, end, found;
    es_qk_keys(&call, sequence, &first, &end);
    found = end;
    for (int j = first + (int)threadIdx.x; j < end && j < found; j += 32)
        if (es_qk_sees(&call, b, j))
            found = j;
    for (int across = 16; across > 0; across /= 2)
        found = min(found, __shfl_xor_sync(ES_ALL_LANES, found, across));
    if (threadIdx.x == 0)
        call.first_keys[sequence] = found;
}

/* --- rows ----------------------------------------------------------------- */

/* Tiles of rows up to WIDTH wide. */
template <int WIDTH>
struct row_tile {
    enum {
        N = WIDTH <= 64    ? 64
            : WIDTH <= 128 ? 32
                           : 16,
        R = N / SIDE,       /* rows, or columns, of a thread */
        STRIDE = WIDTH + 4, /* floats: rows in different banks */
        FLOATS = N * STRIDE
    };

    static ES_DEVICE float4 four_at(const float *x, int row, int k)
    {
        return *(const float4 *)(const void *)&x[row * STRIDE + k];
    }

    /* s[i][j] = sum_c x[i][c] y[j][c], in the order of c. */
    static ES_DEVICE void multiply(float s[R][R], const float *x,
                                   const float *y)
    {
        const int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
        for (int r = 0; r < R; r++)
            for (int c = 0; c < R; c++)
                s[r][c] = 0;
#pragma unroll 2
        for (int k = 0; k < WIDTH; k += 4) {
            float4 b[R];
#pragma unroll
            for (int c = 0; c < R; c++)
                b[c] = four_at(y, tx + SIDE * c, k);
#pragma unroll
            for (int r = 0; r < R; r++) {
                float4 a = four_at(x, ty + SIDE * r, k);
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
};

/* Rows of queries or keys as float; zeros beyond them. */
template <class T>
static __device__ void load_rows(float *out, const void *data,
                                 es_entropy_type type, ptrdiff_t at,
                                 ptrdiff_t stride, int first, int n, int width)
{
    const int columns = T::STRIDE - 4;
    for (int e = (int)threadIdx.x; e < T::N * columns; e += ES_THREADS) {
        const int row = e / columns, c = e % columns;
        const bool inside = first + row < n && c < width;
        out[row * T::STRIDE + c] =
            inside ? es_qk_number(data, type, at + (first + row) * stride + c)
                   : 0;
    }
}

template <int WIDTH>
struct tile_columns {
    enum { N = row_tile<WIDTH>::N, COUNT = N / SIDE, LANES = SIDE, BLUR = 1 };
    static ES_DEVICE int at(int first, int i)
    {
        return first + SIDE * i;
    }
};

template <int WIDTH>
static __global__ void __launch_bounds__(ES_THREADS, 1)
    qk_rows_kernel(es_qk_call call)
{
    es_begin_kernel();
    typedef row_tile<WIDTH> tile;
    typedef tile_columns<WIDTH> columns;
    ES_DYNAMIC_SHARED(float, q);
    float *keys = q + tile::FLOATS;
    es_qk_block<tile::N> *kept =
        (es_qk_block<tile::N> *)(void *)(keys + tile::FLOATS);
    const es_tile_place place =
        es_tile_place_of(blockIdx.x, call.n_queries, tile::N, ES_OWN_QUERIES);
    const int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
    const int b = place.head / call.n_heads, h = place.head % call.n_heads;
    const int kv = h / (call.n_heads / call.n_kv_heads);
    float s[tile::R][tile::R];
    es_qk_state state[tile::R];
    es_qk_find_rows(&call, kept, b, place.first);
    load_rows<tile>(q, call.q, call.type, es_qk_at(call.q_strides, b, h, 0),
                    call.q_strides.row, place.first, call.n_queries,
                    call.width);
#pragma unroll
    for (int r = 0; r < tile::R; r++)
        state[r] = es_qk_open(&call, h, place.first + ty + SIDE * r);
    for (int key = kept->from; key < kept->until; key += tile::N) {
        load_rows<tile>(keys, call.k, call.type,
                        es_qk_at(call.k_strides, b, kv, 0), call.k_strides.row,
                        key, call.n_keys, call.width);
        es_qk_look(&call, kept, b, key);
        __syncthreads();
        tile::multiply(s, q, keys);
#pragma unroll
        for (int r = 0; r < tile::R; r++)
            es_qk_absorb<columns>(&state[r], s[r], kept, ty + SIDE * r, key, tx,
                                  call.softcap > 0);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < tile::R; r++)
        es_qk_end<columns>(&call, &state[r], place, ty + SIDE * r, tx == 0);
}

/* --- blurred rows --------------------------------------------------------- */

/* Adds one key's score. */
static ES_DEVICE void add_score(es_qk_sums *sums, double s, double away,
                                bool is_first)
{
    const double peak = fmax(sums->peak, s);
    const double shift = sums->n_seen > 0 ? sums->peak - peak : 0;
    const double factor = exp(shift), x = s - peak, p = exp(x);
    sums->spread = (sums->spread + sums->weight * shift) * factor + p * x;
    sums->weight = sums->weight * factor + p;
    sums->far = sums->far * factor + p * away;
    sums->first = sums->first * factor + (is_first ? p : 0);
    sums->peak = peak;
    sums->n_seen++;
}

/* Sums of other keys of the row, each relative to its own peak. */
static ES_DEVICE void add_sums(es_qk_sums *sums, const es_qk_sums *more)
{
    if (more->n_seen == 0)
        return;
    if (sums->n_seen == 0) {
        *sums = *more;
        return;
    }
    const double peak = fmax(sums->peak, more->peak);
    const double a = sums->peak - peak, b = more->peak - peak;
    const double p = exp(a), q = exp(b);
    sums->spread = (sums->spread + sums->weight * a) * p +
                   (more->spread + more->weight * b) * q;
    sums->weight = sums->weight * p + more->weight * q;
    sums->far = sums->far * p + more->far * q;
    sums->first = sums->first * p + more->first * q;
    sums->peak = peak;
    sums->n_seen += more->n_seen;
}

/* This thread's keys of a row, every blockDim.x-th. */
static __device__ es_qk_sums exact_part(const es_qk_call *call, int b, int h,
                                        int i, const es_qk_row *row)
{
    const int kv = h / (call->n_heads / call->n_kv_heads);
    const double scale = es_qk_scale(call, h, i);
    const ptrdiff_t q = es_qk_at(call->q_strides, b, h, i);
    es_qk_sums sums = {-INFINITY, 0, 0, 0, 0, 0};
    for (int j = row->begin + (int)threadIdx.x; j < row->end;
         j += (int)blockDim.x) {
        const ptrdiff_t k = es_qk_at(call->k_strides, b, kv, j);
        double s = 0;
        if (!es_qk_sees(call, b, j))
            continue;
        for (int c = 0; c < call->width; c++)
            s = fma((double)es_qk_number(call->q, call->type, q + c),
                    (double)es_qk_number(call->k, call->type, k + c), s);
        s *= scale;
        if (call->softcap > 0)
            s = call->softcap * tanh(s / call->softcap);
        add_score(&sums, s, fabs((double)(row->place - j)), j == row->first);
    }
    return sums;
}

/* The rows of a block that are marked, one after the other. */
static __global__ void __launch_bounds__(ES_THREADS, 1)
    qk_exact_kernel(es_qk_call call)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(es_qk_sums, parts);
    const int n_tiles = es_tile_count(call.n_queries, EXACT_ROWS);
    const int head = (int)blockIdx.x / n_tiles;
    const int first = (int)blockIdx.x % n_tiles * EXACT_ROWS;
    const int b = head / call.n_heads, h = head % call.n_heads;
    for (int i = first; i < min(first + EXACT_ROWS, call.n_queries); i++) {
        const size_t at = (size_t)head * (size_t)call.n_queries + (size_t)i;
        if (call.rows.nonfinite[at] != ES_QK_BLURRED)
            continue;
        const es_qk_row row = es_qk_row_of(&call, b, i);
        parts[threadIdx.x] = exact_part(&call, b, h, i, &row);
        for (int across = ES_THREADS / 2; across > 0; across /= 2) {
            __syncthreads();
            if ((int)threadIdx.x < across)
                add_sums(&parts[threadIdx.x],
                         &parts[(int)threadIdx.x + across]);
        }
        /* All have read the mark. */
        __syncthreads();
        if (threadIdx.x == 0)
            es_qk_write<double>(&call, at, h, &parts[0], 0);
        __syncthreads();
    }
}

/* --- launches ------------------------------------------------------------- */

template <int WIDTH>
static void launch_rows(es_device *device, const es_qk_call *call)
{
    typedef row_tile<WIDTH> tile;
    const int n_tiles = es_tile_count(call->n_queries, tile::N);
    es_launch(
        device, "statistics of rows", qk_rows_kernel<WIDTH>,
        dim3((unsigned)(call->n_batch * call->n_heads * n_tiles)), ES_THREADS,
        2 * tile::FLOATS * sizeof(float) + sizeof(es_qk_block<tile::N>), *call);
}

void es_qk_launch_rows(es_device *device, const es_qk_call *call)
{
    const unsigned n_heads = (unsigned)(call->n_batch * call->n_kv_heads);
    es_launch(device, "extents of keys", qk_extents_kernel,
              dim3(n_heads * ES_QK_CHUNKS), EXTENT_THREADS,
              2 * EXTENT_THREADS / 32 * sizeof(float), *call);
    if (call->key_mask)
        es_launch(device, "first keys", qk_first_kernel,
                  dim3((unsigned)call->n_sequences), 32, 0, *call);
    if (es_qk_mma_can(call))
        es_qk_launch_mma(device, call);
    else if (call->width <= 64)
        launch_rows<64>(device, call);
    else if (call->width <= 128)
        launch_rows<128>(device, call);
    else
        launch_rows<256>(device, call);
    es_launch(device, "statistics of blurred rows", qk_exact_kernel,
              dim3((unsigned)(call->n_batch * call->n_heads *
                              es_tile_count(call->n_queries, EXACT_ROWS))),
              ES_THREADS, ES_THREADS * sizeof(es_qk_sums), *call);
}
