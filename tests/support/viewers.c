/* Renders this project's figures with other programs, for tests. */
#include "tests/support/viewers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];

static bool save(const char *name, const char *bytes, size_t n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "wb");
    bool good = out && fwrite(bytes, 1, n, out) == n;
    return out && fclose(out) == 0 && good;
}

/* Runs a shell command in the folder. Returns its output, which the caller
 * frees, or NULL if the command fails. */
static char *output_of(const char *command, size_t *n)
{
    char line[1024], buffer[4096], *bytes = NULL;
    size_t got;
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    FILE *out = open_memstream(&bytes, n);
    FILE *in = popen(line, "r");
    while (in && (got = fread(buffer, 1, sizeof buffer, in)) > 0)
        fwrite(buffer, 1, got, out);
    fclose(out);
    if (in && pclose(in) == 0)
        return bytes;
    fprintf(stderr, "failed: %s\n", command);
    free(bytes);
    return NULL;
}

static bool succeeds(const char *command)
{
    size_t n;
    char *output = output_of(command, &n);
    free(output);
    return output != NULL;
}

bool viewers_open(void)
{
    static const char fonts[] =
        "<?xml version='1.0'?><!DOCTYPE fontconfig SYSTEM 'fonts.dtd'>"
        "<fontconfig><cachedir prefix='relative'>cache</cachedir>"
        "<dir>/usr/share/fonts/truetype/dejavu</dir>"
        "<dir>/usr/share/fonts/dejavu-sans-fonts</dir>"
        "<dir>/usr/share/fonts/TTF</dir>"
        "<dir>/usr/share/fonts/dejavu</dir>"
        "<dir>/usr/local/share/fonts/dejavu</dir></fontconfig>";
    const char *base = getenv("TMPDIR");
    char path[600];
    snprintf(folder, sizeof folder, "%s/es-viewers-XXXXXX",
             base ? base : "/tmp");
    if (!mkdtemp(folder) || !save("fonts.conf", fonts, strlen(fonts)))
        return false;
    snprintf(path, sizeof path, "%s/fonts.conf", folder);
    setenv("FONTCONFIG_FILE", path, 1);
    return succeeds("command -v rsvg-convert pdftoppm pdftotext pdffonts");
}

void viewers_close(void)
{
    if (folder[0])
        succeeds("rm -rf \"$PWD\"");
}

static bool save_as(const es_picture *picture, es_format format)
{
    size_t n;
    char *bytes = picture_bytes(&n, picture, format, 1, NULL, 0);
    bool good = bytes && save("picture", bytes, n);
    free(bytes);
    return good;
}

bool viewers_image(es_image *out, const es_picture *picture, es_format format,
                   double scale)
{
    char command[128];
    size_t n;
    const char *how = format == ES_FORMAT_SVG
                          ? "rsvg-convert -d %.0f -p %.0f <picture"
                          : "pdftoppm -singlefile -png -rx %.0f -ry %.0f "
                            "picture";
    snprintf(command, sizeof command, how, 72 * scale, 72 * scale);
    char *bytes = save_as(picture, format) ? output_of(command, &n) : NULL;
    bool good = bytes && image_read(out, bytes, n);
    free(bytes);
    return good;
}

char *viewers_print(const es_picture *picture, const char *program)
{
    char command[128];
    size_t n;
    snprintf(command, sizeof command, "%s picture%s", program,
             strcmp(program, "pdftotext") == 0 ? " -" : "");
    return save_as(picture, ES_FORMAT_PDF) ? output_of(command, &n) : NULL;
}
