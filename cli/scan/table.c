/* The table of runs. Its columns are the fields of cli/runs/fields.c that are
   shown in a table; some appear only where a run has something to say there,
   so the lines are kept as text until all runs are known. */
#include "cli/scan/table.h"

#include "analyzer/base/checked.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct es_table {
    es_table_options options;
    const es_field **fields; /* (n_columns) */
    es_grid_column *columns; /* (n_columns) title NULL: not shown yet */
    size_t n_columns, name;  /* name: the column of the runs' names */
    char **cells;            /* (n_rows,n_columns) owned; safe to print */
    es_grid_row *rows;       /* (n_rows) their cells are set for printing */
    size_t n_rows, capacity;
    bool no_ctx, interrupted; /* some run is */
    bool several_files;
    bool unlike_file;     /* some run's name is not its file's */
    es_max_policy policy; /* of all runs; so is what follows */
    double m;             /* of the last run */
    char *path;           /* of the first run; NULL: none yet */
    char *series, *unit;  /* NULL: no run yet */
};

static es_status add_columns(es_table *table)
{
    es_status status;
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_TABLE));)
        table->n_columns++;
    size_t n = table->n_columns;
    if ((status = es_alloc(&table->fields, n, sizeof *table->fields,
                           "a table")) < 0 ||
        (status = es_alloc(&table->columns, n, sizeof *table->columns,
                           "a table")) < 0)
        return status;
    const es_field *field = NULL;
    for (size_t i = 0; i < n; i++) {
        field = es_field_next(field, ES_FIELD_IN_TABLE);
        const bool name = strcmp(field->name, "name") == 0;
        const bool file = field->kind == ES_FIELD_FILE;
        table->fields[i] = field;
        table->columns[i] = (es_grid_column){
            .title = file || field->shown ? NULL : es_field_title(field),
            .right = field->type != ES_FIELD_TEXT,
            .shortened = file || name || strcmp(field->name, "arch") == 0};
        table->name = name ? i : table->name;
    }
    return ES_OK;
}

es_status es_table_new(es_table **out, const es_table_options *options)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a table");
    if (status < 0)
        return status;
    (*out)->options = *options;
    if ((status = add_columns(*out)) < 0) {
        es_table_free(*out);
        *out = NULL;
    }
    return status;
}

static void free_cells(char **cells, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(cells[i]);
}

void es_table_free(es_table *table)
{
    if (!table)
        return;
    free_cells(table->cells, table->n_rows * table->n_columns);
    free(table->cells);
    free(table->rows);
    free(table->fields);
    free(table->columns);
    free(table->path);
    free(table->series);
    free(table->unit);
    free(table);
}

/* --- adding ---------------------------------------------------------------*/

static es_status set_file(char **cell, const es_run_summary *summary)
{
    char *path;
    es_status status = es_cell_name(&path, summary->path);
    if (status < 0)
        return status;
    status = summary->n_in_file > 1
                 ? es_cell_print(cell, "%s:%zu", path, summary->number)
                 : es_cell_print(cell, "%s", path);
    free(path);
    return status;
}

static es_status set_integer(char **cell, const es_field *field,
                             const es_run_summary *summary)
{
    const int64_t value = es_field_integer(field, summary);
    const size_t n_heads = summary->bands.n_heads;
    if (field->kind == ES_FIELD_SHARE)
        return es_cell_share(cell, (size_t)value, n_heads);
    if (value == ES_UNKNOWN || (field->kind == ES_FIELD_HEADS && n_heads == 0))
        return es_cell_print(cell, "-");
    return es_cell_print(cell, "%" PRId64, value);
}

static es_status set_cell(char **cell, const es_field *field,
                          const es_run_summary *summary)
{
    if (field->kind == ES_FIELD_FLAGS)
        return es_summary_copy_flags(cell, summary);
    if (field->kind == ES_FIELD_FILE)
        return set_file(cell, summary);
    if (field->type == ES_FIELD_TEXT)
        return es_cell_name(cell, es_field_text(field, summary));
    if (field->type == ES_FIELD_INTEGER)
        return set_integer(cell, field, summary);
    if (field->type == ES_FIELD_MEASURED)
        return es_cell_measured(cell, es_field_measured(field, summary));
    const double value = es_field_number(field, summary);
    return isnan(value) ? es_cell_print(cell, "-")
                        : es_cell_number(cell, value);
}

/* Is the run "a" of the file "runs/a.db"? */
static bool is_named_as_file(const char *name, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    return strlen(name) == length && memcmp(name, base, length) == 0;
}

static void note_summary(es_table *table, const es_run_summary *summary)
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->fields[i]->shown && table->fields[i]->shown(summary))
            table->columns[i].title = es_field_title(table->fields[i]);
    table->no_ctx = table->no_ctx || summary->ctx == ES_UNKNOWN;
    table->interrupted =
        table->interrupted || strcmp(summary->status, "interrupted") == 0;
    table->policy = summary->max.policy;
    table->m = summary->m;
    table->several_files =
        table->several_files || strcmp(table->path, summary->path) != 0;
    table->unlike_file =
        table->unlike_file || !is_named_as_file(summary->name, summary->path);
}

static es_status reserve(es_table *table)
{
    es_status status;
    if (table->n_rows < table->capacity)
        return ES_OK;
    const size_t n = table->capacity ? 2 * table->capacity : 16;
    if ((status = es_grow(&table->cells, n,
                          table->n_columns * sizeof *table->cells, "a table")) <
            0 ||
        (status = es_grow(&table->rows, n, sizeof *table->rows, "a table")) < 0)
        return status;
    table->capacity = n;
    return ES_OK;
}

static const char *colour_of(const es_run_summary *summary)
{
    if (!summary->judged)
        return NULL;
    if (es_summary_alarms(summary))
        return "\033[31m";
    return es_summary_is_ok(summary) ? "\033[32m" : "\033[33m";
}

es_status es_table_add(es_table *table, const es_run_summary *summary)
{
    es_status status;
    if ((status = reserve(table)) < 0 ||
        (!table->path &&
         (status = es_copy_text(&table->path, summary->path)) < 0) ||
        (!table->series &&
         (status = es_copy_text(&table->series, summary->series)) < 0) ||
        (!table->unit &&
         (status = es_copy_text(&table->unit, summary->unit)) < 0))
        return status;
    char **cells = table->cells + table->n_rows * table->n_columns;
    for (size_t i = 0; i < table->n_columns; i++)
        if ((status = set_cell(&cells[i], table->fields[i], summary)) < 0) {
            free_cells(cells, i);
            return status;
        }
    table->rows[table->n_rows++] = (es_grid_row){
        .colour = table->options.colour ? colour_of(summary) : NULL};
    note_summary(table, summary);
    return ES_OK;
}

/* --- printing -------------------------------------------------------------*/

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_twins(const es_table *table)
{
    bool twins = false;
    char **names = es_resize(NULL, table->n_rows, sizeof *names);
    if (!names)
        return true; /* the column too many does no harm */
    for (size_t i = 0; i < table->n_rows; i++)
        names[i] = table->cells[i * table->n_columns + table->name];
    qsort(names, table->n_rows, sizeof *names, by_name);
    for (size_t i = 1; i < table->n_rows && !twins; i++)
        twins = strcmp(names[i - 1], names[i]) == 0;
    free(names);
    return twins;
}

void es_table_print(es_table *table, FILE *stream)
{
    if (table->n_rows == 0)
        return;
    /* Files are named where the names of the runs do not identify them. */
    if ((table->several_files && table->unlike_file) || has_twins(table))
        for (size_t i = 0; i < table->n_columns; i++)
            if (table->fields[i]->kind == ES_FIELD_FILE)
                table->columns[i].title = es_field_title(table->fields[i]);
    for (size_t i = 0; i < table->n_rows; i++)
        table->rows[i].cells = table->cells + i * table->n_columns;
    es_grid_print(stream, table->columns, table->n_columns, table->rows,
                  table->n_rows, &table->options);
    fputc('\n', stream);
    es_summary_print_max(stream, table->policy, table->m, table->unit,
                         table->series);
    if (table->no_ctx)
        fputs("no ctx: the ceiling is unknown, so overload and collapse "
              "against it are not judged\n",
              stream);
    if (table->interrupted)
        fputs("interrupted: recorded as running, but no process writes it\n",
              stream);
}
