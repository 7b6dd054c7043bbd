/* Implements es_detail_ops on the CPU: the measurements that `--record
 * standard` and `--record all` add to the row statistics. Sums do not depend on
 * the number of threads, because their order is fixed. */
#include "hooks/trainer/cpu/activations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 4
#include "analyzer/base/vector.h"

/* Sums are computed in pieces of PIECE elements. Each piece is summed
 * separately, and the sums of the pieces are added in order. */
#define PIECE ((size_t)1 << 13)
/* N_PIECES is the number of pieces whose sums are in memory at a time, and
 * N_MOMENTS the number of sums of one piece. */
enum { N_PIECES = 64, N_MOMENTS = 7 };

/* --- quantiles ------------------------------------------------------------ */

/* Moves the k-th smallest of x[low .. high] to index k, so that no larger
 * number precedes it and no smaller number follows it. All numbers are
 * finite. */
static void select_number(float *x, ptrdiff_t low, ptrdiff_t high, ptrdiff_t k)
{
    while (low < high) {
        const float pivot = x[k];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (pivot < x[j])
                j--;
            if (i <= j) {
                const float other = x[i];
                x[i++] = x[j];
                x[j--] = other;
            }
        }
        if (j < k)
            low = i;
        if (k < i)
            high = j;
    }
}

/* To find quantiles, the code sorts the numbers into N_BINS bins of equal
 * width, and then searches only the bins that contain a quantile. */
enum { N_BINS = 256, N_QUANTILES = 3 };

/* Loads a vector of x (n), starting at index i. Lanes beyond the end repeat the
 * first number. */
static inline vec load_numbers(const float *x, int i, int n)
{
    return i + LANES <= n ? load(x + i) : load_part(x + i, n - i, x[0]);
}

/* Writes the bin of each number of x (n) to out (n). `out` must have space for
 * n rounded up to a multiple of the vector length. */
static void find_bins(int *out, const float *x, int n)
{
    vec least = splat(x[0]), largest = least;
    for (int i = 0; i < n; i += LANES) {
        least = smaller(load_numbers(x, i, n), least);
        largest = larger(load_numbers(x, i, n), largest);
    }
    const float low = -largest_lane(-least);
    const float range = largest_lane(largest) - low;
    /* A factor slightly below 1 keeps the largest number in the last bin, and
     * the comparison with 1e-30 keeps `scale` finite. */
    const float scale = range > 1e-30f ? 0.9999f * (float)N_BINS / range : 0;
    for (int i = 0; i < n; i += LANES) {
        const vec at = (load_numbers(x, i, n) - splat(low)) * splat(scale);
        const ivec bins = __builtin_convertvector(at, ivec);
        memcpy(out + i, &bins, sizeof bins);
    }
}

/* Removes from x (n) all numbers except those in a bin that contains a number
 * with one of the `ranks`, which are in ascending order. Replaces each rank by
 * the number's rank among the kept numbers. Returns the number of kept
 * numbers. */
static int keep_bins(float *x, const int *bins, int n,
                     int ranks[2 * N_QUANTILES])
{
    int counts[N_BINS] = {0}, bin = 0, left_out = 0, kept = 0;
    bool is_kept[N_BINS] = {false};
    for (int i = 0; i < n; i++)
        counts[bins[i]]++;
    for (int k = 0, end = counts[0]; k < 2 * N_QUANTILES; k++) {
        for (; end <= ranks[k]; end += counts[++bin])
            left_out += is_kept[bin] ? 0 : counts[bin];
        is_kept[bin] = true;
        ranks[k] -= left_out;
    }
    for (int i = 0; i < n; i++)
        if (is_kept[bins[i]])
            x[kept++] = x[i];
    return kept;
}

/* Adds the quantiles of x (n), n >= 1, to `out`. Reorders x; bins (n) is
 * working memory. */
static void add_quantiles(double out[N_QUANTILES], float *x, int *bins, int n)
{
    static const double shares[N_QUANTILES] = {0.05, 0.5, 0.95};
    int ranks[2 * N_QUANTILES];
    for (int i = 0; i < N_QUANTILES; i++) {
        ranks[2 * i] = (int)(shares[i] * (double)(n - 1));
        ranks[2 * i + 1] = ranks[2 * i] + (ranks[2 * i] + 1 < n);
    }
    find_bins(bins, x, n);
    const int kept = keep_bins(x, bins, n, ranks);
    for (int i = 0; i < 2 * N_QUANTILES; i++)
        select_number(x, i > 0 ? ranks[i - 1] : 0, kept - 1, ranks[i]);
    for (int i = 0; i < N_QUANTILES; i++) {
        const double position = shares[i] * (double)(n - 1);
        const double low = (double)x[ranks[2 * i]];
        const double high = (double)x[ranks[2 * i + 1]];
        out[i] += low + (position - floor(position)) * (high - low);
    }
}

typedef struct quantiles {
    es_backend *backend;
    es_head_details *heads;
    const float *entropy;
    int n_batch, n_head, n_ctx;
} quantiles;

/* Copies the finite numbers of x (n) to out. Returns their count. */
static int keep_finite(float *out, const float *x, int n)
{
    vec zero = splat(0);
    int kept = 0;
    for (int i = 0; i < n; i += LANES)
        zero += load_numbers(x, i, n) - load_numbers(x, i, n);
    if (zero[0] + zero[1] + zero[2] + zero[3] == 0) {
        memcpy(out, x, (size_t)n * sizeof *x);
        return n;
    }
    for (int i = 0; i < n; i++) {
        out[kept] = x[i];
        kept += isfinite(x[i]) ? 1 : 0;
    }
    return kept;
}

static void quantiles_part(void *argument, es_share share)
{
    const quantiles *q = argument;
    const es_slab heads = es_cpu_slab(share, q->n_head, 1);
    float *x = es_cpu_scratch(q->backend, share);
    int *bins = (int *)(void *)(x + (size_t)q->n_batch * (size_t)q->n_ctx);
    for (int h = heads.first; h < heads.first + heads.n; h++) {
        int n = 0;
        for (int b = 0; b < q->n_batch; b++)
            n += keep_finite(x + n,
                             q->entropy +
                                 (size_t)(b * q->n_head + h) * (size_t)q->n_ctx,
                             q->n_ctx);
        if (n == 0)
            continue;
        q->heads[h].n_quantiles += 1;
        add_quantiles(q->heads[h].quantiles, x, bins, n);
    }
}

static void row_quantiles(es_backend *backend, es_mem *heads,
                          const es_mem *entropy, int n_batch, int n_head,
                          int n_ctx)
{
    quantiles q = {.backend = backend,
                   .heads = (es_head_details *)(void *)heads,
                   .entropy = es_cpu_read(entropy),
                   .n_batch = n_batch,
                   .n_head = n_head,
                   .n_ctx = n_ctx};
    es_team_run(backend->team, quantiles_part, &q);
}

/* --- squares of the columns of heads -------------------------------------- */

/* A matrix (n_rows, 3*d) of q, k and v. The numbers are float32 if are_floats
 * is true; otherwise they have the type of activations. */
typedef struct columns {
    es_backend *backend;
    es_head_details *heads;
    const es_mem *x, *proj;
    int n_rows, width, n_head;
    bool are_floats;
} columns;

/* Adds the sums of squares of n columns, starting at column `first`, to sums
 * (n). */
static void add_columns(double *sums, const columns *c, es_share share,
                        size_t first, size_t n)
{
    const size_t stride = 3 * (size_t)c->width;
    const es_cpu_kernels *kernels = c->backend->kernels;
    if (c->are_floats || !c->backend->bf16) {
        const float *x = es_cpu_read(c->x) + first;
        kernels->add_column_products(sums, x, x, c->n_rows, (int)n, stride);
        return;
    }
    for (int row = 0; row < c->n_rows; row++) {
        const float *x = es_cpu_open(c->backend, share, 0, c->x,
                                     (size_t)row * stride + first, n);
        kernels->add_column_products(sums, x, x, 1, (int)n, n);
    }
}

/* Computes the sums of squares of this thread's share of the 3 n_head heads of
 * q, k and v. */
static void columns_part(void *argument, es_share share)
{
    const columns *c = argument;
    const size_t each = (size_t)(c->width / c->n_head);
    const es_slab parts = es_cpu_slab(share, 3 * c->n_head, 1);
    double *sums = (double *)(void *)es_cpu_scratch(c->backend, share);
    if (parts.n == 0)
        return;
    memset(sums, 0, (size_t)parts.n * each * sizeof *sums);
    add_columns(sums, c, share, (size_t)parts.first * each,
                (size_t)parts.n * each);
    for (int i = 0; i < parts.n; i++, sums += each) {
        const int which = (parts.first + i) / c->n_head;
        const int h = (parts.first + i) % c->n_head;
        double total = 0;
        for (size_t k = 0; k < each; k++)
            total += sums[k];
        if (!c->proj) {
            c->heads[h].squares[which] += total;
            continue;
        }
        c->heads[h].gradient[which] = total;
        if (which == 0) {
            const size_t n = each * (size_t)c->width;
            const float *o = es_cpu_read(c->proj) + (size_t)h * n;
            c->heads[h].gradient[3] = c->backend->kernels->dot(o, o, n);
        }
    }
}

static void norms(es_backend *backend, es_mem *heads, const es_mem *qkv,
                  const es_attention *attention)
{
    columns c = {.backend = backend,
                 .heads = (es_head_details *)(void *)heads,
                 .x = qkv,
                 .n_rows = attention->n_batch * attention->n_ctx,
                 .width = attention->d_model,
                 .n_head = attention->n_head};
    es_team_run(backend->team, columns_part, &c);
}

static void gradients(es_backend *backend, es_mem *heads, const es_mem *dattn,
                      const es_mem *dproj, int width, int n_head)
{
    columns c = {.backend = backend,
                 .heads = (es_head_details *)(void *)heads,
                 .x = dattn,
                 .proj = dproj,
                 .n_rows = width,
                 .width = width,
                 .n_head = n_head,
                 .are_floats = true};
    es_team_run(backend->team, columns_part, &c);
}

/* --- activations, updates ------------------------------------------------- */

/* Arguments for computing N_MOMENTS sums of each piece of the activations x or
 * of the weights `param`. */
typedef struct pieces {
    es_backend *backend;
    const es_mem *x, *y;
    const float *param, *moment1, *moment2;
    const es_adamw *how;
    const es_control *control;
    float a;
    size_t first, n;
    double (*sums)[N_MOMENTS];
} pieces;

static void moments_piece(const pieces *p, es_share share, double *sums,
                          size_t at, size_t n)
{
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < ES_CPU_CHUNK ? n - done : ES_CPU_CHUNK;
        const float *x =
            es_cpu_open(p->backend, share, 0, p->x, at + done, part);
        const float *y =
            p->y ? es_cpu_open(p->backend, share, 1, p->y, at + done, part)
                 : NULL;
        p->backend->kernels->add_moments(sums, x, y, p->a, part);
    }
}

static void pieces_part(void *argument, es_share share)
{
    const pieces *p = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, p->n, PIECE);
    for (; first < end; first += PIECE) {
        const size_t at = p->first + first;
        const size_t n = end - first < PIECE ? end - first : PIECE;
        double *sums = p->sums[first / PIECE];
        memset(sums, 0, sizeof *p->sums);
        if (p->x)
            moments_piece(p, share, sums, at, n);
        else
            p->backend->kernels->add_update(sums, p->param + at,
                                            p->moment1 + at, p->moment2 + at, n,
                                            p->how, p->control);
    }
}

/* Computes the sums of all pieces of an array of n elements, and adds them to
 * out. out[4] becomes the maximum over the pieces, because the fifth moment is
 * the largest |x|. */
static void add_pieces(double out[N_MOMENTS], pieces *p, size_t n)
{
    double sums[N_PIECES][N_MOMENTS];
    p->sums = sums;
    for (p->first = 0; p->first < n; p->first += N_PIECES * PIECE) {
        p->n =
            n - p->first < N_PIECES * PIECE ? n - p->first : N_PIECES * PIECE;
        es_team_run(p->backend->team, pieces_part, p);
        for (size_t i = 0; i * PIECE < p->n; i++)
            for (int k = 0; k < N_MOMENTS; k++)
                out[k] =
                    k == 4 ? fmax(out[k], sums[i][k]) : out[k] + sums[i][k];
    }
}

static void activations(es_backend *backend, es_mem *layer, es_mem *stats,
                        const es_mem *x, const es_mem *middle,
                        const es_mem *beta, size_t n)
{
    es_layer_details *to = (es_layer_details *)(void *)layer;
    double sums[N_MOMENTS] = {0};
    pieces p = {.backend = backend,
                .x = x,
                .y = middle,
                .a = beta ? *es_cpu_read(beta) : 1};
    add_pieces(sums, &p, n);
    es_cpu_add_activations(backend, stats, x, n, sums[1]);
    for (int k = 0; k < 4; k++)
        to->sums[k] += sums[k];
    to->largest = fmax(to->largest, sums[4]);
    to->ffn[0] += sums[5];
    to->ffn[1] += sums[6];
}

static void update(es_backend *backend, es_mem *layer, const es_mem *param,
                   const es_mem *moment1, const es_mem *moment2, size_t n,
                   const es_adamw *how, const es_mem *control)
{
    es_layer_details *to = (es_layer_details *)(void *)layer;
    double sums[N_MOMENTS] = {0};
    pieces p = {.backend = backend,
                .param = es_cpu_read(param),
                .moment1 = es_cpu_read(moment1),
                .moment2 = es_cpu_read(moment2),
                .how = how,
                .control = (const es_control *)(const void *)control};
    add_pieces(sums, &p, n);
    to->update[0] += sums[0];
    to->update[1] += sums[1];
}

/* --- spectra -------------------------------------------------------------- */

enum { MOST_ITERATIONS = 200 };

/* Computes y = G x for a symmetric matrix G (n,n) of which only the lower half
 * is stored. */
static void multiply_gram(double *y, const double *gram, const double *x, int n)
{
    for (int a = 0; a < n; a++)
        y[a] = 0;
    for (int a = 0; a < n; a++, gram += n) {
        double sum = gram[a] * x[a];
        for (int b = 0; b < a; b++) {
            sum += gram[b] * x[b];
            y[b] += gram[b] * x[a];
        }
        y[a] += sum;
    }
}

static double dot_product(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Returns the trace of G_q G_k, the product of the Gram matrices of the query
 * and key projections. The trace is the sum of the squared singular values of
 * the product of both projections. */
static double trace(const double *q, const double *k, int n)
{
    double sum = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b <= a; b++)
            sum += (a == b ? 1 : 2) * q[a * n + b] * k[a * n + b];
    return sum;
}

/* Returns the largest eigenvalue of G_q G_k, where G_q and G_k are the Gram
 * matrices of the query and key projections, as x^T G_k G_q G_k x / (x^T G_k
 * x). This quotient converges from below and has twice as many correct digits
 * as x. x, u and w (n) are working memory. */
static double largest_eigenvalue(const double *q, const double *k, int n,
                                 double *x, double *u, double *w)
{
    double value = 0;
    for (int c = 0; c < n; c++)
        x[c] = 1 + 0.5 * sin(c + 1);
    for (int i = 0; i < MOST_ITERATIONS; i++) {
        const double last = value;
        multiply_gram(u, k, x, n);
        multiply_gram(w, q, u, n);
        const double length = dot_product(x, u, n),
                     size = sqrt(dot_product(w, w, n));
        value = dot_product(u, w, n) / length;
        if (!(size > 0) || !isfinite(value))
            return size > 0 ? (double)NAN : size;
        if (fabs(value - last) <= 1e-10 * value)
            break;
        for (int c = 0; c < n; c++)
            x[c] = w[c] / size;
    }
    return value;
}

typedef struct spectrum_job {
    es_backend *backend;
    es_head_details *heads;
    const float *attn;
    int width, n_head;
} spectrum_job;

static void find_spectrum(const spectrum_job *s, int h, double *memory)
{
    const int n = s->width / s->n_head, stride = 3 * s->width;
    const size_t square = (size_t)n * (size_t)n;
    double *q = memory, *k = q + square, *x = k + square;
    const float *columns_q = s->attn + (size_t)h * (size_t)n;
    const es_cpu_kernels *kernels = s->backend->kernels;
    memset(memory, 0, 2 * square * sizeof *memory);
    kernels->add_gram(q, columns_q, s->width, n, (size_t)stride);
    kernels->add_gram(k, columns_q + s->width, s->width, n, (size_t)stride);
    s->heads[h].spectrum[0] =
        largest_eigenvalue(q, k, n, x, x + n, x + 2 * (size_t)n);
    s->heads[h].spectrum[1] = trace(q, k, n);
}

static void spectra_part(void *argument, es_share share)
{
    const spectrum_job *s = argument;
    const es_slab heads = es_cpu_slab(share, s->n_head, 1);
    const size_t n = (size_t)(s->width / s->n_head);
    double *memory =
        heads.n > 0 ? malloc((2 * n + 3) * n * sizeof *memory) : NULL;
    for (int h = heads.first; h < heads.first + heads.n; h++)
        if (memory)
            find_spectrum(s, h, memory);
        else
            s->heads[h].spectrum[0] = s->heads[h].spectrum[1] = (double)NAN;
    free(memory);
}

static void spectra(es_backend *backend, es_mem *heads, const es_mem *attn,
                    int width, int n_head)
{
    spectrum_job s = {.backend = backend,
                      .heads = (es_head_details *)(void *)heads,
                      .attn = es_cpu_read(attn),
                      .width = width,
                      .n_head = n_head};
    es_team_run(backend->team, spectra_part, &s);
}

const es_detail_ops es_cpu_details = {.row_quantiles = row_quantiles,
                                      .norms = norms,
                                      .activations = activations,
                                      .gradients = gradients,
                                      .spectra = spectra,
                                      .update = update};
