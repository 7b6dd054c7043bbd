/* Chooses the parser of a text file, by the given format or by the file's
   content, and runs it. */
#include "cli/exchange/import_internal.h"

#include "analyzer/base/infile.h"
#include "analyzer/base/text.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const char *const format_names[ES_IMPORT_FORMATS] = {
    "matrix", "long", "log", "history", "tensorboard", "wide"};

es_status es_import_format_parse(es_import_format *out, const char *text)
{
    for (int i = 0; i < ES_IMPORT_FORMATS; i++)
        if (strcmp(text, format_names[i]) == 0) {
            *out = (es_import_format)i;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE,
                   "unknown format '%.40s': expected matrix, long, log, "
                   "history, tensorboard or wide",
                   text);
}

es_status es_import_parse(es_import_report *report, es_line_reader *lines,
                          es_import_format format,
                          const es_import_options *options,
                          const es_import_sink *sink)
{
    static es_status (*const parsers[ES_IMPORT_FORMATS])(es_import *) = {
        es_import_matrix,  es_import_long,   es_import_log,
        es_import_history, es_import_events, es_import_wide};
    es_import import = {
        .lines = lines, .options = options, .sink = sink, .report = report};
    *report = (es_import_report){.ceiling = NAN};
    es_about_init(&import.about);
    es_status status = es_line_reader_rewind(lines);
    if (status == ES_OK)
        status = parsers[format](&import);
    es_about_free(&import.about);
    return status;
}

/* --- detecting the format ------------------------------------------------*/

typedef struct guess {
    bool any;        /* true if a line that is not blank was found */
    bool is_long;    /* true if the first line is the header of a long CSV */
    bool is_wide;    /* true if the first line has a step column, but is not the
                        header of a long CSV */
    bool is_number;  /* true if the first cell of the first line is a number */
    bool separators; /* true if the first line has commas, semicolons or tabs */
    bool is_log;
    bool is_history;
} guess;

/* Inspects the first line that is not blank. A line that cannot be split is not
   an error here, since it may belong to a log. */
static void look_at_first(guess *out, const es_line_reader *lines,
                          const es_import_options *options, es_line *line)
{
    es_cells cells;
    char *text;
    float value;
    char separator = es_cells_separator(line);
    out->any = true;
    out->is_history = line->text[strspn(line->text, " \t")] == '{';
    out->separators = separator != ' ';
    if (es_cells_begin(&cells, es_line_reader_name(lines), line, separator) <
            0 ||
        es_cells_next(&cells, &text) != ES_OK)
        return;
    out->is_number = es_float_parse(&value, text, strlen(text)) == ES_OK;
    for (size_t i = 0; out->separators && !out->is_number && !out->is_long;
         i++) {
        out->is_wide = out->is_wide || es_import_is_step(options, text);
        if (es_cells_next(&cells, &text) != ES_OK)
            break;
        out->is_long = out->is_wide && i == 0 && strcasecmp(text, "layer") == 0;
    }
    /* With --step-key, a file with separators is a wide table, whose parser
       reports a missing step column. */
    out->is_wide = out->is_wide || (options->step_key && out->separators &&
                                    !out->is_number && !out->is_history);
}

static es_status refuse_sqlite(const es_line_reader *lines, const es_line *line)
{
    const char *name = es_line_reader_name(lines);
    if (strcmp(line->text, "SQLite format 3") != 0 || line->n < 16)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: is an SQLite file, not text: to show a run file, use "
                   "entropy-scan %s",
                   name, name);
}

/* Refuses formats that import does not support, which it recognises by the
   first bytes. */
static es_status refuse_others(es_line_reader *lines)
{
    static const struct {
        const char *bytes, *what;
    } others[] = {
        {":W&B",
         "is W&B's own log of a run (.wandb): run wandb sync, then save the "
         "history as JSON lines, as entropy-scan import --help shows"},
        {"PAR1", "is a Parquet file: convert it to CSV, as with pandas to_csv"},
        {"\x1f\x8b", "is compressed: decompress it with gunzip"},
    };
    char head[32] = "";
    size_t n;
    es_status status =
        es_line_reader_bytes_read(lines, head, sizeof head - 1, &n);
    for (size_t i = 0; status == ES_OK && i < sizeof others / sizeof *others;
         i++)
        if (strncmp(head, others[i].bytes, strlen(others[i].bytes)) == 0)
            return es_fail(ES_EFORMAT, "%s: %s", es_line_reader_name(lines),
                           others[i].what);
    if (status == ES_OK)
        status = es_infile_refuse_pointer(head, n, es_line_reader_name(lines));
    return status == ES_OK ? es_line_reader_rewind(lines) : status;
}

static es_status inspect_lines(guess *out, es_line_reader *lines,
                               const es_import_options *options)
{
    es_line line;
    es_status status = ES_OK;
    while (!out->is_long && !out->is_wide && !out->is_number && !out->is_log &&
           !out->is_history &&
           (status = es_line_reader_next(lines, &line)) == ES_OK) {
        es_log_line found;
        out->is_log = es_import_log_match(&found, line.text);
        if (out->any || out->is_log || line.text[0] == '#' ||
            es_import_is_blank(&line))
            continue;
        status = refuse_sqlite(lines, &line);
        if (status != ES_OK)
            return status;
        look_at_first(out, lines, options, &line);
    }
    return status == ES_DONE ? ES_OK : status;
}

es_status es_import_detect(es_import_format *out, es_line_reader *lines,
                           const es_import_options *options)
{
    guess found = {0};
    bool is_events;
    es_status status = es_import_events_match(&is_events, lines);
    if (status == ES_OK && is_events) {
        *out = ES_IMPORT_EVENTS;
        return ES_OK;
    }
    if (status < 0 || (status = refuse_others(lines)) < 0 ||
        (status = inspect_lines(&found, lines, options)) < 0 ||
        (status = es_line_reader_rewind(lines)) < 0)
        return status;
    if (found.is_long)
        *out = ES_IMPORT_LONG;
    else if (found.is_wide)
        *out = ES_IMPORT_WIDE;
    else if (found.is_history)
        *out = ES_IMPORT_HISTORY;
    else if (found.is_log)
        *out = ES_IMPORT_LOG;
    else if (found.is_number || found.separators)
        *out = ES_IMPORT_MATRIX;
    else if (!found.any)
        return es_fail(ES_EFORMAT, "%s: empty", es_line_reader_name(lines));
    else
        return es_fail(ES_EFORMAT,
                       "%s: unknown format: expected a matrix, a long CSV "
                       "(step,layer,head,...) or other table with steps, a log "
                       "(Step s - Layer l: v), a history ({...} lines) or an "
                       "event file: choose with --from",
                       es_line_reader_name(lines));
    return ES_OK;
}
