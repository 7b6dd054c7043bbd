/** The inner loops of LayerNorm; part of kernels.inc.h. */

static vec row_sum(uvec *size, const float *x, int n)
{
    vec sum = splat(0);
    for (int j = 0; j < n; j += LANES) {
        const vec v = load_part(x + j, n - j < LANES ? n - j : LANES, 0);
        sum += v;
        *size = larger_size(*size, v);
    }
    return sum;
}

static vec row_square_distance(const float *x, float mean, int n)
{
    vec sum = splat(0);
    for (int j = 0; j < n; j += LANES) {
        vec v =
            load_part(x + j, n - j < LANES ? n - j : LANES, mean) - splat(mean);
        sum += v * v;
    }
    return sum;
}

/* Computes the mean and 1 / standard deviation of n <= LANES rows. Adds up the
 * vectors of each row first, and then the lanes of all rows in one operation.
 * Returns the largest |x|, encoded by largest_size. */
static uint32_t measure_normal(float *mean, float *rstd, const float *x, int n,
                               int width, float epsilon)
{
    uvec sizes = {0};
    vec sums[LANES] = {{0}};
    const float size = (float)width;
    for (int i = 0; i < n; i++)
        sums[i] = row_sum(&sizes, x + (ptrdiff_t)i * width, width);
    store(mean, sum_rows(sums) / splat(size));
    for (int i = 0; i < n; i++)
        sums[i] = row_square_distance(x + (ptrdiff_t)i * width, mean[i], width);
    store(rstd, sum_rows(sums) / splat(size) + splat(epsilon));
    for (int i = 0; i < LANES; i++)
        rstd[i] = 1 / sqrtf(rstd[i]);
    return largest_lane_size(sizes);
}

static void normalise_row(float *restrict y, const float *x, float mean,
                          float rstd, const float *weight, const float *bias,
                          int width)
{
    for (int j = 0; j < width; j++)
        y[j] = (x[j] - mean) * rstd * weight[j] + bias[j];
}

static uint32_t layer_norm(float *y, float *mean, float *rstd, const float *x,
                           const float *weight, const float *bias, int n_rows,
                           int width, float epsilon)
{
    uint32_t largest = 0;
    for (int first = 0; first < n_rows; first += LANES) {
        const int n = n_rows - first < LANES ? n_rows - first : LANES;
        float m[LANES], r[LANES];
        const uint32_t size = measure_normal(m, r, x, n, width, epsilon);
        largest = size > largest ? size : largest;
        for (int i = 0; i < n; i++, x += width, y += width)
            normalise_row(y, x, m[i], r[i], weight, bias, width);
        memcpy(mean + first, m, (size_t)n * sizeof *m);
        memcpy(rstd + first, r, (size_t)n * sizeof *r);
    }
    return largest;
}

/* Computes two means over the columns of each of n rows (n <= LANES): the mean
 * of g = dy * weight, and the mean of g * (normalised x). */
static void measure_gradient(float *mean_g, float *mean_dot, const float *dy,
                             const float *x, const float *mean,
                             const float *rstd, const float *weight, int n,
                             int width)
{
    vec sums[LANES] = {{0}}, dots[LANES] = {{0}};
    for (int i = 0; i < n; i++, x += width, dy += width)
        for (int j = 0; j < width; j += LANES) {
            int part = width - j < LANES ? width - j : LANES;
            vec g = load_part(dy + j, part, 0) * load_part(weight + j, part, 0);
            sums[i] += g;
            dots[i] += g * (load_part(x + j, part, 0) - splat(mean[i]));
        }
    store(mean_g, sum_rows(sums) / splat((float)width));
    store(mean_dot,
          sum_rows(dots) * load_part(rstd, n, 0) / splat((float)width));
}

/* Adds the contributions of n adjacent columns of n_rows rows to dx, dweight
 * and dbias. The sums for dweight and dbias stay in registers. */
static inline void add_normal_gradient(float *dx, float *dweight, float *dbias,
                                       const float *dy, const float *x,
                                       const float *mean, const float *rstd,
                                       const float *weight, const float *mean_g,
                                       const float *mean_dot, int n_rows,
                                       int width, int n)
{
    const vec scale = load_part(weight, n, 0);
    vec sum = load_part(dweight, n, 0), bias = load_part(dbias, n, 0);
    for (int i = 0; i < n_rows; i++, dx += width, dy += width, x += width) {
        const vec d = load_part(dy, n, 0);
        const vec normal =
            (load_part(x, n, 0) - splat(mean[i])) * splat(rstd[i]);
        const vec g =
            d * scale - splat(mean_g[i]) - normal * splat(mean_dot[i]);
        store_part(dx, load_part(dx, n, 0) + splat(rstd[i]) * g, n);
        sum += d * normal;
        bias += d;
    }
    store_part(dweight, sum, n);
    store_part(dbias, bias, n);
}

static void layer_norm_backward(float *dx, float *dweight, float *dbias,
                                const float *dy, const float *x,
                                const float *mean, const float *rstd,
                                const float *weight, int n_rows, int width)
{
    for (int first = 0; first < n_rows; first += LANES) {
        const int n = n_rows - first < LANES ? n_rows - first : LANES;
        const ptrdiff_t at = (ptrdiff_t)first * width;
        float mean_g[LANES], mean_dot[LANES];
        measure_gradient(mean_g, mean_dot, dy + at, x + at, mean + first,
                         rstd + first, weight, n, width);
        int j = 0;
        for (; j + LANES <= width; j += LANES)
            add_normal_gradient(dx + at + j, dweight + j, dbias + j,
                                dy + at + j, x + at + j, mean + first,
                                rstd + first, weight + j, mean_g, mean_dot, n,
                                width, LANES);
        if (j < width)
            add_normal_gradient(dx + at + j, dweight + j, dbias + j,
                                dy + at + j, x + at + j, mean + first,
                                rstd + first, weight + j, mean_g, mean_dot, n,
                                width, width - j);
    }
}
