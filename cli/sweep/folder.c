/* The folder of a sweep: locks, command lines, what an earlier try left, and
 * small text files, none of which is written through a link. */
#include "cli/sweep/folder.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "store/outfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK ".sweep.lock"
#define LINE_MOST ((size_t)1 << 16) /* bytes of a command line */

char *es_sweep_path(const char *folder, const char *name, const char *ending)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s%s", folder, name, ending) >= 0)
        return path;
    es_fail(ES_ENOMEM, "out of memory for a path");
    return NULL;
}

/* --- files ----------------------------------------------------------------*/

/* The files are the sweep's own: a link or a FIFO in the place of one is not
   written through. */
es_status es_sweep_make_way(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0 || S_ISREG(about.st_mode) ||
        S_ISDIR(about.st_mode) || unlink(path) == 0)
        return ES_OK;
    return es_fail(ES_EIO, "%s: cannot remove: %s", path, strerror(errno));
}

es_status es_sweep_write(const char *folder, const char *name,
                         const char *ending, const char *text)
{
    char *path = es_sweep_path(folder, name, ending);
    es_outfile *file = NULL;
    FILE *stream = NULL;
    es_status status;
    if ((status = path ? es_sweep_make_way(path) : ES_ENOMEM) < 0 ||
        (status = es_outfile_open(&file, &stream, path)) < 0)
        goto done;
    fprintf(stream, "%s\n", text);
    status = es_outfile_close(file);
done:
    free(path);
    return status;
}

static bool read_file(char *out, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct stat about;
    ssize_t n = fstat(fd, &about) == 0 && S_ISREG(about.st_mode)
                    ? read(fd, out, size - 1)
                    : -1;
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return n >= 0;
}

bool es_sweep_read(char *out, size_t size, const char *folder, const char *name,
                   const char *ending)
{
    char *path = es_sweep_path(folder, name, ending);
    bool there = path && read_file(out, size, path);
    free(path);
    return there;
}

es_status es_sweep_folder_clear(const char *folder, const char *name,
                                bool goes_on)
{
    static const char *const endings[] = {".end",    ".db.stop", ".db",
                                          ".db-wal", ".db-shm",  ".log"};
    size_t n = goes_on ? 2 : sizeof endings / sizeof *endings;
    for (size_t i = 0; i < n; i++) {
        char *path = es_sweep_path(folder, name, endings[i]);
        if (!path)
            return ES_ENOMEM;
        bool gone = unlink(path) == 0 || errno == ENOENT;
        es_status status = gone ? ES_OK
                                : es_fail(ES_EIO, "%s: cannot remove: %s", path,
                                          strerror(errno));
        free(path);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

/* --- checkpoints ----------------------------------------------------------*/

/* What cannot be listed must not pass for empty: the run would begin again. */
static es_status find_checkpoint(bool *found, const char *path)
{
    static const char ending[] = ".safetensors";
    DIR *directory = opendir(path);
    *found = false;
    if (!directory && errno == ENOENT)
        return ES_OK;
    errno = directory ? 0 : errno;
    for (struct dirent *entry;
         directory && !*found && (entry = readdir(directory));) {
        size_t n = strlen(entry->d_name);
        *found = n >= sizeof ending &&
                 strcmp(entry->d_name + n - (sizeof ending - 1), ending) == 0;
    }
    int reason = *found ? 0 : errno;
    if (directory)
        closedir(directory);
    return reason ? es_fail(ES_EIO, "%s: cannot read the folder: %s", path,
                            strerror(reason))
                  : ES_OK;
}

es_status es_sweep_folder_can_resume(bool *out, const char *folder,
                                     const es_sweep_run *run)
{
    char *file = es_sweep_path(folder, run->name, ".db");
    char *saved = es_sweep_path(folder, run->name, ES_SWEEP_CHECKPOINTS);
    es_status status = file && saved ? ES_OK : ES_ENOMEM;
    *out = false;
    if (status == ES_OK && es_sweep_run_has(run, "--checkpoint-every") &&
        access(file, F_OK) == 0)
        status = find_checkpoint(out, saved);
    free(file);
    free(saved);
    return status;
}

/* --- one sweep at a time --------------------------------------------------*/

static es_status fail_taken(const char *folder, const char *lock)
{
    char text[128];
    if (!read_file(text, sizeof text, lock) || !*text)
        snprintf(text, sizeof text, "another process");
    return es_fail(ES_ELOCKED, "%s: %s runs a sweep there: wait for it to end",
                   folder, text);
}

static es_status sign(int lock, const char *path)
{
    char host[64] = "", text[128];
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(),
                     host);
    if (ftruncate(lock, 0) == 0 && pwrite(lock, text, (size_t)n, 0) == n)
        return ES_OK;
    return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
}

static es_status take_lock(int *lock, const char *path, const char *folder)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat about;
    *lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                 0666);
    if (*lock < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
    if (fstat(*lock, &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_nlink > 1) /* it is emptied */
        return es_fail(ES_EIO, "%s: not a lock file: remove it", path);
    if (fcntl(*lock, F_OFD_SETLK, &whole) == 0)
        return sign(*lock, path);
    return errno == EAGAIN || errno == EACCES
               ? fail_taken(folder, path)
               : es_fail(ES_EIO, "%s: cannot lock: %s", path, strerror(errno));
}

es_status es_sweep_folder_take(int *lock, const char *folder)
{
    *lock = -1;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return es_fail(ES_EIO, "%s: cannot make the folder: %s", folder,
                       strerror(errno));
    char *path = es_sweep_path(folder, LOCK, "");
    es_status status = path ? take_lock(lock, path, folder) : ES_ENOMEM;
    free(path);
    if (status != ES_OK && *lock >= 0) {
        close(*lock);
        *lock = -1;
    }
    return status;
}

es_status es_sweep_folder_take_run(int *lock, const char *folder,
                                   const char *name)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *path = es_sweep_path(folder, name, ".cmd");
    *lock = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
    es_status status = path ? ES_OK : ES_ENOMEM;
    if (path && *lock < 0)
        status = es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
    if (*lock >= 0 && fcntl(*lock, F_OFD_SETLK, &whole) != 0) {
        status =
            errno == EAGAIN || errno == EACCES
                ? es_fail(ES_ELOCKED, "%s/%s: another process trains it",
                          folder, name)
                : es_fail(ES_EIO, "%s: cannot lock: %s", path, strerror(errno));
        close(*lock);
        *lock = -1;
    }
    free(path);
    return status;
}

void es_sweep_folder_holder(char *out, size_t size, const char *folder)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *path = es_sweep_path(folder, LOCK, "");
    /* for writing: some network file systems show locks only then */
    int fd = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 && path) /* somebody else's folder, or one that is read-only */
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *out = '\0';
    if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0 &&
        whole.l_type != F_UNLCK)
        read_file(out, size, path);
    if (fd >= 0)
        close(fd);
    free(path);
}

/* --- the plan -------------------------------------------------------------*/

static es_status check_run(const char *folder, const char *name,
                           const char *command)
{
    char before[LINE_MOST];
    if (es_sweep_read(before, sizeof before, folder, name, ".cmd")) {
        if (strncmp(before, command, sizeof before - 1) == 0)
            return ES_OK;
        return es_fail(ES_EIO,
                       "%s/%s.cmd: this run had another command line: remove "
                       "its files, or take another folder",
                       folder, name);
    }
    char *path = es_sweep_path(folder, name, ".db");
    if (!path)
        return ES_ENOMEM;
    es_status status =
        access(path, F_OK) != 0
            ? ES_OK
            : es_fail(ES_EIO,
                      "%s: not of a sweep: remove it, or take another folder",
                      path);
    free(path);
    return status;
}

static es_status put_run(const char *folder, const char *name,
                         const char *command)
{
    char first[2];
    if (es_sweep_read(first, sizeof first, folder, name, ".cmd"))
        return ES_OK;
    return es_sweep_write(folder, name, ".cmd", command);
}

static es_status each_run(const char *folder, const es_sweep_plan *plan,
                          es_status visit(const char *folder, const char *name,
                                          const char *command))
{
    es_status status = ES_OK;
    for (size_t i = 0; i < plan->n && status == ES_OK; i++) {
        char *command = es_sweep_command_line(&plan->runs[i]);
        status =
            command ? visit(folder, plan->runs[i].name, command) : ES_ENOMEM;
        free(command);
    }
    return status;
}

es_status es_sweep_folder_plan(const char *folder, const es_sweep_plan *plan)
{
    es_status status = each_run(folder, plan, check_run);
    return status == ES_OK ? each_run(folder, plan, put_run) : status;
}

es_status es_sweep_folder_run(es_sweep_plan *out, const char *folder,
                              const char *name)
{
    char *line;
    es_status status = es_alloc(&line, LINE_MOST, 1, "a command line");
    *out = (es_sweep_plan){.n = 0};
    if (status < 0)
        return status;
    bool there = *name && *name != '.' && !strchr(name, '/') &&
                 es_sweep_read(line, LINE_MOST, folder, name, ".cmd");
    status = there ? es_sweep_plan_of_line(out, name, line)
                   : es_fail(ES_EUSAGE, "%s: no run '%.200s' of a sweep",
                             folder, name);
    free(line);
    return status;
}

/* --- what there is --------------------------------------------------------*/

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

es_status es_sweep_folder_list(es_paths *out, const char *folder,
                               const char *ending)
{
    DIR *directory = opendir(folder);
    es_status status = ES_OK;
    if (!directory)
        return es_fail(ES_EIO, "%s: cannot read the folder: %s", folder,
                       strerror(errno));
    for (struct dirent *entry;
         status == ES_OK && (errno = 0, entry = readdir(directory));)
        if (entry->d_name[0] != '.' && es_text_ends(entry->d_name, ending))
            status = es_paths_add(out, entry->d_name);
    if (status == ES_OK && errno)
        status = es_fail(ES_EIO, "%s: cannot read the folder: %s", folder,
                         strerror(errno));
    closedir(directory);
    return status;
}

es_status es_sweep_folder_names(es_paths *out, const char *folder)
{
    es_status status = es_sweep_folder_list(out, folder, ".cmd");
    for (size_t i = 0; i < out->n; i++)
        out->paths[i][strlen(out->paths[i]) - strlen(".cmd")] = '\0';
    if (status == ES_OK && !out->n)
        return es_fail(ES_EIO, "%s: not the folder of a sweep", folder);
    if (status == ES_OK)
        qsort(out->paths, out->n, sizeof *out->paths, by_text);
    return status;
}
