#include "cli/scan/table_internal.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
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

void es_table_print_max(FILE *stream, es_max_policy policy, double m,
                        const char *unit, const char *series)
{
    static const char *const meanings[] = {
        [ES_MAX_OBSERVED] = "observed: the largest of all runs shown",
        [ES_MAX_RUN] = "run: the largest of each run",
        [ES_MAX_CEILING] = "ceiling: ln(T!)/T of each run",
        [ES_MAX_LOGT] = "logT: ln T of each run",
        [ES_MAX_NUMBER] = "as given",
    };
    if (policy != ES_MAX_OBSERVED && policy != ES_MAX_NUMBER)
        fputs("m in", stream);
    else if (isnan(m))
        fputs("m unknown, in", stream);
    else
        fprintf(stream, "m = %.4g", m);
    if (*unit && strcmp(unit, "-") != 0) {
        fputc(' ', stream);
        es_print_escaped(stream, unit, ES_ESCAPE_TERMINAL);
    }
    if (strcmp(series, "entropy") != 0) {
        fputs(" of ", stream);
        es_print_escaped(stream, series, ES_ESCAPE_TERMINAL);
    }
    fprintf(stream, " (%s)\n", meanings[policy]);
}

void es_table_print(const es_table *table, FILE *stream)
{
    if (table->n_rows == 0)
        return;
    print_rows(stream, table);
    fputc('\n', stream);
    es_table_print_max(stream, table->policy, table->m, table->unit,
                       table->series);
    if (table->no_ctx)
        fputs("no ctx: the ceiling is unknown, so overload and collapse "
              "against it are not judged\n",
              stream);
    if (table->interrupted)
        fputs("interrupted: recorded as running, but no process writes it\n",
              stream);
}
