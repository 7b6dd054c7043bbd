/**
 * Inner loops of RMSNorm and SwiGLU for family llama; part of kernels.inc.h.
 */

static float mean_product(const float *x, const float *y, int n)
{
    vec sum = splat(0);
    for (int j = 0; j < n; j += LANES) {
        const int part = n - j < LANES ? n - j : LANES;
        sum += load_part(x + j, part, 0) * load_part(y + j, part, 0);
    }
    return sum_lanes(sum) / (float)n;
}

static void rms_norm(float *y, float *rstd, const float *x, const float *weight,
                     int n_rows, int width, float epsilon)
{
    for (int i = 0; i < n_rows; i++, x += width, y += width) {
        const float r = 1 / sqrtf(mean_product(x, x, width) + epsilon);
        rstd[i] = r;
        for (int j = 0; j < width; j++)
            y[j] = x[j] * r * weight[j];
    }
}

static void rms_norm_backward(float *dx, float *dweight, const float *dy,
                              const float *x, const float *rstd,
                              const float *weight, int n_rows, int width)
{
    for (int i = 0; i < n_rows; i++, dx += width, dy += width, x += width) {
        vec dots = splat(0);
        const vec r = splat(rstd[i]);
        for (int j = 0; j < width; j += LANES) {
            const int part = width - j < LANES ? width - j : LANES;
            dots += load_part(dy + j, part, 0) *
                    load_part(weight + j, part, 0) * load_part(x + j, part, 0);
        }
        const vec along = splat(sum_lanes(dots) * rstd[i] / (float)width);
        for (int j = 0; j < width; j += LANES) {
            const int part = width - j < LANES ? width - j : LANES;
            const vec d = load_part(dy + j, part, 0);
            const vec normal = load_part(x + j, part, 0) * r;
            const vec g = d * load_part(weight + j, part, 0) - normal * along;
            store_part(dx + j, load_part(dx + j, part, 0) + r * g, part);
            store_part(dweight + j,
                       load_part(dweight + j, part, 0) + d * normal, part);
        }
    }
}

static void swiglu(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const int part = n - i < LANES ? (int)(n - i) : LANES;
        const vec g = load_part(gate + i, part, 0);
        vec rest, s = sigmoid(&rest, g);
        store_part(y + i, g * s * load_part(up + i, part, 0), part);
    }
}

static void swiglu_backward(float *d, float *gate, float *y, const float *up,
                            size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        const int part = n - i < LANES ? (int)(n - i) : LANES;
        const vec g = load_part(gate + i, part, 0);
        const vec u = load_part(up + i, part, 0),
                  dy = load_part(d + i, part, 0);
        vec rest, s = sigmoid(&rest, g);
        store_part(y + i, g * s * u, part);
        store_part(d + i, dy * g * s, part);
        store_part(gate + i, dy * u * s * (splat(1) + g * rest), part);
    }
}
