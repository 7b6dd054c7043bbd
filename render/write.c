/*
 * Writes pictures: chooses the writer of the format and checks the size. Also
 * implements the PDF writer, which uses Cairo's PDF surface and adds the
 * metadata.
 */
#include "render/cells.h"
#include "render/picture_internal.h"

#include <cairo-pdf.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

static const char *const endings[] = {[ES_FORMAT_PNG] = "png",
                                      [ES_FORMAT_SVG] = "svg",
                                      [ES_FORMAT_PDF] = "pdf",
                                      [ES_FORMAT_TEXT] = "txt"};

#define N_FORMATS (sizeof endings / sizeof *endings)

const char *es_format_name(es_format format)
{
    return endings[format];
}

es_status es_format_parse(es_format *out, const char *text)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(text, endings[i]) == 0) {
            *out = (es_format)i;
            return ES_OK;
        }
    }
    return es_fail(ES_EUSAGE,
                   "unknown format '%s': expected png, svg, pdf or txt", text);
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

/* --- writing ---------------------------------------------------------------*/

static cairo_status_t add_data(void *user, const unsigned char *data,
                               unsigned n)
{
    es_buffer *b = user;
    es_buffer_add(b, (const char *)data, n);
    return b->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

/* Sets the metadata of a PDF. The creation date is set to "" so that it is
 * omitted; a date would differ each time the picture is written. */
static es_status set_metadata(cairo_surface_t *surface,
                              const es_picture_note *notes, size_t n_notes)
{
    const char *title = es_note_title(notes, n_notes);
    es_buffer subject = {0}, name = {0};
    if (title)
        es_buffer_clean(&name, title, false);
    es_buffer_add(&name, "", 1);
    es_buffer_notes(&subject, notes, n_notes, false);
    es_buffer_add(&subject, "", 1);
    if (!name.failed && !subject.failed) {
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE,
                                       "");
        if (title)
            cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE,
                                           name.data);
        if (n_notes > 0)
            cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT,
                                           subject.data);
    }
    bool failed = name.failed || subject.failed;
    free(name.data);
    free(subject.data);
    return failed ? es_fail(ES_ENOMEM, "picture: out of memory") : ES_OK;
}

static es_status play_pages(const es_picture *const *pages, size_t n,
                            cairo_surface_t *surface)
{
    cairo_status_t played = CAIRO_STATUS_SUCCESS;
    cairo_t *cr = cairo_create(surface);
    for (size_t i = 0; i < n && played == CAIRO_STATUS_SUCCESS; i++) {
        cairo_pdf_surface_set_size(surface, pages[i]->width, pages[i]->height);
        played = es_picture_play(pages[i], cr, 0);
        cairo_show_page(cr);
    }
    cairo_destroy(cr);
    cairo_surface_finish(surface);
    return es_cairo_status(played == CAIRO_STATUS_SUCCESS
                               ? cairo_surface_status(surface)
                               : played);
}

static es_status write_pdf(const es_picture *const *pages, size_t n, FILE *out,
                           const es_picture_note *notes, size_t n_notes)
{
    es_buffer pdf = {0};
    cairo_surface_t *surface = cairo_pdf_surface_create_for_stream(
        add_data, &pdf, pages[0]->width, pages[0]->height);
    es_status status = set_metadata(surface, notes, n_notes);
    if (status == ES_OK)
        status = play_pages(pages, n, surface);
    cairo_surface_destroy(surface);
    if (status == ES_OK)
        status = es_buffer_write(&pdf, out);
    free(pdf.data);
    return status;
}

static es_status flush_picture(FILE *out)
{
    return fflush(out) == 0 ? ES_OK
                            : es_fail(ES_EIO, "cannot write the picture: %s",
                                      strerror(errno));
}

es_status es_picture_write(const es_picture *picture, FILE *out,
                           es_format format, double scale,
                           const es_picture_note *notes, size_t n_notes)
{
    es_status status = es_picture_check_ready(picture);
    if (status == ES_OK)
        status = format == ES_FORMAT_PNG
                     ? es_picture_write_png(picture, out, scale, notes, n_notes)
                 : format == ES_FORMAT_SVG
                     ? es_picture_write_svg(picture, out, notes, n_notes)
                 : format == ES_FORMAT_TEXT
                     ? es_cells_print(picture, out, 0, ES_DEPTH_ASCII)
                     : write_pdf(&picture, 1, out, notes, n_notes);
    return status == ES_OK ? flush_picture(out) : status;
}

es_status es_pictures_write_pdf(const es_picture *const *pages, size_t n,
                                FILE *out, const es_picture_note *notes,
                                size_t n_notes)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = es_picture_check_ready(pages[i]);
    if (status == ES_OK)
        status = write_pdf(pages, n, out, notes, n_notes);
    return status == ES_OK ? flush_picture(out) : status;
}
