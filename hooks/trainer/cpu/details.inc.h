/**
 * Inner loops of details.c and peaks.c, which sum activations and weights in
 * double and find the largest numbers; part of kernels.inc.h.
 */

/* Number of doubles in a vector register, half the number of floats. */
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

static void add_differences_one(double out[2], float x, float y, float a)
{
    const double kept = (double)a * (double)y, added = (double)x - kept;
    out[0] += added * added;
    out[1] += kept * kept;
}

static void add_moments_in_double(double out[7], const float *x, const float *y,
                                  float a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add_moments_one(out, (double)x[i]);
        if (y)
            add_differences_one(out + 5, x[i], y[i], a);
    }
}

/* N_SUMS is the number of sums that add_run computes. With u = x - centre,
 * these are the sums of u, u^2, u^3, u^4, of the squares of x - a * y, and of
 * the squares of y. */
enum { N_SUMS = 6 };

static inline void add_lanes(wide *to, vec x)
{
    float lanes[LANES];
    store(lanes, x);
    *to += load_wide(lanes) + load_wide(lanes + WIDE);
}

/* Prefetches the numbers two pages ahead of x, since the processor's own
 * prefetching stops at the end of a page. The address may lie beyond the array,
 * so it is computed as an integer instead of a float pointer. */
static inline void fetch_ahead(const float *x)
{
    enum { AHEAD = 2 * 4096 };
    __builtin_prefetch((const void *)((uintptr_t)x + AHEAD));
}

/* Adds the sums over n numbers that N_SUMS lists to `sums`; n is a multiple of
 * LANES, and small enough for float sums to be accurate. */
static inline void add_run(wide sums[N_SUMS], uvec *size, const float *x,
                           const float *y, float a, float centre, size_t n)
{
    vec part[N_SUMS] = {{0}};
    for (size_t i = 0; i < n; i += LANES) {
        const vec v = load(x + i), u = v - splat(centre), square = u * u;
        fetch_ahead(x + i);
        *size = larger_size(*size, v);
        part[0] += u;
        part[1] += square;
        part[2] += square * u;
        part[3] += square * square;
        if (y) {
            const vec from = load(y + i), apart = v - splat(a) * from;
            fetch_ahead(y + i);
            part[4] += apart * apart;
            part[5] += from * from;
        }
    }
    for (int k = 0; k < N_SUMS; k++)
        add_lanes(&sums[k], part[k]);
}

/* Returns a centre c for summing the powers of x - c in float, so that little
 * precision is lost: the mean of the first numbers if it is far from 0 compared
 * with their spread, otherwise 0. */
static float find_centre(const float *x)
{
    enum { N = 4 * LANES };
    vec sum = splat(0), squares = splat(0);
    for (size_t i = 0; i < N; i += LANES) {
        const vec v = load(x + i);
        sum += v;
        squares += v * v;
    }
    const float mean = sum_lanes(sum) / N;
    return 4 * mean * mean > sum_lanes(squares) / N ? mean : 0;
}

/* Returns true if `sum`, computed in float, is reliable: the sum did not
 * overflow, and no part of it underflowed. */
static bool is_held(double sum)
{
    return sum > 1e-30 && isfinite(sum);
}

/* Adds to `out` the sums of the first four powers of n numbers x, computed from
 * u, the sums of the powers of x - c. */
static void add_shifted(double out[4], const double u[4], double c, double n)
{
    out[0] += u[0] + n * c;
    out[1] += u[1] + c * (2 * u[0] + n * c);
    out[2] += u[2] + c * (3 * u[1] + c * (3 * u[0] + n * c));
    out[3] += u[3] + c * (4 * u[2] + c * (6 * u[1] + c * (4 * u[0] + n * c)));
}

/* Adds the moments of n numbers to `out`; n is a multiple of LANES and at least
 * 4 * LANES. Recomputes the moments in double if a float sum overflows or
 * underflows. */
static KNOWN void add_moments_of(double out[7], const float *x, const float *y,
                                 float a, size_t n)
{
    enum { RUN = 64 * LANES };
    const float centre = find_centre(x);
    wide wides[N_SUMS] = {{0}};
    uvec size = {0};
    double sums[N_SUMS];
    for (size_t i = 0, length; i < n; i += length) {
        length = n - i < RUN ? n - i : RUN;
        add_run(wides, &size, x + i, y ? y + i : NULL, a, centre, length);
    }
    for (int k = 0; k < N_SUMS; k++)
        sums[k] = sum_wide(wides[k]);
    if (!is_held(sums[3]) || (y && !(is_held(sums[4]) && is_held(sums[5])))) {
        add_moments_in_double(out, x, y, a, n);
        return;
    }
    add_shifted(out, sums, (double)centre, (double)n);
    out[4] = fmax(out[4], (double)largest_lane((vec)size));
    out[5] += sums[4];
    out[6] += (double)a * (double)a * sums[5];
}

static void add_moments(double out[7], const float *x, const float *y, float a,
                        size_t n)
{
    const size_t whole = n < 4 * LANES ? 0 : n / LANES * LANES;
    if (whole > 0 && y)
        add_moments_of(out, x, y, a, whole);
    else if (whole > 0)
        add_moments_of(out, x, NULL, 1, whole);
    add_moments_in_double(out, x + whole, y ? y + whole : NULL, a, n - whole);
}

/* Processes at most 256 numbers at a time, because dot() is less accurate for
 * more numbers. */
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
