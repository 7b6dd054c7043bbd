/* Finds the place of a watcher's state: a folder of the user's own, and in it a
 * file for each watched folder. Two watchers of one user on one folder share
 * it; those of two users do not. */
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

#define BEFORE ".entropy-watch.db" /* in the watched folder, up to 0.1.0 */
#define READABLE 40                /* bytes of a folder's name */

/* FNV-1a, stirred; never 0. Names of states are made of it: it stays as it is.
 */
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
                       "no folder to keep what was reported: neither "
                       "XDG_STATE_HOME nor HOME names one: name a file: "
                       "--state FILE");
    return n < (int)size ? ES_OK
                         : es_fail(ES_EIO, "XDG_STATE_HOME or HOME: %s",
                                   strerror(ENAMETOOLONG));
}

/* And those that lead to it, whose path ends where a slash becomes a NUL. */
static es_status make_folders(char *path)
{
    for (char *end = path; end;) {
        end = strchr(end + 1, '/');
        if (end)
            *end = '\0';
        if (mkdir(path, 0700) != 0 && !es_path_is_folder(path))
            return es_fail(ES_EIO,
                           "%s: cannot make the folder of what was reported: "
                           "%s: name a file: --state FILE",
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
                       "%s: is no folder of this user's: name a file: "
                       "--state FILE",
                       path);
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return es_fail(ES_EIO,
                       "%s: others may write in it: chmod 700 it, or name a "
                       "file: --state FILE",
                       path);
    return ES_OK;
}

/* The folder itself, or that of a file, which may come later. */
static es_status watched_folder(char out[PATH_MAX], const char *root)
{
    char parent[PATH_MAX + 1]; /* too long a path stays so */
    const char *slash = strrchr(root, '/');
    if (es_path_is_database(root)) {
        snprintf(out, PATH_MAX, "%s", root);
        return ES_OK;
    }
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - root) + 1 : 1,
             slash ? root : ".");
    return realpath(es_path_is_folder(root) ? root : parent, out)
               ? ES_OK
               : es_fail(ES_EIO, "%s: cannot be read: %s", root,
                         strerror(errno));
}

es_status es_state_choose(char **out, const char *root)
{
    /* Who can write in the upper folder of ours can replace the lower one. */
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
    /* One of another user's was never ours. */
    if (access(place, F_OK) != 0 && lstat(before, &about) == 0 &&
        S_ISREG(about.st_mode) && about.st_uid == geteuid())
        es_print_note("%s: what an earlier version reported is not read, and "
                      "reported again: to go on with it: --state %s",
                      before, before);
    return es_copy_text(out, place);
}
