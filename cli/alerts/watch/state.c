/* Finds the place of a watcher's state: a folder of the user's own, and in it a
 * file for each watched folder. Two watchers of one user on one folder share
 * it; those of two users do not. */
#include "cli/alerts/watch/state.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/watch/known.h"
#include "cli/output/print.h"
#include "cli/runs/tree.h"

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

/* --- its name -------------------------------------------------------------*/

static bool is_plain(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-_.", c));
}

void es_state_name(char out[ES_STATE_NAME_MAX], const char *host,
                   const char *folder)
{
    static const es_known set; /* its hash is the same in every process */
    char readable[READABLE + 1] = "";
    const char *base = strrchr(folder, '/') + 1;
    snprintf(readable, sizeof readable, "%s", *base ? base : "root");
    for (char *c = readable; *c; c++)
        if (!is_plain(*c) || (c == readable && *c == '.'))
            *c = '_';
    snprintf(out, ES_STATE_NAME_MAX, "%s-%08" PRIx32 "%016" PRIx64 ".state",
             readable, (uint32_t)es_known_hash(&set, host),
             es_known_hash(&set, folder));
}

/* --- its folder -----------------------------------------------------------*/

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

static es_status make_folder(const char *path)
{
    if (mkdir(path, 0700) == 0 || es_path_is_folder(path))
        return ES_OK;
    return es_fail(ES_EIO,
                   "%s: cannot make the folder of what was reported: %s: name "
                   "a file: --state FILE",
                   path, strerror(errno));
}

/* And those that lead to it. */
static es_status make_folders(char *path)
{
    es_status status = ES_OK;
    for (char *c = path + 1; *c && status == ES_OK; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        status = make_folder(path);
        *c = '/';
    }
    return status == ES_OK ? make_folder(path) : status;
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

/* Both folders that are ours: who can write in the upper one can replace the
   lower one. */
static es_status take_folder(char *out, size_t size)
{
    static const char *const ours[] = {"/entropy-scan", "/watch"};
    es_status status = base_folder(out, size);
    for (int i = 0; i < 2 && status == ES_OK; i++) {
        size_t n = strlen(out);
        snprintf(out + n, size - n, "%s", ours[i]);
        status = make_folders(out);
        if (status == ES_OK)
            status = check_private(out);
    }
    return status;
}

/* --- what is watched ------------------------------------------------------*/

/* The folder itself, or that of a file, which may come later. */
static es_status watched_folder(char out[PATH_MAX], const char *root)
{
    char *parent = NULL;
    const char *slash = strrchr(root, '/'), *path = root;
    if (!es_path_is_folder(root)) {
        parent = slash ? strndup(root, (size_t)(slash - root) + 1) : NULL;
        path = slash ? parent : ".";
    }
    es_status status = ES_OK;
    if (!path)
        status = es_fail(ES_ENOMEM, "out of memory for a path");
    else if (!realpath(path, out))
        status =
            es_fail(ES_EIO, "%s: cannot be read: %s", root, strerror(errno));
    free(parent);
    return status;
}

/* One of another user's was never ours. */
static void report_before(const char *folder)
{
    struct stat about;
    char path[PATH_MAX + sizeof BEFORE];
    snprintf(path, sizeof path, "%s/%s", folder, BEFORE);
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) &&
        about.st_uid == geteuid())
        es_print_note("%s: what an earlier version reported is not read, and "
                      "reported again: to go on with it: --state %s",
                      path, path);
}

es_status es_state_choose(char **out, const char *root)
{
    char folder[PATH_MAX], place[PATH_MAX + ES_STATE_NAME_MAX + 32],
        name[ES_STATE_NAME_MAX];
    char host[256] = "";
    es_status status;
    if ((status = watched_folder(folder, root)) < 0 ||
        (status = take_folder(place, PATH_MAX + 32)) < 0)
        return status;
    gethostname(host, sizeof host - 1);
    es_state_name(name, host, folder);
    size_t n = strlen(place);
    snprintf(place + n, sizeof place - n, "/%s", name);
    if (access(place, F_OK) != 0)
        report_before(folder);
    return es_copy_text(out, place);
}
