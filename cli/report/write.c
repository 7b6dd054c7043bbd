/* Writes the report page: the template report.html, whose placeholders are
   replaced by the style, the scripts, the output of --json and the series of
   the runs. */
#include "cli/report/report.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text_stream.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/runs/json.h"
#include "cli/runs/labels.h"
#include "render/colormap.h"

#include <string.h>
#include <zlib.h>

/* --- data about all runs -------------------------------------------------*/

/* The page that is being written, and the texts with which the placeholders of
 * its template are replaced. */
typedef struct filling {
    FILE *out;
    const es_report_live *live; /* NULL in a report; a live page has only the
                                   members out and title */
    const es_report_data *report;
    const es_report_options *options;
    const es_run_summary **all; /* summaries of all n_runs runs */
    es_run_labels labels;       /* labels of the runs */
    const char *title;
    char *summary; /* output of --json as text, n_summary bytes */
    size_t n_summary;
    es_report_figures figures;
    unsigned char *packed; /* the summary as a zlib stream, n_packed bytes */
    unsigned long n_packed;
} filling;

static es_status print_summary(filling *f)
{
    es_json json;
    FILE *stream = es_text_stream(&f->summary, &f->n_summary);
    if (!stream)
        return es_fail(ES_ENOMEM,
                       "out of memory while writing the summary of the runs");
    es_json_begin(&json, stream, &f->options->summary.max, f->report->observed);
    json.advice_by_name = true;
    for (size_t i = 0; i < f->report->n_runs; i++)
        es_json_run(&json, f->all[i]);
    es_json_rules(&json, f->options->summary.rules);
    es_json_end(&json);
    const bool whole = !ferror(stream);
    return fclose(stream) == 0 && whole
               ? ES_OK
               : es_fail(ES_ENOMEM,
                         "out of memory while writing the summary of the runs");
}

/* Compresses the summary. With many runs, the compressed size is about a tenth
 * of the original, because their configurations and flags are repetitive. */
static es_status pack_summary(filling *f)
{
    f->n_packed = compressBound(f->n_summary);
    es_status status = es_alloc(&f->packed, f->n_packed, 1, "the summary");
    if (status < 0)
        return status;
    if (compress2(f->packed, &f->n_packed, (const unsigned char *)f->summary,
                  f->n_summary, Z_BEST_COMPRESSION) != Z_OK)
        return es_fail(ES_ENOMEM,
                       "out of memory while writing the summary of the runs");
    return ES_OK;
}

static void put_summary(const filling *f)
{
    fprintf(f->out,
            "<script type=\"application/zlib\" id=\"summary\" "
            "data-size=\"%zu\">",
            f->n_summary);
    es_report_base64(f->out, f->packed, f->n_packed);
    fputs("</script>", f->out);
}

/* Writes the 256 colours of a colour map as one string "rrggbb..". */
static void put_colours(es_json_writer *json, const char *name, es_colormap map)
{
    es_json_write_name(json, name);
    fputc('"', json->stream);
    for (int i = 0; i < 256; i++) {
        es_color colour = es_colormap_at(map, i / 255.0);
        fprintf(json->stream, "%02x%02x%02x", colour.r, colour.g, colour.b);
    }
    fputc('"', json->stream);
    json->comma = true;
}

/* Writes "advice":{"collapse":{..},..} with the advice for every kind of
 * flag. */
static void put_advice(es_json_writer *json)
{
    const es_flag_info *info;
    es_json_write_object(json, "advice");
    for (size_t i = 0; (info = es_flag_info_at(i)); i++)
        es_json_advice(json, info->name, info);
    es_json_write_end(json, "}");
}

/* Writes "live":{"boot","stop","figures":[{"name","about"}..]}. */
static void put_live(es_json_writer *json, const es_report_live *live)
{
    es_json_write_object(json, "live");
    es_json_write_text(json, "boot", live->boot);
    es_json_write_bool(json, "stop", live->can_stop);
    es_json_write_array(json, "figures");
    for (int i = 0; i < ES_N_FIGURES; i++) {
        es_json_write_object(json, NULL);
        es_json_write_text(json, "name", es_figure_name((es_figure_kind)i));
        es_json_write_text(json, "about", es_figure_about((es_figure_kind)i));
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "]}");
}

/* Writes the JSON object
 * {"title","program","runs":[{"key","title"}..],"advice":{NAME:..},
 * "colours":{NAME:..}}, with the member "live" in a live page. */
static void put_about(const filling *f)
{
    const size_t n = f->live ? 0 : f->report->n_runs;
    es_json_writer json = {.stream = f->out, .in_html = true};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "title", f->title);
    es_json_write_text(&json, "program", "entropy-scan " ES_VERSION);
    es_json_write_array(&json, "runs");
    for (size_t i = 0; i < n; i++) {
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "key", f->all[i]->uuid);
        es_json_write_text(&json, "title", f->labels.text[i]);
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]");
    put_advice(&json);
    es_json_write_object(&json, "colours");
    put_colours(&json, "values", ES_COLORMAP_VIRIDIS);
    put_colours(&json, "differences", ES_COLORMAP_DIVERGING);
    put_colours(&json, "differences_dark", ES_COLORMAP_DIVERGING_DARK);
    es_json_write_end(&json, "}");
    if (f->live)
        put_live(&json, f->live);
    es_json_write_end(&json, "}");
}

/* --- series ---------------------------------------------------------------*/

static es_status put_series(FILE *out, es_reader *reader,
                            const es_report_run *shown, size_t run,
                            const es_report_series *s)
{
    es_json_writer json = {.stream = out, .in_html = true};
    fputs("\n<script type=\"application/json\" class=\"series\">", out);
    es_json_write_object(&json, NULL);
    es_json_write_size(&json, "run", run);
    es_json_write_text(&json, "name", s->name);
    es_json_write_text(&json, "unit", s->unit ? s->unit : "");
    es_json_write_text(&json, "phase", es_phase_name(s->series.phase));
    es_json_write_text(&json, "shape", es_shape_name(s->series.shape));
    es_json_write_size(&json, "rows", s->n_rows);
    es_json_write_size(&json, "columns", s->n_columns);
    es_json_write_size(&json, "samples", s->n_samples);
    es_status status =
        es_report_write_series(&json, reader, shown->summary->number - 1, s);
    es_json_write_end(&json, "}");
    fputs("</script>", out);
    return status;
}

static es_status put_all_series(const filling *f)
{
    const es_report_data *report = f->report;
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < report->n_runs; i++) {
        const es_report_run *run = &report->runs[i];
        es_reader *reader = NULL;
        status = es_reader_open(&reader, run->summary->path);
        for (size_t k = 0; status == ES_OK && k < run->n_series; k++)
            status = put_series(f->out, reader, run, i, &run->series[k]);
        if (status == ES_OK)
            status = es_report_write_maps(f->out, reader, i, run->summary,
                                          report->n_runs);
        es_damage_close(reader);
    }
    return status;
}

/* --- the template ---------------------------------------------------------*/

/* Declares the files that page.S embeds in the program. Each file is text that
 * is not terminated by a NUL. The Content-Security-Policy admits only the
 * embedded script and style. */
#define PARTS(part) part(skeleton) part(style) part(script) part(policy)
#define DECLARE(name)                                                          \
    extern const char es_page_##name[];                                        \
    extern const uint64_t es_page_##name##_size;
PARTS(DECLARE)

static const struct part {
    const char *name, *text;
    const uint64_t *size;
} parts[] = {
#define ROW(name) {#name, es_page_##name, &es_page_##name##_size},
    PARTS(ROW)};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* Unlike a report, a live page requests data. */
#define LIVE_POLICY "; connect-src 'self'"

static es_status fill(const filling *f, const char *name, size_t n)
{
    char place[16];
    snprintf(place, sizeof place, "%.*s", (int)n, name);
    for (int i = 0; i < N_PARTS; i++)
        if (strcmp(place, parts[i].name) == 0) {
            fwrite(parts[i].text, 1, *parts[i].size, f->out);
            if (f->live && parts[i].text == es_page_policy)
                fputs(LIVE_POLICY, f->out);
            return ES_OK;
        }
    if (strcmp(place, "title") == 0)
        es_print_escaped(f->out, f->title, ES_ESCAPE_XML);
    else if (strcmp(place, "about") == 0)
        put_about(f);
    else if (f->live) /* a live page requests its data itself */
        return ES_OK;
    else if (strcmp(place, "series") == 0)
        return put_all_series(f);
    else if (strcmp(place, "figures") == 0)
        es_report_figures_write(f->out, &f->figures);
    else if (strcmp(place, "summary") == 0)
        put_summary(f);
    else
        return es_fail(ES_EINTERNAL, "the report's template has an unknown "
                                     "placeholder");
    return ES_OK;
}

/* Writes the template with every {{name}} replaced by its text. */
static es_status put_page(const filling *f)
{
    const char *at = es_page_skeleton, *end = at + es_page_skeleton_size, *open;
    while ((open = memmem(at, (size_t)(end - at), "{{", 2))) {
        const char *name = open + 2;
        const char *close = memmem(name, (size_t)(end - name), "}}", 2);
        fwrite(at, 1, (size_t)(open - at), f->out);
        if (!close)
            return es_fail(ES_EINTERNAL, "the report's template is truncated");
        es_status status = fill(f, name, (size_t)(close - name));
        if (status != ES_OK)
            return status;
        at = close + 2;
    }
    fwrite(at, 1, (size_t)(end - at), f->out);
    return ES_OK;
}

size_t es_report_bytes(size_t n_runs)
{
    const size_t more = n_runs < 150 ? 0 : n_runs < 500 ? n_runs - 150 : 350;
    return ES_REPORT_BYTES + ES_REPORT_BYTES * more / 350;
}

es_status es_report_write(FILE *out, es_report_data *report,
                          const es_report_options *options)
{
    const size_t n = report->n_runs;
    filling f = {.out = out, .report = report, .options = options};
    es_status status = es_alloc(&f.all, n, sizeof *f.all, "titles");
    if (status < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        es_summary_set_max(report->runs[i].summary, report->observed);
        f.all[i] = report->runs[i].summary;
    }
    if ((status = es_run_labels_make(&f.labels, f.all, n)) < 0)
        goto done;
    f.title = options->title ? options->title
              : n == 1       ? f.labels.text[0]
                             : "Attention entropy";
    const size_t whole = es_report_bytes(n);
    if ((status = print_summary(&f)) < 0 || (status = pack_summary(&f)) < 0 ||
        (status = es_report_figures_draw(&f.figures, f.all, n, whole)) < 0)
        goto done;
    /* The samples of the series get the rest of the size that a page may have,
     * but at least a quarter of this size, even if flags and configurations are
     * large. The summary is written in base64, which needs 4 letters per 3
     * bytes. */
    size_t taken =
        f.n_packed / 3 * 4 + 4096 + es_report_figures_bytes(&f.figures);
    for (int i = 0; i < N_PARTS; i++)
        taken += *parts[i].size;
    for (size_t i = 0; i < n; i++)
        taken += report->runs[i].n_series * ES_REPORT_SERIES_BYTES;
    size_t left = taken < whole ? whole - taken : 0;
    if (left < whole / 4)
        left = whole / 4;
    es_report_allot(report, left / 4 * 3 / sizeof(float));
    status = put_page(&f);
done:
    es_report_figures_free(&f.figures);
    free(f.packed);
    free(f.summary);
    es_run_labels_free(&f.labels);
    free(f.all);
    return status;
}

void es_report_write_live(FILE *out, const es_report_live *live)
{
    const filling f = {.out = out, .live = live, .title = live->title};
    if (put_page(&f) != ES_OK)
        fputs(es_message(), out); /* the template of the page is invalid */
}

void es_report_write_live_policy(FILE *out)
{
    fwrite(es_page_policy, 1, es_page_policy_size, out);
    fputs(LIVE_POLICY, out);
}
