/* Watches the folders of run files with inotify, for watch and serve. */
#include "cli/alerts/watch/changes.h"

#include "analyzer/base/text.h"
#include "cli/output/print.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Reports that inotify cannot watch `object`. This is not an error, because
 * files are still checked at the poll interval. The text of strerror would be
 * misleading: ENOSPC and EMFILE from inotify do not mean a full disk or too
 * many open files. */
static void report_unwatched(const char *object, int error)
{
    es_print_note("%s: changes are noticed only at the next poll: %s", object,
                  error == ENOSPC ? "too many files are watched already: see "
                                    "fs.inotify.max_user_watches"
                  : error == EMFILE
                      ? "too many watchers: see fs.inotify.max_user_instances"
                      : strerror(error));
}

void es_watch_changes_open(es_watch_changes *changes)
{
    *changes =
        (es_watch_changes){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
    if (changes->fd < 0)
        report_unwatched("inotify", errno);
}

void es_watch_changes_close(es_watch_changes *changes)
{
    if (changes->fd >= 0)
        close(changes->fd);
    changes->fd = -1;
}

/* Watches a folder with inotify. A file may have appeared after the round had
 * read the folder and before inotify watched it; therefore a new folder
 * triggers another round. A new folder is recognised by its inotify watch
 * number, because these numbers increase. */
static void watch_folder(es_watch_changes *changes, const char *folder)
{
    const int number =
        inotify_add_watch(changes->fd, folder,
                          IN_MODIFY | IN_CREATE | IN_MOVE | IN_DELETE |
                              IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
    if (number > changes->newest_folder) {
        changes->newest_folder = number;
        changes->has_new_folder = true;
    }
    if (number >= 0 || errno == ENOENT || errno == ENOTDIR)
        return;
    if (!changes->reported)
        report_unwatched(folder, errno);
    changes->reported = true;
}

void es_watch_changes_follow(es_watch_changes *changes,
                             const es_watch_files *files)
{
    if (changes->fd < 0)
        return;
    for (size_t i = 0; i < files->folders.n; i++)
        watch_folder(changes, files->folders.paths[i]);
    for (size_t i = 0; i < files->n_roots; i++) {
        char folder[PATH_MAX] = ".";
        const char *path = files->roots[i], *slash = strrchr(path, '/');
        if (es_path_is_url(path))
            continue;
        size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
        if (n >= sizeof folder)
            continue;
        if (slash) {
            memcpy(folder, path, n);
            folder[n] = '\0';
        }
        watch_folder(changes, folder);
    }
}

/* Changes of the watcher's own files are ignored, because their names begin
 * with a dot or lack the extension of a run file. */
bool es_watch_changes_read(const es_watch_changes *changes)
{
    _Alignas(struct inotify_event) char buffer[16384];
    bool concerned = false;
    ssize_t n;
    while ((n = read(changes->fd, buffer, sizeof buffer)) > 0) {
        const struct inotify_event *event;
        for (const char *next = buffer; next < buffer + n;
             next += sizeof *event + event->len) {
            event = (const void *)next;
            const char *name = event->len ? event->name : "";
            concerned =
                concerned ||
                event->mask & (IN_Q_OVERFLOW | IN_ISDIR | IN_DELETE_SELF |
                               IN_MOVE_SELF | IN_IGNORED) ||
                (name[0] != '.' &&
                 (es_path_is_run(name) || es_text_ends(name, "-wal")));
        }
    }
    return concerned;
}
