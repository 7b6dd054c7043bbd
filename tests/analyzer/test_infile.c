/** Tests input files: no call waits for a FIFO's missing writer, and no endless
 *  input is read. */
#include "analyzer/base/infile.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

static const es_infile_limit limit = {63 << 10, "a test", ES_EUSAGE};

/* Sets an alarm, so that a call that blocks fails this test and does not hang
   all tests. */
static int begin(void **state)
{
    alarm(ES_PATIENCE_S);
    return es_folder_make(state);
}

static int end(void **state)
{
    alarm(0);
    return es_folder_remove(state);
}

static const char *new_fifo(void **state)
{
    const char *path = es_folder_file(state, "fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    return path;
}

static void assert_loads(const char *path, const char *text)
{
    AUTO_FREE char *out;
    size_t n;
    es_assert_ok(es_infile_load(&out, &n, path, &limit));
    assert_int_equal(n, strlen(text));
    assert_string_equal(out, text);
}

TEST(a_fifo_without_a_writer_is_refused)
{
    char *out;
    size_t n;
    const char *path = new_fifo(state);
    es_assert_status(ES_EIO, "fifo: a FIFO without a writer",
                     es_infile_load(&out, &n, path, &limit));
}

/* Waits until the parent process sleeps, which usually means that it waits for
 * data. */
static void await_sleep_of_parent(void)
{
    es_await(es_is_asleep(getppid(), getppid()));
}

TEST(a_fifo_with_a_writer_is_read_to_its_end)
{
    const char *path = new_fifo(state);
    pid_t writer = fork();
    if (writer == 0) {
        int fd =
            open(path, O_WRONLY); /* blocks until the parent opens the FIFO */
        await_sleep_of_parent();
        _exit(write(fd, "late", 4) == 4 ? 0 : 1);
    }
    es_await(es_is_asleep(writer, writer)); /* waits until the child is blocked
                                               in open */
    assert_loads(path, "late");
}

TEST(a_pipe_of_the_shell_is_read)
{
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    pid_t writer = fork();
    if (writer == 0) {
        await_sleep_of_parent();
        _exit(write(ends[1], "a = 1\n", 6) == 6 ? 0 : 1);
    }
    close(ends[1]);
    assert_loads(path, "a = 1\n");
    assert_loads(path, ""); /* the writer has exited, so the pipe is at its
                               end */
    close(ends[0]);
}

TEST(an_endless_device_is_refused)
{
    char *out;
    size_t n;
    es_assert_status(ES_EUSAGE,
                     "/dev/zero: larger than the 63 KiB that a test may have",
                     es_infile_load(&out, &n, "/dev/zero", &limit));
    assert_null(out);
    assert_loads("/dev/null", "");
}

TEST(messages_name_folders_and_missing_files)
{
    char *out;
    size_t n;
    es_assert_status(ES_EIO, "Is a directory",
                     es_infile_load(&out, &n, *state, &limit));
    es_assert_status(
        ES_EIO, "none: No such file",
        es_infile_load(&out, &n, es_folder_file(state, "none"), &limit));
}

TEST(only_regular_files_are_read_in_parts)
{
    int fd;
    uint64_t size;
    const char *path = new_fifo(state);
    es_assert_status(ES_EIO, "fifo: not a regular file",
                     es_infile_open(&fd, &size, path));
    close(fd);
    es_assert_status(ES_EIO, "zero: not a regular file",
                     es_infile_open(&fd, &size, "/dev/zero"));
    close(fd);
}

TEST_EACH(begin, end)
