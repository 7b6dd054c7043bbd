#include "cli/scan/table_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool wants_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    if (!isatty(fileno(stream)) || (no_colour && *no_colour))
        return false;
    return term && strcmp(term, "dumb") != 0;
}

void es_table_options_for(es_table_options *out, FILE *stream)
{
    struct winsize size;
    *out = (es_table_options){.colour = wants_colour(stream)};
    if (!isatty(fileno(stream)))
        return;
    bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0;
    out->width = known && size.ws_col > 0 ? size.ws_col : 80;
}

es_status es_table_new(es_table **out, const es_table_options *options)
{
    static const es_column always[] = {
        ES_COLUMN_RUN, ES_COLUMN_ARCH, ES_COLUMN_STEP, ES_COLUMN_LOSS,
        ES_COLUMN_PPL, ES_COLUMN_NAN,  ES_COLUMN_FLAGS};
    es_table *table = calloc(1, sizeof *table);
    if (!table)
        return es_fail(ES_ENOMEM, "out of memory for a table");
    table->options = *options;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        table->shown[always[i]] = true;
    for (int band = 0; band < ES_N_BANDS; band++)
        table->shown[ES_COLUMN_BAND + band] = true;
    *out = table;
    return ES_OK;
}

static void free_row(es_row *row)
{
    for (int column = 0; column < ES_N_COLUMNS; column++)
        free(row->cells[column]);
}

void es_table_free(es_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->n_rows; i++)
        free_row(&table->rows[i]);
    free(table->rows);
    free(table->lines);
    free(table->path);
    free(table->series);
    free(table->unit);
    free(table);
}

static es_status set_max(char **cell, double m)
{
    return isnan(m) ? es_cell_print(cell, "-") : es_cell_number(cell, m);
}

static es_status set_file(char **cell, const es_run_summary *summary)
{
    char *path;
    es_status status = es_cell_name(&path, summary->path);
    if (status)
        return status;
    status = summary->n_in_file > 1
                 ? es_cell_print(cell, "%s:%zu", path, summary->number)
                 : es_cell_print(cell, "%s", path);
    free(path);
    return status;
}

static es_status set_flags(char **cell, const es_run_summary *summary)
{
    size_t length = es_summary_print_flags(NULL, 0, summary);
    *cell = es_resize(NULL, length + 1, 1);
    if (!*cell)
        return es_fail(ES_ENOMEM, "out of memory for a table");
    es_summary_print_flags(*cell, length + 1, summary);
    return ES_OK;
}

static es_status set_bands(char **cells, const es_run_summary *summary)
{
    const es_bands *bands = &summary->bands;
    es_status status = ES_OK;
    for (int band = 0; band < ES_N_BANDS && !status; band++)
        status = es_cell_share(&cells[ES_COLUMN_BAND + band], bands, band);
    if (status)
        return status;
    char **nan_cell = &cells[ES_COLUMN_NAN];
    return bands->n_heads ? es_cell_print(nan_cell, "%zu", bands->nonfinite)
                          : es_cell_print(nan_cell, "-");
}

static es_status set_cells(char **cells, const es_run_summary *summary)
{
    es_status status;
    if ((status = set_file(&cells[ES_COLUMN_FILE], summary)) ||
        (status = es_cell_name(&cells[ES_COLUMN_RUN], summary->name)) ||
        (status = es_cell_name(&cells[ES_COLUMN_ARCH], summary->arch)) ||
        (status =
             es_cell_print(&cells[ES_COLUMN_STATUS], "%s", summary->status)) ||
        (status = es_cell_print(&cells[ES_COLUMN_STEP], "%" PRId64,
                                summary->step)) ||
        (status = es_cell_print(&cells[ES_COLUMN_PHASE], "%s",
                                es_phase_name(summary->phase))) ||
        (status = es_cell_measured(&cells[ES_COLUMN_LOSS], summary->loss)) ||
        (status = es_cell_measured(&cells[ES_COLUMN_PPL], summary->ppl)) ||
        (status =
             es_cell_measured(&cells[ES_COLUMN_EVAL], summary->eval_ppl)) ||
        (status = set_bands(cells, summary)) ||
        (status = set_max(&cells[ES_COLUMN_MAX], summary->m)))
        return status;
    return set_flags(&cells[ES_COLUMN_FLAGS], summary);
}

/* "runs/a.db" is told by "a". */
static bool tells_file(const char *name, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    return strlen(name) == length && memcmp(name, base, length) == 0;
}

/* Columns that tell something only now. */
static void show_columns(es_table *table, const es_run_summary *summary)
{
    bool *shown = table->shown;
    if (strcmp(summary->status, "finished") != 0)
        shown[ES_COLUMN_STATUS] = true;
    if (summary->phase == ES_PHASE_EVAL)
        shown[ES_COLUMN_PHASE] = true;
    else if (!es_is_missing(summary->eval_ppl))
        shown[ES_COLUMN_EVAL] = true;
    if (summary->max.policy != ES_MAX_OBSERVED &&
        summary->max.policy != ES_MAX_NUMBER)
        shown[ES_COLUMN_MAX] = true;
}

static void note_summary(es_table *table, const es_run_summary *summary)
{
    table->no_ctx = table->no_ctx || summary->ctx == ES_UNKNOWN;
    table->interrupted =
        table->interrupted || strcmp(summary->status, "interrupted") == 0;
    table->policy = summary->max.policy;
    table->m = summary->m;
    table->several = table->several || strcmp(table->path, summary->path) != 0;
    table->untold = table->untold || !tells_file(summary->name, summary->path);
}

static es_status reserve(es_table *table)
{
    if (table->n_rows < table->capacity)
        return ES_OK;
    size_t capacity = table->capacity ? 2 * table->capacity : 16;
    es_row *grown = es_resize(table->rows, capacity, sizeof *grown);
    if (grown)
        table->rows = grown;
    es_grid_row *lines = es_resize(table->lines, capacity, sizeof *lines);
    if (lines)
        table->lines = lines;
    if (!grown || !lines)
        return es_fail(ES_ENOMEM, "out of memory for a table");
    table->capacity = capacity;
    return ES_OK;
}

es_status es_table_add(es_table *table, const es_run_summary *summary)
{
    es_row row = {.severity = es_summary_severity(summary),
                  .judged = summary->judged};
    es_status status = reserve(table);
    if (!status && !table->path && !(table->path = strdup(summary->path)))
        status = es_fail(ES_ENOMEM, "out of memory for a table");
    if (!status && !table->series)
        status = es_cell_name(&table->series, summary->series);
    if (!status && !table->unit)
        status = es_cell_name(&table->unit, summary->unit);
    if (!status)
        status = set_cells(row.cells, summary);
    if (status) {
        free_row(&row);
        return status;
    }
    table->rows[table->n_rows++] = row;
    show_columns(table, summary);
    note_summary(table, summary);
    return ES_OK;
}
