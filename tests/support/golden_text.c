/* Compares text that a function has printed with a file in tests/golden, and
 * replaces the file on request. */
#include "tests/support/golden_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

static bool is_file(const char *name, const char *text)
{
    char path[4096];
    size_t length = strlen(text);
    snprintf(path, sizeof path, "tests/golden/%s", name);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (fgetc(file) == (unsigned char)text[i])
            continue;
        fclose(file);
        return false;
    }
    bool whole = fgetc(file) == EOF;
    fclose(file);
    return whole;
}

bool es_text_is_golden(const char *text, const char *name)
{
    const char *update = getenv("ES_GOLDEN_UPDATE"), *build = getenv("BUILD");
    char folder[4096];
    if (update && strcmp(update, "1") == 0)
        return write_file("tests/golden", name, text);
    if (is_file(name, text))
        return true;
    snprintf(folder, sizeof folder, "%s/golden", build ? build : "build");
    fprintf(stderr, "# differs from tests/golden/%s: see %s/%s\n", name, folder,
            name);
    (void)write_file(folder, name, text);
    return false;
}
