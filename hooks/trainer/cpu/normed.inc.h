/* Included by kernels.inc.h: passes over the columns of a matrix, row after
 * row, as it lies in memory. */

static void add_column_products(double *out, const float *x, const float *y,
                                int n_rows, int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, y += stride)
        for (int j = 0; j < width; j++)
            out[j] += (double)x[j] * (double)y[j];
}

static void scale_columns(float *y, const float *x, const float *factor,
                          int n_rows, int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, y += stride)
        for (int j = 0; j < width; j++)
            y[j] = factor[j] * x[j];
}

static void add_scaled_columns(float *out, const float *x, const float *a,
                               const float *y, const float *b, int n_rows,
                               int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, y += stride, out += stride)
        for (int j = 0; j < width; j++)
            out[j] += a[j] * x[j] + b[j] * y[j];
}

static void add_outer_product(float *out, const float *x, float a, float b,
                              const float *column, const float *row, int n_rows,
                              int width, size_t stride)
{
    for (int i = 0; i < n_rows; i++, x += stride, out += stride) {
        const float along = b * column[i];
        for (int j = 0; j < width; j++)
            out[j] += a * x[j] + along * row[j];
    }
}

static double multiply_twice(float *out, double *back, const float *x,
                             const float *row, int n_rows, int width,
                             size_t stride)
{
    double squares = 0;
    for (int i = 0; i < n_rows; i++, x += stride) {
        const double along = dot(x, row, (size_t)width);
        for (int j = 0; j < width; j++)
            back[j] += along * (double)x[j];
        out[i] = (float)along;
        squares += along * along;
    }
    return squares;
}
