/* Finds the number with the largest absolute value in an operand, and computes
 * the gradient of range losses, which only affects this number. Compares
 * absolute values as the bits of floats, which are ordered like the floats; a
 * NaN counts as larger than all numbers. Among equal values, the first one is
 * used, so that the result does not depend on the number of blocks. */
#include "hooks/trainer/cuda/attention.h"

#include <math.h>

/* Candidate for the largest number: the bits of |x| as a float, and the index
 * of x. */
typedef struct candidate {
    uint64_t index;
    uint32_t size;
} candidate;

static ES_DEVICE candidate candidate_of(float x, uint64_t index)
{
    candidate c;
    c.index = index;
    c.size = __float_as_uint(x) & 0x7fffffffu;
    return c;
}

static ES_DEVICE candidate larger(candidate a, candidate b)
{
    return b.size > a.size || (b.size == a.size && b.index < a.index) ? b : a;
}

/* Returns the candidate with the largest |x| among the candidates of all
 * threads; only the first thread's result is valid. shared (blockDim.x) is
 * working memory. */
static ES_DEVICE candidate join_block(candidate own, candidate *shared)
{
    const int thread = (int)threadIdx.x;
    shared[thread] = own;
    __syncthreads();
    for (int step = (int)blockDim.x / 2; step > 0; step /= 2) {
        if (thread < step)
            shared[thread] = larger(shared[thread], shared[thread + step]);
        __syncthreads();
    }
    return shared[0];
}

static ES_DEVICE candidate join_pieces(const candidate *pieces, int n,
                                       candidate *shared)
{
    candidate own = candidate_of(0, UINT64_MAX);
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        own = larger(own, pieces[i]);
    return join_block(own, shared);
}

/* Records x, the number with the largest absolute value of the operand in this
 * pass. `index` is its position in the operand. */
static ES_DEVICE void record_peak(es_peak *peak, float x, uint64_t index)
{
    const float size = fabsf(x);
    peak->size = size;
    peak->sign = x > 0 ? 1.f : x < 0 ? -1.f : x == 0 ? 0.f : x;
    peak->index = index;
    peak->sum += (double)size;
    if (!(size <= peak->largest)) /* the condition also holds if `size` is
                                     NaN; if `largest` is NaN, it remains NaN */
        peak->largest = isnan(peak->largest) ? peak->largest : size;
}

/* --- activations ---------------------------------------------------------- */

template <class A>
static __global__ void peak_pieces_kernel(candidate *pieces, const A *x,
                                          size_t n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(candidate, shared);
    candidate own = candidate_of(0, UINT64_MAX);
    for (size_t i = es_thread(); i < n; i += es_all_threads())
        own = larger(own, candidate_of(es_float(x[i]), i));
    own = join_block(own, shared);
    if (threadIdx.x == 0)
        pieces[blockIdx.x] = own;
}

template <class A>
static __global__ void peak_kernel(es_peak *peak, const candidate *pieces,
                                   int n_pieces, const A *x)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(candidate, shared);
    const candidate found = join_pieces(pieces, n_pieces, shared);
    if (threadIdx.x == 0)
        record_peak(peak, es_float(x[found.index]), found.index);
}

template <class A>
static void find_peak(es_backend *backend, es_mem *peak, const es_mem *x,
                      size_t n)
{
    candidate *pieces = es_at<candidate>(backend->scratch);
    const unsigned n_pieces = es_pieces(backend, n, ES_THREADS, 8);
    const size_t shared = ES_THREADS * sizeof(candidate);
    es_launch(backend->device, "largest inputs", peak_pieces_kernel<A>,
              n_pieces, ES_THREADS, shared, pieces, es_at<A>(x), n);
    es_launch(backend->device, "largest input", peak_kernel<A>, 1, ES_THREADS,
              shared, es_at<es_peak>(peak), (const candidate *)pieces,
              (int)n_pieces, es_at<A>(x));
}

template <class A>
static __global__ void pull_kernel(A *dx, const es_peak *peak, float scale,
                                   const es_control *control)
{
    es_begin_kernel();
    const float loss_scale = control ? control->loss_scale : 1;
    A *to = dx + peak->index;
    if (threadIdx.x == 0)
        *to = es_act_of<A>(es_float(*to) + scale * loss_scale * peak->sign);
}

template <class A>
static void pull_peak(es_backend *backend, es_mem *dx, const es_mem *peak,
                      float scale, const es_mem *control)
{
    es_launch(backend->device, "range loss", pull_kernel<A>, 1, 32, 0,
              es_at<A>(dx), es_at<es_peak>(peak), scale,
              es_at<es_control>(control));
}

/* --- scores --------------------------------------------------------------- */

/* Arrays and sizes from which scores are computed. The score of query i and key
 * j of head h in sequence b has the index ((b * n_head + h) * n_ctx + i) *
 * n_ctx + j. */
template <class A>
struct scores {
    const A *qkv;
    const es_saved_row *saved; /* (B,H,T) */
    int n_ctx, n_head, d_model, width;
    size_t n_rows;
    float scale;
};

template <class A>
static scores<A> scores_of(const es_mem *qkv, const es_mem *saved,
                           const es_attention *a)
{
    scores<A> s = {};
    s.qkv = es_at<A>(qkv);
    s.saved =
        saved ? (const es_saved_row *)(const void *)es_at<float>(saved) : NULL;
    s.n_ctx = a->n_ctx;
    s.n_head = a->n_head;
    s.d_model = a->d_model;
    s.width = a->d_model / a->n_head;
    s.n_rows = (size_t)a->n_batch * (size_t)a->n_head * (size_t)a->n_ctx;
    s.scale = 1 / sqrtf((float)s.width);
    return s;
}

/* Returns the offset in qkv at which a query or key of a row begins: the row's
 * query if `key` is negative, otherwise the key with the number `key`. */
template <class A>
static ES_DEVICE size_t place_of(const scores<A> *s, uint64_t row, int key)
{
    const uint64_t n_ctx = (uint64_t)s->n_ctx;
    const uint64_t head = row / n_ctx % (uint64_t)s->n_head;
    const uint64_t sequence = row / n_ctx / (uint64_t)s->n_head;
    const uint64_t at = key < 0 ? row % n_ctx : (uint64_t)key;
    return (size_t)((sequence * n_ctx + at) * 3 * (uint64_t)s->d_model +
                    (key < 0 ? 0 : (uint64_t)s->d_model) +
                    head * (uint64_t)s->width);
}

template <class A>
static ES_DEVICE float score_at(const scores<A> *s, uint64_t row, int key)
{
    const A *q = s->qkv + place_of(s, row, -1);
    const A *k = s->qkv + place_of(s, row, key);
    float sum = 0;
    for (int c = 0; c < s->width; c++)
        sum = fmaf(es_float(q[c]), es_float(k[c]), sum);
    return sum * s->scale;
}

/* Finds the row with the largest |score|. PowerSoftmax has saved the largest
 * |score| of each row. A row that is not finite counts as larger than all other
 * rows. */
template <class A>
static __global__ void rows_kernel(candidate *pieces, scores<A> s)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(candidate, shared);
    candidate own = candidate_of(0, UINT64_MAX);
    for (size_t i = es_thread(); i < s.n_rows; i += es_all_threads()) {
        const es_saved_row row = s.saved[i];
        const float m = isfinite(row.inverse) ? row.m : INFINITY;
        own = larger(own, candidate_of(m, i));
    }
    own = join_block(own, shared);
    if (threadIdx.x == 0)
        pieces[blockIdx.x] = own;
}

/* Finds the key with the largest |score| in the row that rows_kernel has
 * found. */
template <class A>
static __global__ void score_kernel(es_peak *peak, const candidate *pieces,
                                    int n_pieces, scores<A> s)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(candidate, shared);
    const uint64_t row = join_pieces(pieces, n_pieces, shared).index;
    const uint64_t n_ctx = (uint64_t)s.n_ctx;
    candidate own = candidate_of(0, UINT64_MAX);
    __syncthreads();
    for (int key = (int)threadIdx.x; key <= (int)(row % n_ctx);
         key += (int)blockDim.x)
        own = larger(own, candidate_of(score_at(&s, row, key),
                                       row * n_ctx + (uint64_t)key));
    own = join_block(own, shared);
    if (threadIdx.x == 0)
        record_peak(peak, score_at(&s, row, (int)(own.index % n_ctx)),
                    own.index);
}

/* Ignores es_sight, because this back-end has no encoders, whose queries see
 * all keys. */
template <class A>
static void find_score_peak(es_backend *backend, es_mem *peak,
                            const es_mem *qkv, const es_mem *saved,
                            const es_attention *attention, const es_sight *)
{
    const scores<A> s = scores_of<A>(qkv, saved, attention);
    candidate *pieces = es_at<candidate>(backend->scratch);
    const unsigned n_pieces = es_pieces(backend, s.n_rows, ES_THREADS, 8);
    const size_t shared = ES_THREADS * sizeof(candidate);
    es_launch(backend->device, "row with the largest score", rows_kernel<A>,
              n_pieces, ES_THREADS, shared, pieces, s);
    es_launch(backend->device, "largest score", score_kernel<A>, 1, ES_THREADS,
              shared, es_at<es_peak>(peak), (const candidate *)pieces,
              (int)n_pieces, s);
}

template <class A>
static __global__ void pull_score_kernel(A *dqkv, const es_peak *peak,
                                         scores<A> s, float scale,
                                         const es_control *control)
{
    es_begin_kernel();
    const float loss_scale = control ? control->loss_scale : 1;
    const float pull = scale * loss_scale * peak->sign * s.scale;
    const uint64_t row = peak->index / (uint64_t)s.n_ctx;
    const size_t q = place_of(&s, row, -1);
    const size_t k = place_of(&s, row, (int)(peak->index % (uint64_t)s.n_ctx));
    for (size_t c = threadIdx.x; c < (size_t)s.width; c += blockDim.x) {
        dqkv[q + c] = es_act_of<A>(
            fmaf(pull, es_float(s.qkv[k + c]), es_float(dqkv[q + c])));
        dqkv[k + c] = es_act_of<A>(
            fmaf(pull, es_float(s.qkv[q + c]), es_float(dqkv[k + c])));
    }
}

template <class A>
static void pull_score_peak(es_backend *backend, es_mem *dqkv,
                            const es_mem *qkv, const es_mem *peak,
                            const es_attention *attention, float scale,
                            const es_mem *control)
{
    es_launch(backend->device, "range loss of scores", pull_score_kernel<A>, 1,
              ES_THREADS, 0, es_at<A>(dqkv), es_at<es_peak>(peak),
              scores_of<A>(qkv, NULL, attention), scale,
              es_at<es_control>(control));
}

size_t es_cuda_peaks_scratch(void)
{
    return ES_MAX_PIECES * sizeof(candidate);
}

template <class A>
void es_cuda_peaks_ops(es_ops *ops)
{
    ops->find_peak = find_peak<A>;
    ops->find_score_peak = find_score_peak<A>;
    ops->pull_peak = pull_peak<A>;
    ops->pull_score_peak = pull_score_peak<A>;
}

ES_OF_ACTIVATIONS(es_cuda_peaks_ops)
