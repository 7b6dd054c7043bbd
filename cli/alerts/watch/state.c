/* Chooses the state file of a watcher. Each user has a folder with one state
 * file for each watched folder. So two watchers of one user on one folder share
 * a state file, and watchers of different users never do. */
#include "cli/alerts/watch/watcher.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Name of the state file of versions up to 0.1.0, which lies in the watched
 * folder. */
#define BEFORE ".entropy-watch.db"
/* Maximum number of bytes of the folder's name that appear in the state file's
 * name. */
#define READABLE 40

/* Returns a hash (FNV-1a with additional mixing) that is never 0. The function
 * must not change, because names of existing state files depend on it. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash ? hash : 1;
}

void es_state_name(char out[ES_STATE_NAME_MAX], const char *host,
                   const char *folder)
{
    char readable[READABLE + 1] = "";
    const char *base = strrchr(folder, '/') + 1;
    snprintf(readable, sizeof readable, "%s", *base ? base : "root");
    for (char *c = readable; *c; c++)
        if ((!isalnum((unsigned char)*c) && !strchr("-_.", *c)) ||
            (c == readable && *c == '.'))
            *c = '_';
    snprintf(out, ES_STATE_NAME_MAX, "%s-%08" PRIx32 "%016" PRIx64 ".state",
             readable, (uint32_t)hash_of(host), hash_of(folder));
}

static es_status base_folder(char *out, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (state && state[0] == '/')
        n = snprintf(out, size, "%s", state);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.local/state", home);
    else
        return es_fail(ES_EUSAGE,
                       "no folder for the state file, because neither "
                       "XDG_STATE_HOME nor HOME is set to a path: add "
                       "--state FILE");
    return n < (int)size ? ES_OK
                         : es_fail(ES_EIO, "XDG_STATE_HOME or HOME: %s",
                                   strerror(ENAMETOOLONG));
}

/* Creates the folder and its parents. A NUL temporarily replaces the slash
 * after each parent. */
static es_status make_folders(char *path)
{
    for (char *end = path; end;) {
        end = strchr(end + 1, '/');
        if (end)
            *end = '\0';
        if (mkdir(path, 0700) != 0 && !es_path_is_folder(path))
            return es_fail(
                ES_EIO,
                "%s: cannot create the folder for the state file (%s): "
                "add --state FILE",
                path, strerror(errno));
        if (end)
            *end = '/';
    }
    return ES_OK;
}

static es_status check_private(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0)
        return es_fail(ES_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid())
        return es_fail(ES_EIO,
                       "%s: not a folder that belongs to this user: add "
                       "--state FILE",
                       path);
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return es_fail(ES_EIO,
                       "%s: other users may write to it: chmod 700 it, or add "
                       "--state FILE",
                       path);
    return ES_OK;
}

/* Resolves links in the path of a folder, or of the folder that contains a
 * file. The file need not exist yet. */
static es_status watched_folder(char out[PATH_MAX], const char *root)
{
    char parent[PATH_MAX + 1]; /* one byte longer than PATH_MAX, so that
                                  realpath refuses a path that was truncated */
    const char *slash = strrchr(root, '/');
    if (es_path_is_url(root)) {
        snprintf(out, PATH_MAX, "%s", root);
        return ES_OK;
    }
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - root) + 1 : 1,
             slash ? root : ".");
    return realpath(es_path_is_folder(root) ? root : parent, out)
               ? ES_OK
               : es_fail(ES_EIO, "%s: cannot read: %s", root, strerror(errno));
}

es_status es_state_choose(char **out, const char *root)
{
    /* Both folders are checked, because a user who can write to the parent
     * folder could replace the subfolder. */
    static const char *const ours[] = {"/entropy-scan", "/watch"};
    char folder[PATH_MAX], name[ES_STATE_NAME_MAX], host[256] = "";
    char place[PATH_MAX + ES_STATE_NAME_MAX + 32];
    char before[PATH_MAX + sizeof BEFORE];
    struct stat about;
    es_status status;
    if ((status = watched_folder(folder, root)) < 0 ||
        (status = base_folder(place, PATH_MAX)) < 0)
        return status;
    for (int i = 0; i < 2; i++) {
        strcat(place, ours[i]);
        if ((status = make_folders(place)) < 0 ||
            (status = check_private(place)) < 0)
            return status;
    }
    gethostname(host, sizeof host - 1);
    es_state_name(name, host, folder);
    size_t n = strlen(place);
    snprintf(place + n, sizeof place - n, "/%s", name);
    snprintf(before, sizeof before, "%s/%s", folder, BEFORE);
    /* Ignores a file of another user, which cannot contain this user's
     * state. */
    if (access(place, F_OK) != 0 && lstat(before, &about) == 0 &&
        S_ISREG(about.st_mode) && about.st_uid == geteuid())
        es_print_note(
            "%s: this state file of an earlier version is not read, so its "
            "alerts are reported again; to continue with it, add --state %s",
            before, before);
    return es_copy_text(out, place);
}
