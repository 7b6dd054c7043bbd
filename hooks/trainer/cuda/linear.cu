/* Implements the linear operations: computes matrix products with gemm.h,
 * applies biases, residuals and activations, and computes the gradients of
 * weights and biases. Biases, residuals and activations are fused into the
 * product if cuBLASLt supports this. */
#include "hooks/trainer/cuda/gemm.h"
#include "hooks/trainer/cuda/reduce.h"

enum {
    N_WARPS = ES_THREADS / 32,
    MAX_CHUNKS = 64, /* maximum number of chunks of rows for column sums */
    MIN_CHUNK_ROWS = 64
};

/* --- products ------------------------------------------------------------- */

/* Returns the description of a matrix product d (m,n) = a (m,k) * b (k,n) with
 * contiguous rows. */
template <class A>
static es_gemm product_of(const es_backend *backend, int m, int n, int k)
{
    static const es_gemm_type types[ES_N_PRECISIONS] = {
        ES_GEMM_F32, ES_GEMM_TF32, ES_GEMM_BF16, ES_GEMM_FP16};
    es_gemm product = {};
    product.m = m;
    product.n = n;
    product.k = k;
    product.type = types[backend->precision];
    product.wide = sizeof(A) == sizeof(float);
    product.lda = k;
    product.ldb = product.ldd = n;
    return product;
}

/* Returns the distance in elements between two rows of y. The residual and dy
 * have the same distance. */
static int y_stride(const es_linear *linear)
{
    return linear->y_stride > 0 ? linear->y_stride : linear->n_out;
}

/* Computes a product without a bias. */
static void multiply_plain(es_backend *backend, const es_gemm *product)
{
    if (!es_device_gemm(backend->device, product))
        es_device_trouble(backend->device, "a matrix product", 0);
}

/* Returns the weights in the number type that matrix products with activations
 * of type A read. */
template <class A>
static const void *weights_for(es_backend *backend, const es_mem *weights)
{
    bool is_copy;
    const es_mem *found = es_cuda_weights(backend, weights, &is_copy);
    if (!is_copy && sizeof(A) != sizeof(float))
        es_device_trouble(backend->device, "copies of weights", 0);
    return found;
}

/* Computes y (n,width) = residual + bias. The residual may be the same array as
 * y; a NULL residual is treated as 0. Rows of both arrays are `stride` elements
 * apart. */
template <class A>
__global__ void start_rows_kernel(A *y, const A *residual, const float *bias,
                                  size_t n, int width, int stride)
{
    es_begin_kernel();
    for (size_t i = es_thread(); i < n; i += es_all_threads()) {
        const size_t column = i % (size_t)width;
        const size_t at = i / (size_t)width * (size_t)stride + column;
        const float from = residual ? es_float(residual[at]) : 0;
        y[at] = es_act_of<A>(from + bias[column]);
    }
}

/* Computes y = residual + x W + bias if cuBLASLt cannot fuse the bias into the
 * product. First sets y to residual + bias, then adds the product. */
template <class A>
static void multiply_onto_bias(es_backend *backend, es_gemm *product,
                               const float *bias)
{
    const size_t n = (size_t)product->m * (size_t)product->n;
    es_launch(backend->device, "start_rows", start_rows_kernel<A>,
              es_blocks(backend, n, ES_THREADS, 8), ES_THREADS, 0,
              (A *)product->d, (const A *)product->c, bias, n, product->n,
              product->ldd);
    product->bias = NULL;
    product->c = product->d;
    product->beta = 1;
    multiply_plain(backend, product);
}

/* Returns the description of the product y (n,out) = x W, without the bias. */
template <class A>
static es_gemm forward_of(es_backend *backend, es_mem *y, const es_mem *x,
                          const es_linear *linear, int n_rows)
{
    es_gemm product =
        product_of<A>(backend, n_rows, linear->n_out, linear->n_in);
    product.b_transposed = linear->transposed;
    product.ldb = linear->transposed ? linear->n_in : linear->n_out;
    product.a = x;
    product.b = weights_for<A>(backend, linear->weight);
    product.d = y;
    product.ldd = y_stride(linear);
    return product;
}

/* Adds the linear operation's bias, if it has one, to the description of the
 * product. Returns false if there is no copy of the bias in the number type
 * that products need. */
template <class A>
static bool add_bias(es_gemm *product, es_backend *backend,
                     const es_linear *linear)
{
    bool is_copy;
    if (!linear->bias)
        return true;
    product->bias = es_cuda_weights(backend, linear->bias, &is_copy);
    return is_copy || sizeof(A) == sizeof(float);
}

template <class A>
static void multiply_forward(es_backend *backend, es_mem *y,
                             const es_mem *residual, const es_mem *x,
                             const es_linear *linear, int n_rows)
{
    es_gemm product = forward_of<A>(backend, y, x, linear, n_rows);
    product.c = residual;
    product.beta = residual ? 1 : 0;
    if (!linear->bias)
        multiply_plain(backend, &product);
    else if (!add_bias<A>(&product, backend, linear) ||
             !es_device_gemm(backend->device, &product))
        multiply_onto_bias<A>(backend, &product, es_at<float>(linear->bias));
}

/* Returns the description of the product dx (n,in) = dy W^T. */
template <class A>
static es_gemm backward_of(es_backend *backend, es_mem *dx, const es_mem *dy,
                           const es_linear *linear, int n_rows)
{
    es_gemm product =
        product_of<A>(backend, n_rows, linear->n_in, linear->n_out);
    product.b_transposed = !linear->transposed;
    product.ldb = linear->transposed ? linear->n_in : linear->n_out;
    product.a = dy;
    product.lda = y_stride(linear);
    product.b = weights_for<A>(backend, linear->weight);
    product.d = dx;
    return product;
}

/* Computes dx (n,in) = dy W^T, or adds dy W^T to dx. */
template <class A>
static void backward_input(es_backend *backend, es_mem *dx, const es_mem *dy,
                           const es_linear *linear, int n_rows, bool add)
{
    es_gemm product = backward_of<A>(backend, dx, dy, linear, n_rows);
    product.c = add ? dx : NULL;
    product.beta = add ? 1 : 0;
    multiply_plain(backend, &product);
}

/* --- activations ---------------------------------------------------------- */

/* An activation function, in the form in which kernels receive it. */
typedef struct act {
    es_activation kind;
    float slope;
    const float *learnt; /* (1) learnt slope of LeakyReLU, or NULL if the slope
                            is constant */
} act;

static act act_of(const es_act *from)
{
    return {from->kind, from->slope,
            from->learnt ? es_at<float>(from->learnt) : NULL};
}

/* Returns act(x), and writes the derivative to *derivative. */
static ES_DEVICE float activate_value(float *derivative, float x,
                                      es_activation kind, float slope)
{
    if (kind == ES_ACT_GELU) {
        float cdf = 0.5f * erfcf(-0.70710678f * x);
        *derivative = cdf + x * expf(-0.5f * x * x) * 0.39894228f;
        return x * cdf;
    }
    if (kind == ES_ACT_GELU_TANH) {
        /* Uses (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 * u)), which is 0 or 1 for
         * |x| > 12. Limiting |x| to 12 keeps its powers from overflowing. */
        const float a = 1.59576912f, b = 0.044715f;
        float near = x > 12 ? 12 : x < -12 ? -12 : x;
        float square = near * near;
        float s = 1 / (1 + expf(-a * near * (1 + b * square)));
        *derivative = s + near * s * (1 - s) * a * (1 + 3 * b * square);
        return x * s;
    }
    if (kind == ES_ACT_GELU_SIGMOID) {
        /* The sigmoid is 0 or 1 for |x| > 90. Limiting |x| to 90 avoids
         * infinity times 0 in u * (1 - s), where s is the sigmoid. */
        const float u = 1.702f * (x > 90 ? 90 : x < -90 ? -90 : x);
        const float small = expf(-fabsf(u));
        const float large = 1 / (1 + small);
        const float s = u >= 0 ? large : small * large;
        const float rest = u >= 0 ? small * large : large;
        *derivative = s * (1 + u * rest);
        return x * s;
    }
    if (kind == ES_ACT_RELU) {
        *derivative = x <= 0 ? 0.0f : 1.0f;
        return x <= 0 ? 0 : x;
    }
    *derivative = x < 0 ? slope : 1;
    return x < 0 ? slope * x : x;
}

template <int W, class A>
static ES_DEVICE void activate_lanes(A *post, const A *pre, const act *how,
                                     float slope)
{
    float x[W], unused;
    es_load(x, pre);
#pragma unroll
    for (int c = 0; c < W; c++)
        x[c] = activate_value(&unused, x[c], how->kind, slope);
    es_store(post, x);
}

/* Computes post = act(pre). `split` divides the arrays into packs, which are
 * loaded as vectors, and remaining single elements. */
template <class A>
__global__ void act_kernel(A *post, const A *pre, es_split split, act how)
{
    es_begin_kernel();
    constexpr int lanes = es_lanes<A>;
    const float slope = how.learnt ? how.learnt[0] : how.slope;
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads()) {
        const size_t at = es_split_single(&split, i, lanes);
        activate_lanes<1>(post + at, pre + at, &how, slope);
    }
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads()) {
        const size_t at = split.head + i * lanes;
        activate_lanes<lanes>(post + at, pre + at, &how, slope);
    }
}

/* Computes post = act(pre) for n elements. */
template <class A>
static void apply_act(es_backend *backend, es_mem *post, const es_mem *pre,
                      size_t n, const es_act *how)
{
    es_launch(backend->device, "act", act_kernel<A>,
              es_blocks(backend, n, ES_THREADS * es_lanes<A>, 8), ES_THREADS, 0,
              es_at<A>(post), es_at<A>(pre),
              es_split_of(n, es_at<A>(pre), es_at<A>(post)), act_of(how));
}

/* Returns true if cuBLASLt can fuse this activation into a product. Only the
 * tanh form of GELU can be fused: the ReLU of cuBLASLt turns NaN into 0, and
 * cannot store both its input (pre) and its output (post). */
static bool is_epilogue(const es_act *how)
{
    return how->kind == ES_ACT_GELU_TANH;
}

/* Computes a product and its activation together. If cuBLASLt cannot fuse the
 * activation, computes nothing and returns false. */
template <class A>
static bool multiply_and_act(es_backend *backend, es_mem *pre, es_mem *post,
                             const es_mem *x, const es_linear *linear,
                             int n_rows)
{
    es_gemm product = forward_of<A>(backend, post, x, linear, n_rows);
    product.epilogue = ES_GEMM_GELU;
    product.aux = pre;
    return add_bias<A>(&product, backend, linear) &&
           es_device_gemm(backend->device, &product);
}

template <class A>
static void forward_act(es_backend *backend, es_mem *pre, es_mem *post,
                        const es_mem *x, const es_linear *linear,
                        const es_act *how, int n_rows)
{
    if (how->kind == ES_ACT_LINEAR) {
        multiply_forward<A>(backend, post, NULL, x, linear, n_rows);
        return;
    }
    if (is_epilogue(how) &&
        multiply_and_act<A>(backend, pre, post, x, linear, n_rows))
        return;
    multiply_forward<A>(backend, pre, NULL, x, linear, n_rows);
    apply_act<A>(backend, post, pre, (size_t)n_rows * (size_t)linear->n_out,
                 how);
}

/* Multiplies W elements of d by act'(pre), and writes post. Returns the
 * contribution of these elements to the gradient of LeakyReLU's slope. */
template <int W, class A>
static ES_DEVICE double activate_back(A *d, A *post, const A *pre,
                                      const act *how, float slope)
{
    float x[W], g[W], derivative;
    double dslope = 0;
    es_load(x, pre);
    es_load(g, d);
#pragma unroll
    for (int c = 0; c < W; c++) {
        dslope += x[c] < 0 ? (double)(g[c] * x[c]) : 0;
        x[c] = activate_value(&derivative, x[c], how->kind, slope);
        g[c] *= derivative;
    }
    es_store(post, x);
    es_store(d, g);
    return dslope;
}

/* Replaces d, the gradient of post, by the gradient of pre, and writes post.
 * For LeakyReLU, also writes each thread block's contribution to the gradient
 * of the slope to slopes (blocks). */
template <class A>
__global__ void act_backward_kernel(A *d, A *post, double *slopes, const A *pre,
                                    es_split split, act how)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    constexpr int lanes = es_lanes<A>;
    const float slope = how.learnt ? how.learnt[0] : how.slope;
    double dslope = 0;
    for (size_t i = es_thread(); i < split.head + split.tail;
         i += es_all_threads()) {
        const size_t at = es_split_single(&split, i, lanes);
        dslope += activate_back<1>(d + at, post + at, pre + at, &how, slope);
    }
    for (size_t i = es_thread(); i < split.n_packs; i += es_all_threads()) {
        const size_t at = split.head + i * lanes;
        dslope +=
            activate_back<lanes>(d + at, post + at, pre + at, &how, slope);
    }
    if (!slopes)
        return;
    dslope = es_block_sum(dslope, shared);
    if (threadIdx.x == 0)
        slopes[blockIdx.x] = dslope;
}

/* Adds the gradient of LeakyReLU's learnt slope to dslope (1): sums the n
 * partial gradients, one per thread block, in a fixed order. */
static __global__ void add_slopes_kernel(float *dslope, const double *slopes,
                                         int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(double, shared);
    const double sum = es_sum_pieces(slopes, n, shared);
    if (threadIdx.x == 0)
        dslope[0] += (float)sum;
}

/* Computes dpre (n,in) = (dy W^T) * gelu'(pre), elementwise, in a single fused
 * product. If cuBLASLt cannot fuse gelu', only returns false. */
template <class A>
static bool multiply_through_act(es_backend *backend, es_mem *dpre,
                                 const es_mem *dy, const es_mem *pre,
                                 const es_linear *linear, int n_rows)
{
    es_gemm product = backward_of<A>(backend, dpre, dy, linear, n_rows);
    product.epilogue = ES_GEMM_DGELU;
    product.aux = const_cast<es_mem *>(pre); /* this product only reads aux */
    return es_device_gemm(backend->device, &product);
}

/* Propagates the gradient d (n) backward through the activation, in place, and
 * recomputes the activation's output `post`. */
template <class A>
static void apply_backward(es_backend *backend, es_mem *d, es_mem *post,
                           es_mem *dslope, const es_mem *pre, size_t n,
                           const es_act *how)
{
    const bool sums = dslope && how->kind == ES_ACT_LEAKY;
    const size_t shared = ES_MAX_WARPS * sizeof(double);
    double *slopes = sums ? es_at<double>(backend->scratch) : NULL;
    const unsigned blocks = es_pieces(backend, n, ES_THREADS * es_lanes<A>, 8);
    es_launch(backend->device, "act_backward", act_backward_kernel<A>, blocks,
              ES_THREADS, shared, es_at<A>(d), es_at<A>(post), slopes,
              es_at<A>(pre),
              es_split_of(n, es_at<A>(pre), es_at<A>(d), es_at<A>(post)),
              act_of(how));
    if (sums)
        es_launch(backend->device, "add_slopes", add_slopes_kernel, 1,
                  ES_THREADS, shared, es_at<float>(dslope),
                  (const double *)slopes, (int)blocks);
}

template <class A>
static void backward_act(es_backend *backend, es_mem *dpre, es_mem *post,
                         es_mem *dslope, const es_mem *dy, const es_mem *pre,
                         const es_linear *linear, const es_act *how, int n_rows)
{
    const size_t n = (size_t)n_rows * (size_t)linear->n_in;
    if (is_epilogue(how) &&
        multiply_through_act<A>(backend, dpre, dy, pre, linear, n_rows)) {
        apply_act<A>(backend, post, pre, n, how);
        return;
    }
    backward_input<A>(backend, dpre, dy, linear, n_rows, false);
    if (how->kind != ES_ACT_LINEAR)
        apply_backward<A>(backend, dpre, post, dslope, pre, n, how);
}

/* --- gradients of weights and biases -------------------------------------- */

/* Computes partial (chunks,width): for each chunk of rows, the sums of the
 * first `width` columns of x. A thread block processes 32 * W columns of a
 * chunk, and each of its 8 warps sums every eighth row. */
template <class A, int W>
__global__ void column_sums_kernel(float *partial, const A *x, int n_rows,
                                   int chunk_rows, int width, int stride)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, shared); /* (N_WARPS,W,32) */
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int column = ((int)blockIdx.x * 32 + lane) * W;
    const int first = (int)blockIdx.y * chunk_rows;
    const int end = min(first + chunk_rows, n_rows);
    float sums[W] = {};
    for (int row = first + warp; column < width && row < end; row += N_WARPS) {
        float values[W];
        es_load(values, x + (size_t)row * (size_t)stride + column);
        for (int i = 0; i < W; i++)
            sums[i] += values[i];
    }
    for (int i = 0; i < W; i++)
        shared[(warp * W + i) * 32 + lane] = sums[i];
    __syncthreads();
    if (warp >= W || column + warp >= width)
        return;
    float sum = 0;
    for (int i = 0; i < N_WARPS; i++)
        sum += shared[(i * W + warp) * 32 + lane];
    partial[(size_t)blockIdx.y * (size_t)width + column + warp] = sum;
}

/* Adds the sums of the columns of partial (n,width) to out (width), in the
 * order of rows. */
static __global__ void add_partial_kernel(float *out, const float *partial,
                                          int n, int width)
{
    es_begin_kernel();
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (column >= width)
        return;
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += partial[(size_t)i * (size_t)width + column];
    out[column] += sum;
}

/* Adds the sums of the first `width` columns of x (n,stride) to out (width),
 * which is f32. */
template <class A>
static void add_column_sums(es_backend *backend, es_mem *out, const es_mem *x,
                            int n_rows, int width, int stride)
{
    constexpr int wide = es_lanes<A>;
    static_assert(wide <= N_WARPS,
                  "a block must have a warp for each element of a pack");
    const bool fits = stride % wide == 0 && es_packs_fit(x);
    const size_t lanes = fits ? wide : 1;
    const int most = (int)es_ceil_div((size_t)n_rows, MAX_CHUNKS);
    const int chunk_rows = most > MIN_CHUNK_ROWS ? most : MIN_CHUNK_ROWS;
    const unsigned n_chunks =
        (unsigned)es_ceil_div((size_t)n_rows, (size_t)chunk_rows);
    const unsigned n_columns = (unsigned)es_ceil_div((size_t)width, 32 * lanes);
    float *partial = es_at<float>(backend->scratch);
    es_launch(backend->device, "column_sums",
              fits ? column_sums_kernel<A, wide> : column_sums_kernel<A, 1>,
              dim3(n_columns, n_chunks), ES_THREADS,
              N_WARPS * lanes * 32 * sizeof(float), partial, es_at<A>(x),
              n_rows, chunk_rows, width, stride);
    es_launch(backend->device, "add_partial", add_partial_kernel,
              (unsigned)es_ceil_div((size_t)width, ES_THREADS), ES_THREADS, 0,
              es_at<float>(out), (const float *)partial, (int)n_chunks, width);
}

/* Computes the gradient of the weight as it is stored: x^T dy, or dy^T x for a
 * transposed weight. Sums dy for the gradient of the bias in a separate kernel.
 * cuBLASLt could return these sums with the product (epilogues BGRADA and
 * BGRADB), and would save reading dy again, which takes about a fifth of the
 * product's time. The epilogues are not used for two reasons. Products of this
 * shape have few tiles, so cuBLASLt splits their sums, and its documentation
 * does not state whether these epilogues permit split sums. A kernel without
 * split sums would save nothing if it were a fifth slower. */
template <class A>
static void backward_weight(es_backend *backend, es_mem *dweight, es_mem *dbias,
                            const es_mem *x, const es_mem *dy,
                            const es_linear *linear, int n_rows, bool add)
{
    const int n_in = linear->n_in, n_out = linear->n_out;
    const bool swapped = linear->transposed;
    es_gemm product = product_of<A>(backend, swapped ? n_out : n_in,
                                    swapped ? n_in : n_out, n_rows);
    product.wide = true;
    product.a_transposed = true;
    product.lda = swapped ? y_stride(linear) : n_in;
    product.ldb = swapped ? n_in : y_stride(linear);
    product.a = swapped ? dy : x;
    product.b = swapped ? x : dy;
    product.c = add ? dweight : NULL;
    product.d = dweight;
    product.beta = add ? 1 : 0;
    multiply_plain(backend, &product);
    if (dbias && linear->n_bias_trained > 0)
        add_column_sums<A>(backend, dbias, dy, n_rows, linear->n_bias_trained,
                           y_stride(linear));
}

size_t es_cuda_linear_scratch(const es_extents *largest)
{
    size_t columns = (size_t)largest->width * MAX_CHUNKS * sizeof(float);
    return columns > es_pieces_bytes(1) ? columns : es_pieces_bytes(1);
}

template <class A>
void es_cuda_linear_ops(es_ops *ops)
{
    ops->linear = multiply_forward<A>;
    ops->linear_act = forward_act<A>;
    ops->linear_backward_input = backward_input<A>;
    ops->linear_backward_act = backward_act<A>;
    ops->linear_backward_weight = backward_weight<A>;
}
ES_OF_ACTIVATIONS(es_cuda_linear_ops)
