/* Wraps the back-end's operations to measure time: times each call and adds its
 * time to the phase of a training step that the operation belongs to. The team
 * measures how long the calling thread waits for the other threads at the end
 * of a call. */
#include "hooks/trainer/cpu/phases.h"

#include "hooks/trainer/cpu/cpu.h"

#include <string.h>
#include <time.h>

const char *const es_cpu_phase_names[ES_N_CPU_PHASES] = {
    [ES_CPU_PRODUCTS] = "products, activations",
    [ES_CPU_ATTENTION] = "attention",
    [ES_CPU_NORMS] = "normalisation",
    [ES_CPU_LOSS] = "cross-entropy",
    [ES_CPU_PENALTY] = "entropies",
    [ES_CPU_EMBEDDING] = "embedding",
    [ES_CPU_UPDATE] = "update",
    [ES_CPU_ZEROING] = "zeroing",
    [ES_CPU_OTHER] = "other operations",
    [ES_CPU_WAITING] = "waiting for threads",
};

static struct {
    const es_ops *inner;
    double seconds[ES_N_CPU_PHASES];
} timed;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static es_status timed_open(es_backend **out, int n_threads)
{
    es_status status = timed.inner->open(out, n_threads);
    if (status == ES_OK)
        es_team_time((*out)->team, &timed.seconds[ES_CPU_WAITING]);
    return status;
}

#define TIMED(phase, name, parameters, ...)                                    \
    static void timed_##name parameters                                        \
    {                                                                          \
        const double start = now();                                            \
        timed.inner->name(__VA_ARGS__);                                        \
        timed.seconds[phase] += now() - start;                                 \
    }

TIMED(ES_CPU_ZEROING, zero, (es_backend * b, es_mem *out, size_t n), b, out, n)
TIMED(ES_CPU_EMBEDDING, embed,
      (es_backend * b, es_mem *x, const es_mem *tokens, const es_mem *wte,
       const es_mem *wpe, int n_batch, int n_ctx, int width),
      b, x, tokens, wte, wpe, n_batch, n_ctx, width)
TIMED(ES_CPU_EMBEDDING, embed_backward,
      (es_backend * b, es_mem *dwte, es_mem *dwpe, const es_mem *tokens,
       const es_mem *dx, int n_batch, int n_ctx, int width),
      b, dwte, dwpe, tokens, dx, n_batch, n_ctx, width)
TIMED(ES_CPU_EMBEDDING, cut_patches,
      (es_backend * b, es_mem *patches, const es_mem *pixels,
       const es_image *image, int n_batch, int n_ctx),
      b, patches, pixels, image, n_batch, n_ctx)
TIMED(ES_CPU_EMBEDDING, place_patches,
      (es_backend * b, es_mem *x, const es_mem *first, const es_mem *wpe,
       int n_batch, int n_ctx, int width),
      b, x, first, wpe, n_batch, n_ctx, width)
TIMED(ES_CPU_EMBEDDING, place_patches_backward,
      (es_backend * b, es_mem *dx, es_mem *dfirst, es_mem *dwpe, int n_batch,
       int n_ctx, int width),
      b, dx, dfirst, dwpe, n_batch, n_ctx, width)
TIMED(ES_CPU_NORMS, layer_norm,
      (es_backend * b, es_mem *y, es_mem *mean, es_mem *rstd, es_mem *peak,
       const es_mem *x, const es_mem *weight, const es_mem *bias, int n_rows,
       int width, float epsilon),
      b, y, mean, rstd, peak, x, weight, bias, n_rows, width, epsilon)
TIMED(ES_CPU_NORMS, layer_norm_backward,
      (es_backend * b, es_mem *dx, es_mem *dweight, es_mem *dbias,
       const es_mem *dy, const es_mem *x, const es_mem *mean,
       const es_mem *rstd, const es_mem *weight, int n_rows, int width),
      b, dx, dweight, dbias, dy, x, mean, rstd, weight, n_rows, width)
TIMED(ES_CPU_PRODUCTS, linear,
      (es_backend * b, es_mem *y, const es_mem *residual, const es_mem *x,
       const es_linear *linear, int n_rows),
      b, y, residual, x, linear, n_rows)
TIMED(ES_CPU_PRODUCTS, linear_act,
      (es_backend * b, es_mem *pre, es_mem *post, const es_mem *x,
       const es_linear *linear, const es_act *act, int n_rows),
      b, pre, post, x, linear, act, n_rows)
TIMED(ES_CPU_PRODUCTS, linear_backward_input,
      (es_backend * b, es_mem *dx, const es_mem *dy, const es_linear *linear,
       int n_rows, bool add),
      b, dx, dy, linear, n_rows, add)
TIMED(ES_CPU_PRODUCTS, linear_backward_act,
      (es_backend * b, es_mem *dpre, es_mem *post, es_mem *dslope,
       const es_mem *dy, const es_mem *pre, const es_linear *linear,
       const es_act *act, int n_rows),
      b, dpre, post, dslope, dy, pre, linear, act, n_rows)
TIMED(ES_CPU_PRODUCTS, act_backward,
      (es_backend * b, es_mem *d, es_mem *post, const es_mem *pre,
       const es_act *act, size_t n),
      b, d, post, pre, act, n)
TIMED(ES_CPU_PRODUCTS, linear_backward_weight,
      (es_backend * b, es_mem *dweight, es_mem *dbias, const es_mem *x,
       const es_mem *dy, const es_linear *linear, int n_rows, bool add),
      b, dweight, dbias, x, dy, linear, n_rows, add)
TIMED(ES_CPU_ATTENTION, attention,
      (es_backend * b, es_mem *y, es_mem *saved, const es_row_mem *rows,
       const es_mem *qkv, const es_attention *attention),
      b, y, saved, rows, qkv, attention)
TIMED(ES_CPU_ATTENTION, attention_whole,
      (es_backend * b, es_mem *y, es_mem *saved, const es_row_mem *rows,
       const es_mem *qkv, const es_mem *tokens, int padding,
       const es_attention *attention),
      b, y, saved, rows, qkv, tokens, padding, attention)
TIMED(ES_CPU_ATTENTION, attention_whole_backward,
      (es_backend * b, es_mem *dqkv, es_mem *dlog_t, const es_mem *dy,
       const es_mem *y, const es_mem *dentropy, const es_mem *qkv,
       const es_mem *saved, const es_mem *tokens, int padding,
       const es_attention *attention),
      b, dqkv, dlog_t, dy, y, dentropy, qkv, saved, tokens, padding, attention)
TIMED(ES_CPU_ATTENTION, attention_backward,
      (es_backend * b, es_mem *dqkv, es_mem *dlog_t, const es_mem *dy,
       const es_mem *y, const es_mem *dentropy, const es_mem *qkv,
       const es_mem *saved, const es_attention *attention),
      b, dqkv, dlog_t, dy, y, dentropy, qkv, saved, attention)
TIMED(ES_CPU_LOSS, cross_entropy,
      (es_backend * b, es_mem *row_loss, es_mem *lse, const es_mem *logits,
       const es_mem *targets, int n_rows, int vocab, int stride),
      b, row_loss, lse, logits, targets, n_rows, vocab, stride)
TIMED(ES_CPU_LOSS, cross_entropy_backward,
      (es_backend * b, es_mem *logits, const es_mem *lse, const es_mem *targets,
       float scale, const es_mem *control, int n_rows, int vocab, int stride),
      b, logits, lse, targets, scale, control, n_rows, vocab, stride)
TIMED(ES_CPU_UPDATE, sum_squares,
      (es_backend * b, es_mem *out, const es_mem *x, size_t n), b, out, x, n)
TIMED(ES_CPU_UPDATE, adamw,
      (es_backend * b, es_mem *param, es_mem *moment1, es_mem *moment2,
       const es_mem *grad, size_t n, const es_adamw *how,
       const es_mem *control),
      b, param, moment1, moment2, grad, n, how, control)
TIMED(ES_CPU_PENALTY, entropy_penalty,
      (es_backend * b, es_mem *loss, es_mem *dentropy, es_mem *dtheta,
       const es_mem *entropy, const es_penalty *penalty, float scale,
       const es_mem *control),
      b, loss, dentropy, dtheta, entropy, penalty, scale, control)

TIMED(ES_CPU_PENALTY, measure_rows,
      (es_backend * b, es_mem *sums, const es_row_mem *rows, int n_layer,
       int n_batch, int n_head, int n_ctx),
      b, sums, rows, n_layer, n_batch, n_head, n_ctx)
TIMED(ES_CPU_PENALTY, activation_stats,
      (es_backend * b, es_mem *sums, const es_mem *x, size_t n), b, sums, x, n)
TIMED(ES_CPU_OTHER, rotate,
      (es_backend * b, es_mem *qkv, const es_attention *attention, bool back),
      b, qkv, attention, back)
TIMED(ES_CPU_NORMS, rms_norm,
      (es_backend * b, es_mem *y, es_mem *rstd, es_mem *peak, const es_mem *x,
       const es_mem *weight, int n_rows, int width, float epsilon),
      b, y, rstd, peak, x, weight, n_rows, width, epsilon)
TIMED(ES_CPU_NORMS, rms_norm_backward,
      (es_backend * b, es_mem *dx, es_mem *dweight, const es_mem *dy,
       const es_mem *x, const es_mem *rstd, const es_mem *weight, int n_rows,
       int width),
      b, dx, dweight, dy, x, rstd, weight, n_rows, width)
TIMED(ES_CPU_OTHER, spread_heads,
      (es_backend * b, es_mem *qkv, es_mem *rstd, const es_mem *q,
       const es_mem *k, const es_mem *v, const es_sharing *how),
      b, qkv, rstd, q, k, v, how)
TIMED(ES_CPU_OTHER, gather_heads,
      (es_backend * b, es_mem *q, es_mem *k, es_mem *v, es_mem *dq_weight,
       es_mem *dk_weight, const es_mem *dqkv, const es_mem *rstd,
       const es_sharing *how),
      b, q, k, v, dq_weight, dk_weight, dqkv, rstd, how)
TIMED(ES_CPU_OTHER, shape_heads,
      (es_backend * b, es_mem *y, const es_mem *heads, const es_mem *qkv,
       const es_mem *gains, const es_attention *attention),
      b, y, heads, qkv, gains, attention)
TIMED(ES_CPU_OTHER, shape_heads_backward,
      (es_backend * b, es_mem *dheads, es_mem *d, es_mem *dgains,
       const es_mem *heads, const es_mem *qkv, const es_mem *gains,
       const es_attention *attention),
      b, dheads, d, dgains, heads, qkv, gains, attention)
TIMED(ES_CPU_OTHER, add_gradient,
      (es_backend * b, es_mem *y, const es_mem *x, size_t n), b, y, x, n)
TIMED(ES_CPU_OTHER, swiglu,
      (es_backend * b, es_mem *y, const es_mem *gate, const es_mem *up,
       size_t n),
      b, y, gate, up, n)
TIMED(ES_CPU_OTHER, swiglu_backward,
      (es_backend * b, es_mem *d, es_mem *gate, es_mem *y, const es_mem *up,
       size_t n),
      b, d, gate, y, up, n)
TIMED(ES_CPU_OTHER, gate,
      (es_backend * b, es_mem *y, const es_mem *x, const es_mem *gate,
       size_t n),
      b, y, x, gate, n)
TIMED(ES_CPU_OTHER, gate_backward,
      (es_backend * b, es_mem *dx, es_mem *gate, const es_mem *dy,
       const es_mem *x, size_t n),
      b, dx, gate, dy, x, n)
TIMED(ES_CPU_UPDATE, scale_heads,
      (es_backend * b, es_mem *x, const es_mem *factors, int n_in, int n_head,
       int d_model),
      b, x, factors, n_in, n_head, d_model)
TIMED(ES_CPU_OTHER, combine,
      (es_backend * b, es_mem *y, const es_mem *x, const es_mem *f,
       const es_mem *alpha, const es_mem *beta, size_t n),
      b, y, x, f, alpha, beta, n)
TIMED(ES_CPU_OTHER, combine_backward,
      (es_backend * b, es_mem *dx, es_mem *df, es_mem *dalpha, es_mem *dbeta,
       const es_mem *dy, const es_mem *x, const es_mem *f, const es_mem *alpha,
       const es_mem *beta, size_t n),
      b, dx, df, dalpha, dbeta, dy, x, f, alpha, beta, n)
TIMED(ES_CPU_OTHER, dropout,
      (es_backend * b, es_mem *y, const es_mem *residual, const es_mem *x,
       const es_dropout *how, const es_mem *pass, size_t n),
      b, y, residual, x, how, pass, n)
TIMED(ES_CPU_NORMS, weight_norm,
      (es_backend * b, es_mem *w, const es_mem *v, const es_mem *g,
       const es_columns *columns),
      b, w, v, g, columns)
TIMED(ES_CPU_NORMS, weight_norm_backward,
      (es_backend * b, es_mem *dv, es_mem *dg, const es_mem *dw,
       const es_mem *v, const es_mem *g, const es_columns *columns),
      b, dv, dg, dw, v, g, columns)
TIMED(ES_CPU_NORMS, spectral_norm,
      (es_backend * b, es_mem *w, es_mem *sigma, es_mem *u, es_mem *v,
       const es_mem *m, const es_columns *columns, int n_iterations),
      b, w, sigma, u, v, m, columns, n_iterations)
TIMED(ES_CPU_NORMS, spectral_norm_backward,
      (es_backend * b, es_mem *dm, const es_mem *dw, const es_mem *w,
       const es_mem *sigma, const es_mem *u, const es_mem *v,
       const es_columns *columns),
      b, dm, dw, w, sigma, u, v, columns)

TIMED(ES_CPU_OTHER, copy_columns,
      (es_backend * b, es_mem *y, const es_mem *x, const es_columns *columns,
       bool add),
      b, y, x, columns, add)

/* Wraps every operation that runs on the team, so that all waiting is
 * counted. */
void es_cpu_phases_wrap(es_ops *out, const es_ops *ops)
{
    *out = *ops;
    timed.inner = ops;
    memset(timed.seconds, 0, sizeof timed.seconds);
    out->open = timed_open;
#define PUT(name) out->name = ops->name ? timed_##name : NULL
    PUT(zero);
    PUT(embed);
    PUT(embed_backward);
    PUT(cut_patches);
    PUT(place_patches);
    PUT(place_patches_backward);
    PUT(layer_norm);
    PUT(layer_norm_backward);
    PUT(linear);
    PUT(linear_act);
    PUT(linear_backward_input);
    PUT(linear_backward_act);
    PUT(linear_backward_weight);
    PUT(attention);
    PUT(attention_whole);
    PUT(attention_whole_backward);
    PUT(act_backward);
    PUT(attention_backward);
    PUT(cross_entropy);
    PUT(cross_entropy_backward);
    PUT(sum_squares);
    PUT(adamw);
    PUT(entropy_penalty);
    PUT(measure_rows);
    PUT(activation_stats);
    PUT(rotate);
    PUT(rms_norm);
    PUT(rms_norm_backward);
    PUT(spread_heads);
    PUT(gather_heads);
    PUT(shape_heads);
    PUT(shape_heads_backward);
    PUT(add_gradient);
    PUT(swiglu);
    PUT(swiglu_backward);
    PUT(gate);
    PUT(gate_backward);
    PUT(scale_heads);
    PUT(combine);
    PUT(combine_backward);
    PUT(dropout);
    PUT(weight_norm);
    PUT(weight_norm_backward);
    PUT(spectral_norm);
    PUT(spectral_norm_backward);
    PUT(copy_columns);
#undef PUT
}

void es_cpu_phases_take(double *seconds)
{
    memcpy(seconds, timed.seconds, sizeof timed.seconds);
    memset(timed.seconds, 0, sizeof timed.seconds);
}
