/* Draws the figures of cli/figures/list.h for the page, as compressed SVG. A
   figure that needs too much space or time is left out with a reason. */
#include "cli/report/report.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "cli/figures/figures.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    PANELS_MOST = 12, /* maximum number of runs in figures that have one or more
                         panels per run */
    READ_MOST = 150,  /* maximum number of runs in figures that read every run
                         again */
    SHARE = 5         /* the figures may take one fifth of the page's size */
};

/* Maximum size in base64 of one figure, in bytes. */
#define FIGURE_BYTES 150000

static size_t most_runs(es_figure_kind kind)
{
    switch (kind) {
    case ES_FIGURE_RASTER:
    case ES_FIGURE_TIMELINE:
    case ES_FIGURE_MAPS:
    case ES_FIGURE_DELTA:
        return PANELS_MOST;
    case ES_FIGURE_OVERVIEW:
    case ES_FIGURE_HEATMAP:
    case ES_FIGURE_CURVES:
    case ES_FIGURE_BANDS:
        return SIZE_MAX;
    default:
        return READ_MOST;
    }
}

size_t es_report_figures_bytes(const es_report_figures *figures)
{
    size_t n = 0;
    for (size_t i = 0; i < figures->n; i++)
        n += figures->list[i].n_packed / 3 * 4 + ES_REPORT_SERIES_BYTES;
    return n;
}

/* Draws a figure as SVG. The caller frees *out, also after an error. */
static es_status draw_svg(char **out, size_t *n, es_figure_kind kind,
                          const es_run_summary *const *runs, size_t n_runs)
{
    const es_figure_options options = {.columns = 0};
    const es_figure_job job = {
        .options = &options, .runs = runs, .n = n_runs, .quiet = true};
    es_picture *picture = NULL;
    es_status status = es_figure_draw_runs(&picture, kind, &job, ES_FORMAT_SVG);
    FILE *stream = status == ES_OK ? es_text_stream(out, n) : NULL;
    if (status == ES_OK && !stream)
        status = es_fail(ES_ENOMEM, "out of memory for a figure");
    if (stream) {
        status = es_picture_write(picture, stream, ES_FORMAT_SVG, 1, NULL, 0);
        if (fclose(stream) != 0 && status == ES_OK)
            status = es_fail(ES_ENOMEM, "out of memory for a figure");
    }
    es_picture_free(picture);
    return status;
}

/* Compresses the SVG, unless it is larger than `most` bytes in base64. */
static es_status pack(es_report_figure *to, const char *svg, size_t n,
                      size_t most)
{
    unsigned long n_packed = compressBound(n);
    es_status status = es_alloc(&to->packed, n_packed, 1, "a figure");
    if (status < 0)
        return status;
    if (compress2(to->packed, &n_packed, (const unsigned char *)svg, n,
                  Z_BEST_COMPRESSION) != Z_OK)
        return es_fail(ES_ENOMEM, "out of memory for a figure");
    if (n_packed / 3 * 4 > most) {
        char reason[80];
        snprintf(reason, sizeof reason, "%.1f MB, too large for this page",
                 (double)n_packed / 3 * 4 / 1e6);
        free(to->packed);
        to->packed = NULL;
        return es_copy_text(&to->reason, reason);
    }
    to->n_packed = n_packed;
    to->size = n;
    return ES_OK;
}

static es_status leave_out(es_report_figures *to, es_figure_kind kind, size_t n)
{
    char reason[80];
    es_report_figure *figure = &to->list[to->n++];
    *figure = (es_report_figure){.kind = kind};
    snprintf(reason, sizeof reason,
             "%zu runs; a report draws it for at most %zu", n, most_runs(kind));
    return es_copy_text(&figure->reason, reason);
}

static es_status add_figure(es_report_figures *to, es_figure_kind kind,
                            const es_run_summary *const *runs, size_t n_runs,
                            size_t n_bytes)
{
    const size_t taken = es_report_figures_bytes(to);
    const size_t left = taken < n_bytes ? n_bytes - taken : 0;
    char *svg = NULL;
    size_t n = 0;
    es_report_figure *figure = &to->list[to->n++];
    *figure = (es_report_figure){.kind = kind};
    es_status status = draw_svg(&svg, &n, kind, runs, n_runs);
    if (status == ES_OK)
        status =
            pack(figure, svg, n, left < FIGURE_BYTES ? left : FIGURE_BYTES);
    else if (status == ES_ENOTFOUND) { /* this figure cannot be drawn from these
                                          runs */
        to->n--;
        status = ES_OK;
    } else if (status == ES_EUSAGE) /* the message says why the figure cannot
                                       show these runs */
        status = es_copy_text(&figure->reason, es_message());
    free(svg);
    return status;
}

es_status es_report_figures_draw(es_report_figures *out,
                                 const es_run_summary *const *runs, size_t n,
                                 size_t page_bytes)
{
    const es_run_summary **fitting;
    es_status status;
    if ((status = es_alloc(&out->list, ES_N_FIGURES, sizeof *out->list,
                           "figures")) < 0 ||
        (status = es_alloc(&fitting, n, sizeof *fitting, "figures")) < 0)
        return status;
    for (int i = 0; i < ES_N_FIGURES && status == ES_OK; i++) {
        const es_figure_kind kind = (es_figure_kind)i;
        /* A figure with too many runs is left out in any case. To find out if
           it must be mentioned, it suffices to check the first runs. */
        const bool too_many = n > most_runs(kind);
        size_t n_fitting = 0;
        status = es_figure_fitting(fitting, &n_fitting, kind, runs,
                                   too_many ? PANELS_MOST : n);
        if (status == ES_OK && n_fitting && too_many)
            status = leave_out(out, kind, n);
        else if (status == ES_OK && n_fitting)
            status =
                add_figure(out, kind, fitting, n_fitting, page_bytes / SHARE);
    }
    free(fitting);
    return status;
}

void es_report_figures_free(es_report_figures *figures)
{
    for (size_t i = 0; i < figures->n; i++) {
        free(figures->list[i].packed);
        free(figures->list[i].reason);
    }
    free(figures->list);
}

void es_report_figures_write(FILE *out, const es_report_figures *figures)
{
    for (size_t i = 0; i < figures->n; i++) {
        const es_report_figure *figure = &figures->list[i];
        es_json_writer json = {.stream = out, .in_html = true};
        fputs("\n<script type=\"application/json\" class=\"figure\">", out);
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "name", es_figure_name(figure->kind));
        es_json_write_text(&json, "about", es_figure_about(figure->kind));
        if (figure->reason)
            es_json_write_text(&json, "reason", figure->reason);
        else {
            es_json_write_size(&json, "size", figure->size);
            es_json_write_name(&json, "packed");
            fputc('"', out);
            es_report_base64(out, figure->packed, figure->n_packed);
            fputc('"', out);
            json.comma = true;
        }
        es_json_write_end(&json, "}");
        fputs("</script>", out);
    }
}
