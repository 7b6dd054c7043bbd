/**
 * es_cuda_qk_statistics: checks a call, lays out its workspace, and puts rows
 * (qk_rows.cu), then heads into the stream. Heads are sums of sequences, those
 * sums of rows: in double and in one order, so that bits do not depend on what
 * else the device does. The reductions are those of analyzer/heads.
 */
extern "C" {
#include "hooks/trainer/cuda/qk_statistics.h"
}
#include "hooks/trainer/cuda/borrowed.h"
#include "hooks/trainer/cuda/qk_call.h"
#include "hooks/trainer/cuda/reduce.h"

enum { HEAD_THREADS = 128, MOST = 1 << 30 };

/* --- heads ---------------------------------------------------------------- */

/* What the rows of one sequence are for one head; es_qk_call's sums. */
static __global__ void __launch_bounds__(ES_THREADS)
    qk_sequences_kernel(es_qk_call call)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const int n = (int)blockIdx.x / call.n_heads;
    const int h = (int)blockIdx.x % call.n_heads;
    const es_rows *rows = &call.rows;
    const float *const means[] = {rows->entropy, rows->sink, rows->missing,
                                  rows->distance, rows->top};
    int first = 0, end = call.n_queries;
    double sums[ES_QK_SUMS] = {0}, largest = -INFINITY;
    if (call.packed) {
        first = es_qk_clamp(call.query_starts[n], 0, call.n_queries);
        end = es_qk_clamp(call.query_starts[n + 1], first, call.n_queries);
    }
    const size_t head =
        (call.packed ? 0 : (size_t)n * (size_t)call.n_heads) + (size_t)h;
    for (int i = first + (int)threadIdx.x; i < end; i += ES_THREADS) {
        const size_t at = head * (size_t)call.n_queries + (size_t)i;
        const float e = rows->entropy[at];
        if (es_qk_is_missing(e))
            continue;
        sums[0] += 1;
        if (!(fabsf(e) < INFINITY)) {
            sums[2] += rows->nonfinite[at];
            continue;
        }
        sums[1] += 1;
        largest = fmax(largest, (double)rows->max_logit[at]);
#pragma unroll
        for (int k = 0; k < 5; k++)
            sums[4 + k] += (double)means[k][at];
    }
    const size_t step = (size_t)call.n_sequences * (size_t)call.n_heads;
    double *to = call.sums + blockIdx.x;
    for (int k = 0; k < ES_QK_SUMS; k++) {
        const double sum = es_block_sum(sums[k], shared);
        if (k != 3 && threadIdx.x == 0)
            to[(size_t)k * step] = sum;
    }
    largest = es_warp_max(largest);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int i = 0; i < ES_THREADS / 32 && threadIdx.x == 0; i++)
        largest = fmax(largest, shared[i]);
    if (threadIdx.x == 0)
        to[3 * step] = largest;
}

/* A head a thread. */
static __global__ void __launch_bounds__(HEAD_THREADS)
    qk_heads_kernel(es_qk_call call, es_heads heads)
{
    es_begin_kernel();
    const int h = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const size_t step = (size_t)call.n_sequences * (size_t)call.n_heads;
    double sums[ES_QK_SUMS] = {0}, largest = -INFINITY;
    double low = INFINITY, high = -INFINITY;
    if (h >= call.n_heads)
        return;
    for (int n = 0; n < call.n_sequences; n++) {
        const double *from =
            call.sums + (size_t)n * (size_t)call.n_heads + (size_t)h;
        const double finite = from[step], mean = from[4 * step] / finite;
        if (finite > 0) {
            low = fmin(low, mean);
            high = fmax(high, mean);
        }
        largest = fmax(largest, from[3 * step]);
        for (int k = 0; k < ES_QK_SUMS; k++)
            sums[k] += from[(size_t)k * step];
    }
    const double n = sums[1];
    const bool known = n > 0;
    const float other = sums[0] > 0 ? NAN : es_qk_missing();
    float *const arrays[] = {
        heads.entropy, heads.sink,        heads.missing,     heads.distance,
        heads.top,     heads.entropy_min, heads.entropy_max, heads.max_logit};
    const double values[] = {sums[4] / n, sums[5] / n, sums[6] / n, sums[7] / n,
                             sums[8] / n, low,         high,        largest};
#pragma unroll
    for (int k = 0; k < 8; k++)
        if (arrays[k])
            arrays[k][h] = known ? (float)values[k] : other;
    if (heads.finite_rows)
        heads.finite_rows[h] = (int64_t)n;
    if (heads.nonfinite_rows)
        heads.nonfinite_rows[h] = (int64_t)(sums[0] - n);
    if (heads.nonfinite_weights)
        heads.nonfinite_weights[h] = (int64_t)sums[2];
}

/* --- calls ---------------------------------------------------------------- */

/* What a caller gives as a struct of ours: what it does not have is 0, what we
 * do not have must be (es_sized_take, which a plugin is without). */
template <class X>
static es_status take(X *out, const X *from, const char *name)
{
    const size_t size = from ? from->size : 0;
    const unsigned char *bytes = (const unsigned char *)from;
    if (size < sizeof size)
        return es_fail(ES_EARGUMENT, "%s: size is not set", name);
    for (size_t i = sizeof(X); i < size; i++)
        if (bytes[i])
            return es_fail(ES_EARGUMENT,
                           "%s: a member that this library does not know: "
                           "update it",
                           name);
    memset((void *)out, 0, sizeof *out);
    memcpy((void *)out, from, size < sizeof *out ? size : sizeof *out);
    return ES_OK;
}

static es_status refuse(const char *why)
{
    return es_fail(ES_EARGUMENT, "es_cuda_qk_statistics: %s", why);
}

static es_status check_sizes(const es_attention_shape *s)
{
    const int kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    if (s->n_batch < 1 || s->n_heads < 1 || s->n_queries < 1 || s->n_keys < 1 ||
        s->head_width < 1 || s->n_queries > MOST || s->n_keys > MOST ||
        s->query_offset < -MOST || s->query_offset > MOST)
        return refuse("a size that is below 1 or too large");
    if (s->head_width > ES_QK_WIDEST)
        return refuse("heads are wider than 256");
    if (kv < 1 || s->n_heads % kv != 0)
        return refuse("n_kv_heads does not divide n_heads");
    /* A block for each 16 rows of a head, and of each part of its keys. */
    const double n = (double)s->n_batch * s->n_heads;
    if (n * (s->n_queries / 16 + 1) > INT_MAX ||
        n * (double)ES_QK_CHUNKS > INT_MAX)
        return refuse("more heads and rows than a launch takes");
    return ES_OK;
}

/** As es_qk_statistics has it. */
static bool is_size(double x)
{
    return x == 0 || (x >= 1e-30 && x <= 1e30);
}

static es_status check_numbers(const es_attention_shape *s)
{
    if (!is_size(s->scale) || !is_size(s->softcap) || s->window < 0)
        return refuse("a scale or softcap that is neither 0 nor 1e-30 to "
                      "1e30, or a window below 0");
    if (s->time_limit != 0)
        return refuse("there is no time limit on a device");
    return ES_OK;
}

static es_status take_shape(es_attention_shape *out,
                            const es_attention_shape *from)
{
    es_status status = take(out, from, "es_attention_shape");
    if (status == ES_OK)
        status = check_sizes(out);
    return status == ES_OK ? check_numbers(out) : status;
}

/* What is carved out of the workspace; with NULL, how much it is. */
static size_t carve(es_qk_call *call, char *memory)
{
    const size_t n_rows =
        (size_t)call->n_batch * (size_t)call->n_heads * (size_t)call->n_queries;
    size_t used = 0;
    auto piece = [&](size_t bytes) {
        char *at = memory ? memory + used : NULL;
        used += (bytes + 255) / 256 * 256;
        return (void *)at;
    };
    float **const rows[] = {&call->rows.entropy,   &call->rows.lse,
                            &call->rows.max_logit, &call->rows.sink,
                            &call->rows.missing,   &call->rows.distance,
                            &call->rows.top};
    for (float **row : rows) {
        float *own = (float *)piece(n_rows * sizeof(float));
        *row = *row ? *row : own;
    }
    int32_t *counts = (int32_t *)piece(n_rows * sizeof(int32_t));
    call->rows.nonfinite = call->rows.nonfinite ? call->rows.nonfinite : counts;
    call->first_keys =
        (int32_t *)piece((size_t)call->n_sequences * sizeof(int32_t));
    call->extents =
        (float *)piece((size_t)call->n_batch * (size_t)call->n_kv_heads *
                       ES_QK_CHUNKS * 2 * sizeof(float));
    call->sums =
        (double *)piece((size_t)call->n_sequences * (size_t)call->n_heads *
                        ES_QK_SUMS * sizeof(double));
    return used;
}

/* A shape that has been checked, for the kernels. */
static es_qk_call call_of(const es_attention_shape *s)
{
    es_qk_call call = {};
    call.packed = s->query_starts != NULL;
    call.n_sequences = s->n_batch;
    call.n_batch = call.packed ? 1 : s->n_batch;
    call.n_heads = s->n_heads;
    call.n_kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    call.n_queries = s->n_queries;
    call.n_keys = s->n_keys;
    call.width = s->head_width;
    call.causal = s->causal;
    call.window = s->window;
    call.query_offset = s->query_offset;
    call.key_mask = s->key_mask;
    call.query_mask = s->query_mask;
    call.key_lengths = s->key_lengths;
    call.query_offsets = s->query_offsets;
    call.query_starts = s->query_starts;
    call.key_starts = s->key_starts ? s->key_starts : s->query_starts;
    call.temperature = s->temperature;
    call.sink_logits = s->sink_logits;
    call.scale = s->scale > 0 ? s->scale : 1 / sqrt((double)s->head_width);
    call.softcap = s->softcap;
    return call;
}

size_t es_cuda_qk_workspace(const es_attention_shape *shape)
{
    es_attention_shape own;
    if (take_shape(&own, shape) != ES_OK)
        return 0;
    es_qk_call call = call_of(&own);
    return carve(&call, NULL);
}

/* The call for the kernels; es_heads may be NULL. */
static es_status understand(es_qk_call *out, es_heads *heads,
                            const es_cuda_qk *given)
{
    es_attention_shape shape;
    es_status status = take_shape(&shape, given->shape);
    if (status != ES_OK)
        return status;
    if (!given->q || !given->k || !given->q->data || !given->k->data)
        return refuse("no queries or no keys");
    if (given->q->type != given->k->type ||
        (unsigned)given->q->type > ES_ENTROPY_F16)
        return refuse("queries and keys of unknown or two types");
    *out = call_of(&shape);
    out->q = given->q->data;
    out->k = given->k->data;
    out->q_strides = given->q->strides;
    out->k_strides = given->k->strides;
    out->type = given->q->type;
    if (given->rows)
        status = take(&out->rows, given->rows, "es_rows");
    if (status == ES_OK && given->heads)
        status = take(heads, given->heads, "es_heads");
    if (status == ES_OK &&
        (!given->workspace || (uintptr_t)given->workspace % 256 != 0 ||
         given->workspace_bytes < carve(out, NULL)))
        return refuse("the workspace is smaller than es_cuda_qk_workspace or "
                      "not aligned to 256 bytes");
    return status;
}

es_status es_cuda_qk_statistics(const es_cuda_qk *call)
{
    es_cuda_qk given;
    es_qk_call own;
    es_heads heads = {};
    es_device *device;
    es_status status = take(&given, call, "es_cuda_qk");
    if (status == ES_OK)
        status = understand(&own, &heads, &given);
    if (status != ES_OK)
        return status;
    status = es_device_borrow(&device, given.stream);
    if (status != ES_OK)
        return status;
    carve(&own, (char *)given.workspace);
    es_qk_launch_rows(device, &own);
    if (given.heads) {
        es_launch(device, "sums of sequences", qk_sequences_kernel,
                  dim3((unsigned)(own.n_sequences * own.n_heads)), ES_THREADS,
                  ES_MAX_WARPS * sizeof(double), own);
        es_launch(device, "statistics of heads", qk_heads_kernel,
                  dim3((unsigned)(own.n_heads - 1) / HEAD_THREADS + 1),
                  HEAD_THREADS, 0, own, heads);
    }
    return es_device_give_back(device);
}
