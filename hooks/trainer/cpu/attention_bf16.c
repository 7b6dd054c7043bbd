/* Computes attention of bf16 heads on the processor's matrix units. If that is
 * not possible, converts the heads to float32, calls the float32 kernels, and
 * converts the results back. */
#include "hooks/trainer/cpu/activations.h"

/* Number of arrays of one head that have float32 copies: q, k, v, y, dy, dq,
 * dk, dv. */
enum { N_COPIES = 8 };

size_t es_cpu_halves_scratch(int n_ctx, int width, int n)
{
    return N_COPIES * (size_t)n * (size_t)n_ctx * (size_t)width;
}

/* Converts the rows of a head from bf16 to float32, starting at `to`. Returns
 * the end of the converted rows. */
static float *widen_rows(float *to, const es_cpu_head *head,
                         const es_cpu_kernels *kernels, const es_bfloat *from,
                         size_t stride)
{
    const size_t width = (size_t)head->width;
    for (int i = 0; i < head->n_ctx; i++, to += width, from += stride)
        kernels->widen(to, from, width);
    return to;
}

/* Converts the rows of a head back to bf16. */
static void narrow_rows(es_bfloat *to, const es_cpu_head *head,
                        const es_cpu_kernels *kernels, const float *from,
                        size_t stride)
{
    const size_t width = (size_t)head->width;
    for (int i = 0; i < head->n_ctx; i++, to += stride, from += width)
        kernels->narrow(to, from, width);
}

/* Converts the activations of a head to float32 and writes them to memory that
 * starts at `to`. */
static void widen_head(es_cpu_head *head, float *to,
                       const es_cpu_kernels *kernels)
{
    const es_cpu_half_head *in = &head->halves;
    const size_t n = (size_t)head->n_ctx * (size_t)head->width;
    head->stride = head->y_stride = (size_t)head->width;
    head->q = to;
    head->k = to = widen_rows(to, head, kernels, in->q, in->stride);
    head->v = to = widen_rows(to, head, kernels, in->k, in->stride);
    head->y = to = widen_rows(to, head, kernels, in->v, in->stride);
    if (!in->dq)
        return;
    to = widen_rows(to, head, kernels, in->y, in->y_stride);
    head->dy = to;
    head->dq = widen_rows(to, head, kernels, in->dy, in->y_stride);
    head->dk = head->dq + n;
    head->dv = head->dk + n;
}

/* Makes float32 copies of n heads in the first head's scratch, after the part
 * that the kernels use. */
static void widen_heads(es_cpu_head *out, const es_cpu_head *heads, int n,
                        const es_cpu_kernels *kernels)
{
    const int n_ctx = heads->n_ctx, width = heads->width;
    float *to = heads->scratch + kernels->attention_scratch(n_ctx, width);
    for (int h = 0; h < n; h++) {
        out[h] = heads[h];
        widen_head(&out[h], to, kernels);
        to += es_cpu_halves_scratch(n_ctx, width, 1);
    }
}

void es_cpu_attend_halves(const es_backend *backend, const es_cpu_head *heads,
                          int n, bool bundled)
{
    const es_cpu_kernels *kernels = backend->kernels;
    es_cpu_head copies[ES_CPU_MAX_LANES];
    if (!bundled && backend->tiles && backend->tiles->attention(heads))
        return;
    widen_heads(copies, heads, n, kernels);
    if (bundled)
        kernels->attention_bundle(copies, n);
    else
        kernels->attention(copies);
    for (int h = 0; h < n; h++)
        narrow_rows(copies[h].halves.y, &copies[h], kernels, copies[h].y,
                    copies[h].halves.y_stride);
}

void es_cpu_attend_halves_backward(const es_backend *backend,
                                   const es_cpu_head *heads, int n,
                                   bool bundled)
{
    const es_cpu_kernels *kernels = backend->kernels;
    es_cpu_head copies[ES_CPU_MAX_LANES];
    if (!bundled && backend->tiles && backend->tiles->attention_backward(heads))
        return;
    widen_heads(copies, heads, n, kernels);
    if (bundled)
        kernels->attention_bundle_backward(copies, n);
    else
        kernels->attention_backward(copies);
    for (const es_cpu_head *head = copies; head < copies + n; head++) {
        const es_cpu_half_head *out = &head->halves;
        narrow_rows(out->dq, head, kernels, head->dq, out->stride);
        narrow_rows(out->dk, head, kernels, head->dk, out->stride);
        narrow_rows(out->dv, head, kernels, head->dv, out->stride);
    }
}
