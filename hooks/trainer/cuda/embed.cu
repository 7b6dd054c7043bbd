/* Implements the embeddings. In the backward pass, the gradients of all rows
 * with the same token are added. The rows are therefore sorted by token first,
 * so that the order of every sum is fixed. */
#include "hooks/trainer/cuda/reduce.h"

typedef struct embedding {
    const int32_t *tokens;
    const float *wte, *wpe; /* token and position embeddings; wpe may be NULL */
    int n_rows, n_ctx, width;
} embedding;

template <class A, int W>
static __global__ void embed_kernel(A *x, embedding e)
{
    es_begin_kernel();
    const size_t width = (size_t)e.width, step = (size_t)blockDim.x * W;
    for (int row = (int)blockIdx.x; row < e.n_rows; row += (int)gridDim.x) {
        const float *token = e.wte + (size_t)e.tokens[row] * width;
        const float *place =
            e.wpe ? e.wpe + (size_t)(row % e.n_ctx) * width : NULL;
        for (size_t j = threadIdx.x * W; j < width; j += step) {
            float sum[W], more[W] = {0};
            es_load(sum, token + j);
            if (e.wpe)
                es_load(more, place + j);
#pragma unroll
            for (int c = 0; e.wpe && c < W; c++)
                sum[c] += more[c];
            es_store(x + (size_t)row * width + j, sum);
        }
    }
}

template <class A>
static void embed(es_backend *backend, es_mem *x, const es_mem *tokens,
                  const es_mem *wte, const es_mem *wpe, int n_batch, int n_ctx,
                  int width)
{
    const embedding e = {es_at<int32_t>(tokens),
                         es_at<float>(wte),
                         es_at<float>(wpe),
                         n_batch * n_ctx,
                         n_ctx,
                         width};
    constexpr int lanes = es_lanes<A>;
    const bool fits = width % lanes == 0 && es_packs_fit(x, wte, wpe);
    es_launch(backend->device, "embed",
              fits ? embed_kernel<A, lanes> : embed_kernel<A, 1>,
              es_blocks(backend, (size_t)e.n_rows, 1, 16),
              es_row_threads(width, fits ? lanes : 1, ES_THREADS), 0,
              es_at<A>(x), e);
}

/* --- the order of the tokens ---------------------------------------------- */

/* Sorts a tile of keys in place by bitonic sort. Each thread compares and
 * exchanges one pair of keys for each run length and each distance. */
static __device__ void sort_tile(uint64_t *keys)
{
    const int i = (int)threadIdx.x;
    for (int run = 2; run <= ES_SORT_TILE; run *= 2)
        for (int stride = run / 2; stride > 0; stride /= 2) {
            const int first = es_sort_first(i, stride);
            const uint64_t a = keys[first], b = keys[first + stride];
            if (es_sort_ascends(first, run) == (a > b)) {
                keys[first] = b;
                keys[first + stride] = a;
            }
            __syncthreads();
        }
}

static __global__ void sort_tiles_kernel(uint64_t *sorted,
                                         const int32_t *tokens, int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(uint64_t, keys);
    const int start = (int)blockIdx.x * ES_SORT_TILE;
    for (int i = (int)threadIdx.x; i < ES_SORT_TILE; i += (int)blockDim.x) {
        const int row = start + i;
        keys[i] = row < n ? es_sort_key(tokens[row], row) : ES_SORT_PAD;
    }
    __syncthreads();
    sort_tile(keys);
    for (int i = (int)threadIdx.x; i < ES_SORT_TILE; i += (int)blockDim.x)
        sorted[start + i] = keys[i];
}

static __global__ void merge_tiles_kernel(uint64_t *order,
                                          const uint64_t *sorted, int n_tiles)
{
    es_begin_kernel();
    const int i = (int)es_thread();
    const uint64_t key = sorted[i];
    int place = 0;
    if (key == ES_SORT_PAD)
        return;
    for (int tile = 0; tile < n_tiles; tile++)
        place += es_count_smaller(sorted + (size_t)tile * ES_SORT_TILE,
                                  ES_SORT_TILE, key);
    order[place] = key;
}

/* --- sums in this order --------------------------------------------------- */

typedef struct token_sums {
    float *dwte;
    float *carries; /* (chunks,width) */
    const uint64_t *order;
    int n_rows, width;
} token_sums;

/* Ends the sum of one token. If the token's rows began in an earlier chunk,
 * stores the sum as a carry (see sort_layout); otherwise adds the sum to
 * dwte. */
template <int W>
static __device__ void flush_sum(const token_sums *s, int begin, int chunk,
                                 size_t j, float (&sum)[W])
{
    const int first = chunk * ES_SUM_CHUNK;
    const int32_t token = es_key_token(s->order[begin]);
    const bool carried = begin == first && first > 0 &&
                         es_key_token(s->order[first - 1]) == token;
    if (carried)
        es_store(s->carries + (size_t)chunk * (size_t)s->width + j, sum);
    else
        es_add_lanes(s->dwte + (size_t)token * (size_t)s->width + j, sum);
#pragma unroll
    for (int c = 0; c < W; c++)
        sum[c] = 0;
}

/* Sums W columns of dx, from column j on, over the rows of a chunk. Reads four
 * rows at a time. */
template <class A, int W>
static __device__ void sum_chunk(const token_sums *s, const A *dx, int chunk,
                                 size_t j)
{
    const int first = chunk * ES_SUM_CHUNK;
    const int end =
        first + ES_SUM_CHUNK < s->n_rows ? first + ES_SUM_CHUNK : s->n_rows;
    float sum[W] = {0};
    int begin = first;
    for (int at = first; at < end; at += 4) {
        float rows[4][W];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int place = at + k < end ? at + k : end - 1;
            const size_t row = (size_t)es_key_row(s->order[place]);
            es_load(rows[k], dx + row * (size_t)s->width + j);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (at + k >= end)
                continue;
            if (es_key_token(s->order[at + k]) !=
                es_key_token(s->order[begin])) {
                flush_sum(s, begin, chunk, j, sum);
                begin = at + k;
            }
#pragma unroll
            for (int c = 0; c < W; c++)
                sum[c] += rows[k][c];
        }
    }
    flush_sum(s, begin, chunk, j, sum);
}

template <class A, int W>
static __global__ void sum_chunks_kernel(token_sums s, const A *dx)
{
    es_begin_kernel();
    const size_t step = (size_t)blockDim.x * W;
    for (size_t j = threadIdx.x * W; j < (size_t)s.width; j += step)
        sum_chunk<A, W>(&s, dx, (int)blockIdx.x, j);
}

/* Completes the sums of tokens whose rows continue in later chunks: the block
 * of the chunk in which a token's rows begin adds the sums that the later
 * chunks have stored as carries. */
template <int W>
static __global__ void add_carries_kernel(token_sums s)
{
    es_begin_kernel();
    const int chunk = (int)blockIdx.x;
    const es_carries carries = es_carries_of(s.order, s.n_rows, chunk);
    const size_t width = (size_t)s.width, step = (size_t)blockDim.x * W;
    if (carries.n == 0)
        return;
    const uint64_t key = s.order[carries.first * ES_SUM_CHUNK];
    float *to = s.dwte + (size_t)es_key_token(key) * width;
    const float *from = s.carries + (size_t)carries.first * width;
    for (size_t j = threadIdx.x * W; j < width; j += step) {
        float sum[W] = {0};
#pragma unroll 8
        for (int i = 0; i < carries.n; i++) {
            float more[W];
            es_load(more, from + (size_t)i * width + j);
            for (int c = 0; c < W; c++)
                sum[c] += more[c];
        }
        es_add_lanes(to + j, sum);
    }
}

/* Sums the gradients of one position over all sequences. Each block processes
 * one position. */
template <class A, int W>
static __global__ void sum_places_kernel(float *dwpe, const A *dx, int n_batch,
                                         int n_ctx, int width)
{
    es_begin_kernel();
    const size_t n = (size_t)width, step = (size_t)blockDim.x * W;
    const size_t place = (size_t)blockIdx.x * n;
    for (size_t j = threadIdx.x * W; j < n; j += step) {
        float sum[W] = {0};
#pragma unroll 8
        for (int b = 0; b < n_batch; b++) {
            float more[W];
            es_load(more, dx + (size_t)b * (size_t)n_ctx * n + place + j);
            for (int c = 0; c < W; c++)
                sum[c] += more[c];
        }
        es_add_lanes(dwpe + place + j, sum);
    }
}

/* Layout of the scratch memory: sorted tiles, the order of the rows, and the
 * carries. If the rows of a token continue from an earlier chunk, the sum over
 * the later chunk is stored as a carry and added to the token's gradient
 * afterwards. */
typedef struct sort_layout {
    size_t n_tiles, n_chunks, order_at, carries_at, bytes;
} sort_layout;

static sort_layout lay_out(size_t n_rows, size_t width)
{
    sort_layout l = {};
    l.n_tiles = es_ceil_div(n_rows, ES_SORT_TILE);
    l.n_chunks = es_ceil_div(n_rows, ES_SUM_CHUNK);
    l.order_at = l.n_tiles * ES_SORT_TILE * sizeof(uint64_t);
    l.carries_at = 2 * l.order_at;
    l.bytes = l.carries_at + l.n_chunks * width * sizeof(float);
    return l;
}

size_t es_cuda_embed_scratch(const es_extents *largest)
{
    return lay_out((size_t)largest->n_rows, (size_t)largest->width).bytes;
}

/* Computes the sums over each chunk of sorted rows, adds the carries of later
 * chunks (see sort_layout) to the gradients of their tokens, and sums the
 * gradients of position embeddings. */
template <class A, int W>
static void sum_rows(es_backend *backend, float *dwpe, const A *dx,
                     const token_sums *s, unsigned n_chunks, int n_ctx)
{
    const int n_threads = es_row_threads(s->width, W, ES_THREADS);
    es_launch(backend->device, "gradient of token embeddings",
              sum_chunks_kernel<A, W>, n_chunks, n_threads, 0, *s, dx);
    es_launch(backend->device, "gradient of token embeddings",
              add_carries_kernel<W>, n_chunks, n_threads, 0, *s);
    if (dwpe)
        es_launch(backend->device, "gradient of position embeddings",
                  sum_places_kernel<A, W>, (unsigned)n_ctx, n_threads, 0, dwpe,
                  dx, s->n_rows / n_ctx, n_ctx, s->width);
}

template <class A>
static void embed_backward(es_backend *backend, es_mem *dwte, es_mem *dwpe,
                           const es_mem *tokens, const es_mem *dx, int n_batch,
                           int n_ctx, int width)
{
    const int n_rows = n_batch * n_ctx;
    const sort_layout l = lay_out((size_t)n_rows, (size_t)width);
    const unsigned n_tiles = (unsigned)l.n_tiles;
    uint64_t *sorted = es_at<uint64_t>(backend->scratch);
    uint64_t *order = sorted + l.order_at / sizeof(uint64_t);
    const token_sums s = {
        es_at<float>(dwte),
        es_at<float>(es_mem_at(backend->scratch, l.carries_at)), order, n_rows,
        width};
    const bool fits = width % es_lanes<A> == 0 && es_packs_fit(dwte, dwpe, dx);
    es_launch(backend->device, "sorting rows by token", sort_tiles_kernel,
              n_tiles, ES_SORT_TILE / 2, ES_SORT_TILE * sizeof(uint64_t),
              sorted, es_at<int32_t>(tokens), n_rows);
    es_launch(backend->device, "sorting rows by token", merge_tiles_kernel,
              n_tiles * ES_SORT_TILE / ES_THREADS, ES_THREADS, 0, order,
              (const uint64_t *)sorted, (int)n_tiles);
    (fits ? sum_rows<A, es_lanes<A>>
          : sum_rows<A, 1>)(backend, es_at<float>(dwpe), es_at<A>(dx), &s,
                            (unsigned)l.n_chunks, n_ctx);
}

template <class A>
void es_cuda_embed_ops(es_ops *ops)
{
    ops->embed = embed<A>;
    ops->embed_backward = embed_backward<A>;
}
ES_OF_ACTIVATIONS(es_cuda_embed_ops)
