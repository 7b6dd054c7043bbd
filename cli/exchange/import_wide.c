/* Parses wide tables. A wide table is a CSV file with a step column and a
   column for each named number, as written by Lightning's CSVLogger, W&B's
   charts and TensorBoard. Column names encode series, layer and head like the
   names in a history. Reads the file up to three times, first to choose the
   step column if there are several candidates, then to find the columns that
   have numbers, and last to read the numbers. Empty cells and text are skipped;
   a row whose step is not a non-negative integer is skipped and counted. */
#include "cli/exchange/import_scalars.h"
#include "cli/exchange/import_steps.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"

#include <string.h>
#include <strings.h>

enum { MAX_COLUMNS = 1 << 16 };

typedef struct wide {
    es_import *import;
    es_scalars *scalars;
    es_tag_rules rules;
    char separator;
    char **names; /* (n) names of the columns; owned */
    size_t n, n_step_columns, step_column;
    bool numbers; /* true in the last pass, which reads the numbers */
    int64_t step; /* step of the last row that has a step */
    size_t n_steps;
} wide;

/* --- header ---------------------------------------------------------------*/

static es_status add_column(wide *w, const es_cells *cells, const char *text)
{
    es_status status;
    if (w->n == MAX_COLUMNS)
        return es_cells_fail(cells, "more than %d columns", MAX_COLUMNS);
    if ((status = es_grow(&w->names, w->n + 1, sizeof *w->names, "columns")) <
            0 ||
        (status = es_copy_text(&w->names[w->n], text)) < 0)
        return status;
    if (es_import_is_step(w->import->options, text)) {
        w->n_step_columns++;
        if (w->step_column == SIZE_MAX)
            w->step_column = w->n;
    }
    w->n++;
    return ES_OK;
}

static es_status read_header(wide *w)
{
    es_line line;
    es_cells cells;
    char *text;
    const char *file = es_line_reader_name(w->import->lines);
    es_status status = es_import_next(w->import, &line);
    if (status == ES_DONE)
        return es_fail(ES_EFORMAT, "%s: empty", file);
    if (status != ES_OK)
        return status;
    w->separator = es_cells_separator(&line);
    status = es_cells_begin(&cells, file, &line, w->separator);
    while (status == ES_OK && (status = es_cells_next(&cells, &text)) == ES_OK)
        status = add_column(w, &cells, text);
    if (status != ES_DONE)
        return status;
    const char *key = w->import->options->step_key;
    if (w->step_column == SIZE_MAX && key)
        return es_fail(ES_EFORMAT, "%s: has no column '%.80s'", file, key);
    if (w->step_column == SIZE_MAX)
        return es_fail(ES_EFORMAT,
                       "%s: no column has steps: name one with --step-key",
                       file);
    return ES_OK;
}

/* --- rows -----------------------------------------------------------------*/

/* Returns false if the text is not a non-negative integer. */
static bool read_step(int64_t *out, const es_cells *cells, const char *text)
{
    char copy[64];
    const size_t n = strlen(text);
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, text, n + 1);
    return es_import_whole(out, cells, copy, 0, INT64_MAX - 1) == ES_OK;
}

static bool find_step(int64_t *out, const wide *w, es_cells cells)
{
    char *text;
    for (size_t i = 0; i <= w->step_column; i++)
        if (es_cells_next(&cells, &text) != ES_OK)
            return false;
    return read_step(out, &cells, text);
}

/* Counts, for each candidate for the step column, the numbers that would be
 * imported if the steps were read from this column. */
static es_status count_steps(const wide *w, es_step_keys *keys, es_line *line)
{
    es_cells cells;
    char *text;
    int64_t step;
    float value;
    es_tag tag;
    size_t has_step[ES_STEP_KEYS], n_steps = 0, n_attention = 0, n_numbers = 0;
    es_status status = es_cells_begin(
        &cells, es_line_reader_name(w->import->lines), line, w->separator);
    for (size_t i = 0; status == ES_OK && i < w->n &&
                       (status = es_cells_next(&cells, &text)) == ES_OK;
         i++) {
        if (es_step_key_of(w->names[i]) >= 0) {
            if (n_steps < ES_STEP_KEYS && read_step(&step, &cells, text))
                has_step[n_steps++] = i;
        } else if (*text && es_import_number(&value, &cells, text) == ES_OK) {
            n_numbers++;
            n_attention += es_tag_parse(&tag, w->names[i], &w->rules) &&
                           tag.shape != ES_SHAPE_RUN;
        }
    }
    for (size_t i = 0; i < n_steps; i++)
        es_step_keys_add(keys, w->names[has_step[i]], n_attention, n_numbers);
    return status == ES_DONE ? ES_OK : status;
}

/* Reads the header, and chooses the step column. */
static es_status choose_steps(wide *w)
{
    es_line line;
    es_step_keys keys = {0};
    es_status status = read_header(w);
    if (status != ES_OK || w->n_step_columns < 2)
        return status;
    while ((status = es_import_next(w->import, &line)) == ES_OK)
        if ((status = count_steps(w, &keys, &line)) != ES_OK)
            return status;
    if (status != ES_DONE ||
        (status = es_line_reader_rewind(w->import->lines)) < 0 ||
        (status = es_import_next(w->import, &line)) != ES_OK)
        return status;
    const char *chosen = es_step_keys_choose(&keys, w->import->report);
    for (size_t i = 0; chosen && i < w->n; i++)
        if (strcmp(w->names[i], chosen) == 0)
            w->step_column = i;
    return ES_OK;
}

/* Returns false for the step column, the column "Wall time" of TensorBoard, and
   W&B's internal columns, such as _runtime. */
static bool is_wanted(const wide *w, size_t column)
{
    const char *name = w->names[column];
    return *name != '_' && strcasecmp(name, "wall time") != 0 &&
           !es_import_is_step(w->import->options, name);
}

static es_status take_cells(const wide *w, es_cells *cells, size_t line)
{
    char *text;
    float value;
    es_status status;
    for (size_t i = 0; (status = es_cells_next(cells, &text)) == ES_OK; i++) {
        if (i >= w->n)
            return es_cells_fail(
                cells, "the line is too long: the header has %zu columns",
                w->n);
        if (!*text || !is_wanted(w, i) ||
            es_import_number(&value, cells, text) != ES_OK)
            continue;
        status = w->numbers
                     ? es_scalars_put(w->scalars, w->names[i], w->step, value)
                     : es_scalars_name(w->scalars, w->names[i], line);
        if (status != ES_OK)
            return status;
    }
    return status == ES_DONE ? ES_OK : status;
}

static es_status take_row(wide *w, const es_line *line)
{
    es_cells cells, again;
    int64_t step;
    es_line copy = *line;
    char *text = NULL;
    const char *file = es_line_reader_name(w->import->lines);
    es_status status = es_cells_begin(&cells, file, line, w->separator);
    if (status != ES_OK)
        return status;
    /* Splitting modifies the line, and the line is split twice, so the step is
       read from a copy. */
    if ((status = es_copy_text(&text, line->text)) < 0)
        return status;
    copy.text = text;
    status = es_cells_begin(&again, file, &copy, w->separator);
    if (status == ES_OK && !find_step(&step, w, again)) {
        w->import->report->n_ignored += w->numbers;
    } else if (status == ES_OK) {
        if (w->numbers && w->n_steps && step < w->step) {
            w->import->report->n_again++;
            es_scalars_void(w->scalars, step);
        }
        w->step = step;
        w->n_steps++;
        status = take_cells(w, &cells, line->number);
    }
    free(text);
    return status;
}

static es_status read_rows(wide *w)
{
    es_line line;
    es_status status;
    w->n_steps = 0;
    while ((status = es_import_next(w->import, &line)) == ES_OK)
        if ((status = take_row(w, &line)) != ES_OK)
            return status;
    return status == ES_DONE ? ES_OK : status;
}

static es_status check_steps(const wide *w)
{
    return w->n_steps
               ? ES_OK
               : es_fail(ES_EFORMAT,
                         "%s: no row has a non-negative integer in column "
                         "'%.80s': name another column with --step-key",
                         es_line_reader_name(w->import->lines),
                         w->names[w->step_column]);
}

es_status es_import_wide(es_import *import)
{
    wide w = {.import = import,
              .step_column = SIZE_MAX,
              .rules = {.pattern = import->options->tags,
                        .series = import->options->series}};
    es_line header;
    es_status status;
    if ((status = es_scalars_new(&w.scalars, import, &w.rules)) == ES_OK &&
        (status = choose_steps(&w)) == ES_OK &&
        (status = read_rows(&w)) == ES_OK &&
        (status = check_steps(&w)) == ES_OK &&
        (status = es_scalars_begin(w.scalars)) == ES_OK &&
        (status = es_line_reader_rewind(import->lines)) == ES_OK &&
        (status = es_import_next(import, &header)) == ES_OK) {
        w.numbers = true;
        if ((status = read_rows(&w)) == ES_OK)
            status = es_scalars_finish(w.scalars);
    }
    for (size_t i = 0; i < w.n; i++)
        free(w.names[i]);
    free(w.names);
    es_scalars_free(w.scalars);
    return status;
}
