/* Manages the folder of a sweep: takes locks, stores and reads command lines,
 * removes the files of an earlier attempt, and reads and writes small text
 * files. No file is written through a link. */
#include "cli/sweep/folder.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/outfile.h"
#include "analyzer/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK ".sweep.lock"
/* Maximum length of a command line in bytes. */
#define LINE_MOST ((size_t)1 << 16)

es_sweep_file es_sweep_path(const char *folder, const char *name,
                            const char *ending)
{
    es_sweep_file file;
    snprintf(file.path, sizeof file.path, "%s/%s%s", folder, name, ending);
    return file;
}

es_sweep_file es_sweep_run_file(const char *folder, const char *name)
{
    es_sweep_file file = es_sweep_path(folder, name, ".db");
    es_sweep_file fragment = es_sweep_path(folder, name, ".esf");
    return access(file.path, F_OK) != 0 && access(fragment.path, F_OK) == 0
               ? fragment
               : file;
}

/* --- files ----------------------------------------------------------------*/

/* Removes a link or FIFO at the path of a sweep's file, so that the sweep does
 * not write through it. */
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
    es_sweep_file file = es_sweep_path(folder, name, ending);
    es_outfile *output = NULL;
    FILE *stream = NULL;
    es_status status;
    if ((status = es_sweep_make_way(file.path)) < 0 ||
        (status = es_outfile_open(&output, &stream, file.path)) < 0)
        return status;
    fprintf(stream, "%s\n", text);
    return es_outfile_close(output);
}

bool es_sweep_read(char *out, size_t size, const char *folder, const char *name,
                   const char *ending)
{
    int fd = open(es_sweep_path(folder, name, ending).path,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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

es_status es_sweep_folder_clear(const char *folder, const char *name,
                                bool goes_on)
{
    static const char *const endings[] = {".end", ".db.stop", ".esf.stop",
                                          ".db",  ".db-wal",  ".db-shm",
                                          ".esf", ".log"};
    size_t n = goes_on ? 3 : sizeof endings / sizeof *endings;
    for (size_t i = 0; i < n; i++) {
        es_sweep_file file = es_sweep_path(folder, name, endings[i]);
        if (unlink(file.path) != 0 && errno != ENOENT)
            return es_fail(ES_EIO, "%s: cannot remove: %s", file.path,
                           strerror(errno));
    }
    return ES_OK;
}

/* Checks whether the run has a checkpoint. Fails if the folder cannot be
 * listed, because the run would otherwise be trained from the beginning
 * although it may have a checkpoint. */
es_status es_sweep_folder_can_resume(bool *out, const char *folder,
                                     const es_sweep_run *run)
{
    es_sweep_file file = es_sweep_run_file(folder, run->name);
    es_sweep_file saved =
        es_sweep_path(folder, run->name, ES_SWEEP_CHECKPOINTS);
    *out = false;
    if (!es_sweep_run_has(run, "--checkpoint-every") ||
        access(file.path, F_OK) != 0)
        return ES_OK;
    DIR *directory = opendir(saved.path);
    if (!directory && errno == ENOENT)
        return ES_OK;
    errno = directory ? 0 : errno;
    for (struct dirent *entry;
         directory && !*out && (entry = readdir(directory));)
        *out = strlen(entry->d_name) > strlen(".safetensors") &&
               es_text_ends(entry->d_name, ".safetensors");
    int reason = *out ? 0 : errno;
    if (directory)
        closedir(directory);
    return reason ? es_fail(ES_EIO, "%s: cannot read the folder: %s",
                            saved.path, strerror(reason))
                  : ES_OK;
}

/* --- locks ---------------------------------------------------------------- */

/* Locks the folder, and writes process id and host into the lock file, so that
 * other sweeps can report them. */
static es_status take_lock(int *lock, const char *folder)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    es_sweep_file file = es_sweep_path(folder, LOCK, "");
    const char *path = file.path;
    struct stat about;
    char host[64] = "", text[128];
    *lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                 0666);
    if (*lock < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
    if (fstat(*lock, &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_nlink > 1) /* a file with a second hard link is refused,
                               because truncating it would also erase the
                               contents of the other path */
        return es_fail(ES_EIO, "%s: not a lock file: remove it", path);
    if (fcntl(*lock, F_OFD_SETLK, &whole) != 0) {
        if (errno != EAGAIN && errno != EACCES)
            return es_fail(ES_EIO, "%s: cannot lock: %s", path,
                           strerror(errno));
        if (!es_sweep_read(text, sizeof text, folder, LOCK, "") || !*text)
            snprintf(text, sizeof text, "another process");
        return es_fail(
            ES_ELOCKED,
            "%s: %s is running a sweep in this folder: wait until it ends",
            folder, text);
    }
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(),
                     host);
    if (ftruncate(*lock, 0) == 0 && pwrite(*lock, text, (size_t)n, 0) == n)
        return ES_OK;
    return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
}

es_status es_sweep_folder_take_run(int *lock, const char *folder,
                                   const char *name)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    es_sweep_file file = es_sweep_path(folder, name, ".cmd");
    *lock = open(file.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (*lock < 0)
        return es_fail(ES_EIO, "%s: cannot write: %s", file.path,
                       strerror(errno));
    if (fcntl(*lock, F_OFD_SETLK, &whole) == 0)
        return ES_OK;
    es_status status =
        errno == EAGAIN || errno == EACCES
            ? es_fail(ES_ELOCKED, "%s/%s: another process is training this run",
                      folder, name)
            : es_fail(ES_EIO, "%s: cannot lock: %s", file.path,
                      strerror(errno));
    close(*lock);
    *lock = -1;
    return status;
}

void es_sweep_folder_holder(char *out, size_t size, const char *folder)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    es_sweep_file file = es_sweep_path(folder, LOCK, "");
    /* opened for writing, because some network file systems report locks only
     * to writers */
    int fd = open(file.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) /* the folder is read-only or belongs to another user */
        fd = open(file.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *out = '\0';
    if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0 &&
        whole.l_type != F_UNLCK)
        es_sweep_read(out, size, folder, LOCK, "");
    if (fd >= 0)
        close(fd);
}

/* --- the plan -------------------------------------------------------------*/

/* Compares the command line of a run with the stored command line. If none is
 * stored and `write` is true, stores the command line. */
static es_status put_run(const char *folder, const es_sweep_run *run,
                         bool write)
{
    char before[LINE_MOST];
    bool there =
        es_sweep_read(before, sizeof before, folder, run->name, ".cmd");
    if (there && write)
        return ES_OK;
    char *command = es_sweep_command_line(run);
    es_status status = command ? ES_OK : ES_ENOMEM;
    es_sweep_file file = es_sweep_run_file(folder, run->name);
    if (command && write)
        status = es_sweep_write(folder, run->name, ".cmd", command);
    else if (command && there &&
             strncmp(before, command, sizeof before - 1) != 0)
        status = es_fail(ES_EIO,
                         "%s/%s.cmd: this run had another command line: remove "
                         "its files, or choose another folder",
                         folder, run->name);
    else if (command && !there && access(file.path, F_OK) == 0)
        status = es_fail(ES_EIO,
                         "%s: does not belong to a sweep: remove it, or choose "
                         "another folder",
                         file.path);
    free(command);
    return status;
}

es_status es_sweep_folder_take(int *lock, const char *folder,
                               const es_sweep_plan *plan)
{
    *lock = -1;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return es_fail(ES_EIO, "%s: cannot make the folder: %s", folder,
                       strerror(errno));
    es_status status = take_lock(lock, folder);
    for (int write = 0; write < 2; write++)
        for (size_t i = 0; i < plan->n && status == ES_OK; i++)
            status = put_run(folder, &plan->runs[i], write);
    return status;
}

es_status es_sweep_folder_run(es_sweep_plan *out, const char *folder,
                              const char *name)
{
    char line[LINE_MOST];
    *out = (es_sweep_plan){.n = 0};
    if (!*name || *name == '.' || strchr(name, '/') ||
        !es_sweep_read(line, sizeof line, folder, name, ".cmd"))
        return es_fail(ES_EUSAGE, "%s: the sweep has no run '%.200s'", folder,
                       name);
    return es_sweep_plan_of_line(out, name, line);
}

bool es_sweep_folder_is_command(const char *folder, const char *name)
{
    char line[64];
    return es_sweep_read(line, sizeof line, folder, name, ".cmd") &&
           es_sweep_line_is_command(line);
}

/* --- listing -------------------------------------------------------------- */

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
        es_paths_sort(out);
    return status;
}
