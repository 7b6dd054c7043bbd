/* Tests analyzer/base/process: the initial state of a child, the report of its
   end, and that no descriptor or zombie remains. */
#include "analyzer/base/kernel.h"
#include "analyzer/base/process.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int n_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Runs a shell command. Writes its output and a description of its end to
   `out`. */
static void run(char *out, size_t size, const char *command,
                es_process_options options, int64_t ms)
{
    es_process child;
    es_process_end end;
    char text[64];
    int file = es_kernel_memory_file("out", 0), before = n_descriptors();
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)command, NULL};
    options.argv = options.argv ? options.argv : argv;
    options.streams[0] = ES_STREAM_NULL;
    options.streams[1] = options.streams[2] = file;
    assert_int_equal(es_process_start(&child, &options), 0);
    bool in_time = es_process_wait_or_kill(&end, &child, ms);
    es_process_end_text(text, sizeof text, &end);
    ssize_t n = pread(file, out, size - 1, 0);
    snprintf(out + n, size - (size_t)n, "%s%s", in_time ? "" : "late, ", text);
    es_process_free(&child);
    assert_int_equal(n_descriptors(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(file);
}

TEST(the_end_of_a_process_is_reported)
{
    static const struct {
        const char *command, *expected;
        int64_t ms;
        es_process_place place;
    } cases[] = {
        {"exit 3", "exit code 3", -1, ES_PLACE_CALLER},
        {"echo a", "a\nexit code 0", ES_PATIENCE_MS, ES_PLACE_GROUP},
        {"kill -9 $$", "killed by signal 9", ES_PATIENCE_MS, ES_PLACE_SESSION},
        {"sleep 100", "late, killed by signal 9", 50, ES_PLACE_CALLER},
        {"sleep 100; :", "late, killed by signal 9", 50, ES_PLACE_GROUP},
        {"read x || echo none", "none\nexit code 0", -1, ES_PLACE_CALLER},
    };
    char out[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(out, sizeof out, cases[i].command,
            (es_process_options){.place = cases[i].place}, cases[i].ms);
        assert_string_equal(out, cases[i].expected);
    }
}

TEST(a_separate_group_has_default_signals)
{
    char out[256];
    signal(SIGUSR1, SIG_IGN);
    run(out, sizeof out, "kill -USR1 $$; echo on",
        (es_process_options){.place = ES_PLACE_GROUP}, -1);
    assert_string_equal(out, "killed by signal 10");
    run(out, sizeof out, "kill -USR1 $$; echo on",
        (es_process_options){.place = ES_PLACE_CALLER}, -1);
    assert_string_equal(out, "on\nexit code 0");
    signal(SIGUSR1, SIG_DFL);
}

TEST(only_passed_descriptors_are_inherited)
{
    char out[256];
    /* This descriptor is not close-on-exec, so a child could inherit it. */
    int file = open("/dev/zero", O_RDONLY);
    const int passed[] = {STDERR_FILENO, STDIN_FILENO, file};
    assert_int_equal(dup2(file, 40), 40);
    run(out, sizeof out,
        "readlink /proc/$$/fd/5; [ -e /proc/$$/fd/40 ] || echo closed",
        (es_process_options){.passed = passed, .n_passed = 3}, -1);
    assert_string_equal(out, "/dev/zero\nclosed\nexit code 0");
    close(file);
    close(40);
}

TEST(a_missing_program_is_reported)
{
    char out[256], *argv[] = {(char[]){"/nonexistent/program"}, NULL};
    es_process child;
    es_process_options options = {.argv = argv};
    assert_int_equal(es_process_start(&child, &options), ENOENT);
    assert_int_equal(child.pid, 0);
    options.program = "/dev/null";
    assert_int_equal(es_process_start(&child, &options), EACCES);
    options.as_shell = true;
    run(out, sizeof out, NULL, options, -1);
    assert_string_equal(out, "exit code 126");
    options.program = NULL;
    run(out, sizeof out, NULL, options, -1);
    assert_string_equal(out, "exit code 127");
}

/* fcntl reports a number above the limit as invalid (EINVAL), not as too many
   files. */
TEST(too_few_descriptors_are_reported_as_such)
{
    struct rlimit before, few;
    es_process child;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t n = 4; n <= 16; n++) {
        char *argv[] = {(char[]){"true"}, NULL};
        const es_process_options options = {
            .argv = argv,
            .streams = {ES_STREAM_NULL, ES_STREAM_NULL, ES_STREAM_NULL}};
        few = (struct rlimit){.rlim_cur = n, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        const int error = es_process_start(&child, &options);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(error == 0 || error == EMFILE);
        if (error)
            continue;
        es_process_end end;
        assert_true(es_process_wait(&end, &child, -1));
        es_process_free(&child);
    }
}

/* A host program may close the pidfd, reuse its number for a file, or reap our
 * child. */
TEST(a_host_may_close_the_pidfd_or_reap_the_child)
{
    char text[64],
        *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"exit 4"}, NULL};
    const es_process_options options = {.argv = argv};
    for (int reaps = 0; reaps < 2; reaps++) {
        es_process child;
        es_process_end end;
        assert_int_equal(es_process_start(&child, &options), 0);
        int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        /* Without a pidfd, as on an old kernel, the test uses an arbitrary
         * descriptor number. */
        int number = child.watched ? child.handle.fd : file + 1;
        assert_true(dup2(file, number) >= 0);
        if (reaps)
            assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
        assert_true(es_process_wait(&end, &child, ES_PATIENCE_MS));
        es_process_end_text(text, sizeof text, &end);
        assert_string_equal(text, reaps ? "no exit code" : "exit code 4");
        es_process_free(&child);
        assert_true(fcntl(number, F_GETFD) >= 0); /* the host's file must still
                                                     be open */
        close(number);
        close(file);
    }
}

static int add_one(void *number)
{
    return *(int *)number + (getsid(0) == getpid());
}

TEST(a_copy_exits_with_its_functions_result)
{
    AUTO_BY(es_process_free) es_process child;
    es_process_end end;
    int number = 41;
    assert_int_equal(es_process_fork(&child, add_one, &number), 0);
    assert_true(es_process_wait(&end, &child, -1));
    assert_int_equal(end.code, 42);
}
