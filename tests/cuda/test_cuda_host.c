/* Tests the CUDA constructs in which kernels are written (kernel.h), with the
 * kernels of tests/gpu/probe.cu, on the emulation and, if there is one, on a
 * device. */
/* needs: nvcc */
#include "tests/gpu/probe.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/reference_ops.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { M = 16, N = 8, K = 16 };

/* The functions of probe.cu, built for the emulation or for a device. The
 * pointers are NULL if the functions are not built, or if there is no
 * device. */
typedef struct probed {
    const char *file;
    void *plugin;
    const es_probe *probe;
    es_device *device;
} probed;

static probed on_host = {.file = "libcuda_probe_host.so"};
static probed on_device = {.file = "libcuda_probe.so"};

static void open_probe(probed *p)
{
    char path[4096];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/tests/%s", build ? build : "build",
             p->file);
    p->plugin = dlopen(path, RTLD_NOW);
    if (!p->plugin)
        return;
    p->probe = dlsym(p->plugin, "es_cuda_probe");
    assert_non_null(p->probe);
    if (p->probe->open(&p->device) != ES_OK)
        print_message("# %s\n", es_message());
}

static int open_probes(void **state)
{
    (void)state;
    open_probe(&on_host);
    open_probe(&on_device);
    return 0;
}

static int close_probes(void **state)
{
    (void)state;
    if (on_host.device)
        on_host.probe->close(on_host.device);
    if (on_device.device)
        on_device.probe->close(on_device.device);
    return 0;
}

static probed *probe_of(void **state)
{
    probed *p = *state;
    if (!p->device)
        es_skip("no nvcc");
    return p;
}

/* --- products ------------------------------------------------------------- */

/* Returns the bits of x in bf16 or fp16. x is an integer up to about 31 in
 * absolute value, which both types represent exactly. */
static uint16_t bits_of(int x, bool bf16)
{
    float f = (float)x;
    uint32_t bits;
    if (bf16) {
        memcpy(&bits, &f, sizeof bits);
        return (uint16_t)(bits >> 16);
    }
    int exponent;
    float mantissa = frexpf(fabsf(f), &exponent);
    if (x == 0)
        return 0;
    return (uint16_t)((x < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                      ((int)(mantissa * 2048) & 1023));
}

static int of_a(int i, int k)
{
    return (i * 7 + k * 3 + i * k) % 31 - 11;
}

static int of_b(int k, int j)
{
    return (k * 5 + j * 11 + 2 * j * j) % 29 - 13;
}

static void expect_product(probed *p, bool bf16, bool b_transposed)
{
    uint16_t a[M * K], b[K * N];
    float d[M * N];
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            a[i * K + k] = bits_of(of_a(i, k), bf16);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            b[b_transposed ? j * K + k : k * N + j] = bits_of(of_b(k, j), bf16);
    p->probe->multiply(p->device, d, a, b, bf16, b_transposed);
    assert_int_equal(p->probe->status(p->device), ES_OK);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int want = 0;
            for (int k = 0; k < K; k++)
                want += of_a(i, k) * of_b(k, j);
            assert_true(d[i * N + j] == (float)want);
        }
}

static void multiplies(void **state)
{
    probed *p = probe_of(state);
    for (int i = 0; i < 4; i++)
        expect_product(p, i & 1, i & 2);
}

/* --- lanes and threads ---------------------------------------------------- */

static void shuffles(void **state)
{
    probed *p = probe_of(state);
    int32_t x[32], got[3][32];
    uint32_t ballot = 0;
    for (int i = 0; i < 32; i++) {
        x[i] = i * i % 37 - 12;
        ballot |= (uint32_t)(x[i] > 0) << i;
    }
    p->probe->shuffle(p->device, &got[0][0], x);
    assert_int_equal(p->probe->status(p->device), ES_OK);
    for (int i = 0; i < 32; i++) {
        assert_int_equal(got[0][i], x[(i & 16) + 5]);
        assert_int_equal(got[1][i], x[i ^ 6]);
        assert_int_equal((uint32_t)got[2][i], ballot);
    }
}

static void reverses(void **state)
{
    probed *p = probe_of(state);
    static const int sizes[] = {1, 95, 96, 97, 1000};
    float x[1000], got[1000];
    uint64_t seed = 7;
    es_test_fill(x, 1000, 1, &seed);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        p->probe->reverse(p->device, got, x, n);
        assert_int_equal(p->probe->status(p->device), ES_OK);
        for (int i = 0; i < n; i++)
            assert_true(got[i] == x[n - 1 - i]);
    }
}

static void copies(void **state)
{
    probed *p = probe_of(state);
    float x[128 * 7], got;
    for (int n = 128; n <= 128 * 7; n += 128) {
        float want = 0;
        for (int i = 0; i < n; i++)
            want += x[i] = (float)(i * 13 % 101 - 40);
        p->probe->sum(p->device, &got, x, n);
        assert_int_equal(p->probe->status(p->device), ES_OK);
        assert_true(got == want);
    }
}

static void captures(void **state)
{
    probed *p = probe_of(state);
    int32_t counts[2] = {-1, -1};
    p->probe->capture(p->device, counts);
    assert_int_equal(p->probe->status(p->device), ES_OK);
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], 3 * 11);
}

/* --- broken rules, on the host -------------------------------------------- */

/* Breaks a rule of kernel.h in a child process. Returns the number of the
 * signal that ended the process. Returns 0 if the process ended normally and
 * its output was NaN, and -1 if some output was not NaN. */
static int signal_of(es_broken rule)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        float out[64];
        bool nan = false;
        if (!freopen("/dev/null", "w", stderr))
            _exit(9);
        signal(SIGABRT, SIG_DFL);
        on_host.probe->break_rule(on_host.device, out, (int)rule);
        for (int i = 0; i < 64; i++)
            nan = nan || isnan(out[i]);
        _exit(nan ? 0 : 1);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void test_cuda_host__broken_rules_end_the_process(void **state)
{
    (void)state;
    if (!on_host.device)
        es_skip("no nvcc");
    for (int rule = ES_BREAK_BARRIER; rule <= ES_BREAK_BLOCK; rule++)
        assert_int_equal(signal_of((es_broken)rule), SIGABRT);
}

static void test_cuda_host__uninitialised_memory_is_nan(void **state)
{
    (void)state;
    if (!on_host.device)
        es_skip("no nvcc");
    for (int rule = ES_BREAK_WAIT; rule < ES_N_BREAKS; rule++)
        assert_int_equal(signal_of((es_broken)rule), 0);
}

/* Runs all tests again on a device, as a single test, so that only one test is
 * skipped on a machine without a device. */
static void test_cuda_host__a_device_does_the_same(void **state)
{
    static const CMUnitTestFunction same[] = {multiplies, shuffles, reverses,
                                              copies, captures};
    void *device = &on_device;
    (void)state;
    if (!on_device.device)
        es_skip("no GPU");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        same[i](&device);
}

#define ON_HOST(test)                                                          \
    {                                                                          \
        "test_cuda_host__" #test, test, NULL, NULL, &on_host                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_HOST(multiplies),
        ON_HOST(shuffles),
        ON_HOST(reverses),
        ON_HOST(copies),
        ON_HOST(captures),
        cmocka_unit_test(test_cuda_host__broken_rules_end_the_process),
        cmocka_unit_test(test_cuda_host__uninitialised_memory_is_nan),
        cmocka_unit_test(test_cuda_host__a_device_does_the_same),
    };
    return cmocka_run_group_tests(tests, open_probes, close_probes);
}
