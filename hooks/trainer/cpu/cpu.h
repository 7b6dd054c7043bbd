/** Declarations shared by the files of the CPU back-end: its state, access to
 *  memory as floats, the division of work among threads, and functions that are
 *  used in several files. */
#ifndef ES_CPU_H
#define ES_CPU_H

#include "hooks/trainer/cpu/kernels.h"
#include "hooks/trainer/cpu/products.h"
#include "hooks/trainer/cpu/team.h"
#include "hooks/trainer/model/ops.h"

/** List of the bf16 copies of weights that products read; see memory.c. */
typedef struct es_cpu_copies es_cpu_copies;

/** The largest |x| that a thread has found so far in its part of a product's
 *  operand, and the piece that contains it. A piece is the range of elements
 *  that is examined in one call of es_cpu_see_peak. */
typedef struct es_cpu_peak {
    size_t first, n; /* position and length of the piece that contains the
                        largest |x|; n = 0 if no piece was examined */
    uint32_t size;   /* largest |x|, as largest_size of es_cpu_kernels encodes
                      * it */
} es_cpu_peak;

struct es_backend {
    es_team *team;
    int n_threads;
    bool half; /* forward operations round their results to fp16 */
    bool bf16; /* true if activations are bfloat16, false if float32 */
    const es_cpu_kernels *kernels;
    const es_products *products;
    float *scratch; /* (n_threads, scratch_size) */
    size_t scratch_size;
    es_cpu_peak *peaks; /* (n_threads) */
    float *row_sums;    /* sums (B,H,T) that the backward pass stores for the
                           gradient of the temperatures */
    float *turns;       /* cosines and sines of rotary position embeddings,
                           shape (n_turns,n_rotated) */
    int n_turns;        /* number of positions whose cosines and sines are in
                         * `turns` */
    int n_rotated; /* number of rotated dimensions per head; 0 if `turns` is
                      empty */
    es_rope rope;

    /* The fields below are used for bf16 activations only. */
    float *panels; /* (n_threads, ES_CPU_N_PANELS, panel_size) */
    size_t panel_size;
    float *sums;               /* (n_threads, ES_PRODUCT_SCRATCH) */
    es_cpu_copies *copies;     /* bf16 copies of weights */
    const es_cpu_tiles *tiles; /* NULL if matrix units are not used */
    float *viewed; /* float32 copies of n_viewed bf16 numbers, for the host to
                      read */
    size_t n_viewed;
};

/** Returns device memory, which in this back-end is ordinary memory, as floats.
 *  NULL stays NULL. */
static inline float *es_cpu_floats(es_mem *memory)
{
    return (float *)(void *)memory;
}

static inline const float *es_cpu_read(const es_mem *memory)
{
    return (const float *)(const void *)memory;
}

/** Rounds x (n), which the caller has just written, to the precision of
 *  activations. */
static inline void es_cpu_round(const es_backend *backend, float *x, size_t n)
{
    if (backend->half)
        backend->kernels->round_half(x, n);
}

/** A range of indices: first .. first + n - 1. */
typedef struct es_slab {
    int first, n;
} es_slab;

/** Returns the range of indices 0 .. n - 1 that a thread processes. The size of
 *  each range except the last is a multiple of `unit`. The ranges depend only
 *  on n, `unit` and the number of threads. */
static inline es_slab es_cpu_slab(es_share share, int n, int unit)
{
    int n_units = (n + unit - 1) / unit;
    int first = (int)((int64_t)n_units * share.thread / share.n_threads) * unit;
    int end =
        (int)((int64_t)n_units * (share.thread + 1) / share.n_threads) * unit;
    end = end < n ? end : n;
    return (es_slab){first, end > first ? end - first : 0};
}

/** Same as es_cpu_slab, for an n that may exceed int. The range is first .. end
 *  - 1. */
static inline void es_cpu_span(size_t *first, size_t *end, es_share share,
                               size_t n, size_t unit)
{
    const size_t n_units = (n + unit - 1) / unit;
    const size_t thread = (size_t)share.thread;
    const size_t n_threads = (size_t)share.n_threads;
    *first = n_units * thread / n_threads * unit;
    *end = n_units * (thread + 1) / n_threads * unit;
    *end = *end < n ? *end : n;
}

/** Returns a thread's scratch memory of scratch_size floats. */
static inline float *es_cpu_scratch(const es_backend *backend, es_share share)
{
    return backend->scratch + (size_t)share.thread * backend->scratch_size;
}

/** The back-end's operations in bf16. Activations and the operands of products
 *  are bfloat16; everything else is float32 as in es_cpu_ops. */
extern const es_ops es_cpu_bf16_ops;

/** The operations of ops.h that are implemented in linear.c, attention.c,
 *  rows.c, llama.c, residual.c, normed.c, peaks.c and update.c. */
#define ES_CPU_OPERATIONS(OPERATION)                                           \
    OPERATION(linear)                                                          \
    OPERATION(linear_act)                                                      \
    OPERATION(linear_backward_input)                                           \
    OPERATION(linear_backward_act)                                             \
    OPERATION(act_backward)                                                    \
    OPERATION(linear_backward_weight)                                          \
    OPERATION(attention)                                                       \
    OPERATION(attention_whole)                                                 \
    OPERATION(attention_whole_backward)                                        \
    OPERATION(attention_backward)                                              \
    OPERATION(rotate)                                                          \
    OPERATION(embed)                                                           \
    OPERATION(embed_backward)                                                  \
    OPERATION(cut_patches)                                                     \
    OPERATION(place_patches)                                                   \
    OPERATION(place_patches_backward)                                          \
    OPERATION(layer_norm)                                                      \
    OPERATION(layer_norm_backward)                                             \
    OPERATION(rms_norm)                                                        \
    OPERATION(rms_norm_backward)                                               \
    OPERATION(spread_heads)                                                    \
    OPERATION(gather_heads)                                                    \
    OPERATION(swiglu)                                                          \
    OPERATION(shape_heads)                                                     \
    OPERATION(shape_heads_backward)                                            \
    OPERATION(add_gradient)                                                    \
    OPERATION(swiglu_backward)                                                 \
    OPERATION(cross_entropy)                                                   \
    OPERATION(cross_entropy_backward)                                          \
    OPERATION(gate)                                                            \
    OPERATION(gate_backward)                                                   \
    OPERATION(find_peak)                                                       \
    OPERATION(find_score_peak)                                                 \
    OPERATION(pull_peak)                                                       \
    OPERATION(pull_score_peak)                                                 \
    OPERATION(largest_logits)                                                  \
    OPERATION(qk_factors)                                                      \
    OPERATION(scale_heads)                                                     \
    OPERATION(combine)                                                         \
    OPERATION(combine_backward)                                                \
    OPERATION(dropout)                                                         \
    OPERATION(entropy_penalty)                                                 \
    OPERATION(weight_norm)                                                     \
    OPERATION(weight_norm_backward)                                            \
    OPERATION(spectral_norm)                                                   \
    OPERATION(spectral_norm_backward)                                          \
    OPERATION(temperature_logs)                                                \
    OPERATION(temperature_logs_backward)                                       \
    OPERATION(copy_columns)                                                    \
    OPERATION(activation_stats)                                                \
    OPERATION(sum_squares)                                                     \
    OPERATION(add_mean)                                                        \
    OPERATION(add_share)                                                       \
    OPERATION(measure_rows)                                                    \
    OPERATION(clip)                                                            \
    OPERATION(adamw)

#define ES_CPU_DECLARE(name) __typeof__(*((es_ops *)NULL)->name) es_cpu_##name;
ES_CPU_OPERATIONS(ES_CPU_DECLARE)

/** In details.c. */
extern const es_detail_ops es_cpu_details;

/** Same as activation_stats of es_ops, for a caller that already knows the sum
 *  of squares. Defined in update.c. */
void es_cpu_add_activations(es_backend *backend, es_mem *sums, const es_mem *x,
                            size_t n, double squares);

/** Operations of polynomial inference, and the number of floats of scratch
 *  memory that they need per thread. Defined in polynomial.c. */
extern const es_polynomial_ops es_cpu_polynomial;
size_t es_cpu_polynomial_scratch(int n_ctx);

/** Find the largest number of an operand during an operation that reads the
 *  operand anyway, so that find_peak of es_ops needs no further pass. Each
 *  thread calls es_cpu_start_peak, and then passes its numbers to
 *  es_cpu_see_peak while they are in the cache: n numbers x at a time (in bf16,
 *  at most one panel), the first at index `first` of the operand, in ascending
 *  order. Defined in peaks.c. */
void es_cpu_start_peak(const es_backend *backend, es_share share);
void es_cpu_see_peak(const es_backend *backend, es_share share, const float *x,
                     size_t first, size_t n);
/** Same as es_cpu_see_peak, for a caller that already knows the numbers'
 *  largest |x|, encoded by largest_size of es_cpu_kernels. */
void es_cpu_see_size(const es_backend *backend, es_share share, uint32_t size,
                     size_t first, size_t n);
void es_cpu_keep_peak(es_backend *backend, es_mem *peak, const es_mem *x);

/** Returns the size of an activation in bytes. */
static inline size_t es_cpu_act_size(const es_backend *backend)
{
    return backend->bf16 ? sizeof(es_bfloat) : sizeof(float);
}

/** Reserves zeroed memory for n elements of `size` bytes, aligned to 64 bytes,
 *  to be released with free(). Returns NULL on failure. Defined in memory.c. */
void *es_cpu_reserve(size_t n, size_t size);

/** Returns the bf16 copy of weights, in the layout of the weights; NULL if
 *  there is no copy. */
const es_bfloat *es_cpu_copy_of(const es_backend *backend,
                                const es_mem *weights);

/** es_cpu_keep and es_cpu_refresh implement keep and refresh of es_ops in bf16;
 *  es_cpu_drop_copies releases all copies. */
es_status es_cpu_keep(es_backend *backend, const es_mem *weights,
                      size_t n) ES_MUST_USE;
void es_cpu_refresh(es_backend *backend, const es_mem *weights, size_t n);
void es_cpu_drop_copies(es_backend *backend);

/** Compute attention of bf16 heads, whose activations are in the field
 *  `halves`. With `bundled`, process n heads as a bundle, otherwise one head,
 *  on matrix units if available. If float32 copies of the heads are needed,
 *  they are stored in the first head's scratch memory, after the kernels' part;
 *  es_cpu_halves_scratch returns the size of the copies in floats. Defined in
 *  attention_bf16.c. */
void es_cpu_attend_halves(const es_backend *backend, const es_cpu_head *heads,
                          int n, bool bundled);
void es_cpu_attend_halves_backward(const es_backend *backend,
                                   const es_cpu_head *heads, int n,
                                   bool bundled);
size_t es_cpu_halves_scratch(int n_ctx, int width, int n);

/** Returns the number of floats of scratch memory that attention_whole.c needs
 *  per thread in addition to the kernels' scratch memory. */
size_t es_cpu_whole_scratch(int n_ctx, int width);

/** Returns a head whose sizes and kind of weights are those of `attention`. */
es_cpu_head es_cpu_head_of_kind(const es_attention *attention);

/** Adds the gradient of ln t, the logarithm of the temperatures, to dlog_t
 *  (H,T) f32. Reads the row_sums that the backward pass has written. */
void es_cpu_add_temperatures(es_backend *backend, es_mem *dlog_t,
                             const es_attention *attention);

/** Returns the number of floats of scratch memory that attention needs per
 *  thread. */
size_t es_cpu_attention_scratch(const es_backend *backend,
                                const es_extents *largest);

/** Returns the number of rotated dimensions of a head: a quarter of the width,
 *  rounded down to an even number, at least 2. */
int es_cpu_n_rotated(int head_width);

/** Returns the loss_scale field of the es_control stored in `control`; 1 if
 *  `control` is NULL. */
static inline float es_cpu_loss_scale(const es_mem *control)
{
    return control ? ((const es_control *)(const void *)control)->loss_scale
                   : 1;
}

/** Returns the dot product x . y of two activations of n numbers. Sums over
 *  pieces of fixed length, so the result does not depend on the number of
 *  threads. */
double es_cpu_dot(es_backend *backend, const es_mem *x, const es_mem *y,
                  size_t n);

#endif
