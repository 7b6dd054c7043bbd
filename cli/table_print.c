#include "cli/table_internal.h"

#include "analyzer/base/checked.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const es_grid_column titles[ES_N_COLUMNS] = {
    [ES_COLUMN_FILE] = {.title = "file", .shortened = true},
    [ES_COLUMN_RUN] = {.title = "run", .shortened = true},
    [ES_COLUMN_ARCH] = {.title = "arch", .shortened = true},
    [ES_COLUMN_STATUS] = {.title = "status"},
    [ES_COLUMN_STEP] = {.title = "step", .right = true},
    [ES_COLUMN_PHASE] = {.title = "phase"},
    [ES_COLUMN_LOSS] = {.title = "loss", .right = true},
    [ES_COLUMN_PPL] = {.title = "ppl", .right = true},
    [ES_COLUMN_EVAL] = {.title = "eval ppl", .right = true},
    [ES_COLUMN_BAND] = {.title = "<m/4", .right = true},
    [ES_COLUMN_BAND + 1] = {.title = "<m/2", .right = true},
    [ES_COLUMN_BAND + 2] = {.title = "<3m/4", .right = true},
    [ES_COLUMN_BAND + 3] = {.title = "<=m", .right = true},
    [ES_COLUMN_NAN] = {.title = "nan", .right = true},
    [ES_COLUMN_MAX] = {.title = "m", .right = true},
    [ES_COLUMN_FLAGS] = {.title = "flags"},
};

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
        names[i] = table->rows[i].cells[ES_COLUMN_RUN];
    qsort(names, table->n_rows, sizeof *names, by_name);
    for (size_t i = 1; i < table->n_rows && !twins; i++)
        twins = strcmp(names[i - 1], names[i]) == 0;
    free(names);
    return twins;
}

/* Files are shown where the names do not tell the runs, or the files. */
static bool shows_files(const es_table *table)
{
    return (table->several && table->untold) || has_twins(table);
}

static const char *colour_of(const es_row *row)
{
    if (!row->judged)
        return NULL;
    if (row->severity >= ES_SEVERITY_ERROR)
        return "\033[31m";
    return row->severity == ES_SEVERITY_NONE ? "\033[32m" : "\033[33m";
}

static void print_rows(FILE *stream, const es_table *table)
{
    es_grid_column columns[ES_N_COLUMNS];
    for (int i = 0; i < ES_N_COLUMNS; i++) {
        columns[i] = titles[i];
        if (i == ES_COLUMN_FILE ? !shows_files(table) : !table->shown[i])
            columns[i].title = NULL;
    }
    for (size_t i = 0; i < table->n_rows; i++)
        table->lines[i] = (es_grid_row){
            .cells = table->rows[i].cells,
            .colour =
                table->options.colour ? colour_of(&table->rows[i]) : NULL};
    es_grid_print(stream, columns, ES_N_COLUMNS, table->lines, table->n_rows,
                  &table->options);
}

static void print_max(FILE *stream, const es_table *table)
{
    static const char *const meanings[] = {
        [ES_MAX_OBSERVED] = "observed: the largest of all runs shown",
        [ES_MAX_RUN] = "run: the largest of each run",
        [ES_MAX_CEILING] = "ceiling: ln(T!)/T of each run",
        [ES_MAX_LOGT] = "logT: ln T of each run",
        [ES_MAX_NUMBER] = "as given",
    };
    if (table->shown[ES_COLUMN_MAX])
        fputs("m in", stream);
    else if (isnan(table->m))
        fputs("m unknown, in", stream);
    else
        fprintf(stream, "m = %.4g", table->m);
    if (strcmp(table->unit, "-") != 0)
        fprintf(stream, " %s", table->unit);
    if (strcmp(table->series, "entropy") != 0)
        fprintf(stream, " of %s", table->series);
    fprintf(stream, " (%s)\n", meanings[table->policy]);
}

void es_table_print(const es_table *table, FILE *stream)
{
    if (table->n_rows == 0)
        return;
    print_rows(stream, table);
    fputc('\n', stream);
    print_max(stream, table);
    if (table->no_ctx)
        fputs("no ctx: the ceiling is unknown, so overload and collapse "
              "against it are not judged\n",
              stream);
    if (table->interrupted)
        fputs("interrupted: recorded as running, but no process writes it\n",
              stream);
}
