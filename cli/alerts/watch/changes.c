/* Waits for changes below the watched folders, with inotify. A watcher works
 * without it, by the clock alone; so failures are notes, reported once. */
#include "cli/alerts/watch/changes.h"

#include "analyzer/base/text.h"
#include "cli/output/print.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* What the system means by ENOSPC and EMFILE is no disk and no file. */
static const char *reason(int error)
{
    switch (error) {
    case ENOSPC:
        return "too many are watched already: see fs.inotify.max_user_watches";
    case EMFILE:
        return "too many watchers: see fs.inotify.max_user_instances";
    default:
        return strerror(error);
    }
}

int es_changes_open(void)
{
    int bell = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (bell < 0)
        es_print_note("inotify: changes are seen at the next poll only: %s",
                      reason(errno));
    return bell;
}

static void watch(int bell, const char *folder, bool *reported)
{
    if (inotify_add_watch(bell, folder,
                          IN_MODIFY | IN_CREATE | IN_MOVE | IN_DELETE |
                              IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR) >= 0)
        return;
    if (!*reported && errno != ENOENT && errno != ENOTDIR)
        es_print_note("%s: changes are seen at the next poll only: %s", folder,
                      reason(errno));
    *reported = *reported || (errno != ENOENT && errno != ENOTDIR);
}

/* A file that the user named: its folder may be none of those walked. */
static void watch_folder_of(int bell, const char *path, bool *reported)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    if (n >= sizeof folder)
        return;
    memcpy(folder, slash ? path : ".", n);
    folder[n] = '\0';
    watch(bell, folder, reported);
}

void es_changes_watch(int bell, const es_watch_files *files, bool *reported)
{
    if (bell < 0)
        return;
    for (size_t i = 0; i < files->folders.n; i++)
        watch(bell, files->folders.paths[i], reported);
    for (size_t i = 0; i < files->n_roots; i++)
        watch_folder_of(bell, files->roots[i], reported);
}

/* Our own files begin with a dot, or are none of these. */
static bool concerns_us(const struct inotify_event *event)
{
    const char *name = event->len ? event->name : "";
    if (event->mask &
        (IN_Q_OVERFLOW | IN_ISDIR | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED))
        return true;
    return name[0] != '.' &&
           (es_text_ends(name, ".db") || es_text_ends(name, "-wal"));
}

bool es_changes_read(int bell)
{
    _Alignas(struct inotify_event) char buffer[16384];
    bool rings = false;
    ssize_t n;
    while ((n = read(bell, buffer, sizeof buffer)) > 0) {
        const char *next = buffer;
        while (next < buffer + n) {
            const struct inotify_event *event = (const void *)next;
            rings = rings || concerns_us(event);
            next += sizeof *event + event->len;
        }
    }
    return rings;
}
