/* Finds the number with the largest absolute value in an operand, and computes
 * the gradient of range losses, which only affects this number. Compares
 * absolute values as the bits of floats, which are ordered like the floats; a
 * NaN counts as larger than all numbers. Among equal values, the first one is
 * used, so that the result does not depend on the number of threads. */
#include "hooks/trainer/cpu/activations.h"

#include "hooks/trainer/cpu/half.h"
#include <math.h>
#include <string.h>

static es_peak *peak_at(es_mem *peak)
{
    return (es_peak *)(void *)peak;
}

/* Returns the bits of |x|, which are ordered like the floats; a NaN counts as
 * larger than all numbers. */
static uint32_t size_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

static float sign_of(float x)
{
    return isnan(x) ? x : (float)((x > 0) - (x < 0));
}

/* Records that x, at position `index` of the operand, has the largest absolute
 * value of the operand in this pass. */
static void record_peak(es_peak *peak, float x, uint64_t index)
{
    peak->size = fabsf(x);
    peak->sign = sign_of(x);
    peak->index = index;
    peak->sum += (double)peak->size;
    if (size_bits(peak->size) > size_bits(peak->largest))
        peak->largest = peak->size;
}

/* --- activations ---------------------------------------------------------- */

void es_cpu_start_peak(const es_backend *backend, es_share share)
{
    backend->peaks[share.thread] = (es_cpu_peak){.n = 0};
}

void es_cpu_see_size(const es_backend *backend, es_share share, uint32_t size,
                     size_t first, size_t n)
{
    es_cpu_peak *best = &backend->peaks[share.thread];
    if (best->n == 0 || size > best->size)
        *best = (es_cpu_peak){first, n, size};
}

void es_cpu_see_peak(const es_backend *backend, es_share share, const float *x,
                     size_t first, size_t n)
{
    es_cpu_see_size(backend, share, backend->kernels->largest_size(x, n), first,
                    n);
}

/* Finds, in the part of x that `piece` describes, the first number whose
 * absolute value is piece->size, and records it as the operand's largest
 * number. */
static void keep_first(const es_backend *backend, es_mem *peak, const es_mem *x,
                       const es_cpu_peak *piece)
{
    const float *from =
        es_cpu_open(backend, (es_share){0, 1}, 0, x, piece->first, piece->n);
    size_t i = 0;
    while (i + 1 < piece->n && size_bits(from[i]) != piece->size)
        i++;
    record_peak(peak_at(peak), from[i], piece->first + i);
}

void es_cpu_keep_peak(es_backend *backend, es_mem *peak, const es_mem *x)
{
    const es_cpu_peak *best = &backend->peaks[0];
    for (int t = 1; t < backend->n_threads; t++) {
        const es_cpu_peak *other = &backend->peaks[t];
        if (other->n > 0 && (best->n == 0 || other->size > best->size))
            best = other;
    }
    keep_first(backend, peak, x, best);
}

typedef struct job {
    const es_backend *backend;
    const es_mem *x;
    size_t n;
} job;

static void peak_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, ES_CPU_CHUNK);
    es_cpu_start_peak(j->backend, share);
    for (size_t n; first < end; first += n) {
        n = end - first < ES_CPU_CHUNK ? end - first : ES_CPU_CHUNK;
        es_cpu_see_peak(j->backend, share,
                        es_cpu_open(j->backend, share, 0, j->x, first, n),
                        first, n);
    }
}

void es_cpu_find_peak(es_backend *backend, es_mem *peak, const es_mem *x,
                      size_t n)
{
    job j = {.backend = backend, .x = x, .n = n};
    es_team_run(backend->team, peak_part, &j);
    es_cpu_keep_peak(backend, peak, x);
}

void es_cpu_pull_peak(es_backend *backend, es_mem *dx, const es_mem *peak,
                      float scale, const es_mem *control)
{
    const es_peak *from = (const es_peak *)(const void *)peak;
    const size_t at = (size_t)from->index;
    const float more = scale * es_cpu_loss_scale(control) * from->sign;
    float *value = es_cpu_change(backend, (es_share){0, 1}, 0, dx, at, 1);
    *value += more;
    es_cpu_close_gradient(backend, dx, at, value, 1);
}

/* --- scores --------------------------------------------------------------- */

/* Offsets in qkv of the query and the key of one score. */
typedef struct place {
    size_t q, k, width;
    float scale; /* factor of q . k */
} place;

static place place_of(const es_attention *a, uint64_t index)
{
    const uint64_t n_ctx = (uint64_t)a->n_ctx, n_head = (uint64_t)a->n_head;
    const size_t key = (size_t)(index % n_ctx);
    const size_t query = (size_t)(index / n_ctx % n_ctx);
    const size_t head = (size_t)(index / n_ctx / n_ctx % n_head);
    const size_t first = (size_t)(index / n_ctx / n_ctx / n_head * n_ctx);
    const size_t d = (size_t)a->d_model, width = d / (size_t)a->n_head;
    return (place){.q = (first + query) * 3 * d + head * width,
                   .k = (first + key) * 3 * d + d + head * width,
                   .width = width,
                   .scale = 1 / sqrtf((float)width)};
}

static float score_at(const es_backend *backend, const es_mem *qkv,
                      const es_attention *attention, uint64_t index)
{
    const es_share share = {0, 1};
    const place at = place_of(attention, index);
    const float *q = es_cpu_open(backend, share, 0, qkv, at.q, at.width);
    const float *k = es_cpu_open(backend, share, 1, qkv, at.k, at.width);
    float sum = 0;
    for (size_t c = 0; c < at.width; c++)
        sum += q[c] * k[c];
    return at.scale * (backend->half ? es_half_round(sum) : sum);
}

static bool is_token(const es_sight *sight, size_t row)
{
    const int32_t *tokens = (const int32_t *)(const void *)sight->tokens;
    return !sight->all || !tokens || tokens[row] != sight->padding;
}

/* Finds the row with the largest |score| and writes its index, b * H * T + h *
 * T + i, to *out. For PowerSoftmax, the largest |score| of a row is the first
 * number of the row's entry in saved (B,H,T,2); rows of padding have no entry.
 * Returns false if no row has an entry. */
static bool find_row(size_t *out, const float *saved, const es_attention *a,
                     const es_sight *sight)
{
    const size_t n_ctx = (size_t)a->n_ctx, n_head = (size_t)a->n_head;
    uint32_t largest = 0;
    bool found = false;
    for (size_t head = 0; head < (size_t)a->n_batch * n_head; head++) {
        const float *from = saved + 2 * head * n_ctx;
        for (size_t t = 0; t < n_ctx; t++) {
            if (!is_token(sight, head / n_head * n_ctx + t))
                continue;
            if (!found || size_bits(*from) > largest) {
                largest = size_bits(*from);
                *out = head * n_ctx + t;
            }
            found = true;
            from += 2;
        }
    }
    return found;
}

void es_cpu_find_score_peak(es_backend *backend, es_mem *peak,
                            const es_mem *qkv, const es_mem *saved,
                            const es_attention *attention,
                            const es_sight *sight)
{
    const size_t n_ctx = (size_t)attention->n_ctx;
    size_t row = 0;
    uint64_t best = 0;
    float value = 0;
    bool is_first = true;
    const bool found = find_row(&row, es_cpu_read(saved), attention, sight);
    const size_t last = sight->all ? n_ctx - 1 : row % n_ctx;
    const size_t first = row / n_ctx / (size_t)attention->n_head * n_ctx;
    for (size_t key = 0; found && key <= last; key++) {
        const uint64_t at = (uint64_t)row * n_ctx + key;
        if (!is_token(sight, first + key))
            continue;
        const float s = score_at(backend, qkv, attention, at);
        if (is_first || size_bits(s) > size_bits(value)) {
            value = s;
            best = at;
        }
        is_first = false;
    }
    record_peak(peak_at(peak), value, best);
}

void es_cpu_pull_score_peak(es_backend *backend, es_mem *dqkv,
                            const es_mem *qkv, const es_mem *peak,
                            const es_attention *attention, float scale,
                            const es_mem *control)
{
    const es_share share = {0, 1};
    const es_peak *from = (const es_peak *)(const void *)peak;
    const place at = place_of(attention, from->index);
    const float pull =
        scale * es_cpu_loss_scale(control) * from->sign * at.scale;
    const float *q = es_cpu_open(backend, share, 0, qkv, at.q, at.width);
    const float *k = es_cpu_open(backend, share, 1, qkv, at.k, at.width);
    float *dq = es_cpu_change(backend, share, 2, dqkv, at.q, at.width);
    float *dk = es_cpu_change(backend, share, 3, dqkv, at.k, at.width);
    for (size_t c = 0; c < at.width; c++) {
        dq[c] += pull * k[c];
        dk[c] += pull * q[c];
    }
    es_cpu_close_gradient(backend, dqkv, at.q, dq, at.width);
    es_cpu_close_gradient(backend, dqkv, at.k, dk, at.width);
}
