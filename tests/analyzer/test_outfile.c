/** Tests output files: they appear whole or not at all. */
#include "analyzer/base/outfile.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static es_status put(const char *path, const char *text)
{
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_status status = es_outfile_open(&file, &stream, path);
    if (status < 0)
        return status;
    fputs(text, stream);
    return es_outfile_close(file);
}

static void assert_content(const char *path, const char *text)
{
    size_t n;
    AUTO_FREE unsigned char *bytes = es_file_read(path, &n);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, n);
}

/** Returns the number of entries in a folder. */
static int count_files(const char *path)
{
    int n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(folder);
    return n;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

TEST(a_file_appears_when_closed)
{
    const char *path = es_folder_file(state, "out.csv");
    es_outfile *file = NULL;
    FILE *stream = NULL;
    mode_t mask = umask(027);
    es_assert_ok(es_outfile_open(&file, &stream, path));
    fputs("one", stream);
    assert_false(es_file_exists(path));
    assert_true(es_file_exists(es_outfile_temporary(file)));
    es_assert_ok(es_outfile_close(file));
    umask(mask);
    assert_content(path, "one");
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(chmod(path, 0604), 0);
    es_assert_ok(put(path, "two"));
    assert_content(path, "two");
    assert_int_equal(mode_of(path), 0604);
    assert_int_equal(count_files(*state), 1);
}

TEST(abandoning_leaves_the_old_file)
{
    const char *path = es_folder_file(state, "out.csv");
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_file_write(path, "old", 3);
    es_assert_ok(es_outfile_open(&file, &stream, path));
    fputs("new", stream);
    es_outfile_abandon(file);
    es_outfile_abandon(NULL);
    assert_content(path, "old");
    assert_int_equal(count_files(*state), 1);
}

TEST(paths_that_cannot_be_written_are_refused)
{
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[299] = '\0';
    es_assert_status(ES_EIO, "is a directory", put(*state, "x"));
    es_assert_status(ES_EIO, "No such file or directory",
                     put(es_folder_file(state, "no/such/out"), "x"));
    es_assert_status(ES_EIO, "too long",
                     put(es_folder_file(state, long_name), "x"));
    es_assert_status(ES_EIO, "no output file given", put("", "x"));
    const char *loop = es_folder_file(state, "loop");
    assert_int_equal(symlink("loop", loop), 0);
    es_assert_status(ES_EIO, "Too many levels of symbolic links",
                     put(loop, "x"));
    assert_int_equal(count_files(*state), 1);
}

TEST(a_place_without_permission_is_refused)
{
    const char *path = es_folder_file(state, "out");
    const char *fresh = es_folder_file(state, "new");
    es_file_write(path, "old", 3);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(*state, 0555), 0);
    pid_t child = fork();
    if (child == 0) { /* tests as another user, because root may write
                         everywhere */
        if (geteuid() == 0 && seteuid(65534) != 0)
            _exit(2);
        _exit(put(path, "x") != ES_EIO || put(fresh, "x") != ES_EIO ||
              !strstr(es_message(), "Permission denied"));
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_content(path, "old");
}

TEST(links_are_followed)
{
    const char *link = es_folder_file(state, "link");
    const char *chain = es_folder_file(state, "chain");
    const char *target = es_folder_file(state, "folder/target");
    assert_int_equal(mkdir(es_folder_file(state, "folder"), 0777), 0);
    assert_int_equal(symlink("folder/target", link), 0);
    assert_int_equal(symlink(link, chain), 0);
    es_assert_ok(put(chain, "first")); /* the link's target does not exist
                                          yet */
    assert_content(target, "first");
    es_assert_ok(put(link, "second"));
    assert_content(target, "second");
    struct stat st;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(count_files(es_folder_file(state, "folder")), 1);
}

TEST(devices_and_fifos_are_written)
{
    const char *fifo = es_folder_file(state, "fifo");
    char text[16] = "";
    es_assert_ok(put("/dev/null", "x"));
    es_assert_status(ES_EIO, "/dev/full: cannot write: No space left",
                     put("/dev/full", "x"));
    assert_int_equal(mkfifo(fifo, 0666), 0);
    es_assert_status(ES_EIO, "fifo: a FIFO without a reader", put(fifo, "x"));
    int fd = open(fifo, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    es_assert_ok(put(fifo, "through"));
    assert_int_equal(read(fd, text, sizeof text), 7);
    assert_string_equal(text, "through");
    close(fd);
    struct stat st;
    assert_int_equal(lstat(fifo, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/**
 * Calls put in a child process whose standard output is `fd`, and returns the
 * child's exit status.
 */
static int put_in_child(int fd, const char *path, const char *words)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGPIPE, SIG_IGN);
        fflush(stdout);
        if (dup2(fd, STDOUT_FILENO) < 0)
            _exit(9);
        es_status status = put(path, "to standard output\n");
        bool said = status == ES_OK || strstr(es_message(), words);
        _exit(said ? -status : 8);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return -WEXITSTATUS(result);
}

TEST(a_dash_is_standard_output)
{
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1",
                                        "/proc/self/fd/1"};
    const char *path = es_folder_file(state, "captured");
    for (int i = 0; i < 4; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "already there\n", 14), 14);
        es_assert_ok(put_in_child(fd, names[i], ""));
        close(fd);
        assert_content(path, "already there\nto standard output\n");
        int full = open("/dev/full", O_WRONLY);
        assert_int_equal(put_in_child(full, names[i], "No space left"), ES_EIO);
        close(full);
    }
    assert_int_equal(count_files(*state), 1);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(
        put_in_child(ends[1], "-", "standard output: cannot write: Broken"),
        ES_EIO);
    close(ends[1]);
    es_assert_status(ES_EIO, "cannot write: Bad file descriptor",
                     put("/dev/fd/999", "x"));
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_assert_ok(es_outfile_open(&file, &stream, "-"));
    assert_null(es_outfile_temporary(file));
    assert_ptr_equal(stream, stdout);
    es_outfile_abandon(file);
}

/* A limit on file sizes simulates a full disk. It leads to the same code path
   and can be set without privileges. */
TEST(a_full_disk_leaves_the_old_file)
{
    const char *path = es_folder_file(state, "out");
    es_file_write(path, "old", 3);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {10000, 10000};
        es_outfile *file = NULL;
        FILE *stream = NULL;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (es_outfile_open(&file, &stream, path) < 0)
            _exit(1);
        for (int i = 0; i < 100000; i++)
            fputc('x', stream);
        bool failed = es_outfile_close(file) == ES_EIO &&
                      strstr(es_message(), "out: cannot write");
        _exit(failed ? 0 : 2);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_content(path, "old");
    assert_int_equal(count_files(*state), 1);
}

/* --- files left by killed processes -------------------------------------- */

/* Writes the file "out" after a file in another folder, because a thread does
   not remove leftover files from the same folder twice in succession. */
static void put_anew(void **state)
{
    const char *other = es_folder_file(state, "other");
    assert_true(mkdir(other, 0700) == 0 || errno == EEXIST);
    es_assert_ok(put(es_folder_file(state, "other/x"), "x"));
    es_assert_ok(put(es_folder_file(state, "out"), "new"));
}

/* Starts a process that begins to write `path` and then waits until it is
 * killed. */
static pid_t begin_writing(const char *path)
{
    int ends[2];
    char ready;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        es_outfile *file = NULL;
        FILE *stream = NULL;
        alarm(ES_PATIENCE_S); /* ends the child if the test fails */
        if (es_outfile_open(&file, &stream, path) < 0 ||
            write(ends[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void kill_it(pid_t child)
{
    int result;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &result, 0), child);
}

TEST(files_of_killed_processes_are_removed)
{
    pid_t alive;
    kill_it(begin_writing(es_folder_file(state, "out")));
    assert_int_equal(count_files(*state), 1);
    es_file_write(es_folder_file(state, ".entropy-scan.abc012"), "x", 1);
    es_file_write(es_folder_file(state, ".entropy-scan.abc012-wal"), "x", 1);
    es_file_write(es_folder_file(state, ".entropy-scan.abc012-lock"), "x", 1);
    alive = begin_writing(es_folder_file(state, "picture"));
    put_anew(state);
    /* the remaining entries are "out", "other" and the temporary file for
     * "picture" */
    assert_int_equal(count_files(*state), 3);
    kill_it(alive);
    put_anew(state);
    assert_int_equal(count_files(*state), 2);
    assert_content(es_folder_file(state, "out"), "new");
}

TEST(no_other_file_counts_as_left_over)
{
    static const char *const names[] = {
        ".entropy-scan.abcde",   ".entropy-scan.abcdefg",
        ".entropy-scan.abcdeF",  ".entropy-scan.abcde6",
        ".entropy-scan.abcdef~", "entropy-scan.abcdef",
        ".entropy-scan.linked",  "another-name-of-it",
        ".entropy-scan.fifoaa",  ".entropy-scan.folder",
        ".entropy-scan.symlin",  ".entropy-scan.others"};
    const int n = sizeof names / sizeof *names;
    for (int i = 0; i < 7; i++)
        es_file_write(es_folder_file(state, names[i]), "x", 1);
    char *to = es_folder_file(state, names[7]);
    assert_int_equal(link(es_folder_file(state, names[6]), to), 0);
    assert_int_equal(mkfifo(es_folder_file(state, names[8]), 0600), 0);
    assert_int_equal(mkdir(es_folder_file(state, names[9]), 0700), 0);
    assert_int_equal(symlink(names[0], es_folder_file(state, names[10])), 0);
    es_file_write(es_folder_file(state, names[11]), "x", 1);
    bool root = chown(es_folder_file(state, names[11]), 65534, 65534) == 0;
    put_anew(state);
    assert_int_equal(count_files(*state), n - !root + 2);
}

TEST_EACH(es_folder_make, es_folder_remove)
