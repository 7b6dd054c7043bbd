/* Prints the trends as sentences below the table, and as the member "trends" of
 * --json. */
#include "cli/trends/trends_internal.h"

#include "cli/output/print.h"

#include <inttypes.h>
#include <math.h>

/* --- sentences ------------------------------------------------------------*/

static void print_subject(FILE *stream, const es_run_trends *run, size_t line)
{
    fputs("  ", stream);
    if (run->shape == ES_SHAPE_RUN)
        es_print_escaped(stream, run->series, ES_ESCAPE_TERMINAL);
    else
        fprintf(stream, "layer %zu", line);
}

/* Prints the robust fit, such as "robust fit 0.011, 0.01 to 0.013)". For a
 * falling line the signs are reversed, because the sentence already contains
 * the word "falls". */
static void print_robust(FILE *stream, const es_robust_fit *fit, bool falls)
{
    const double sign = falls ? -1 : 1;
    if (fit->reason)
        fprintf(stream, "no robust fit: %s)", es_reason_text(fit->reason));
    else
        fprintf(stream, "robust fit %.2g, %.2g to %.2g)", sign * fit->slope,
                sign * (falls ? fit->high : fit->low),
                sign * (falls ? fit->low : fit->high));
}

/* Prints the trend of one layer or run, such as "layer 7 falls 0.012 nats a
 * step, below 5% of the ceiling at step 1900 (1700 to 2300)". */
static void print_line(FILE *stream, const es_run_trends *run, size_t index)
{
    const es_line_trend *line = &run->lines[index];
    const es_series_trend *trend = &line->trend;
    const bool falls = trend->slope < 0;
    print_subject(stream, run, index);
    fprintf(stream, " %s %.2g ", falls ? "falls" : "rises", fabs(trend->slope));
    es_print_escaped(stream, run->unit, ES_ESCAPE_TERMINAL);
    fprintf(stream, "%sa step (%.2g to %.2g, p %.2g; ", *run->unit ? " " : "",
            fabs(falls ? trend->high : trend->low),
            fabs(falls ? trend->low : trend->high), line->p_holm);
    print_robust(stream, &line->robust, falls);
    if (!isnan(line->passes)) {
        fprintf(stream, ", %s %.3g%% of the ceiling at step %.0f (%.0f to ",
                falls ? "below" : "above", 100 * line->share, line->passes,
                line->earliest);
        if (isinf(line->latest))
            fputs("never)", stream);
        else
            fprintf(stream, "%.0f)", line->latest);
    }
    fputc('\n', stream);
}

static void print_run(FILE *stream, const es_run_trends *run)
{
    size_t n_silent = 0, n_unknown = 0;
    fputc('\n', stream);
    es_print_escaped(stream, *run->name ? run->name : run->path,
                     ES_ESCAPE_TERMINAL);
    fprintf(stream, ", trends over steps %" PRId64 " to %" PRId64 "\n",
            run->first, run->last);
    for (size_t i = 0; i < run->n; i++) {
        const es_line_trend *line = &run->lines[i];
        if (es_trend_is_named(line))
            print_line(stream, run, i);
        else if (line->trend.reason == ES_REASON_FEW)
            n_unknown++;
        else
            n_silent++;
    }
    if (n_silent)
        fprintf(stream, "  no trend: %zu of %zu\n", n_silent, run->n);
    if (n_unknown)
        fprintf(stream, "  fewer than %d points: %zu of %zu\n", ES_TREND_LEAST,
                n_unknown, run->n);
}

void es_trends_print(const es_trends *trends, FILE *stream)
{
    size_t n = 0;
    for (size_t i = 0; i < trends->n; i++)
        if (trends->runs[i].n > 0) {
            print_run(stream, &trends->runs[i]);
            n++;
        }
    if (n > 0)
        fputs("\n"
              "slope by Theil and Sen with its 95% interval; p by Mann and "
              "Kendall, adjusted for all layers by Holm; steps at which a "
              "threshold is passed if the trend continues\n"
              "robust fit: slope of a line by Tukey's bisquare and its 95% "
              "interval\n",
              stream);
}

/* --- JSON -----------------------------------------------------------------*/

static void put_line(es_json_writer *json, const es_run_trends *run,
                     size_t index)
{
    const es_line_trend *line = &run->lines[index];
    const es_series_trend *trend = &line->trend;
    es_json_write_object(json, NULL);
    if (run->shape == ES_SHAPE_RUN)
        es_json_write_null(json, "layer");
    else
        es_json_write_size(json, "layer", index);
    es_json_write_size(json, "n", trend->n);
    es_json_write_stated(json, "slope", trend->slope, "missing");
    es_json_write_stated(json, "low", trend->low, "missing");
    es_json_write_stated(json, "high", trend->high, "missing");
    es_json_write_stated(json, "p", trend->p, "missing");
    es_json_write_stated(json, "p_holm", line->p_holm, "missing");
    es_json_write_text(json, "reason", es_reason_text(trend->reason));
    es_json_write_object(json, "robust");
    es_json_write_stated(json, "slope", line->robust.slope, "missing");
    es_json_write_stated(json, "low", line->robust.low, "missing");
    es_json_write_stated(json, "high", line->robust.high, "missing");
    es_json_write_text(json, "reason", es_reason_text(line->robust.reason));
    es_json_write_end(json, "}");
    if (isnan(line->passes)) {
        es_json_write_null(json, "passes");
    } else {
        es_json_write_object(json, "passes");
        es_json_write_number(json, "threshold", line->threshold);
        es_json_write_number(json, "step", line->passes);
        es_json_write_number(json, "earliest", line->earliest);
        es_json_write_number(json, "latest", line->latest);
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "}");
}

void es_trends_json(const es_trends *trends, es_json_writer *json)
{
    es_json_write_array(json, "trends");
    for (size_t i = 0; i < trends->n; i++) {
        const es_run_trends *run = &trends->runs[i];
        es_json_write_line(json);
        es_json_write_object(json, NULL);
        es_json_write_text(json, "path", run->path);
        es_json_write_size(json, "run", run->number ? run->number : 1);
        es_json_write_text(json, "series", run->series);
        es_json_write_integer(json, "from", run->first);
        es_json_write_integer(json, "to", run->last);
        es_json_write_array(json, "lines");
        for (size_t k = 0; k < run->n; k++)
            put_line(json, run, k);
        es_json_write_end(json, "]}");
    }
    es_json_write_end(json, "]");
}
