/* Writes the page: the skeleton (report.html) with its places filled: style and
   script, what --json says of the runs, and their series. */
#include "cli/report/report.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/report/page.h"
#include "cli/runs/damage.h"
#include "cli/runs/json.h"
#include "render/colormap.h"

#include <string.h>

void es_report_json(FILE *out, const char *json, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *angle = memchr(json + i, '<', n - i);
        size_t plain = angle ? (size_t)(angle - json) - i : n - i;
        fwrite(json + i, 1, plain, out);
        if (angle)
            fputs("\\u003c", out);
        i += plain;
    }
}

/* --- what the page says of all runs ---------------------------------------*/

/* As --json prints it. To be freed. */
static es_status print_summary(char **text, size_t *n,
                               const es_report_data *report,
                               const es_report_options *options)
{
    es_json json;
    *text = NULL;
    FILE *stream = open_memstream(text, n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for the summary");
    es_json_begin(&json, stream, &options->summary.max, report->observed);
    for (size_t i = 0; i < report->n_runs; i++)
        es_json_run(&json, report->runs[i].summary);
    es_json_rules(&json, options->summary.rules);
    es_json_end(&json);
    const bool whole = !ferror(stream);
    return fclose(stream) == 0 && whole
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for the summary");
}

static void put_colours(es_json_writer *json)
{
    es_json_write_name(json, "colours");
    fputc('"', json->stream);
    for (int i = 0; i < 256; i++) {
        es_color colour = es_colormap_at(ES_COLORMAP_VIRIDIS, i / 255.0);
        fprintf(json->stream, "%02x%02x%02x", colour.r, colour.g, colour.b);
    }
    fputc('"', json->stream);
}

static const char *title_of_run(const es_report_data *report, size_t run)
{
    const es_run_summary **all;
    if (es_alloc(&all, report->n_runs, sizeof *all, "titles") < 0)
        return report->runs[run].summary->name;
    for (size_t i = 0; i < report->n_runs; i++)
        all[i] = report->runs[i].summary;
    const char *title = es_summary_title(all[run], all, report->n_runs);
    free(all);
    return title;
}

static const char *title_of(const es_report_data *report,
                            const es_report_options *options)
{
    if (options->title)
        return options->title;
    return report->n_runs == 1 ? title_of_run(report, 0) : "Attention entropy";
}

/* {"title","program","titles":[..],"colours":"rrggbb.."} */
static void put_about(FILE *out, const es_report_data *report,
                      const es_report_options *options)
{
    es_json_writer json = {.stream = out, .in_html = true};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "title", title_of(report, options));
    es_json_write_text(&json, "program", "entropy-scan " ES_VERSION);
    es_json_write_array(&json, "runs");
    for (size_t i = 0; i < report->n_runs; i++) {
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "title", title_of_run(report, i));
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]");
    put_colours(&json);
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

static es_status put_all_series(FILE *out, const es_report_data *report)
{
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < report->n_runs; i++) {
        const es_report_run *run = &report->runs[i];
        es_reader *reader = NULL;
        status = es_reader_open(&reader, run->summary->path);
        for (size_t k = 0; status == ES_OK && k < run->n_series; k++)
            status = put_series(out, reader, run, i, &run->series[k]);
        es_damage_close(reader);
    }
    return status;
}

/* --- the skeleton ---------------------------------------------------------*/

/* What is being written, and what fills its places. */
typedef struct filling {
    FILE *out;
    const es_report_data *report;
    const es_report_options *options;
    const char *summary; /* (n_summary) */
    size_t n_summary;
} filling;

static bool is(const char *name, size_t n, const char *other)
{
    return strlen(other) == n && memcmp(name, other, n) == 0;
}

static es_status fill(const filling *f, const char *name, size_t n)
{
    es_page_part part;
    es_status status = ES_OK;
    if (es_page_find(&part, name, n))
        fwrite(part.text, 1, part.n, f->out);
    else if (is(name, n, "title"))
        es_print_escaped(f->out, title_of(f->report, f->options),
                         ES_ESCAPE_XML);
    else if (is(name, n, "about"))
        put_about(f->out, f->report, f->options);
    else if (is(name, n, "summary"))
        es_report_json(f->out, f->summary, f->n_summary);
    else if (is(name, n, "series"))
        status = put_all_series(f->out, f->report);
    else
        status = es_fail(ES_EINTERNAL, "the report's skeleton has a place "
                                       "that nothing fills");
    return status;
}

/* The first "{{" or "}}" in text; its end if there is none. */
static const char *find_braces(const char *text, const char *end, char brace)
{
    for (; end - text > 1; text++)
        if (text[0] == brace && text[1] == brace)
            return text;
    return end;
}

static es_status put_page(const filling *f)
{
    es_page_part skeleton = {0};
    es_status status = ES_OK;
    (void)es_page_find(&skeleton, "skeleton", strlen("skeleton"));
    const char *at = skeleton.text, *end = at + skeleton.n;
    while (status == ES_OK && at < end) {
        const char *open = find_braces(at, end, '{');
        const char *close = find_braces(open, end, '}');
        fwrite(at, 1, (size_t)(open - at), f->out);
        if (open < end)
            status = fill(f, open + 2, (size_t)(close - open) - 2);
        at = close < end ? close + 2 : end;
    }
    return status;
}

/* Numbers that the page can hold: a quarter of it at least, however much
   the flags and configurations take. 4 letters of base64 are 3 bytes. */
static size_t capacity_of(size_t n_summary)
{
    size_t taken = es_page_size() + n_summary + 4096;
    size_t left = taken < ES_REPORT_BYTES ? ES_REPORT_BYTES - taken : 0;
    if (left < ES_REPORT_BYTES / 4)
        left = ES_REPORT_BYTES / 4;
    return left / 4 * 3 / sizeof(float);
}

es_status es_report_write(FILE *out, es_report_data *report,
                          const es_report_options *options)
{
    char *summary = NULL;
    filling f = {.out = out, .report = report, .options = options};
    for (size_t i = 0; i < report->n_runs; i++)
        es_summary_set_max(report->runs[i].summary, report->observed);
    es_status status = print_summary(&summary, &f.n_summary, report, options);
    if (status == ES_OK) {
        f.summary = summary;
        es_report_allot(report, capacity_of(f.n_summary));
        status = put_page(&f);
    }
    free(summary);
    return status;
}
