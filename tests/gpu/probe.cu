/* Kernels with which a test checks the extensions of C++ that kernel.h defines:
 * products, shuffles, barriers, copies, captures, and kernels that break the
 * rules of CUDA. The file is compiled for the device and for the host. */
#include "hooks/trainer/cuda/mma.h"

extern "C" {
#include "tests/gpu/probe.h"
}

enum { SUM_STAGES = 3, FLOATS_PER_COPY = 4 };

/* --- device memory during a call ------------------------------------------ */

typedef struct held {
    es_device *device;
    void *memory;
    size_t bytes;
} held;

/* Reserves `bytes` bytes of device memory. Copies `in` into it, or leaves it
 * uninitialised if `in` is NULL. */
static held hold(es_device *device, const void *in, size_t bytes)
{
    held h = {device, NULL, bytes};
    if (es_device_reserve(device, &h.memory, bytes) != ES_OK)
        es_device_trouble(device, "memory", 2);
    else if (in)
        es_device_store(device, h.memory, in, bytes);
    return h;
}

static void drop(held h)
{
    es_device_release(h.device, h.memory);
}

/* Copies the memory to `out` and releases the memory. */
static void take(held h, void *out)
{
    es_device_load(h.device, out, h.memory, h.bytes);
    drop(h);
}

/* --- products ------------------------------------------------------------- */

enum { M = 16, N = 8, K = 16 };

/* Computes the matrix product d = a * b. Each lane copies 8 elements of a, and
 * 8 elements of b or zeros, to shared memory. */
template <class A>
__global__ void multiply_kernel(float *d, const A *a, const A *b,
                                bool b_transposed)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(A, shared_a);
    A *shared_b = shared_a + M * K;
    const int lane = (int)threadIdx.x;
    es_cp_async(shared_a + 8 * lane, a + 8 * lane, true);
    es_cp_async(shared_b + 8 * lane, b + 8 * lane, 8 * lane < K * N);
    es_cp_commit();
    es_cp_wait<0>();
    __syncthreads();
    uint32_t of_a[4], of_b[4];
    es_ldmatrix(of_a,
                es_shared_address(shared_a + lane % 16 * K + lane / 16 * 8));
    if (b_transposed)
        es_ldmatrix(of_b,
                    es_shared_address(shared_b + lane % 8 * K + lane / 8 * 8));
    else
        es_ldmatrix_transposed(of_b, es_shared_address(shared_b + lane * N));
    float sums[4] = {0, 0, 0, 0};
    es_mma<A>(sums, of_a, of_b);
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        d[row * N + column] = sums[i];
    }
}

template <class A>
static void multiply_as(es_device *device, float *d, const void *a,
                        const void *b, bool b_transposed)
{
    es_launch(device, "multiply", multiply_kernel<A>, dim3(1), 32,
              2 * M * K * sizeof(A), d, (const A *)a, (const A *)b,
              b_transposed);
}

static void multiply(es_device *device, float *d, const uint16_t *a,
                     const uint16_t *b, bool bf16, bool b_transposed)
{
    held on_a = hold(device, a, M * K * sizeof *a);
    held on_b = hold(device, b, K * N * sizeof *b);
    held on_d = hold(device, NULL, M * N * sizeof *d);
    (bf16 ? multiply_as<es_bf16>
          : multiply_as<es_fp16>)(device, (float *)on_d.memory, on_a.memory,
                                  on_b.memory, b_transposed);
    take(on_d, d);
    drop(on_a);
    drop(on_b);
}

/* --- shuffles ------------------------------------------------------------- */

static __global__ void shuffle_kernel(int32_t *out, const int32_t *x)
{
    es_begin_kernel();
    const unsigned all = 0xffffffffu;
    const int lane = (int)threadIdx.x;
    int32_t mine = x[lane];
    out[lane] = __shfl_sync(all, mine, 5, 16);
    out[32 + lane] = __shfl_xor_sync(all, mine, 6, 16);
    out[64 + lane] = (int32_t)__ballot_sync(all, mine > 0);
}

static void shuffle(es_device *device, int32_t *out, const int32_t *x)
{
    held on_x = hold(device, x, 32 * sizeof *x);
    held on_out = hold(device, NULL, 3 * 32 * sizeof *out);
    es_launch(device, "shuffle", shuffle_kernel, dim3(1), 32, 0,
              (int32_t *)on_out.memory, (const int32_t *)on_x.memory);
    take(on_out, out);
    drop(on_x);
}

/* --- barriers ------------------------------------------------------------- */

/* Block i reverses its blockDim floats of x and writes them to the mirrored
 * position in `out`. */
static __global__ void reverse_kernel(float *out, const float *x, int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, shared);
    const int n_threads = (int)blockDim.x, thread = (int)threadIdx.x;
    const int first = (int)blockIdx.x * n_threads;
    const int count = min(n - first, n_threads);
    if (thread < count)
        shared[thread] = x[first + thread];
    __syncthreads();
    if (thread < count)
        out[n - first - count + thread] = shared[count - 1 - thread];
}

static void reverse(es_device *device, float *out, const float *x, int n)
{
    held on_x = hold(device, x, (size_t)n * sizeof *x);
    held on_out = hold(device, NULL, (size_t)n * sizeof *out);
    const int n_threads = 96;
    es_launch(device, "reverse", reverse_kernel,
              dim3((unsigned)((n + n_threads - 1) / n_threads)), n_threads,
              (size_t)n_threads * sizeof(float), (float *)on_out.memory,
              (const float *)on_x.memory, n);
    take(on_out, out);
    drop(on_x);
}

/* --- copies --------------------------------------------------------------- */

/* Adds up x. Copies x to shared memory in stages of 128 floats: one stage is
 * summed while the next two are being copied. */
static __global__ void sum_kernel(float *out, const float *x, int n)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, shared);
    const int stage = 32 * FLOATS_PER_COPY, n_stages = n / stage;
    const int mine = (int)threadIdx.x * FLOATS_PER_COPY;
    float sum = 0;
    for (int i = 0; i < n_stages + SUM_STAGES - 1; i++) {
        if (i < n_stages)
            es_cp_async(shared + i % SUM_STAGES * stage + mine,
                        x + i * stage + mine, true);
        es_cp_commit();
        int ready = i - (SUM_STAGES - 1);
        if (ready < 0)
            continue;
        es_cp_wait<SUM_STAGES - 1>();
        for (int j = 0; j < FLOATS_PER_COPY; j++)
            sum += shared[ready % SUM_STAGES * stage + mine + j];
    }
    for (int across = 16; across > 0; across /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, across);
    if (threadIdx.x == 0)
        out[0] = sum;
}

static void sum(es_device *device, float *out, const float *x, int n)
{
    held on_x = hold(device, x, (size_t)n * sizeof *x);
    held on_out = hold(device, NULL, sizeof *out);
    es_launch(device, "sum", sum_kernel, dim3(1), 32,
              SUM_STAGES * 32 * FLOATS_PER_COPY * sizeof(float),
              (float *)on_out.memory, (const float *)on_x.memory, n);
    take(on_out, out);
    drop(on_x);
}

/* --- captured sequences --------------------------------------------------- */

static __global__ void count_kernel(int32_t *count, int32_t more)
{
    es_begin_kernel();
    if (threadIdx.x == 0)
        count[0] += more;
}

static void capture(es_device *device, int32_t *counts)
{
    const int32_t zero = 0;
    held on_count = hold(device, &zero, sizeof zero);
    es_device_capture(device);
    for (int32_t more = 1; more < 100; more *= 10)
        es_launch(device, "count", count_kernel, dim3(1), 32, 0,
                  (int32_t *)on_count.memory, more);
    es_device_capture_end(device, 3);
    es_device_load(device, counts, on_count.memory, sizeof zero);
    for (int i = 0; i < 3; i++)
        if (!es_device_replay(device, 3))
            es_device_trouble(device, "replaying a captured sequence", 0);
    if (es_device_replay(device, 4))
        es_device_trouble(device, "replaying a sequence that was not captured",
                          0);
    take(on_count, counts + 1);
}

/* --- broken rules --------------------------------------------------------- */

static __global__ void break_kernel(float *out, const float *x, int rule)
{
    es_begin_kernel();
    ES_DYNAMIC_SHARED(float, shared);
    const int thread = (int)threadIdx.x;
    float value = 1;
    if (rule == ES_BREAK_BARRIER && thread < 32)
        __syncthreads();
    if (rule == ES_BREAK_SHUFFLE && thread != 7)
        value = __shfl_xor_sync(0xffffffffu, value, 1);
    if (rule == ES_BREAK_MASK)
        value = __shfl_xor_sync(0xffffu, value, 1);
    if (rule == ES_BREAK_WAIT || rule == ES_BREAK_COMMIT) {
        es_cp_async(shared + 4 * thread, x + 4 * thread, true);
        if (rule == ES_BREAK_COMMIT)
            es_cp_wait<0>();
        value = shared[4 * thread];
    }
    if (rule == ES_BREAK_UNWRITTEN)
        value = shared[thread];
    if (rule == ES_BREAK_ORDER) {
        shared[thread] = x[thread];
        value = shared[thread ^ 1];
    }
    if (rule == ES_BREAK_COPY)
        es_cp_async(out, x, true);
    out[thread] = value;
}

static void break_rule(es_device *device, float *out, int rule)
{
    float x[4 * 64];
    for (int i = 0; i < 4 * 64; i++)
        x[i] = (float)i;
    held on_x = hold(device, x, sizeof x);
    held on_out = hold(device, NULL, 64 * sizeof *out);
    es_launch(device, "break", break_kernel, dim3(1),
              rule == ES_BREAK_BLOCK ? 48 : 64, 4 * 64 * sizeof(float),
              (float *)on_out.memory, (const float *)on_x.memory, rule);
    take(on_out, out);
    drop(on_x);
}

extern "C" ES_API const es_probe es_cuda_probe = {
    es_device_open,
    es_device_close,
    es_device_status,
    multiply,
    shuffle,
    reverse,
    sum,
    capture,
    break_rule,
};
