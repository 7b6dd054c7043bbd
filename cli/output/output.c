/* Writes output files, which appear complete or not at all, even if a signal
 * ends the process. Also checks the path at which an output is to be
 * written. */
#include "cli/output/output.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/outfile.h"
#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct es_output {
    es_outfile *file;
    char *path; /* path that the user gave */
};

/* Suffixes of the files that a signal handler must remove: the temporary file,
 * the files that SQLite creates next to it, and the writer's lock file. */
static const char *const endings[] = {"", "-wal", "-shm", "-lock"};
enum { N_ENDINGS = sizeof endings / sizeof endings[0] };
static char temporaries[N_ENDINGS][PATH_MAX];
static volatile sig_atomic_t is_open;
static const int fatal[] = {SIGHUP, SIGINT, SIGTERM};

static void remove_temporaries(int first)
{
    for (int i = first; is_open && i < N_ENDINGS; i++)
        unlink(temporaries[i]);
}

static void remove_and_die(int number)
{
    remove_temporaries(0);
    raise(number); /* SA_RESETHAND has restored the default action, which ends
                      the process */
}

/* Handles SIGBUS, which means that another program has truncated the -shm file
 * of a run file that SQLite is writing and has mapped. */
static void remove_and_end(int number)
{
    static const char text[] =
        "entropy-scan: the output is incomplete, because another program "
        "truncated a file in use (the -shm of a run file); try again\n";
    (void)number;
    remove_temporaries(0);
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(es_exit_code(ES_EIO));
}

void es_output_catch_signals(void)
{
    struct sigaction truncated = {.sa_handler = remove_and_end};
    struct sigaction action = {.sa_handler = remove_and_die,
                               .sa_flags = (int)SA_RESETHAND},
                     before;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++)
        /* signals that are already ignored, by nohup or in a background job,
         * stay ignored */
        if (sigaction(fatal[i], NULL, &before) == 0 &&
            before.sa_handler != SIG_IGN)
            sigaction(fatal[i], &action, NULL);
    sigaction(SIGBUS, &truncated, NULL);
    signal(SIGPIPE, SIG_DFL);
}

/* Blocks the signals that end the process. The caller unblocks them when the
 * signal handler knows the name of the temporary file. */
static void hold_signals(sigset_t *before)
{
    sigset_t held;
    sigemptyset(&held);
    for (int i = 0; i < 3; i++)
        sigaddset(&held, fatal[i]);
    sigprocmask(SIG_BLOCK, &held, before);
}

static es_status open_held(es_output **out, FILE **stream, const char *path)
{
    es_output *output;
    es_status status = es_alloc(&output, 1, sizeof *output, "an output");
    if (status < 0)
        return status;
    if ((status = es_copy_text(&output->path, path)) < 0 ||
        (status = es_outfile_open(&output->file, stream, path)) < 0) {
        free(output->path);
        free(output);
        return status;
    }
    const char *temporary = es_outfile_temporary(output->file);
    if (temporary && strlen(temporary) + 8 <= PATH_MAX) {
        for (int i = 0; i < N_ENDINGS; i++)
            snprintf(temporaries[i], PATH_MAX, "%s%s", temporary, endings[i]);
        is_open = 1;
    }
    *out = output;
    return ES_OK;
}

es_status es_output_open(es_output **out, FILE **stream, const char *path)
{
    sigset_t before;
    *out = NULL;
    hold_signals(&before);
    es_status status = open_held(out, stream, path);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

es_status es_output_open_run(es_output **out, es_writer **writer,
                             const char *path)
{
    sigset_t before;
    FILE *stream;
    *out = NULL;
    *writer = NULL;
    hold_signals(&before);
    es_status status;
    if ((status = open_held(out, &stream, path)) == ES_OK) {
        const char *temporary = es_outfile_temporary((*out)->file);
        status = temporary
                     ? es_output_status(
                           *out, es_writer_open(writer, temporary, ES_FAST))
                     : es_fail(ES_EUSAGE,
                               "%s: a run file cannot be a stream: name a file",
                               path);
    }
    if (status < 0) {
        es_output_abandon(*out);
        *out = NULL;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

es_status es_output_status(const es_output *output, es_status status)
{
    return status < 0 ? es_fail(status, "%s: %s", output->path, es_message())
                      : status;
}

bool es_output_is_blamed(const es_output *output)
{
    const char *temporary = es_outfile_temporary(output->file);
    return strncmp(es_message(), temporary, strlen(temporary)) == 0;
}

static void release_output(es_output *output)
{
    is_open = 0;
    free(output->path);
    free(output);
}

es_status es_output_close(es_output *output)
{
    es_status status = es_outfile_close(output->file);
    remove_temporaries(1);
    release_output(output);
    return status;
}

void es_output_abandon(es_output *output)
{
    if (!output)
        return;
    es_outfile_abandon(output->file);
    remove_temporaries(0); /* also removes the write-ahead log, which SQLite
                              keeps if the checkpoint failed */
    release_output(output);
}

es_status es_output_finish(es_output *output, es_status status)
{
    if (status == ES_OK)
        return es_output_close(output);
    es_output_abandon(output);
    return status;
}

bool es_path_is_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

es_status es_output_check(const char *path, char *const *inputs,
                          size_t n_inputs)
{
    if (strcmp(path, "-") == 0)
        return ES_OK;
    for (size_t i = 0; i < n_inputs; i++)
        if (es_path_is_same(inputs[i], path))
            return es_fail(ES_EUSAGE,
                           "%s: is both input and output: choose another name "
                           "for the output",
                           path);
    return ES_OK;
}

/* Returns an error if errno means that an existing file could not be examined,
 * since the file might be one that must not be replaced. Other errors are
 * reported when the output is opened. */
static es_status check_seen(const char *path)
{
    switch (errno) {
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return es_fail(ES_EIO, "%s: cannot examine the existing file: %s", path,
                       strerror(errno));
    default:
        return ES_OK;
    }
}

es_status es_output_check_text(const char *path, char *const *inputs,
                               size_t n_inputs)
{
    static const char magic[16] = "SQLite format 3";
    char head[sizeof magic] = "";
    es_status status = es_output_check(path, inputs, n_inputs);
    if (status < 0 || strcmp(path, "-") == 0)
        return status;
    /* O_NONBLOCK is needed because the path may be a FIFO. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return check_seen(path);
    ssize_t n = pread(fd, head, sizeof head, 0);
    int reason = errno;
    close(fd);
    errno = reason;
    if (n < 0)
        return check_seen(path);
    if (n == (ssize_t)sizeof head && memcmp(head, magic, sizeof magic) == 0)
        return es_fail(ES_EUSAGE,
                       "%s: is a database, which a text or picture must not "
                       "replace: choose another name",
                       path);
    return ES_OK;
}

es_status es_output_check_run_file(const char *path)
{
    static const char *const logs[] = {"-wal", "-journal"};
    char name[PATH_MAX];
    struct stat about;
    es_status status;
    /* Reject the path if the write-ahead log of an earlier database with this
     * name exists, because SQLite would apply that log to the new file. */
    for (int i = 0; i < 2; i++) {
        if (snprintf(name, sizeof name, "%s%s", path, logs[i]) >= PATH_MAX)
            continue;
        if (access(name, F_OK) == 0)
            return es_fail(ES_EIO,
                           "%s: the log of an interrupted writer exists: "
                           "choose another name than %s",
                           name, path);
        if ((status = check_seen(name)) < 0)
            return status;
    }
    if (stat(path, &about) != 0)
        return check_seen(path);
    if (S_ISREG(about.st_mode) && about.st_size == 0)
        return ES_OK;
    es_reader *reader = NULL;
    if (es_reader_open(&reader, path) < 0)
        return es_fail(
            ES_EIO,
            "%s: exists already, and is not a run file: choose another name",
            path);
    bool written;
    status = es_reader_is_written(reader, &written);
    es_reader_close(reader);
    if (status == ES_OK && written)
        return es_fail(ES_ELOCKED, "%s: is being written: choose another name",
                       path);
    return ES_OK;
}
