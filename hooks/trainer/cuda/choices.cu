/* Reads and writes the file that stores which of cuBLASLt's algorithms
 * (candidates) computes each product. The first line of the file names the
 * format, and the second line the device and the library. Each further line
 * consists of a product's key and the number of its candidate. The file is
 * written completely under another name and then renamed, so that readers see
 * either the old or the new file. If any line is malformed, the complete file
 * is ignored. */
#include "hooks/trainer/cuda/choices.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TITLE "entropy-train: candidates of cuBLASLt, 1"

enum { MAX_PATH = 1024, MAX_CHOICES = 4096, MAX_LINE = 512 };

typedef struct choice {
    char key[ES_CHOICE_KEY];
    int candidate;
} choice;

struct es_choices {
    char of[MAX_LINE], path[MAX_PATH];
    choice *all;
    int n, capacity;
};

/* --- the path ------------------------------------------------------------- */

static bool format_text(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Formats a string. Returns false if the string does not fit in `out`. */
static bool format_text(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    return n >= 0 && (size_t)n < size;
}

/* Replaces all characters except letters, digits and dots by '-', so that the
 * string can be part of a file name. */
static void replace_specials(char *name)
{
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '.')
            *name = '-';
}

static bool make_folder(const char *path)
{
    struct stat s;
    return mkdir(path, 0777) == 0 ||
           (stat(path, &s) == 0 && S_ISDIR(s.st_mode));
}

/* Creates the cache folder if it is missing, and writes the path of the file
 * for the device and library that `of` names. Returns false if the folder
 * cannot be created, or if neither XDG_CACHE_HOME nor HOME is an absolute
 * path. */
static bool find_path(char *path, const char *of)
{
    char folder[MAX_PATH], name[MAX_LINE];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool is_set = cache && cache[0] == '/';
    if (is_set ? !format_text(folder, sizeof folder, "%s", cache)
               : !home || home[0] != '/' ||
                     !format_text(folder, sizeof folder, "%s/.cache", home))
        return false;
    if (!format_text(name, sizeof name, "%s", of))
        return false;
    replace_specials(name);
    if (!make_folder(folder) ||
        !format_text(path, MAX_PATH, "%s/entropy-train", folder) ||
        !make_folder(path))
        return false;
    const size_t n = strlen(path);
    return format_text(path + n, MAX_PATH - n, "/%s.txt", name);
}

/* --- reading -------------------------------------------------------------- */

static bool add_choice(es_choices *choices, const char *key, int candidate)
{
    if (choices->n == choices->capacity) {
        const int more = choices->capacity ? 2 * choices->capacity : 32;
        if (more > MAX_CHOICES)
            return false;
        choice *grown =
            (choice *)realloc(choices->all, (size_t)more * sizeof *grown);
        if (!grown)
            return false;
        choices->all = grown;
        choices->capacity = more;
    }
    choice *added = &choices->all[choices->n];
    if (!format_text(added->key, sizeof added->key, "%s", key))
        return false;
    added->candidate = candidate;
    choices->n++;
    return true;
}

/* Reads from a line the key of a product and the number of the cuBLASLt
 * algorithm (the candidate) that was chosen for it. Returns false if the line
 * is malformed or repeats a key. */
static bool read_choice(es_choices *choices, char *line)
{
    const size_t n = strspn(line, "0123456789 ");
    char *end = strrchr(line, ' ');
    if (line[n] != 0 || !end || end == line || strlen(end) != 2 ||
        end[1] < '0' || end[1] >= '0' + ES_MAX_CANDIDATES)
        return false;
    *end = 0;
    return es_choices_find(choices, line) < 0 &&
           add_choice(choices, line, end[1] - '0');
}

/* Reads a line and removes its newline. Returns 1 after a line and 0 at the end
 * of the file. Returns -1 if the line is empty, lacks a newline or cannot be
 * read. */
static int read_line(char *line, FILE *file)
{
    if (!fgets(line, MAX_LINE, file))
        return ferror(file) ? -1 : 0;
    char *end = strchr(line, '\n');
    if (!end || end == line)
        return -1;
    *end = 0;
    return 1;
}

/* Reads the complete file. Returns the number of the first malformed line, or 0
 * if all lines are well-formed. */
static int read_file(es_choices *choices, FILE *file)
{
    const char *const first[] = {TITLE, choices->of};
    char line[MAX_LINE];
    int n = 1, found;
    for (; n <= 2; n++)
        if (read_line(line, file) != 1 || strcmp(line, first[n - 1]) != 0)
            return n;
    for (; (found = read_line(line, file)) == 1; n++)
        if (!read_choice(choices, line))
            return n;
    return found == 0 ? 0 : n;
}

/* Returns true if the file exists and all its lines are well-formed. Writes a
 * warning to `note` if the file exists but cannot be used. */
static bool read_all(es_choices *choices, char *note, size_t size)
{
    struct stat s;
    FILE *file = fopen(choices->path, "re");
    if (!file && errno == ENOENT)
        return false;
    if (!file || fstat(fileno(file), &s) != 0 || !S_ISREG(s.st_mode)) {
        snprintf(note, size,
                 "%s: cannot be read; matrix products are timed again",
                 choices->path);
        if (file)
            fclose(file);
        return false;
    }
    const int wrong = read_file(choices, file);
    fclose(file);
    if (wrong == 0)
        return true;
    choices->n = 0;
    snprintf(note, size,
             "%s: line %d is malformed; matrix products are timed again",
             choices->path, wrong);
    return false;
}

/* --- writing -------------------------------------------------------------- */

/* Returns true if all lines have been written to the file. */
static bool write_file(const es_choices *choices, FILE *file)
{
    fprintf(file, "%s\n%s\n", TITLE, choices->of);
    for (int i = 0; i < choices->n; i++)
        fprintf(file, "%s %d\n", choices->all[i].key,
                choices->all[i].candidate);
    return fflush(file) == 0 && !ferror(file);
}

static bool write_all(const es_choices *choices)
{
    char part[MAX_PATH + 16];
    if (!format_text(part, sizeof part, "%s.%ld", choices->path,
                     (long)getpid()))
        return false;
    FILE *file = fopen(part, "wxe");
    if (!file)
        return false;
    const bool written = write_file(choices, file);
    if (fclose(file) == 0 && written && rename(part, choices->path) == 0)
        return true;
    unlink(part);
    return false;
}

/* --- opening and choosing ------------------------------------------------- */

es_choices *es_choices_open(const char *of, char *note, size_t size)
{
    const char *set = getenv("ENTROPY_TRAIN_TUNING");
    if (size > 0)
        note[0] = 0;
    if (set && strcmp(set, "off") == 0)
        return NULL;
    es_choices *choices = (es_choices *)calloc(1, sizeof *choices);
    if (!choices)
        return NULL;
    const bool named = set && set[0];
    if (!format_text(choices->of, sizeof choices->of, "%s", of) ||
        strchr(of, '\n') ||
        !(named ? format_text(choices->path, sizeof choices->path, "%s", set)
                : find_path(choices->path, of))) {
        snprintf(note, size,
                 "matrix products are not timed because there is no cache "
                 "folder: set "
                 "XDG_CACHE_HOME, or ENTROPY_TRAIN_TUNING=off");
        es_choices_close(choices);
        return NULL;
    }
    if (!read_all(choices, note, size) && !write_all(choices)) {
        snprintf(note, size,
                 "%s: cannot be written, so matrix products are not timed: set "
                 "ENTROPY_TRAIN_TUNING to another file, or to off",
                 choices->path);
        es_choices_close(choices);
        return NULL;
    }
    return choices;
}

void es_choices_close(es_choices *choices)
{
    if (!choices)
        return;
    free(choices->all);
    free(choices);
}

static choice *find_key(const es_choices *choices, const char *key)
{
    for (int i = 0; choices && i < choices->n; i++)
        if (strcmp(choices->all[i].key, key) == 0)
            return &choices->all[i];
    return NULL;
}

int es_choices_find(const es_choices *choices, const char *key)
{
    const choice *found = find_key(choices, key);
    return found ? found->candidate : -1;
}

void es_choices_add(es_choices *choices, const char *key, int candidate)
{
    if (!choices)
        return;
    choice *found = find_key(choices, key);
    if (found)
        found->candidate = candidate;
    if (found || add_choice(choices, key, candidate))
        (void)write_all(choices); /* if writing fails, the next run times the
                                   * product again */
}
