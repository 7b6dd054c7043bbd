/* Functions that the parsers of import share. They read the next line with
   content, recognise steps, read numbers from cells, begin the run, and pass
   samples to the sink as long as these stay within the size limit. */
#include "cli/exchange/import_internal.h"
#include "cli/exchange/import_steps.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"

#include <math.h>
#include <string.h>

bool es_import_is_step(const es_import_options *options, const char *name)
{
    return options->step_key ? strcmp(name, options->step_key) == 0
                             : es_step_key_of(name) >= 0;
}

bool es_import_is_blank(const es_line *line)
{
    return strspn(line->text, " \t") == line->n;
}

es_status es_import_next(es_import *import, es_line *out)
{
    for (;;) {
        es_status status = es_line_reader_next(import->lines, out);
        if (status != ES_OK)
            return status;
        bool comment = out->text[0] == '#';
        if (!comment && !es_import_is_blank(out))
            return ES_OK;
        if (comment && !import->begun)
            status = es_about_read(&import->about, out->text);
        if (status == ES_EFORMAT)
            return es_fail(status, "%s: line %zu: %s",
                           es_line_reader_name(import->lines), out->number,
                           es_message());
        if (status == ES_OK && comment && import->begun)
            status = es_import_map(import, out);
        if (status != ES_OK)
            return status;
    }
}

/* Reads a number with a decimal comma, such as "1,5". Returns false if commas
   separate the cells. */
static bool has_decimal_comma(float *out, const es_cells *cells,
                              const char *text)
{
    char copy[64];
    const size_t n = strlen(text), at = strcspn(text, ",");
    if (cells->separator == ',' || at == n || n >= sizeof copy ||
        strpbrk(text + at + 1, ",.") || memchr(text, '.', at))
        return false;
    memcpy(copy, text, n + 1);
    copy[at] = '.';
    return es_float_parse(out, copy, n) == ES_OK;
}

es_status es_import_number(float *out, const es_cells *cells, const char *text)
{
    if (strcmp(text, "NA") == 0) {
        *out = es_missing();
        return ES_OK;
    }
    if (es_float_parse(out, text, strlen(text)) == ES_OK ||
        has_decimal_comma(out, cells, text))
        return ES_OK;
    return es_cells_fail(cells, "%s", es_message());
}

es_status es_import_whole(int64_t *out, const es_cells *cells, char *text,
                          int64_t low, int64_t high)
{
    /* Accept "3.0", because table libraries write indices as floating-point
       numbers if a column has missing values. */
    size_t n = strcspn(text, ".");
    const char *fraction = text[n] ? text + n + 1 : "";
    if (fraction[strspn(fraction, "0")])
        return es_cells_fail(cells, "'%.40s' is not a whole number", text);
    text[n] = 0;
    if (es_int_parse(out, text, low, high) == ES_OK)
        return ES_OK;
    return es_cells_fail(cells, "%s", es_message());
}

static es_status set_size(es_import *import, int64_t *said, int64_t found,
                          const char *noun)
{
    if (*said != ES_UNKNOWN && *said < found)
        return es_fail(ES_EFORMAT, "%s: has %lld %s, but %lld were declared",
                       es_line_reader_name(import->lines), (long long)found,
                       noun, (long long)*said);
    if (*said == ES_UNKNOWN)
        *said = found;
    return ES_OK;
}

static bool is_entropy(const es_text_series *series)
{
    return strncmp(series->name, "entropy", 7) == 0 &&
           (!series->unit || !*series->unit ||
            strcmp(series->unit, "nats") == 0);
}

es_status es_import_begin(es_import *import, int64_t n_layer, int64_t n_head,
                          const es_text_series *series, size_t n_series)
{
    es_run_info *info = &import->about.info;
    es_status status = ES_OK;
    if (import->options->given)
        status = es_about_override(&import->about, import->options->given);
    if (status == ES_OK)
        status = set_size(import, &info->n_layer, n_layer, "layers");
    if (status == ES_OK)
        status = set_size(import, &info->n_head, n_head, "heads");
    if (status != ES_OK)
        return status;
    if (info->n_layer > ES_MAX_VALUES / info->n_head)
        return es_fail(ES_EFORMAT, "%s: %lld layers of %lld heads: %s",
                       es_line_reader_name(import->lines),
                       (long long)info->n_layer, (long long)info->n_head,
                       "too many");
    if (info->n_layer > n_layer || info->n_head > n_head)
        import->largest_line = 0;
    for (size_t i = 0; i < n_series; i++)
        import->bounded[i] = is_entropy(&series[i]);
    if (info->ctx != ES_UNKNOWN)
        import->report->ceiling = log((double)info->ctx);
    import->begun = true;
    if (!info->name)
        info->name = import->options->name;
    return import->sink->begin(import->sink->user, info, series, n_series);
}

es_status es_import_check_growth(es_import *import, size_t n)
{
    const es_run_info *info = &import->about.info;
    uint64_t text = es_line_reader_bytes(import->lines);
    char line[48] = "comments";
    import->bytes += n * sizeof(float);
    if (import->bytes <= ES_IMPORT_BYTES ||
        import->bytes / ES_IMPORT_TIMES <= text)
        return ES_OK;
    if (import->largest_line)
        snprintf(line, sizeof line, "line %zu", import->largest_line);
    return es_fail(
        ES_EFORMAT,
        "%s: %lld layers of %lld heads, from %s: the samples in %llu "
        "KiB of text would take more than %d MiB: check the "
        "numbers of layers and heads",
        es_line_reader_name(import->lines), (long long)info->n_layer,
        (long long)info->n_head, line, (unsigned long long)(text >> 10),
        ES_IMPORT_BYTES >> 20);
}

/* Counts entropies above the ceiling. A tolerance allows for rounding to
   float32. */
static void count_above(es_import_report *report, const float *values, size_t n)
{
    const double limit = report->ceiling * (1 + 1e-6);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]) || !((double)values[i] > limit))
            continue;
        if (!report->n_above || values[i] > report->largest)
            report->largest = values[i];
        report->n_above++;
    }
}

es_status es_import_sample(es_import *import, size_t series, int64_t step,
                           const float *values, size_t n)
{
    es_status status = es_import_check_growth(import, n);
    return status == ES_OK ? es_import_hand_on(import, series, step, values, n)
                           : status;
}

es_status es_import_hand_on(es_import *import, size_t series, int64_t step,
                            const float *values, size_t n)
{
    import->report->n_samples++;
    if (import->bounded[series])
        count_above(import->report, values, n);
    return import->sink->sample(import->sink->user, series, step, values, n);
}
