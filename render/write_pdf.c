/* PDF through Cairo's surface, with the metadata that it leaves to us. */
#include "render/write_internal.h"

#include <cairo-pdf.h>
#include <stdlib.h>
#include <string.h>

static cairo_status_t write_buffer(void *user, const unsigned char *data,
                                   unsigned n)
{
    es_buffer *b = user;
    es_buffer_add(b, (const char *)data, n);
    return b->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static es_status play_on(cairo_surface_t *surface, const es_picture *picture)
{
    cairo_t *cr = cairo_create(surface);
    cairo_status_t status = es_picture_play(picture, cr, 0);
    cairo_destroy(cr);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return es_cairo_status(status);
}

/* The empty date leaves the date out, which would differ on every run. */
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

es_status es_picture_write_pdf(const es_picture *picture, FILE *out,
                               const es_picture_note *notes, size_t n_notes)
{
    es_buffer pdf = {0};
    cairo_surface_t *surface = cairo_pdf_surface_create_for_stream(
        write_buffer, &pdf, picture->width, picture->height);
    es_status status = set_metadata(surface, notes, n_notes);
    if (status == ES_OK)
        status = play_on(surface, picture);
    else
        cairo_surface_destroy(surface);
    if (status == ES_OK)
        status = es_buffer_write(&pdf, out);
    free(pdf.data);
    return status;
}
