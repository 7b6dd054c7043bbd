/**
 * The loops of details.c and peaks.c: sums in double over activations and
 * weights, the largest of them; part of kernels.inc.h.
 */

/* Half as many doubles as floats fit a vector. */
enum { WIDE = LANES / 2 };
typedef double wide __attribute__((vector_size(8 * WIDE)));
typedef float narrow_vec __attribute__((vector_size(4 * WIDE)));

static inline wide load_wide(const float *from)
{
#if defined(ES_VECTOR_AVX512)
    return (wide)_mm512_cvtps_pd(_mm256_loadu_ps(from));
#elif defined(ES_VECTOR_AVX2)
    return (wide)_mm256_cvtps_pd(_mm_loadu_ps(from));
#else
    narrow_vec x;
    memcpy(&x, from, sizeof x);
    return __builtin_convertvector(x, wide);
#endif
}

static inline double sum_wide(wide x)
{
    double sum = 0;
    for (int i = 0; i < WIDE; i++)
        sum += x[i];
    return sum;
}

static void add_moments_one(double out[7], double x)
{
    const double square = x * x;
    out[0] += x;
    out[1] += square;
    out[2] += square * x;
    out[3] += square * square;
    out[4] = fmax(out[4], fabs(x));
}

static void differ_in_double(double out[2], const float *x, const float *y,
                             float a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double kept = (double)a * (double)y[i];
        const double added = (double)x[i] - kept;
        out[0] += added * added;
        out[1] += kept * kept;
    }
}

/* Squares of a short run, summed up in float; those that float does not hold in
 * double, as dot. */
static void add_squares(double out[2], vec added, vec kept, const float *x,
                        const float *y, float a, size_t n)
{
    const double sums[] = {(double)sum_lanes(added),
                           (double)a * (double)a * (double)sum_lanes(kept)};
    if (sums[0] + sums[1] - (sums[0] + sums[1]) == 0) {
        out[0] += sums[0];
        out[1] += sums[1];
    } else {
        differ_in_double(out, x, y, a, n);
    }
}

/* Each half of a vector has sums of its own: an addition waits for the one
 * before. What y adds is done while it comes from memory. */
static KNOWN void add_moments_of(double out[7], const float *x, const float *y,
                                 float a, size_t n)
{
    const size_t whole = n / LANES * LANES;
    wide sums[2][4] = {{{0}}};
    vec top = splat(0);
    for (size_t first = 0, end; first < whole; first = end) {
        vec added = splat(0), kept = splat(0);
        end = whole - first < 64 * LANES ? whole : first + 64 * LANES;
        for (size_t i = first; i < end; i += LANES) {
            const vec v = load(x + i);
            top = larger(top, larger(v, -v));
            for (int half = 0; half < 2; half++) {
                const wide u = load_wide(x + i + half * WIDE), square = u * u;
                sums[half][0] += u;
                sums[half][1] += square;
                sums[half][2] += square * u;
                sums[half][3] += square * square;
            }
            if (y) {
                const vec from = load(y + i), apart = v - splat(a) * from;
                added += apart * apart;
                kept += from * from;
            }
        }
        if (y)
            add_squares(out + 5, added, kept, x + first, y + first, a,
                        end - first);
    }
    for (int k = 0; k < 4; k++)
        out[k] += sum_wide(sums[0][k] + sums[1][k]);
    for (int lane = 0; lane < LANES; lane++)
        out[4] = fmax(out[4], (double)top[lane]);
    for (size_t i = whole; i < n; i++)
        add_moments_one(out, (double)x[i]);
    if (y)
        differ_in_double(out + 5, x + whole, y + whole, a, n - whole);
}

static void add_moments(double out[7], const float *x, const float *y, float a,
                        size_t n)
{
    if (y)
        add_moments_of(out, x, y, a, n);
    else
        add_moments_of(out, x, NULL, 1, n);
}

/* In short runs, which dot takes in float. */
static void add_update(double out[2], const float *param, const float *moment1,
                       const float *moment2, size_t n, const es_adamw *how,
                       const es_control *control)
{
    enum { RUN = 256 };
    const float back = 1 / (1 - control->lr * how->decay);
    const float rate = control->lr / control->correction1;
    const float root = 1 / sqrtf(control->correction2);
    const float eps = how->eps, decay = control->lr * how->decay;
    for (size_t first = 0; first < n; first += RUN) {
        const size_t length = n - first < RUN ? n - first : RUN;
        const float *w = param + first, *m = moment1 + first;
        const float *v = moment2 + first;
        float change[RUN], before[RUN];
        for (size_t i = 0; i < length; i++) {
            const float step = rate * m[i] / (sqrtf(v[i]) * root + eps);
            before[i] = (w[i] + step) * back;
            change[i] = step + decay * before[i];
        }
        out[0] += dot(change, change, length);
        out[1] += dot(before, before, length);
    }
}

static void add_gram(double *out, const float *x, int n_rows, int width,
                     size_t stride)
{
    for (int r = 0; r < n_rows; r++, x += stride)
        for (int a = 0; a < width; a++) {
            double *row = out + (ptrdiff_t)a * width;
            const double scale = (double)x[a];
            for (int b = 0; b <= a; b++)
                row[b] += scale * (double)x[b];
        }
}

static uint32_t largest_size(const float *x, size_t n)
{
    uvec size[4] = {{0}};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            size[k] = larger_size(size[k], load(x + i + k * LANES));
    for (; i < n; i += LANES)
        size[0] = larger_size(
            size[0], load_part(x + i, n - i < LANES ? (int)(n - i) : LANES, 0));
    for (int k = 1; k < 4; k++)
        size[0] = larger_size(size[0], (vec)size[k]);
    return largest_lane_size(size[0]);
}
