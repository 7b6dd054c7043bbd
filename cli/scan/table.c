/* Prints runs as a table or as CSV. Both have one column for each field of
   cli/runs/fields.c that is marked for the output, in the order of the fields.
   The table omits columns in which no run has a value, so the text of its cells
   is stored until all runs have been added. */
#include "cli/scan/table.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "cli/output/print.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct es_table {
    es_table_options options;
    es_sheet sheet;           /* one column per field, including hidden ones */
    size_t name;              /* index of the column of run names */
    bool no_ctx, interrupted; /* true if some run has no context length, or
                                 was interrupted, respectively */
    bool scaled;              /* true if the bands of some run refer to the
                                 ceiling of each head */
    bool several_files;
    bool unlike_file;             /* true if the name of some run differs from
                                     its file name */
    es_max_policy policy;         /* how m, the upper end of the entropy
                                     bands, is chosen */
    double m;                     /* upper end m of the entropy bands of the run
                                     that was added last */
    char *path;                   /* path of the first run; NULL before the
                                     first run */
    char *series, *unit;          /* series and unit of the first run; NULL
                                     before the first run */
    char *layers;                 /* text that describes the runs' layers, one
                                     line per run; may be NULL */
    size_t n_layers, n_described; /* length of `layers` in bytes, and number of
                                     runs with a description */
    bool stands[ES_N_FLAG_KINDS + 1]; /* true if a run has this flag active;
                                         indexed like es_flag_info_at */
};

es_status es_table_new(es_table **out, const es_table_options *options)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a table");
    if (status == ES_OK)
        (*out)->options = *options;
    return status;
}

void es_table_free(es_table *table)
{
    if (!table)
        return;
    es_sheet_free(&table->sheet);
    free(table->path);
    free(table->series);
    free(table->unit);
    free(table->layers);
    free(table);
}

/* --- adding ---------------------------------------------------------------*/

static void put_text(es_sheet *to, const es_field *field,
                     const es_run_summary *run)
{
    const char *title = es_field_title(field);
    char *flags = NULL, *path = NULL;
    if (field->kind == ES_FIELD_FLAGS) {
        es_status status = es_summary_copy_flags(&flags, run);
        if (status == ES_OK)
            es_sheet_put_text(to, title, "%s", flags);
        else
            to->status = status;
    } else if (field->kind == ES_FIELD_FILE && run->n_in_file > 1) {
        if (asprintf(&path, "%s:%zu", run->path, run->number) < 0)
            path = NULL;
        es_sheet_put_name(to, title, path);
        to->status = path ? to->status : ES_ENOMEM;
    } else {
        es_sheet_put_name(to, title, es_field_text(field, run));
    }
    free(flags);
    free(path);
}

static void put_field(es_sheet *to, const es_field *field,
                      const es_run_summary *run)
{
    const char *title = es_field_title(field);
    const size_t n_heads = run->bands.n_heads;
    const double number = es_field_number(field, run);
    if (field->type == ES_FIELD_TEXT)
        put_text(to, field, run);
    else if (field->kind == ES_FIELD_SHARE)
        es_sheet_put_share(to, title, (size_t)es_field_integer(field, run),
                           n_heads);
    else if (field->kind == ES_FIELD_HEADS && n_heads == 0)
        es_sheet_put(to, title, "-");
    else if (field->type == ES_FIELD_INTEGER)
        es_sheet_put_integer(to, title, es_field_integer(field, run));
    else if (field->type == ES_FIELD_MEASURED)
        es_sheet_put_measured(to, title, es_field_measured(field, run));
    else if (isnan(number))
        es_sheet_put(to, title, "-");
    else
        es_sheet_put(to, title, "%.4g", number);
}

/* Returns true if `name` is the file name of `path` without folder and
   extension, as "a" is for "runs/a.db". */
static bool is_named_as_file(const char *name, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    return strlen(name) == length && memcmp(name, base, length) == 0;
}

static const char *colour_of(const es_run_summary *summary)
{
    if (!summary->judged)
        return NULL;
    if (es_summary_alarms(summary))
        return "\033[31m";
    return es_summary_is_ok(summary) ? "\033[32m" : "\033[33m";
}

/* Appends a line that describes the run's layers, for at most 8 runs. */
static es_status add_layers(es_table *table, const es_run_summary *run)
{
    enum { MOST = 8 };
    char *text = NULL, *name = NULL;
    es_status status = es_summary_copy_layers(&text, run);
    if (status < 0 || !text || ++table->n_described > MOST)
        goto done;
    if (!(name = es_display_escape(run->name, ES_ESCAPE_TERMINAL))) {
        status = ES_ENOMEM;
        goto done;
    }
    const size_t size = strlen(name) + strlen(text) + sizeof ": \n";
    status = es_grow(&table->layers, table->n_layers + size, 1, "a table");
    if (status == ES_OK)
        table->n_layers += (size_t)snprintf(table->layers + table->n_layers,
                                            size, "%s: %s\n", name, text);
done:
    free(name);
    free(text);
    return status;
}

/* Records the kinds of the run's active flags of severity warning or above. */
static void note_flags(es_table *table, const es_run_summary *run)
{
    const es_flag_info *info;
    for (size_t i = 0; i < run->n_flags; i++) {
        const es_flag *flag = &run->flags[i];
        if (!flag->stands || flag->severity < ES_SEVERITY_WARNING)
            continue;
        for (size_t k = 0; (info = es_flag_info_at(k)); k++)
            table->stands[k] = table->stands[k] || es_flag_advice(flag) == info;
    }
}

es_status es_table_add(es_table *table, const es_run_summary *run)
{
    es_sheet *sheet = &table->sheet;
    const size_t n_rows = sheet->n_rows;
    size_t column = 0;
    es_status status;
    if ((!table->path &&
         (status = es_copy_text(&table->path, run->path)) < 0) ||
        (!table->series &&
         (status = es_copy_text(&table->series, run->series)) < 0) ||
        (!table->unit && (status = es_copy_text(&table->unit, run->unit)) < 0))
        return status;
    es_sheet_begin_row(sheet, table->options.colour ? colour_of(run) : NULL);
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_TABLE)); column++) {
        const bool file = field->kind == ES_FIELD_FILE;
        put_field(sheet, field, run);
        if (sheet->status < 0) /* remove the incomplete row */
            return es_sheet_take_back(sheet, n_rows);
        es_grid_column *shown = &sheet->columns[column];
        if (n_rows == 0) {
            const bool name = strcmp(field->name, "name") == 0;
            table->name = name ? column : table->name;
            shown->shortened = file || name || strcmp(field->name, "arch") == 0;
            shown->hidden = file || field->shown;
        }
        if (field->shown && field->shown(run))
            shown->hidden = false;
    }
    if ((status = add_layers(table, run)) < 0)
        return status;
    note_flags(table, run);
    table->scaled =
        table->scaled || (run->scaled && run->max.policy != ES_MAX_NUMBER &&
                          run->bands.n_heads > 0);
    table->no_ctx = table->no_ctx || es_summary_lacks_ceiling(run);
    table->interrupted =
        table->interrupted || strcmp(run->status, "interrupted") == 0;
    table->policy = run->max.policy;
    table->m = run->m;
    table->several_files =
        table->several_files || strcmp(table->path, run->path) != 0;
    table->unlike_file =
        table->unlike_file || !is_named_as_file(run->name, run->path);
    return ES_OK;
}

/* --- printing -------------------------------------------------------------*/

/* Prints the command that explains the active flags, as in "causes and
   remedies: entropy-scan explain collapse overload". */
static void print_pointer(const es_table *table, FILE *stream)
{
    const char *before = "causes and remedies: entropy-scan explain";
    const es_flag_info *info;
    for (size_t k = 0; (info = es_flag_info_at(k)); k++) {
        if (!table->stands[k])
            continue;
        fprintf(stream, "%s %s", before, info->name);
        before = "";
    }
    if (!*before)
        fputc('\n', stream);
}

es_status es_table_print(es_table *table, FILE *stream)
{
    es_sheet *sheet = &table->sheet;
    const char **names;
    size_t column = 0;
    if (sheet->n_rows == 0)
        return ES_OK;
    es_status status =
        es_alloc(&names, sheet->n_rows, sizeof *names, "a table");
    if (status < 0)
        return status;
    for (size_t i = 0; i < sheet->n_rows; i++)
        names[i] = es_sheet_cell(sheet, i, table->name);
    /* The table has the file column only if the names do not identify the
       runs. */
    if (es_names_repeat(names, sheet->n_rows) ||
        (table->several_files && table->unlike_file))
        for (const es_field *field = NULL;
             (field = es_field_next(field, ES_FIELD_IN_TABLE)); column++)
            if (field->kind == ES_FIELD_FILE)
                sheet->columns[column].hidden = false;
    free(names);
    if ((status = es_sheet_print(sheet, stream, &table->options)) < 0)
        return status;
    fputc('\n', stream);
    es_summary_print_max(stream, table->policy, table->m, table->unit,
                         table->series);
    if (table->layers)
        fputs(table->layers, stream);
    if (table->scaled)
        fputs("bands: each head relative to its own ceiling\n", stream);
    if (table->no_ctx)
        fputs("no ctx: the ceiling is unknown, so overload and collapse "
              "against it are not judged\n",
              stream);
    if (table->interrupted)
        fputs(
            "interrupted: recorded as running, but no process is writing it\n",
            stream);
    print_pointer(table, stream);
    return ES_OK;
}

/* --- CSV ------------------------------------------------------------------*/

void es_csv_header(FILE *stream)
{
    const char *before = "";
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_CSV)); before = ",")
        fprintf(stream, "%s%s", before, field->name);
    fputc('\n', stream);
}

static es_status print_text(FILE *stream, const es_field *field,
                            const es_run_summary *summary)
{
    char *flags = NULL, *escaped = NULL;
    es_status status = field->kind == ES_FIELD_FLAGS
                           ? es_summary_copy_flags(&flags, summary)
                           : ES_OK;
    if (status == ES_OK &&
        !(escaped = es_display_escape(
              flags ? flags : es_field_text(field, summary), ES_ESCAPE_CSV)))
        status = ES_ENOMEM;
    fputs(escaped ? escaped : "", stream);
    free(escaped);
    free(flags);
    return status;
}

static es_status print_value(FILE *stream, const es_field *field,
                             const es_run_summary *summary)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (field->type == ES_FIELD_TEXT)
        return print_text(stream, field, summary);
    if (field->type == ES_FIELD_MEASURED) {
        float value = es_field_measured(field, summary);
        if (isnan(value) && !es_is_missing(value))
            value = NAN; /* CSV does not contain the payload of a NaN, which
                            only export preserves */
        fputs(es_float_print(text, value), stream);
    } else if (field->type == ES_FIELD_INTEGER) {
        const int64_t value = es_field_integer(field, summary);
        if (value != ES_UNKNOWN)
            fprintf(stream, "%" PRId64, value);
    } else {
        const double value = es_field_number(field, summary);
        if (!isnan(value))
            fputs(es_display_number(text, value), stream);
    }
    return ES_OK;
}

es_status es_csv_run(FILE *stream, const es_run_summary *summary)
{
    const char *before = "";
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_CSV)); before = ",") {
        fputs(before, stream);
        es_status status = print_value(stream, field, summary);
        if (status < 0)
            return status;
    }
    fputc('\n', stream);
    return ES_OK;
}
