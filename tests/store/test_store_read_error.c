/**
 * Tests that a read which fails with EIO is reported as a read error and not as
 * damage. Makes each read of a run file fail once.
 */
#include "tests/support/test.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static int n_reads, failing; /* number of reads so far; number of the read that
                                fails, or 0 */

/* Replaces the function pread64 of the C library, which SQLite calls. */
__attribute__((visibility("default"))) ssize_t pread64(int fd, void *bytes,
                                                       size_t n, off_t at);
ssize_t pread64(int fd, void *bytes, size_t n, off_t at)
{
    if (++n_reads == failing) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, n, at);
}

static es_status read_all(const char *path)
{
    es_reader *r = NULL;
    es_cursor *c = NULL;
    const es_event *events;
    const float *values;
    size_t n;
    int64_t step;
    es_series s;
    es_status status = es_reader_open(&r, path);
    if (status == ES_OK)
        status = es_reader_events(r, 0, &events, &n);
    if (status == ES_OK)
        status = es_cursor_open_run(&c, r, 0);
    while (status == ES_OK)
        status = es_cursor_next_of_run(c, &step, &values, &s);
    es_cursor_close(c);
    es_reader_close(r);
    return status;
}

TEST(a_failing_read_is_not_reported_as_damage)
{
    int n_failed = 0;
    es_write_run(run_db, "x", 120);
    for (failing = 1;; failing++) {
        n_reads = 0;
        const es_status status = read_all(run_db);
        if (n_reads < failing)
            break;
        n_failed += status < 0;
        if (status < 0)
            es_assert_status(ES_EIO, "Input/output error", status);
    }
    failing = 0;
    assert_true(n_failed > 5);
    assert_int_equal(read_all(run_db), ES_DONE);
}

TEST_EACH(es_folder_make, es_folder_remove)
