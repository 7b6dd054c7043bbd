/* Measures the peak memory of a training step in a separate process, as
 * reported by the kernel: the peak grows with T, not with T^2. */
#include "tests/support/test.h"
#include "tests/support/training.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

typedef struct sizes {
    const char *n_layer, *n_head, *d_model;
} sizes;

/* Returns the peak memory in KiB of training for `steps` steps with one
 * sequence of T tokens; the first step is measured. */
static long peak(const char *arch, const sizes *s, int ctx, const char *steps)
{
    const char *build = getenv("BUILD");
    const es_settings data = training_small();
    char program[512], length[16];
    pid_t pid;
    int status = -1;
    struct rusage usage;
    snprintf(program, sizeof program, "%s/entropy-train",
             build ? build : "build");
    snprintf(length, sizeof length, "%d", ctx);
    const char *const arguments[] = {
        program,    "--no-record",  "-q",        "--arch",    arch,
        "--data",   data.data,      "--ctx",     length,      "--batch",
        "1",        "--steps",      steps,       "--n-layer", s->n_layer,
        "--n-head", s->n_head,      "--d-model", s->d_model,  "--threads",
        "2",        "--eval-every", "0",         NULL};
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL,
                                 (char *const *)arguments, environ),
                     0);
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    assert_int_equal(status, 0);
    return usage.ru_maxrss;
}

/* Expects that the peak memory grows linearly with T. A T x T matrix in each of
 * two threads would add 6 MiB from T = 512 to 1024 and 24 MiB from 1024 to
 * 2048, clearly more than the linear part, which adds 3.5 and 7 MiB. */
static void expect_linear(const char *arch)
{
    const sizes small = {"2", "4", "32"};
    long t512 = peak(arch, &small, 512, "2");
    long t1024 = peak(arch, &small, 1024, "2");
    long t2048 = peak(arch, &small, 2048, "2");
    long first = t1024 - t512, second = t2048 - t1024;
    if (!(first > 0 && second > first && second <= 5 * first / 2))
        fail_msg("%s: %ld, %ld, %ld KiB", arch, t512, t1024, t2048);
}

TEST(memory_grows_linearly_with_the_context)
{
    if (SANITIZED)
        es_skip("the sanitizer's memory would be measured, too");
    expect_linear("EReg(SM(t)+LN+G)");
    expect_linear("EReg(PSM(4)+R)");
}

TEST(a_context_of_2048_trains_in_2_gib)
{
    const sizes named = {"6", "8", "256"};
    if (SANITIZED)
        es_skip("the sanitizer's memory would be measured, too");
    long kib = peak("EReg(SM(t)+LN+G)", &named, 2048, "1");
    if (!(kib > 0 && kib < 2L << 20))
        fail_msg("%ld KiB", kib);
}

TEST_GROUP(training_set_up, training_tear_down)
