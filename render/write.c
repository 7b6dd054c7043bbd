/* Writes a picture in a format: chooses the writer and checks the size. */
#include "render/picture_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static const char *const endings[] = {
    [ES_FORMAT_PNG] = "png", [ES_FORMAT_SVG] = "svg", [ES_FORMAT_PDF] = "pdf"};

#define N_FORMATS (sizeof endings / sizeof *endings)

es_status es_format_parse(es_format *out, const char *text)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(text, endings[i]) == 0) {
            *out = (es_format)i;
            return ES_OK;
        }
    }
    return es_fail(ES_EUSAGE, "%s: no such format: use png, svg or pdf", text);
}

bool es_format_of_path(es_format *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < N_FORMATS; i++) {
        if (strcasecmp(dot + 1, endings[i]) == 0) {
            *out = (es_format)i;
            return true;
        }
    }
    return false;
}

es_status es_format_check_size(es_format format, double width, double height)
{
    return format == ES_FORMAT_PNG ? es_png_check_size(width, height)
                                   : es_picture_check_sides(width, height);
}

const char *es_note_title(const es_picture_note *notes, size_t n_notes)
{
    for (size_t i = 0; i < n_notes; i++)
        if (strcmp(notes[i].key, "Title") == 0)
            return notes[i].value;
    return NULL;
}

es_status es_cairo_status(cairo_status_t status)
{
    switch (status) {
    case CAIRO_STATUS_SUCCESS:
        return ES_OK;
    case CAIRO_STATUS_NO_MEMORY:
        return es_fail(ES_ENOMEM, "picture: out of memory");
    default:
        return es_fail(ES_EINTERNAL, "picture: %s",
                       cairo_status_to_string(status));
    }
}

static es_status write_format(const es_picture *picture, FILE *out,
                              es_format format, double scale,
                              const es_picture_note *notes, size_t n_notes)
{
    switch (format) {
    case ES_FORMAT_PNG:
        return es_picture_write_png(picture, out, scale, notes, n_notes);
    case ES_FORMAT_SVG:
        return es_picture_write_svg(picture, out, notes, n_notes);
    case ES_FORMAT_PDF:
        return es_picture_write_pdf(picture, out, notes, n_notes);
    }
    return es_fail(ES_EARGUMENT, "picture: no such format: %d", (int)format);
}

es_status es_picture_write(const es_picture *picture, FILE *out,
                           es_format format, double scale,
                           const es_picture_note *notes, size_t n_notes)
{
    if (picture->failed)
        return es_fail(ES_ENOMEM, "picture: out of memory");
    if (!es_font_face(ES_WEIGHT_NORMAL) || !es_font_face(ES_WEIGHT_BOLD))
        return es_fail(ES_ENOMEM, "picture: DejaVu Sans cannot be loaded: out "
                                  "of memory, or its file is damaged");
    es_status status =
        write_format(picture, out, format, scale, notes, n_notes);
    if (status != ES_OK)
        return status;
    if (fflush(out) != 0)
        return es_fail(ES_EIO, "picture: cannot be written: %s",
                       strerror(errno));
    return ES_OK;
}
