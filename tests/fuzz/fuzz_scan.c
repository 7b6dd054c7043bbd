/* Fuzzes damaged run files: passes them to all outputs and exports of
   entropy-scan. */
#include "analyzer/base/text.h"
#include "cli/exchange/export.h"
#include "cli/exchange/import.h"
#include "cli/runs/finding.h"
#include "cli/runs/json.h"
#include "cli/scan/table.h"
#include "tests/fuzz/mutation.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses JSON without a limit on integers: JSON does not limit their size, but
   jansson does. */
#define READ_JSON (JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL)

/* --- output -------------------------------------------------------------- */

typedef struct printed {
    FILE *stream;
    char *text;
    size_t n;
} printed;

static void begin_print(printed *out)
{
    *out = (printed){0};
    out->stream = open_memstream(&out->text, &out->n);
    fuzz_require(out->stream);
}

/* Checks the printed text. It must be UTF-8 without terminal control
 * characters, whatever the file contains. */
static void end_print(printed *out)
{
    fuzz_require(fclose(out->stream) == 0);
    fuzz_require(strlen(out->text) == out->n);
    fuzz_require(es_text_is_utf8(out->text, out->n));
    for (size_t i = 0; i < out->n; i++)
        fuzz_require((unsigned char)out->text[i] >= 0x20 ||
                     out->text[i] == '\n');
}

static void check_json(const char *text, size_t n)
{
    json_error_t error;
    json_t *json = json_loadb(text, n, READ_JSON, &error);
    fuzz_require(json && json_is_object(json));
    json_decref(json);
}

/* --- the summary ----------------------------------------------------------*/

static void print_json(const es_run_summary *summary, const es_max *max)
{
    printed out;
    es_json json;
    begin_print(&out);
    es_json_begin(&json, out.stream, max, summary->peak);
    es_json_run(&json, summary);
    es_json_end(&json);
    end_print(&out);
    check_json(out.text, out.n);
    free(out.text);
}

static void print_csv(const es_run_summary *summary)
{
    printed out;
    begin_print(&out);
    es_csv_header(out.stream);
    fuzz_require(es_csv_run(out.stream, summary) == ES_OK);
    end_print(&out);
    const char *end = strchr(out.text, '\n');
    fuzz_require(end && strchr(end + 1, '\n') == out.text + out.n - 1);
    free(out.text);
}

static void print_table(const es_run_summary *summary, int width)
{
    printed out;
    es_table *table = NULL;
    const es_table_options options = {.width = width};
    fuzz_require(es_table_new(&table, &options) == ES_OK);
    fuzz_require(es_table_add(table, summary) == ES_OK);
    begin_print(&out);
    fuzz_require(es_table_print(table, out.stream) == ES_OK);
    end_print(&out);
    es_table_free(table);
    free(out.text);
}

/* Converts the summary to the form in which processes exchange it, and back. */
static void through_finding(es_run_summary **summary)
{
    char *text = NULL;
    size_t n = 0;
    es_finding finding = {.kind = ES_FINDING_RUN, .run = *summary};
    FILE *stream = open_memstream(&text, &n);
    fuzz_require(stream);
    fuzz_require(es_finding_write(stream, &finding) == ES_OK);
    fuzz_require(fclose(stream) == 0);
    es_summary_free(*summary);
    stream = fmemopen(text, n, "r");
    fuzz_require(stream);
    fuzz_require(es_finding_read(&finding, stream, NULL) == ES_OK);
    fuzz_require(fclose(stream) == 0);
    *summary = finding.run;
    free(text);
}

static void check_summary(es_reader *reader, size_t run, uint8_t how)
{
    es_run_summary *summary = NULL;
    es_summary_options options;
    es_summary_options_default(&options);
    options.series = how & 1 ? "loss" : "entropy";
    options.step = how & 2 ? ES_STEP_FIRST : ES_STEP_LAST;
    if (!fuzz_succeeded(es_summary_load(&summary, reader, run, &options)))
        return;
    through_finding(&summary);
    es_summary_set_max(summary, summary->peak);
    print_json(summary, &options.max);
    print_csv(summary);
    print_table(summary, how & 4 ? 80 : 0);
    es_summary_free(summary);
}

/* --- export, and import of the result ------------------------------------ */

static es_status count_begin(void *user, const es_run_info *info,
                             const es_text_series *series, size_t n_series)
{
    (void)user;
    (void)info;
    (void)series;
    (void)n_series;
    return ES_OK;
}

static es_status count_sample(void *user, size_t series, int64_t step,
                              const float *values, size_t n)
{
    size_t *n_samples = user;
    (void)series;
    (void)step;
    (void)values;
    fuzz_require(n > 0);
    ++*n_samples;
    return ES_OK;
}

/* Imports the exported text, which must succeed. */
static void import_again(printed *out)
{
    es_line_reader *lines = NULL;
    es_about about;
    es_import_report report;
    size_t n_samples = 0;
    const es_import_sink sink = {&n_samples, count_begin, count_sample, NULL,
                                 NULL};
    FILE *stream = fmemopen(out->text, out->n, "rb");
    fuzz_require(stream &&
                 es_line_reader_new(&lines, stream, "export") == ES_OK);
    es_about_init(&about);
    const es_import_options options = {.given = &about.info};
    es_import_format format;
    fuzz_require(es_import_detect(&format, lines, &options) == ES_OK);
    fuzz_require(format == ES_IMPORT_LONG);
    fuzz_require(es_import_parse(&report, lines, format, &options, &sink) ==
                 ES_OK);
    fuzz_require(report.n_samples == n_samples);
    es_about_free(&about);
    es_line_reader_close(lines);
}

static void check_csv(es_reader *reader, size_t run)
{
    printed out;
    const es_export_options options = {.phase = ES_PHASE_ANY};
    begin_print(&out);
    es_status status = es_export_csv(out.stream, reader, run, &options);
    end_print(&out);
    /* A run without series cannot be imported. */
    if (fuzz_succeeded(status) && es_reader_n_series(reader, run) > 0)
        import_again(&out);
    free(out.text);
}

static void check_lines(es_reader *reader, size_t run)
{
    printed out;
    const es_export_options options = {.phase = ES_PHASE_ANY};
    begin_print(&out);
    es_status status = es_export_jsonl(out.stream, reader, run, &options);
    end_print(&out);
    if (fuzz_succeeded(status))
        for (char *at = out.text, *end; (end = strchr(at, '\n')); at = end + 1)
            check_json(at, (size_t)(end - at));
    free(out.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    es_reader *reader = NULL;
    bool sealed;
    if (n < 2 || es_reader_open(&reader, fuzz_damaged_run(bytes + 1, n - 1,
                                                          &sealed)) != ES_OK)
        return 0;
    for (size_t i = 0; i < es_reader_n_runs(reader); i++) {
        check_summary(reader, i, bytes[0]);
        check_csv(reader, i);
        check_lines(reader, i);
    }
    es_reader_close(reader);
    return 0;
}
