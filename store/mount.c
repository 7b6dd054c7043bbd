/* Detects file systems that hosts share, from the magic number that statfs
   returns and from the text of /proc/self/mountinfo, which also names the
   layers of an overlay. mount.h describes the functions. Only es_mount_of_file
   reads the system's state; the other functions use only their arguments. */
#include "store/mount.h"

#include "analyzer/base/infile.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define OVERLAYS_MOST 8 /* maximum number of overlays on top of each other */

/**
 * Shared file systems. Type names are as in mountinfo. Magic numbers are from
 * linux/magic.h or, for file systems outside the kernel, from their sources.
 */
static const struct {
    const char *type;
    unsigned long magic;
} shared[] = {
    {"nfs", 0x6969},        {"nfs4", 0x6969},
    {"lustre", 0x0bd00bd0}, {"gpfs", 0x47504653},
    {"beegfs", 0x19830326}, {"ceph", 0x00c36400},
    {"9p", 0x01021997},     {"cifs", 0xff534d42},
    {"smb3", 0xfe534d42},   {"smbfs", 0x517b},
    {"afs", 0x5346414f},    {"ocfs2", 0x7461636f},
    {"gfs2", 0x01161970},   {"pvfs2", 0x20030528},
    {"panfs", 0xaad7aaea},  {"virtiofs", ES_MOUNT_UNKNOWN},
    {"fuse", 0x65735546},   {"wekafs", ES_MOUNT_UNKNOWN},
    {"vboxsf", 0x786f4256}, {"coda", 0x73757245},
};

#define N_SHARED (sizeof shared / sizeof *shared)

/**
 * Returns true if file systems of this type are shared. For example, fuse.sshfs
 * is shared, but fuseblk is a local disk.
 */
static bool is_shared(const char *type)
{
    if (strncmp(type, "fuse.", 5) == 0)
        return true;
    for (size_t i = 0; i < N_SHARED; i++)
        if (strcmp(type, shared[i].type) == 0)
            return true;
    return false;
}

static const char *type_of(unsigned long magic)
{
    for (size_t i = 0; i < N_SHARED; i++)
        if (magic != ES_MOUNT_UNKNOWN && magic == shared[i].magic)
            return shared[i].type;
    return "";
}

/* --- mountinfo ------------------------------------------------------------ */

/**
 * The fields of a line of mountinfo that are needed here. They point into the
 * line and are still escaped.
 */
typedef struct mount {
    const char *point, *type, *options; /* `options` are the mount options of
                                           the super block */
    size_t n_point, n_type, n_options;
} mount;

static const char *next_field(const char **field, size_t *n, const char *at)
{
    at += strspn(at, " ");
    *field = at;
    *n = strcspn(at, " \n");
    return at + *n;
}

/** Parses a line of mountinfo. Returns false if the line is malformed. */
static bool read_line(mount *out, const char *line)
{
    const char *field;
    size_t n;
    const char *at = line;
    for (int i = 0; i < 5; i++)
        at = next_field(i == 4 ? &out->point : &field,
                        i == 4 ? &out->n_point : &n, at);
    do /* skips the mount options and optional fields, which end with a dash */
        at = next_field(&field, &n, at);
    while (n > 0 && !(n == 1 && *field == '-'));
    if (n == 0)
        return false;
    at = next_field(&out->type, &out->n_type, at);
    at = next_field(&field, &n, at);
    next_field(&out->options, &out->n_options, at);
    return out->n_point > 0 && out->n_type > 0;
}

static bool is_octal(const char *text, size_t n)
{
    return n >= 4 && text[0] == '\\' && text[1] >= '0' && text[1] <= '3' &&
           text[2] >= '0' && text[2] <= '7' && text[3] >= '0' && text[3] <= '7';
}

/**
 * Copies `text` (n), decodes octal escapes such as \040 (a space), and
 * truncates the result to `size` bytes.
 */
static void unescape(char *out, size_t size, const char *text, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < size; i++) {
        const bool octal = is_octal(text + i, n - i);
        out[used++] = octal
                          ? (char)((text[i + 1] - '0') * 64 +
                                   (text[i + 2] - '0') * 8 + text[i + 3] - '0')
                          : text[i];
        i += octal ? 3 : 0;
    }
    out[used] = '\0';
}

static bool is_below(const char *folder, const char *point)
{
    size_t n = strlen(point);
    if (n == 1 && point[0] == '/')
        return folder[0] == '/';
    return strncmp(folder, point, n) == 0 &&
           (folder[n] == '\0' || folder[n] == '/');
}

/** Finds the mount that contains a folder. Returns false if there is none. */
static bool find_mount(mount *out, const char *mountinfo, const char *folder)
{
    char point[PATH_MAX];
    size_t longest = 0;
    bool found = false;
    for (const char *line = mountinfo; line && *line;) {
        mount one = {0};
        if (read_line(&one, line)) {
            unescape(point, sizeof point, one.point, one.n_point);
            const size_t n = strlen(point);
            if (n >= longest && is_below(folder, point)) {
                *out = one;
                longest = n;
                found = true;
            }
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return found;
}

/**
 * Finds the folder to which an overlay writes, or the first folder that a
 * read-only overlay reads. Returns false if the options name neither folder.
 */
static bool find_upper(char out[PATH_MAX], const mount *overlay)
{
    static const char *const names[] = {"upperdir=", "lowerdir="};
    for (size_t k = 0; k < 2; k++) {
        const size_t n = strlen(names[k]);
        size_t at = 0;
        while (at < overlay->n_options) {
            const char *option = overlay->options + at;
            size_t length = 0;
            while (at + length < overlay->n_options && option[length] != ',')
                length++;
            if (length > n && strncmp(option, names[k], n) == 0) {
                unescape(out, PATH_MAX, option + n, length - n);
                out[k == 1 ? strcspn(out, ":") : strlen(out)] = '\0';
                return out[0] == '/';
            }
            at += length + 1;
        }
    }
    return false;
}

void es_mount_judge(char type[ES_MOUNT_TYPE_SIZE], const char *mountinfo,
                    unsigned long magic, const char *folder)
{
    char name[ES_MOUNT_TYPE_SIZE], at[PATH_MAX];
    mount found = {0};
    type[0] = '\0';
    snprintf(at, sizeof at, "%s", folder);
    for (int i = 0; i < OVERLAYS_MOST; i++) {
        if (!find_mount(&found, mountinfo, at))
            break;
        unescape(name, sizeof name, found.type, found.n_type);
        if (is_shared(name)) {
            snprintf(type, ES_MOUNT_TYPE_SIZE, "%s", name);
            return;
        }
        if (strcmp(name, "fuseblk") == 0)
            return; /* fuseblk is a local disk, although statfs reports fuse's
                       magic number */
        if (strcmp(name, "overlay") != 0 || !find_upper(at, &found))
            break;
    }
    snprintf(type, ES_MOUNT_TYPE_SIZE, "%s", type_of(magic));
}

/* --- this machine --------------------------------------------------------- */

void es_mount_of_file(char type[ES_MOUNT_TYPE_SIZE], const char *path)
{
    static const es_infile_limit limit = {
        .bytes = 16 << 20, .kind = "a table of mounts", .code = ES_EFORMAT};
    const char *given = secure_getenv(ES_MOUNTINFO_VARIABLE);
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX], absolute[PATH_MAX], why[ES_MESSAGE_MAX];
    struct statfs about;
    char *text = NULL;
    size_t n = 0;
    type[0] = '\0';
    if (snprintf(folder, sizeof folder, "%.*s",
                 slash ? (int)(slash - path) + 1 : 1,
                 slash ? path : ".") >= (int)sizeof folder ||
        !realpath(folder, absolute) || statfs(absolute, &about) != 0)
        return;
    snprintf(why, sizeof why, "%s", es_message());
    if (es_infile_load(&text, &n, given ? given : "/proc/self/mountinfo",
                       &limit) < 0)
        es_fail(ES_EIO, "%s", why); /* The failure is ignored: without the text,
                                       the magic number alone decides. */
    es_mount_judge(type, text, (unsigned long)about.f_type & 0xffffffff,
                   absolute);
    free(text);
}
