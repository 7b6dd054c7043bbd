#include "render/figures/heatmap.h"
#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"

#include <math.h>
#include <string.h>

/* "entropy, max_logit": the head series of a run. */
static es_status list_head_series(char *out, size_t size,
                                  const es_run_summary *run)
{
    es_reader *reader = NULL;
    size_t n = 0;
    es_status status = es_reader_open(&reader, run->path);
    if (status != ES_OK)
        return status;
    out[0] = 0;
    for (size_t i = 0; i < es_reader_n_series(reader, run->number - 1); i++) {
        es_series series;
        status = es_reader_series(reader, run->number - 1, i, &series);
        if (status != ES_OK)
            break;
        if (series.shape == ES_SHAPE_HEAD && series.last_step != ES_UNKNOWN &&
            n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "",
                                  series.name);
    }
    es_reader_close(reader);
    return status;
}

es_status es_fits_heads(const es_run_summary *run, const char *figure)
{
    char names[512];
    if (run->shape == ES_SHAPE_HEAD)
        return ES_OK;
    es_status status = list_head_series(names, sizeof names, run);
    if (status != ES_OK)
        return status;
    if (!*names)
        return es_fail(ES_ENOTFOUND,
                       "%s: no series of it has a value for each head, which "
                       "%s needs: try --curves",
                       run->path, figure);
    return es_fail(ES_ENOTFOUND,
                   "%s: series %s has one value a %s: %s needs one of each "
                   "head: %s",
                   run->path, run->series, es_shape_name(run->shape), figure,
                   names);
}

es_status es_fits_heatmap(const es_run_summary *run)
{
    return es_fits_heads(run, "a heatmap");
}

/* Values of all runs, as far as they are finite. */
typedef struct range {
    double low, high;      /* infinite if there is none */
    double least_positive; /* the same */
    bool zero;
} range;

static range range_of(const es_drawing *drawing)
{
    range r = {INFINITY, -INFINITY, INFINITY, false};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        for (size_t k = 0; k < run->n_rows * run->n_columns; k++) {
            double value = (double)run->values[k];
            if (!isfinite(value))
                continue;
            r.low = fmin(r.low, value);
            r.high = fmax(r.high, value);
            r.zero = r.zero || value == 0;
            if (value > 0)
                r.least_positive = fmin(r.least_positive, value);
        }
    }
    return r;
}

static bool is_entropy(const char *series)
{
    return strncmp(series, "entropy", 7) == 0;
}

/* Zero is the natural foot of what is an amount, a share or a count. */
static bool begins_at_zero(const char *series)
{
    static const char *const names[] = {"sink", "missing_mass",
                                        "nonfinite_rows", "nonfinite_weights"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(series, names[i]) == 0)
            return true;
    return is_entropy(series);
}

#define HUGE_RANGE 1000.0 /* largest to smallest, for logarithmic colours */

/*
 * Up to the largest m. From 0 where that is the natural foot; else from the
 * smallest value, for the differences of the heads are what is looked for.
 * Logarithmic where a linear scale would show one head alone: never for
 * entropies, whose colours are compared between figures.
 */
static void set_scale(es_heatmap *figure, const es_drawing *drawing)
{
    const char *series = drawing->runs[0]->series;
    range r = range_of(drawing);
    double low = fmin(r.low, begins_at_zero(series) ? 0 : r.low);
    double high = NAN, ceiling = NAN;
    for (size_t i = 0; i < drawing->n; i++) {
        high = es_peak_of(high, drawing->runs[i]->m);
        ceiling = es_peak_of(ceiling, drawing->runs[i]->ceiling);
    }
    figure->low = isfinite(low) ? low : 0;
    figure->high = high;
    if (low >= 0 && !is_entropy(series) &&
        high >= HUGE_RANGE * r.least_positive) {
        figure->logarithmic = true;
        /* Zeros have a colour of their own. */
        figure->low = r.zero ? r.least_positive / 2 : r.least_positive;
    }
    /* All heads at 0: a scale all the same. */
    if (high <= low && begins_at_zero(series))
        figure->high = is_entropy(series) && ceiling > low ? ceiling : low + 1;
    else if (high < low)
        figure->high = low;
}

static es_status draw(es_picture **out, const es_drawing *drawing,
                      es_heatmap_panel *panels,
                      char (*captions)[ES_CAPTION_MAX])
{
    char note[sizeof drawing->note + 64];
    es_heatmap figure = {.style = drawing->style,
                         .panels = panels,
                         .n_panels = drawing->n,
                         .scale_text = drawing->axis,
                         .note = drawing->note};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        panels[i] = (es_heatmap_panel){
            .title = es_summary_title(run, drawing->runs, drawing->n),
            .subtitle = es_drawing_step(captions[i], run),
            .values = run->values,
            .n_layers = (int)run->n_rows,
            .n_heads = (int)run->n_columns};
    }
    set_scale(&figure, drawing);
    if (figure.logarithmic) {
        snprintf(note, sizeof note, "%s; colours by the logarithm%s",
                 drawing->note,
                 range_of(drawing).zero ? ", the lowest is 0" : "");
        figure.note = note;
    }
    return es_heatmap_draw(out, &figure);
}

es_status es_draw_heatmap(es_picture **out, const es_drawing *drawing)
{
    es_heatmap_panel *panels = es_resize(NULL, drawing->n, sizeof *panels);
    char(*captions)[ES_CAPTION_MAX] =
        es_resize(NULL, drawing->n, sizeof *captions);
    es_status status =
        panels && captions
            ? draw(out, drawing, panels, captions)
            : es_fail(ES_ENOMEM, "out of memory for %zu panels", drawing->n);
    free(panels);
    free(captions);
    return status;
}
