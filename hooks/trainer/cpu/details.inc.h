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

static void add_moments_one(double out[7], float from, const float *y, float a)
{
    const double x = (double)from, square = x * x;
    out[0] += x;
    out[1] += square;
    out[2] += square * x;
    out[3] += square * square;
    out[4] = fmax(out[4], fabs(x));
    if (y) {
        const double kept = (double)a * (double)*y;
        out[5] += (x - kept) * (x - kept);
        out[6] += kept * kept;
    }
}

static void add_moments(double out[7], const float *x, const float *y, float a,
                        size_t n)
{
    wide sums[6] = {{0}}, scale = (double)a - (wide){0};
    vec top = splat(0);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vec v = load(x + i);
        top = larger(top, larger(v, -v));
        for (size_t half = i; half < i + LANES; half += WIDE) {
            const wide u = load_wide(x + half), square = u * u;
            sums[0] += u;
            sums[1] += square;
            sums[2] += square * u;
            sums[3] += square * square;
            if (y) {
                const wide kept = scale * load_wide(y + half);
                const wide added = u - kept;
                sums[4] += added * added;
                sums[5] += kept * kept;
            }
        }
    }
    for (int k = 0; k < 4; k++)
        out[k] += sum_wide(sums[k]);
    out[5] += sum_wide(sums[4]);
    out[6] += sum_wide(sums[5]);
    for (int lane = 0; lane < LANES; lane++)
        out[4] = fmax(out[4], (double)top[lane]);
    for (; i < n; i++)
        add_moments_one(out, x[i], y ? y + i : NULL, a);
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

static inline uvec larger_size(uvec a, vec x)
{
    const uvec b = (uvec)x & INT32_MAX;
#if defined(ES_VECTOR_AVX512)
    return (uvec)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined(ES_VECTOR_AVX2)
    return (uvec)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
    return (uvec)choose((ivec)a > (ivec)b, (vec)a, (vec)b);
#endif
}

static uint32_t largest_size(const float *x, size_t n)
{
    uvec size[2] = {{0}};
    uint32_t largest = 0;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        size[0] = larger_size(size[0], load(x + i));
        size[1] = larger_size(size[1], load(x + i + LANES));
    }
    for (; i < n; i += LANES)
        size[0] = larger_size(
            size[0], load_part(x + i, n - i < LANES ? (int)(n - i) : LANES, 0));
    size[0] = larger_size(size[0], (vec)size[1]);
    for (int lane = 0; lane < LANES; lane++)
        largest = size[0][lane] > largest ? size[0][lane] : largest;
    return largest;
}
