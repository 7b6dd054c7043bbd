/* Implements QK-Clip: finds the largest logit of each head among the row maxima
 * that attention saves for the backward pass, and scales the columns of q and k
 * if the logit is too large. */
#include "hooks/trainer/cuda/attention.h"

/* --- the largest logit ---------------------------------------------------- */

/* Arguments of largest_kernel. The saved values of query t of head h in
 * sequence b are saved[(b * n_head + h) * n_ctx + t]. */
typedef struct logits_call {
    float *out; /* (H) */
    const es_saved_row *saved;
    int n_batch, n_head, n_ctx;
} logits_call;

/* Finds the largest logit of a head; each block processes one head. Each saved
 * row contains the largest raw score and the factor that turns it into a logit.
 * It also contains the inverse of the row's sum, which is not finite if a score
 * of the row is not finite; in this case the result is NaN. */
static __global__ void largest_kernel(logits_call call)
{
    es_begin_kernel();
    /* The largest logit of each warp, followed by a flag for each warp, which
     * is 1 if the warp has read a row that is not finite. The flags begin at
     * index ES_MAX_WARPS. */
    ES_DYNAMIC_SHARED(float, shared);
    const int head = (int)blockIdx.x, n_warps = (int)blockDim.x / 32;
    const int n = call.n_batch * call.n_ctx, warp = (int)threadIdx.x / 32;
    float largest = -INFINITY;
    bool bad = false;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const size_t b = (size_t)(i / call.n_ctx);
        const es_saved_row row =
            call.saved[(b * (size_t)call.n_head + (size_t)head) *
                           (size_t)call.n_ctx +
                       (size_t)(i % call.n_ctx)];
        largest = fmaxf(largest, row.m * row.factor);
        bad = bad || !isfinite(row.inverse);
    }
    largest = es_warp_max(largest);
    bad = __any_sync(ES_ALL_LANES, bad);
    if (threadIdx.x % 32 == 0) {
        shared[warp] = largest;
        shared[ES_MAX_WARPS + warp] = bad ? 1.f : 0.f;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    const float before = call.out[head];
    bad = before != before;
    largest = before;
    for (int i = 0; i < n_warps; i++) {
        largest = fmaxf(largest, shared[i]);
        bad = bad || shared[ES_MAX_WARPS + i] != 0;
    }
    call.out[head] = bad ? NAN : largest;
}

static void largest_logits(es_backend *backend, es_mem *out,
                           const es_mem *saved, const es_attention *attention)
{
    const logits_call call = {
        es_at<float>(out),
        (const es_saved_row *)(const void *)es_at<float>(saved),
        attention->n_batch, attention->n_head, attention->n_ctx};
    es_launch(backend->device, "largest logits", largest_kernel,
              (unsigned)attention->n_head, ES_THREADS,
              2 * ES_MAX_WARPS * sizeof(float), call);
}

/* --- factors -------------------------------------------------------------- */

static __global__ void factors_kernel(float *factors, const float *largest,
                                      float tau, int n,
                                      const es_control *control)
{
    es_begin_kernel();
    const bool skips = control->skips != 0;
    for (size_t i = es_thread(); i < (size_t)n; i += es_all_threads()) {
        const float s = largest[i];
        factors[i] = !skips && isfinite(s) && s > tau ? sqrtf(tau / s) : 1.f;
    }
}

static void qk_factors(es_backend *backend, es_mem *factors,
                       const es_mem *largest, float tau, int n,
                       const es_mem *control)
{
    es_launch(backend->device, "QK-Clip's factors", factors_kernel,
              es_blocks(backend, (size_t)n, ES_THREADS, 1), ES_THREADS, 0,
              es_at<float>(factors), es_at<float>(largest), tau, n,
              es_at<es_control>(control));
}

/* --- scaling -------------------------------------------------------------- */

/* Multiplies q and k of each head by the head's factor. A row of x stores q of
 * all heads, then k, then v. */
static __global__ void scale_kernel(float *x, const float *factors, int n_in,
                                    int width, int d_model)
{
    es_begin_kernel();
    const size_t two = 2 * (size_t)d_model;
    for (size_t i = es_thread(); i < (size_t)n_in * two;
         i += es_all_threads()) {
        const size_t column = i % two;
        const float factor = factors[column % (size_t)d_model / (size_t)width];
        if (factor != 1)
            x[i / two * 3 * (size_t)d_model + column] *= factor;
    }
}

static void scale_heads(es_backend *backend, es_mem *x, const es_mem *factors,
                        int n_in, int n_head, int d_model)
{
    const size_t n = (size_t)n_in * 2 * (size_t)d_model;
    es_launch(backend->device, "QK-Clip", scale_kernel,
              es_blocks(backend, n, ES_THREADS, 8), ES_THREADS, 0,
              es_at<float>(x), es_at<float>(factors), n_in, d_model / n_head,
              d_model);
}

void es_cuda_qk_clip_ops(es_ops *ops)
{
    ops->largest_logits = largest_logits;
    ops->qk_factors = qk_factors;
    ops->scale_heads = scale_heads;
}
