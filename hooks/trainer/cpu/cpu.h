/** Between the files of the CPU back-end. */
#ifndef ES_CPU_H
#define ES_CPU_H

#include "hooks/trainer/cpu/kernels.h"
#include "hooks/trainer/cpu/products.h"
#include "hooks/trainer/cpu/team.h"
#include "hooks/trainer/model/ops.h"

/** Weights as products read them: copies.c. */
typedef struct es_cpu_copies es_cpu_copies;

/** Of what a thread has seen of an operand, the piece with the largest |x|. */
typedef struct es_cpu_peak {
    size_t first, n; /* n 0: nothing seen */
    uint32_t size;   /* |x|, as es_cpu_kernels' largest_size */
} es_cpu_peak;

struct es_backend {
    es_team *team;
    int n_threads;
    bool half; /* forward operations write what fp16 could keep */
    bool bf16; /* activations are bfloat16, else float32 */
    const es_cpu_kernels *kernels;
    const es_products *products;
    float *scratch; /* (n_threads, scratch_size) */
    size_t scratch_size;
    es_cpu_peak *peaks; /* (n_threads) */
    float *row_sums;    /* one for each attention row */
    float *turns;       /* (n_turns, n_rotated) of rotary positions */
    int n_turns;        /* positions that it has capacity for */
    int n_rotated;      /* 0: nothing in turns yet */
    es_rope rope;

    /* Of bf16. */
    float *panels; /* (n_threads, ES_CPU_N_PANELS, panel_size) */
    size_t panel_size;
    float *sums;               /* (n_threads, ES_PRODUCT_SCRATCH) of products */
    es_cpu_copies *copies;     /* of weights */
    const es_cpu_tiles *tiles; /* NULL: none */
    float *viewed;             /* (n_viewed) what the host reads */
    size_t n_viewed;
};

/** On this back-end memory is plain floats; NULL stays NULL. */
static inline float *es_cpu_floats(es_mem *memory)
{
    return (float *)(void *)memory;
}

static inline const float *es_cpu_read(const es_mem *memory)
{
    return (const float *)(const void *)memory;
}

/** The precision of activations for x (n), just written. */
static inline void es_cpu_round(const es_backend *backend, float *x, size_t n)
{
    if (backend->half)
        backend->kernels->round_half(x, n);
}

/** A share of 0 .. n - 1: first .. first + n - 1. */
typedef struct es_slab {
    int first, n;
} es_slab;

/** A thread's share of n, in multiples of `unit` (but the last): the same for
 *  the same number of threads. */
static inline es_slab es_cpu_slab(es_share share, int n, int unit)
{
    int n_units = (n + unit - 1) / unit;
    int first = (int)((int64_t)n_units * share.thread / share.n_threads) * unit;
    int end =
        (int)((int64_t)n_units * (share.thread + 1) / share.n_threads) * unit;
    end = end < n ? end : n;
    return (es_slab){first, end > first ? end - first : 0};
}

/** The same of a count that no int holds: first .. end - 1. */
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

/** A thread's working memory: scratch_size floats. */
static inline float *es_cpu_scratch(const es_backend *backend, es_share share)
{
    return backend->scratch + (size_t)share.thread * backend->scratch_size;
}

/** The back-end in bf16: activations and operands of products are bfloat16,
 *  all else is float32 as in es_cpu_ops. */
extern const es_ops es_cpu_bf16_ops;

/** The operations of ops.h: of linear.c, attention.c, rows.c, llama.c,
 *  residual.c, normed.c, peaks.c, update.c. */
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

/** details.c. */
extern const es_detail_ops es_cpu_details;

/** update.c: es_ops' activation_stats, once their squares are known. */
void es_cpu_add_activations(es_backend *backend, es_mem *sums, const es_mem *x,
                            size_t n, double squares);

/** polynomial.c; floats of a thread's scratch. */
extern const es_polynomial_ops es_cpu_polynomial;
size_t es_cpu_polynomial_scratch(int n_ctx);

/** peaks.c: the largest number of an operand, by an operation whose threads go
 *  over it anyway. Each starts, sees its numbers x first .. first + n - 1 in
 *  their order, of bf16 no more than a panel takes, while they are in a cache;
 *  then es_ops' find_peak is complete. */
void es_cpu_start_peak(const es_backend *backend, es_share share);
void es_cpu_see_peak(const es_backend *backend, es_share share, const float *x,
                     size_t first, size_t n);
/** The same where their largest_size is known. */
void es_cpu_see_size(const es_backend *backend, es_share share, uint32_t size,
                     size_t first, size_t n);
void es_cpu_keep_peak(es_backend *backend, es_mem *peak, const es_mem *x);

/** Bytes of an activation. */
static inline size_t es_cpu_act_size(const es_backend *backend)
{
    return backend->bf16 ? sizeof(es_bfloat) : sizeof(float);
}

/** Zeroed memory for n of `size` bytes, aligned to 64 bytes, of free(); NULL
 *  if there is none. */
void *es_cpu_reserve(size_t n, size_t size);

/** Weights in bf16, as they lie; NULL if they have not been kept. */
const es_bfloat *es_cpu_copy_of(const es_backend *backend,
                                const es_mem *weights);

/** es_ops' keep and refresh of bf16, and what ends them all. */
es_status es_cpu_keep(es_backend *backend, const es_mem *weights,
                      size_t n) ES_MUST_USE;
void es_cpu_refresh(es_backend *backend, const es_mem *weights, size_t n);
void es_cpu_drop_copies(es_backend *backend);

/** attention_bf16.c: attention of heads in bf16, of `halves`: of one, by
 *  matrix units where there are some, or of a bundle of n. Copies in float32
 * lie in the first one's scratch, behind that of the kernels: so many floats.
 */
void es_cpu_attend_halves(const es_backend *backend, const es_cpu_head *heads,
                          int n, bool bundled);
void es_cpu_attend_halves_backward(const es_backend *backend,
                                   const es_cpu_head *heads, int n,
                                   bool bundled);
size_t es_cpu_halves_scratch(int n_ctx, int width, int n);

/** Floats of scratch that attention_whole needs beside what the kernels do,
 * each thread. */
size_t es_cpu_whole_scratch(int n_ctx, int width);

/** A head of this kind of attention: its sizes, and how it weighs scores. */
es_cpu_head es_cpu_head_of_kind(const es_attention *attention);

/** From what the backward pass has left in row_sums: dlog_t (H,T) f32. */
void es_cpu_add_temperatures(es_backend *backend, es_mem *dlog_t,
                             const es_attention *attention);

/** Floats of scratch that attention needs, each thread. */
size_t es_cpu_attention_scratch(const es_backend *backend,
                                const es_extents *largest);

/** Dimensions of a head that are rotated: a quarter, rounded down to even, at
 *  least 2. */
int es_cpu_n_rotated(int head_width);

/** loss_scale of es_control in memory; NULL: 1. */
static inline float es_cpu_loss_scale(const es_mem *control)
{
    return control ? ((const es_control *)(const void *)control)->loss_scale
                   : 1;
}

/** x . y of activations, over pieces that do not depend on the number of
 *  threads. */
double es_cpu_dot(es_backend *backend, const es_mem *x, const es_mem *y,
                  size_t n);

#endif
