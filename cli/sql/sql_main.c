/* entropy-scan sql: runs one SELECT over run files, and prints the rows as a
   table, CSV or JSON. store/sql runs the query. */
#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "cli/output/grid.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/runs/tree.h"
#include "store/reader.h"
#include "store/sql/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of rows of a table that are stored and aligned at a time. */
enum { TABLE_ROWS = 4096 };

/* Limit in bytes of SQLite's memory for sorting and grouping. A query that
 * needs more fails. */
#define QUERY_BYTES ((size_t)1 << 30)

typedef struct arguments {
    char **words; /* n_words words of the command line: run files and folders,
                     followed by the query */
    size_t n_words;
    es_paths found; /* run files found in the folders; freed by
                       es_inputs_free */
    char *query;
    const char *output;
    bool csv, json, views;
} arguments;

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, words, n_words)},
    ES_RECURSIVE_OPTION,
    {"csv", 0, NULL, "print CSV; an empty field is NULL",
     ES_OPT_FLAG(arguments, csv)},
    {"json", 0, NULL, "print a JSON array with an object for each row",
     ES_OPT_FLAG(arguments, json)},
    {"output", 'o', "FILE", "write to FILE (-: standard output)",
     ES_OPT_TEXT(arguments, output), .value = "-"},
    {"views", 0, NULL,
     "print the views as plain SQL, for sqlite3 and other programs, and exit",
     ES_OPT_FLAG(arguments, views)},
    ES_HELP_OPTION,
};

static int sql_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan sql sm.db 'SELECT series, n_samples FROM run_series'",
     "List the series of a run"},
    {NULL, NULL}};

const es_command es_sql_command = {
    .name = "entropy-scan sql",
    .synopsis = "RUN.db... 'SELECT ...' [OPTION...]",
    .examples = examples,
    .summary = "query run files in SQL, read-only",
    .details =
        "tables     run, series, sample and event have the rows of all\n"
        "           files. To stay unique, run_id, series_id and event_id\n"
        "           are larger by 2^40 in the second file, by 2 * 2^40 in\n"
        "           the third, ...\n"
        "es_values  es_values('entropy', 'eval') has the values of one series\n"
        "           in one phase; es_values('entropy') has both phases, and\n"
        "           es_values() all series. Columns: run, step, layer, head,\n"
        "           value, state; hidden: series, phase, run_id, series_id. A\n"
        "           condition on step limits the steps that are read. state "
        "is\n"
        "           value, nan, missing or damaged; value is NULL unless\n"
        "           state is value\n"
        "views      run_series, run_event, layer_entropy, sample_value\n"
        "           (like es_values, in plain SQL): see --views\n"
        "blobs      x'0000c07f' in CSV and JSON, their size in a table;\n"
        "           es_values unpacks sample.value\n"
        "\n"
        "  entropy-scan sql a.db b.db \"SELECT run, step, avg(value) AS "
        "entropy\n"
        "      FROM es_values('entropy', 'train') WHERE step >= 1000 GROUP BY "
        "run,\n"
        "      step\"\n"
        "\n"
        "Only one statement that reads is allowed; ATTACH, PRAGMAs that set\n"
        "something, and all statements that write are refused with exit\n"
        "code 2, as is invalid SQL. Ctrl-C ends a query that takes too\n"
        "long. The extension entropyscan_sqlite.so provides es_values to\n"
        "other programs.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = sql_main,
};

/* --- CSV and JSON ----------------------------------------------------------*/

static void print_hex(FILE *out, const es_cell *cell)
{
    const unsigned char *bytes = cell->bytes;
    fputs("x'", out);
    for (size_t i = 0; i < cell->n; i++)
        fprintf(out, "%02x", bytes[i]);
    fputc('\'', out);
}

static const char *real_text(char out[ES_FLOAT_TEXT_MAX], double value)
{
    if (isfinite(value))
        return es_display_number(out, value);
    return value > 0 ? "inf" : "-inf";
}

static void print_csv_cell(FILE *out, const es_cell *cell)
{
    char text[ES_FLOAT_TEXT_MAX];
    switch (cell->kind) {
    case ES_CELL_NULL:
        break;
    case ES_CELL_INTEGER:
        fprintf(out, "%lld", (long long)cell->integer);
        break;
    case ES_CELL_REAL:
        fputs(real_text(text, cell->real), out);
        break;
    case ES_CELL_TEXT:
        es_print_escaped(out, cell->bytes, ES_ESCAPE_CSV);
        break;
    case ES_CELL_BLOB:
        print_hex(out, cell);
        break;
    }
}

static es_status print_csv(FILE *out, es_query *query)
{
    es_status status;
    size_t n = es_query_n_columns(query);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? "," : "", out);
        es_print_escaped(out, es_query_name(query, i), ES_ESCAPE_CSV);
    }
    fputc('\n', out);
    while (!ferror(out) && (status = es_query_next(query)) == ES_OK) {
        for (size_t i = 0; i < n; i++) {
            es_cell cell;
            es_query_cell(&cell, query, i);
            fputs(i ? "," : "", out);
            print_csv_cell(out, &cell);
        }
        fputc('\n', out);
    }
    return ferror(out) || status == ES_DONE ? ES_OK : status;
}

static void put_json_cell(es_json_writer *json, const char *name,
                          const es_cell *cell)
{
    switch (cell->kind) {
    case ES_CELL_NULL:
        es_json_write_null(json, name);
        break;
    case ES_CELL_INTEGER:
        es_json_write_integer(json, name, cell->integer);
        break;
    case ES_CELL_REAL:
        es_json_write_stated(json, name, cell->real, "nan");
        break;
    case ES_CELL_TEXT:
        es_json_write_text(json, name, cell->bytes);
        break;
    case ES_CELL_BLOB:
        es_json_write_name(json, name);
        fputc('"', json->stream);
        print_hex(json->stream, cell);
        fputc('"', json->stream);
        json->comma = true;
        break;
    }
}

static es_status print_json(FILE *out, es_query *query)
{
    es_status status;
    es_json_writer json = {.stream = out};
    size_t n = es_query_n_columns(query);
    es_json_write_array(&json, NULL);
    while (!ferror(out) && (status = es_query_next(query)) == ES_OK) {
        es_json_write_line(&json);
        es_json_write_object(&json, NULL);
        for (size_t i = 0; i < n; i++) {
            es_cell cell;
            es_query_cell(&cell, query, i);
            put_json_cell(&json, es_query_name(query, i), &cell);
        }
        es_json_write_end(&json, "}");
    }
    fputc('\n', out);
    es_json_write_end(&json, "]\n");
    return ferror(out) || status == ES_DONE ? ES_OK : status;
}

/* --- a table ---------------------------------------------------------------*/

static void put_table_cell(es_sheet *sheet, const char *title,
                           const es_cell *cell)
{
    char text[ES_FLOAT_TEXT_MAX];
    switch (cell->kind) {
    case ES_CELL_NULL:
        es_sheet_put(sheet, title, "-");
        break;
    case ES_CELL_INTEGER:
        es_sheet_put(sheet, title, "%lld", (long long)cell->integer);
        break;
    case ES_CELL_REAL:
        es_sheet_put(sheet, title, "%s", real_text(text, cell->real));
        break;
    case ES_CELL_TEXT:
        es_sheet_put_name(sheet, title, cell->bytes);
        break;
    case ES_CELL_BLOB:
        es_sheet_put_text(sheet, title, "(%zu bytes)", cell->n);
        break;
    }
}

/* Prints only the column titles, for a table without rows. */
static void print_titles(FILE *out, const es_query *query)
{
    for (size_t i = 0; i < es_query_n_columns(query); i++) {
        fputs(i ? "  " : "", out);
        es_print_escaped(out, es_query_name(query, i), ES_ESCAPE_TERMINAL);
    }
    fputc('\n', out);
}

static es_status print_table(FILE *out, es_query *query)
{
    es_sheet sheet = {0};
    es_table_options form;
    es_status status = ES_OK;
    size_t n = es_query_n_columns(query), n_rows = 0;
    es_table_options_for(&form, out);
    while (status == ES_OK && !ferror(out)) {
        status = es_query_next(query);
        if (status == ES_OK) {
            n_rows++;
            es_sheet_begin_row(&sheet, NULL);
        }
        for (size_t i = 0; status == ES_OK && i < n; i++) {
            es_cell cell;
            es_query_cell(&cell, query, i);
            put_table_cell(&sheet, es_query_name(query, i), &cell);
        }
        if (sheet.n_rows < TABLE_ROWS && status == ES_OK)
            continue;
        if (sheet.n_rows && status >= 0 &&
            es_sheet_print(&sheet, out, &form) < 0)
            status = ES_ENOMEM;
        (void)es_sheet_take_back(&sheet, 0);
    }
    es_sheet_free(&sheet);
    if (status >= 0 && !n_rows)
        print_titles(out, query);
    return status < 0 ? status : ES_OK;
}

/* --- the verb --------------------------------------------------------------*/

/* Finds the run files in the given folders. Fails if a folder cannot be read,
 * because its runs would silently be missing from the result. */
static es_status find_files(arguments *given)
{
    size_t n_failed = 0;
    es_status status;
    if (!given->n_words)
        return ES_OK;
    given->query = given->words[--given->n_words];
    if ((status = es_inputs_expand(&given->words, &given->n_words,
                                   &given->found, &n_failed)) < 0)
        return status;
    return n_failed ? es_fail(ES_EIO, "sql: cannot read %zu folder%s", n_failed,
                              n_failed == 1 ? "" : "s")
                    : ES_OK;
}

static es_status check_arguments(arguments *given)
{
    es_status status;
    if (given->csv && given->json)
        return es_fail(ES_EUSAGE, "--csv and --json are mutually exclusive");
    if (given->views && given->n_words)
        return es_fail(ES_EUSAGE, "--views takes no run file and no query");
    if (!given->views && given->n_words < 2)
        return es_fail(ES_EUSAGE,
                       "sql needs run files followed by a query: entropy-scan "
                       "sql run.db 'SELECT * FROM run_series'");
    if ((status = find_files(given)) < 0)
        return status;
    return es_output_check_text(given->output, given->words, given->n_words);
}

static es_status print_result(const arguments *given, es_query *query)
{
    FILE *stream;
    es_output *output = NULL;
    es_status status = es_output_open(&output, &stream, given->output);
    if (status < 0)
        return status;
    if (given->views)
        fputs(es_sql_views, stream);
    else
        status = given->csv    ? print_csv(stream, query)
                 : given->json ? print_json(stream, query)
                               : print_table(stream, query);
    return es_output_finish(output, status);
}

static es_status run_query(const arguments *given)
{
    es_query *query = NULL;
    es_status status;
    es_reader_cap_memory(QUERY_BYTES);
    if ((status = es_query_open(&query, (const char *const *)given->words,
                                given->n_words)) == ES_OK &&
        (status = es_query_prepare(query, given->query)) == ES_OK)
        status = print_result(given, query);
    es_query_close(query);
    return status;
}

static int sql_main(int argc, char **argv)
{
    arguments given = {.output = NULL};
    es_status status =
        es_command_parse(&given, NULL, &es_sql_command, argc, argv);
    if (status == ES_OK)
        status = check_arguments(&given);
    if (status == ES_OK)
        status = given.views ? print_result(&given, NULL) : run_query(&given);
    es_inputs_free(given.words, &given.found);
    return es_command_exit(status);
}
