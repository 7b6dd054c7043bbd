/* Writes the output files of all programs. Each file is written to a temporary
   file in the same folder, synced and renamed, so that it appears completely or
   not at all. A file that cannot be replaced by renaming (a terminal, a FIFO,
   /dev/fd/N) is written directly. */
#include "analyzer/base/outfile.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/leftover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct es_outfile {
    FILE *stream;
    char *path;      /* path of the final file, with links resolved */
    char *temporary; /* path of the temporary file; NULL if `stream` writes
                        directly to `path` */
    int held; /* descriptor of the temporary file, or -1. It stays open until
                 the file has its final name, because other processes remove a
                 temporary file that no process has open */
};

#define N_TRIES 100 /* number of attempts to find an unused name */
/* Maximum number of links that are followed; the kernel has the same limit. */
#define MAX_LINKS 40

/**
 * Returns the length of the path's directory including its last slash; 0 if the
 * path has no directory.
 */
static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/** Replaces *path, which names a symbolic link, by the link's target. */
static es_status follow_link(char **path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(*path, target, sizeof target - 1);
    if (n < 0)
        return es_fail(ES_EIO, "%s: cannot read the link: %s", *path,
                       strerror(errno));
    target[n] = '\0';
    size_t stem = target[0] == '/' ? 0 : directory_length(*path);
    char *joined;
    es_status status = es_alloc(&joined, stem + (size_t)n + 1, 1, "a path");
    if (status < 0)
        return status;
    memcpy(joined, *path, stem);
    memcpy(joined + stem, target, (size_t)n + 1);
    free(*path);
    *path = joined;
    return ES_OK;
}

/**
 * Follows symbolic links to the file itself, so that renaming replaces the file
 * and not the link. The file need not exist.
 */
static es_status follow_links(char **path)
{
    struct stat st;
    for (int i = 0; i < MAX_LINKS; i++) {
        if (lstat(*path, &st) != 0 || !S_ISLNK(st.st_mode))
            return ES_OK;
        es_status status = follow_link(path);
        if (status < 0)
            return status;
    }
    return es_fail(ES_EIO, "%s: too many symbolic links", *path);
}

/**
 * If the path names an open descriptor, such as /dev/fd/3, returns the
 * descriptor; otherwise returns -1.
 */
static int named_descriptor(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) == 0 && path[n] >= '0' &&
            path[n] <= '9')
            return (int)strtol(path + n, NULL, 10);
    }
    return -1;
}

/**
 * Opens a device, or a FIFO that has a reader. Uses O_NONBLOCK, because opening
 * a FIFO that has no reader would otherwise block, and no signal would end the
 * wait.
 */
static int open_special(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fcntl(fd, F_SETFL, O_WRONLY) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/** Writes directly to `fd`, because the file cannot be replaced by renaming. */
static es_status write_directly(es_outfile *file, int fd)
{
    if (fd < 0 && errno == ENXIO)
        return es_fail(ES_EIO,
                       "%s: a FIFO without a reader: start its reader first",
                       file->path);
    if (fd < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", file->path,
                       strerror(errno));
    file->stream = fdopen(fd, "w");
    if (file->stream)
        return ES_OK;
    int reason = errno; /* EINVAL means that `fd` is open only for reading */
    close(fd);
    return es_fail(ES_EIO, "%s: cannot write: %s", file->path,
                   strerror(reason));
}

/** Writes ES_TEMPORARY_N random characters to `name`. */
static bool write_random_name(char *name)
{
    static const char letters[] = ES_TEMPORARY_LETTERS;
    unsigned char random[ES_TEMPORARY_N];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        name[i] = letters[random[i] % 32];
    return true;
}

/** Creates a temporary file in the folder of file->path, with mode 0666
 *  minus the umask. */
static int create_beside(es_outfile *file)
{
    static const char name[] = ES_TEMPORARY_PREFIX;
    size_t stem = directory_length(file->path);
    size_t length = stem + sizeof name - 1;
    file->temporary = calloc(length + ES_TEMPORARY_N + 1, 1);
    if (!file->temporary)
        return -1;
    memcpy(file->temporary, file->path, stem);
    memcpy(file->temporary + stem, name, sizeof name - 1);
    for (int i = 0; i < N_TRIES; i++) {
        if (!write_random_name(file->temporary + length))
            return -1;
        int fd = open(file->temporary,
                      O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/**
 * Copies the path of the folder that contains the file to `out`. Returns false
 * if the path is too long.
 */
static bool folder_of(char out[PATH_MAX], const char *path)
{
    size_t n = directory_length(path);
    if (n >= PATH_MAX)
        return false;
    strcpy(out, ".");
    if (n > 0) {
        memcpy(out, path, n);
        out[n] = '\0';
    }
    return true;
}

static es_status open_beside(es_outfile *file, const struct stat *existing)
{
    char folder[PATH_MAX];
    if (folder_of(folder, file->path))
        es_leftover_remove(folder);
    int fd = create_beside(file);
    if (fd >= 0)
        file->held = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (file->held < 0) {
        int reason = errno;
        if (fd >= 0) {
            close(fd);
            unlink(file->temporary);
        }
        free(file->temporary);
        file->temporary = NULL;
        return es_fail(ES_EIO, "%s: cannot create a file in its directory: %s",
                       file->path, strerror(reason));
    }
    /* A failure is ignored, because some file systems have no permission
     * bits. */
    if (existing && fchmod(fd, existing->st_mode & 0777) != 0)
        errno = 0;
    file->stream = fdopen(fd, "w");
    if (!file->stream) {
        close(fd);
        return es_fail(ES_ENOMEM, "out of memory");
    }
    return ES_OK;
}

static es_status open_path(es_outfile *file)
{
    struct stat st;
    int fd = named_descriptor(file->path);
    if (fd >= 0) /* duplicates the descriptor, because opening the file again
                    would truncate it */
        return write_directly(file, fcntl(fd, F_DUPFD_CLOEXEC, 0));
    /* stat() is called before the links are followed, because the kernel
     * refuses some links, for example those of other users in /tmp. */
    bool exists = stat(file->path, &st) == 0;
    if (!exists && errno != ENOENT)
        return es_fail(ES_EIO, "%s: cannot write: %s", file->path,
                       strerror(errno));
    es_status status = follow_links(&file->path);
    if (status < 0)
        return status;
    if (!exists)
        return open_beside(file, NULL);
    if (S_ISDIR(st.st_mode))
        return es_fail(ES_EIO,
                       "%s: is a directory: name a file in the directory",
                       file->path);
    if (!S_ISREG(st.st_mode))
        return write_directly(file, open_special(file->path));
    if (access(file->path, W_OK) != 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", file->path,
                       strerror(errno));
    return open_beside(file, &st);
}

es_status es_outfile_open(es_outfile **out, FILE **stream, const char *path)
{
    *out = NULL;
    *stream = NULL;
    if (!path[0])
        return es_fail(ES_EIO, "no output file given");
    es_outfile *file;
    es_status status = es_alloc(&file, 1, sizeof *file, "an output file");
    if (status < 0)
        return status;
    file->held = -1;
    bool is_standard =
        strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
    if ((status = es_copy_text(&file->path, path)) < 0 ||
        (!is_standard && (status = open_path(file)) < 0)) {
        es_outfile_abandon(file);
        return status;
    }
    if (is_standard)
        file->stream = stdout;
    *out = file;
    *stream = file->stream;
    return ES_OK;
}

/**
 * Calls fsync. Also returns 0 if descriptors of this kind cannot be synced, as
 * for a pipe and on some file systems.
 */
static int sync_descriptor(int fd)
{
    if (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS)
        return 0;
    return -1;
}

/** Syncs the file's directory, so that the file's new name survives a crash. */
static int sync_directory(const char *path)
{
    char name[PATH_MAX];
    if (!folder_of(name, path))
        return 0;
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* a directory without read permission cannot be synced */
    int failed = sync_descriptor(fd);
    int reason = errno;
    close(fd);
    errno = reason;
    return failed;
}

/**
 * Returns the errno of an earlier failed write. stdio does not keep this errno,
 * so the function writes again to get the error again.
 */
static int find_reason(const es_outfile *file)
{
    int fd = fileno(file->stream);
    const bool own = file->temporary && lseek(fd, 0, SEEK_END) >= 0;
    if ((own || file->stream == stdout) && write(fd, "\n", 1) < 0)
        return errno;
    return EIO;
}

/** Flushes the stream to the disk. Returns 0, or an errno on failure. */
static int finish_stream(es_outfile *file)
{
    bool standard = file->stream == stdout;
    int reason = ferror(file->stream) ? find_reason(file) : 0;
    if (fflush(file->stream) != 0 && (reason == 0 || reason == EIO))
        reason = errno;
    if (!standard && !reason && sync_descriptor(fileno(file->stream)) != 0)
        reason = errno;
    if (!standard && fclose(file->stream) != 0 && !reason)
        reason = errno;
    file->stream = NULL;
    return reason;
}

es_status es_outfile_close(es_outfile *file)
{
    const char *shown = file->stream == stdout ? "standard output" : file->path;
    es_status status = ES_OK;
    int reason = finish_stream(file);
    if (reason) {
        status =
            es_fail(ES_EIO, "%s: cannot write: %s", shown, strerror(reason));
    } else if (file->temporary && rename(file->temporary, file->path) != 0) {
        status = es_fail(ES_EIO, "%s: cannot replace the file: %s", shown,
                         strerror(errno));
    } else if (file->temporary) {
        free(file->temporary);
        file->temporary = NULL;
        if (sync_directory(file->path) != 0)
            status = es_fail(ES_EIO, "%s: cannot sync its directory: %s", shown,
                             strerror(errno));
    }
    es_outfile_abandon(file);
    return status;
}

void es_outfile_abandon(es_outfile *file)
{
    if (!file)
        return;
    if (file->stream && file->stream != stdout)
        fclose(file->stream);
    if (file->temporary)
        es_leftover_unlink(AT_FDCWD, file->temporary);
    if (file->held >= 0)
        close(file->held);
    free(file->temporary);
    free(file->path);
    free(file);
}

const char *es_outfile_temporary(const es_outfile *file)
{
    return file->temporary;
}

es_status es_outfile_finish(es_outfile *file, es_status status)
{
    if (status == ES_OK)
        return es_outfile_close(file);
    es_outfile_abandon(file);
    return status;
}
