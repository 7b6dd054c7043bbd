/*
 * Writes pictures: chooses the writer of the format and checks the size. Also
 * implements the growing buffer that the writers share, and the PDF writer,
 * which uses Cairo's PDF surface and adds the metadata.
 */
#include "render/picture_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include <cairo-pdf.h>
#include <errno.h>
#include <strings.h>

static const char *const endings[] = {
    [ES_FORMAT_PNG] = "png", [ES_FORMAT_SVG] = "svg", [ES_FORMAT_PDF] = "pdf"};

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
    return es_fail(ES_EUSAGE, "unknown format '%s': expected png, svg or pdf",
                   text);
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

/* --- the buffer -----------------------------------------------------------*/

/* Makes space for n more bytes in a buffer. If memory runs out, sets b->failed
 * and returns false. */
static bool reserve(es_buffer *b, size_t n)
{
    if (!b->failed && es_picture_reserve(&b->data, &b->capacity, b->n, n, 1))
        return true;
    b->failed = true;
    return false;
}

void es_buffer_add(es_buffer *b, const char *data, size_t n)
{
    if (!reserve(b, n))
        return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void es_buffer_text(es_buffer *b, const char *text)
{
    es_buffer_add(b, text, strlen(text));
}

void es_buffer_xml(es_buffer *b, const char *clean)
{
    const size_t longest = 6; /* &quot; */
    size_t most = 0;
    if (!es_size_mul(&most, strlen(clean) + 1, longest))
        b->failed = true;
    if (reserve(b, most))
        b->n += es_text_escape(b->data + b->n, most, clean, ES_ESCAPE_XML);
}

void es_buffer_number(es_buffer *b, double x)
{
    char digits[24], *start = digits + sizeof digits;
    long long hundredths = llround(x * 100);
    unsigned long long left =
        (unsigned long long)(hundredths < 0 ? -hundredths : hundredths);
    int decimals = left % 100 == 0 ? 0 : left % 10 == 0 ? 1 : 2;
    for (int i = decimals; i < 2; i++)
        left /= 10;
    for (int i = 0; i < decimals; i++, left /= 10)
        *--start = (char)('0' + left % 10);
    if (decimals > 0)
        *--start = '.';
    for (; left > 0; left /= 10)
        *--start = (char)('0' + left % 10);
    if (hundredths == 0)
        *--start = '0';
    if (hundredths < 0)
        *--start = '-';
    es_buffer_add(b, start, (size_t)(digits + sizeof digits - start));
}

void es_buffer_clean(es_buffer *b, const char *text, bool xml)
{
    char *clean = es_text_cleaned(text);
    if (!clean) {
        b->failed = true;
        return;
    }
    if (xml)
        es_buffer_xml(b, clean);
    else
        es_buffer_text(b, clean);
    free(clean);
}

void es_buffer_notes(es_buffer *b, const es_picture_note *notes, size_t n_notes,
                     bool xml)
{
    size_t start = b->n;
    for (size_t i = 0; i < n_notes; i++) {
        if (strcmp(notes[i].key, "Title") == 0)
            continue;
        if (b->n > start)
            es_buffer_text(b, "\n");
        es_buffer_clean(b, notes[i].key, xml);
        es_buffer_text(b, ": ");
        es_buffer_clean(b, notes[i].value, xml);
    }
}

es_status es_buffer_write(const es_buffer *b, FILE *out)
{
    if (b->failed)
        return es_fail(ES_ENOMEM, "picture: out of memory");
    if (fwrite(b->data, 1, b->n, out) != b->n)
        return es_fail(ES_EIO, "cannot write the picture: %s", strerror(errno));
    return ES_OK;
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

static es_status check_ready(const es_picture *picture)
{
    if (es_text_ran_out() || picture->failed)
        return es_fail(ES_ENOMEM, "picture: out of memory");
    if (!es_font_face(ES_WEIGHT_NORMAL) || !es_font_face(ES_WEIGHT_BOLD))
        return es_fail(ES_ENOMEM, "cannot load the font DejaVu Sans: out of "
                                  "memory, or its file is damaged");
    return ES_OK;
}

static es_status flush(FILE *out)
{
    return fflush(out) == 0 ? ES_OK
                            : es_fail(ES_EIO, "cannot write the picture: %s",
                                      strerror(errno));
}

es_status es_picture_write(const es_picture *picture, FILE *out,
                           es_format format, double scale,
                           const es_picture_note *notes, size_t n_notes)
{
    es_status status = check_ready(picture);
    if (status == ES_OK)
        status = format == ES_FORMAT_PNG
                     ? es_picture_write_png(picture, out, scale, notes, n_notes)
                 : format == ES_FORMAT_SVG
                     ? es_picture_write_svg(picture, out, notes, n_notes)
                     : write_pdf(&picture, 1, out, notes, n_notes);
    return status == ES_OK ? flush(out) : status;
}

es_status es_pictures_write_pdf(const es_picture *const *pages, size_t n,
                                FILE *out, const es_picture_note *notes,
                                size_t n_notes)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = check_ready(pages[i]);
    if (status == ES_OK)
        status = write_pdf(pages, n, out, notes, n_notes);
    return status == ES_OK ? flush(out) : status;
}
