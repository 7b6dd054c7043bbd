/** Implements the attention operations of the back-end: chooses the attention
 *  kernels, and afterwards computes the gradient of the temperatures in a
 *  separate kernel. */
#include "hooks/trainer/cuda/attention.h"

enum { N_THREADS = 256 };

/* Returns the size in bytes of each of the three arrays in scratch memory:
 * call.means, call.dots and call.flags (attention.h). */
static size_t scratch_part(int n_rows, int n_head)
{
    static_assert(sizeof(float) == sizeof(unsigned),
                  "float and unsigned must have the same size");
    return (size_t)n_rows * (size_t)n_head * sizeof(float);
}

size_t es_cuda_attention_scratch(const es_extents *largest)
{
    return 3 * scratch_part(largest->n_rows, largest->n_head);
}

/* --- temperatures --------------------------------------------------------- */

/* Adds the gradient of ln t, the logarithm of the temperatures: dL/d ln(t) =
 * -sum over the batch of sum_j dz_j * z_j, where z are the scores of a row and
 * dz their gradients. */
template <class A>
__global__ void __launch_bounds__(N_THREADS)
    attention_dt_kernel(es_attention_call<A> call)
{
    es_begin_kernel();
    const int n = call.n_head * call.n_ctx;
    const int i = (int)(blockIdx.x * N_THREADS + threadIdx.x);
    float sum = 0;
    if (i >= n)
        return;
    for (int b = 0; b < call.n_batch; b++)
        sum += call.dots[(size_t)b * (size_t)n + (size_t)i];
    call.dlog_t[i] -= sum;
}

/* --- the operations ------------------------------------------------------- */

template <class A>
static es_attention_call<A> call_of(const es_mem *qkv, const es_mem *saved,
                                    const es_mem *y,
                                    const es_attention *attention)
{
    es_attention_call<A> call = {};
    call.n_batch = attention->n_batch;
    call.n_ctx = attention->n_ctx;
    call.n_head = attention->n_head;
    call.d_model = attention->d_model;
    call.width = attention->d_model / attention->n_head;
    call.kind = attention->kind;
    call.power = attention->power;
    call.epsilon = attention->epsilon;
    call.length = attention->length;
    call.scale = 1 / sqrtf((float)call.width);
    call.log_t = call.kind == ES_SOFTMAX && attention->log_t
                     ? es_at<float>(attention->log_t)
                     : NULL;
    call.qkv = es_at<A>(qkv);
    call.saved = (float *)es_at<float>(saved);
    call.y = (A *)es_at<A>(y);
    return call;
}

template <class A>
static void add_statistics(es_attention_call<A> *call, const es_row_mem *rows,
                           es_attention_kind kind)
{
    call->measures = true;
    for (int i = 0; i < ES_N_ROW_STATISTICS; i++)
        if (es_row_statistic_exists((es_row_statistic)i, kind))
            call->rows[i] = es_at<float>(rows->array[i]);
}

template <class A>
static void attend(es_backend *backend, es_mem *y, es_mem *saved,
                   const es_row_mem *rows, const es_mem *qkv,
                   const es_attention *attention)
{
    es_attention_call<A> call = call_of<A>(qkv, saved, y, attention);
    call.flags = es_at<unsigned>(backend->scratch);
    if (rows)
        add_statistics(&call, rows, attention->kind);
    call.again = es_cuda_attention_mma(backend->device, &call);
    es_cuda_attention_exact(backend->device, &call);
}

template <class A>
static void attend_backward(es_backend *backend, es_mem *dqkv, es_mem *dlog_t,
                            const es_mem *dy, const es_mem *y,
                            const es_mem *dentropy, const es_mem *qkv,
                            const es_mem *saved, const es_attention *attention)
{
    es_attention_call<A> call = call_of<A>(qkv, saved, y, attention);
    const size_t part = scratch_part(call.n_batch * call.n_ctx, call.n_head);
    call.dy = es_at<A>(dy);
    call.dentropy = dentropy ? es_at<float>(dentropy) : NULL;
    call.dqkv = es_at<A>(dqkv);
    call.means = es_at<float>(backend->scratch);
    call.flags = es_at<unsigned>(es_mem_at(backend->scratch, 2 * part));
    if (dlog_t && call.log_t) {
        call.dlog_t = es_at<float>(dlog_t);
        call.dots = es_at<float>(es_mem_at(backend->scratch, part));
    }
    call.again = es_cuda_attention_mma_backward(backend->device, &call);
    es_cuda_attention_exact_backward(backend->device, &call);
    if (call.dlog_t)
        es_launch(backend->device, "attention_dt", attention_dt_kernel<A>,
                  (unsigned)es_ceil_div(
                      (size_t)call.n_head * (size_t)call.n_ctx, N_THREADS),
                  N_THREADS, 0, call);
}

template <class A>
void es_cuda_attention_ops(es_ops *ops)
{
    ops->attention = attend<A>;
    ops->attention_backward = attend_backward<A>;
}
ES_OF_ACTIVATIONS(es_cuda_attention_ops)
