/* Kills writers of fragments and run files, or simulates a power loss of
   fragments, at random moments. Acknowledged data must never be lost, wrong
   data must never be returned, and the next writer must be able to continue the
   run. ESF_KILLS, RUN_KILLS and ESF_POWER_LOSSES set the numbers of
   repetitions. test_store_power.c tests power losses of run files. */
#include "tests/support/chance.h"
#include "tests/support/esf_files.h"
#include "tests/support/test.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

/**
 * Seeds the random numbers with `usual` plus the value of the environment
 * variable SOAK_SEED, or plus 0 if it is not set.
 */
static void seed(uint64_t usual)
{
    chance_seed(usual + (uint64_t)chance_times("SOAK_SEED", 0));
}

/* --- kill -9 -------------------------------------------------------------- */

/**
 * Writes transactions of up to 8 steps, from `step` on, until the process is
 * killed. Closes and reopens the file from time to time.
 */
static void write_until_killed(const char *path, int64_t step,
                               volatile int64_t *acknowledged)
{
    int64_t run;
    es_writer *writer = es_esf_begin(path, step, &run);
    for (int n = 1;; n++) {
        es_esf_commit(writer, step, step + n % 9);
        step += n % 9;
        *acknowledged = step;
        if (n % 64 == 0) {
            es_assert_ok(es_writer_close(writer));
            writer = es_esf_begin(path, step, &run);
        }
    }
}

/** Starts a child that writes, and kills it after a random time. */
static void kill_writer(const char *path, int64_t resumed,
                        volatile int64_t *acknowledged)
{
    const struct timespec nap = {.tv_nsec = chance_below(30000000)};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        write_until_killed(path, resumed, acknowledged);
        _exit(0);
    }
    nanosleep(&nap, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void check_killed_writers(const char *path, long n_kills)
{
    int64_t gap = 0, resumed = 0;
    volatile int64_t *acknowledged =
        mmap(NULL, sizeof *acknowledged, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(acknowledged != MAP_FAILED);
    for (long i = 0; i < n_kills; i++) {
        kill_writer(path, resumed, acknowledged);
        const int64_t least = *acknowledged;
        int64_t n = es_esf_check_file(path, false, &gap);
        if (n < 0) /* the writer was killed before it had created the file */
            assert_int_equal(least, 0);
        else
            assert_true(n == gap && n >= least);
        /* In some rounds the run resumes at an earlier step, as it would from
         * an older checkpoint. */
        resumed = n > 0 ? chance_below(4) ? n : n / 2 : 0;
        if (n > 4000) {
            const char *const beside[] = {"", "-wal", "-shm"};
            for (size_t k = 0; k < 3; k++) {
                char name[4310];
                snprintf(name, sizeof name, "%s%s", path, beside[k]);
                unlink(name);
            }
            resumed = 0;
        }
        *acknowledged = resumed;
    }
    munmap((void *)acknowledged, sizeof *acknowledged);
}

TEST(a_killed_writer_of_a_fragment_loses_nothing_that_it_acknowledged)
{
    seed(20);
    check_killed_writers(es_folder_file(state, "run.esf"),
                         chance_times("ESF_KILLS", 25));
}

TEST(a_killed_writer_of_a_run_file_loses_nothing_that_it_acknowledged)
{
    seed(22);
    check_killed_writers(es_folder_file(state, "run.db"),
                         chance_times("RUN_KILLS", 25));
}

/* --- power losses --------------------------------------------------------- */

#define COMMITS 12
#define BLOCK 512

/**
 * Simulates a power loss after which only the first `safe` of n bytes are known
 * to be on the disk. Each block behind them contains its new contents, zeros or
 * random bytes. Returns the new size.
 */
static size_t lose_power(unsigned char *out, const unsigned char *bytes,
                         size_t n, size_t safe)
{
    const size_t size = safe + chance_below((uint32_t)(n - safe) + 1);
    memcpy(out, bytes, size);
    for (size_t at = safe; at < size;) {
        size_t end = (at / BLOCK + 1) * BLOCK;
        end = end > size ? size : end;
        const uint32_t fate = chance_below(4);
        for (size_t i = at; i < end && fate; i++)
            out[i] = fate == 1   ? bytes[i]
                     : fate == 2 ? 0
                                 : (unsigned char)chance_below(256);
        at = end;
    }
    return size;
}

TEST(a_power_loss_loses_only_unsynced_data)
{
    const long n_losses = chance_times("ESF_POWER_LOSSES", 300);
    const char *path = es_folder_file(state, "run.esf");
    size_t n;
    int64_t gap = 0;
    es_esf_write(path, COMMITS);
    unsigned char *bytes = es_file_read(path, &n), *left = malloc(n);
    assert_non_null(left);
    seed(21);
    long n_beyond = 0;
    for (long i = 0; i < n_losses; i++) {
        es_esf_frame frame;
        uint32_t seed;
        const int synced = 1 + (int)chance_below(COMMITS + 1);
        const size_t safe = es_esf_find(&frame, &seed, bytes, n, synced);
        const int64_t least = 2 * (synced - 1);
        es_file_write(path, left, lose_power(left, bytes, n, safe));
        es_esf_clock_after(bytes, n, 1000);
        int64_t found = es_esf_check_file(path, false, &gap);
        assert_true(found >= least && found == gap);
        es_esf_clock_after(bytes, n, ES_ESF_SETTLED_MS + 60000);
        int64_t later = es_esf_check_file(path, false, &gap);
        assert_true(later >= found && gap >= least);
        n_beyond += later > least;
        if (i % 16)
            continue;
        es_esf_clock_after(bytes, n, 1000);
        int64_t run; /* the next writer must be able to continue the run */
        es_writer *writer = es_esf_begin(path, gap, &run);
        es_esf_commit(writer, found, found + 5);
        es_assert_ok(es_writer_close(writer));
        assert_int_equal(es_esf_check_file(path, false, &gap), found + 5);
        assert_int_equal(gap, found + 5);
    }
    /* The simulation must sometimes keep blocks that were not synced. */
    assert_true(n_beyond >= n_losses / 10);
    es_esf_shift_clock(0);
    free(left);
    free(bytes);
}

TEST_EACH(es_folder_make, es_folder_remove)
