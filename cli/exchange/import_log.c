/* Parses logs, that is, any text that contains lines with "Step s - Layer l:
   v". If a step is lower than the previous one, the training was resumed, and
   the earlier samples at this step and later steps are dropped. Reads the file
   twice: first for the number of layers, then for the values. */
#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/exchange/import_internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Skips blanks, then `word` in upper or lower case, then blanks; returns NULL
   if the text does not continue with `word`. */
static const char *skip_word(const char *c, const char *word)
{
    c += strspn(c, " \t");
    size_t n = strlen(word);
    if (strncasecmp(c, word, n) != 0)
        return NULL;
    return c + n + strspn(c + n, " \t");
}

static const char *skip_digits(const char *c)
{
    size_t n = strspn(c, "0123456789");
    return n ? c + n : NULL;
}

static bool match_at(es_log_line *out, const char *c)
{
    if (!(c = skip_word(c, "step")))
        return false;
    out->step = c;
    if (!(c = skip_digits(c)) || !(c = skip_word(c, "-")) ||
        !(c = skip_word(c, "layer")))
        return false;
    out->layer = c;
    if (!(c = skip_digits(c)) || !(c = skip_word(c, ":")))
        return false;
    out->value = c;
    return true;
}

bool es_import_log_match(es_log_line *out, const char *line)
{
    /* An entry may begin anywhere in the line, since a progress bar may precede
       it. */
    for (const char *c = line; (c = strcasestr(c, "step")); c++)
        if ((c == line || !isalnum((unsigned char)c[-1])) && match_at(out, c))
            return true;
    return false;
}

/* Prefixes the error message with the positions of the line and the
   character. */
static es_status fail_at(const es_import *import, const es_line *line,
                         const char *c)
{
    es_cells place = {.file = es_line_reader_name(import->lines),
                      .line = line->number,
                      .column = (size_t)(c - line->text) + 1};
    return es_cells_fail(&place, "%s", es_message());
}

static es_status parse_whole(int64_t *out, const es_import *import,
                             const es_line *line, const char *c, int64_t high)
{
    char digits[32];
    size_t n = strspn(c, "0123456789");
    snprintf(digits, sizeof digits, "%.*s", (int)(n < 31 ? n : 31), c);
    if (es_int_parse(out, digits, 0, high) == ES_OK)
        return ES_OK;
    return fail_at(import, line, c);
}

typedef struct entry {
    size_t line;
    int64_t step, layer;
    float value;
} entry;

/* Reads the next line that has a log entry, and counts the lines skipped before
   it. */
static es_status next_entry(es_import *import, entry *out)
{
    es_line line;
    es_log_line found;
    es_status status;
    while ((status = es_line_reader_next(import->lines, &line)) == ES_OK &&
           !es_import_log_match(&found, line.text))
        import->report->n_ignored++;
    if (status != ES_OK)
        return status;
    out->line = line.number;
    if ((status = parse_whole(&out->step, import, &line, found.step,
                              INT64_MAX - 1)) < 0 ||
        (status = parse_whole(&out->layer, import, &line, found.layer,
                              ES_MAX_LAYERS - 1)) < 0)
        return status;
    size_t n = strcspn(found.value, " \t,;");
    status = n ? es_float_parse(&out->value, found.value, n)
               : es_fail(ES_EFORMAT, "no number after 'Layer %lld:'",
                         (long long)out->layer);
    return status == ES_OK ? ES_OK : fail_at(import, &line, found.value);
}

static es_status count_layers(es_import *import, int64_t *n_layer)
{
    entry next;
    es_status status;
    *n_layer = 0;
    while ((status = next_entry(import, &next)) == ES_OK)
        if (*n_layer <= next.layer) {
            *n_layer = next.layer + 1;
            import->largest_line = next.line;
        }
    if (status < 0)
        return status;
    if (!*n_layer)
        return es_fail(
            ES_EFORMAT,
            "%s: no line (of %zu) has the form 'Step 100 - Layer 0: 2.5'",
            es_line_reader_name(import->lines), import->report->n_ignored);
    import->report->n_ignored = 0;
    return es_line_reader_rewind(import->lines);
}

static es_status begin_run(es_import *import, int64_t n_layer)
{
    es_text_series series = {.phase = import->options->phase,
                             .shape = ES_SHAPE_LAYER};
    es_status status = es_copy_text(&series.name, import->options->series);
    if (status == ES_OK)
        status = es_import_begin(import, n_layer, 1, &series, 1);
    free(series.name);
    return status;
}

/* The values of all layers at the current step. */
typedef struct step_row {
    int64_t step;
    float *values; /* (n) */
    size_t n;
    bool open;
} step_row;

static es_status flush_row(es_import *import, step_row *row)
{
    if (!row->open)
        return ES_OK;
    row->open = false;
    return es_import_sample(import, 0, row->step, row->values, row->n);
}

static es_status to_step(es_import *import, step_row *row, int64_t step)
{
    if (row->open && row->step == step)
        return ES_OK;
    bool back = row->open && step < row->step;
    es_status status = flush_row(import, row);
    if (status == ES_OK && back) {
        import->report->n_again++;
        status = import->sink->again(import->sink->user, step);
    }
    row->step = step;
    row->open = true;
    for (size_t i = 0; i < row->n; i++)
        row->values[i] = es_missing();
    return status;
}

static es_status hand_on(es_import *import, step_row *row)
{
    entry next;
    es_status status;
    while ((status = next_entry(import, &next)) == ES_OK) {
        if (next.layer >= (int64_t)row->n)
            return es_fail(ES_EIO, "%s: changed while it was read",
                           es_line_reader_name(import->lines));
        status = to_step(import, row, next.step);
        if (status != ES_OK)
            return status;
        import->report->n_replaced += !es_is_missing(row->values[next.layer]);
        row->values[next.layer] = next.value;
    }
    return status == ES_DONE ? flush_row(import, row) : status;
}

es_status es_import_log(es_import *import)
{
    int64_t n_layer;
    es_status status;
    if ((status = count_layers(import, &n_layer)) < 0 ||
        (status = begin_run(import, n_layer)) < 0)
        return status;
    step_row row = {.n = (size_t)import->about.info.n_layer};
    status = es_alloc(&row.values, row.n, sizeof *row.values, "the layers");
    if (status < 0)
        return status;
    status = hand_on(import, &row);
    free(row.values);
    return status;
}
