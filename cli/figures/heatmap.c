/* Draws the figures heatmap (the heads of every run at one step) and delta (the
 * differences between the heads of a run and a baseline). Also checks whether
 * the series shown has one value per head. */
#include "render/figures/heatmap.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

es_status es_fits_heads(const es_run_summary *run,
                        const es_figure_entry *figure)
{
    es_reader *reader = NULL;
    char names[512];
    if (run->shape == ES_SHAPE_HEAD)
        return ES_OK;
    es_status status = es_source_open(&reader, run);
    if (status == ES_OK)
        status = es_source_list(names, sizeof names, reader, run, true);
    es_damage_close(reader);
    if (status < 0)
        return status;
    if (!*names)
        return es_fail(ES_ENOTFOUND,
                       "%s: the run has no series with a value per head, which "
                       "%s needs: try --curves",
                       run->path, figure->label);
    return es_fail(ES_ENOTFOUND,
                   "%s: series %s has one value per %s, but %s needs one per "
                   "head: try %s",
                   run->path, run->series, es_shape_name(run->shape),
                   figure->label, names);
}

/* Returns true if layers have different largest possible entropies and --max is
   ceiling. Each head is then shown as a fraction of its ceiling. */
static bool shows_shares(const es_drawing *drawing)
{
    bool any = false;
    for (size_t i = 0; i < drawing->n; i++)
        any = any || drawing->runs[i]->scaled;
    return any && drawing->runs[0]->max.policy == ES_MAX_CEILING;
}

static es_status share(es_heatmap_panel *panel, es_drawing *drawing,
                       const es_run_summary *run)
{
    float *shares;
    es_status status =
        es_drawing_array(drawing, &shares, run->n_rows * run->n_columns);
    if (status < 0)
        return status;
    es_summary_shares(shares, run, panel->values);
    panel->values = shares;
    return ES_OK;
}

/* Sets *out to a string with one letter per layer for the layer's kind of
 * attention, such as "w" for window. Leaves *out unchanged if the kinds are
 * unknown. */
static es_status mark_layers(const char **out, es_drawing *drawing,
                             const es_run_summary *run)
{
    char *marks;
    if (!run->described || !run->described->has_kinds)
        return ES_OK;
    es_status status = es_drawing_array(drawing, &marks, run->n_rows);
    for (size_t l = 0; status == ES_OK && l < run->n_rows; l++)
        marks[l] = *es_layer_kind_name(run->described->list[l].kind);
    *out = status == ES_OK ? marks : NULL;
    return status;
}

/* Appends the meanings of the letters for kinds of attention, such as "; f
 * full, w window". */
static void append_marks(es_text *to, const es_drawing *drawing)
{
    bool there[ES_N_LAYER_KINDS] = {false};
    for (size_t i = 0; i < drawing->n; i++) {
        const es_layers *known = drawing->runs[i]->described;
        for (size_t l = 0; known && l < known->n_layers; l++)
            there[known->list[l].kind] = true;
    }
    const char *before = "; ";
    for (int kind = ES_LAYER_UNKNOWN + 1; kind < ES_N_LAYER_KINDS; kind++) {
        const char *name = es_layer_kind_name((es_layer_kind)kind);
        if (!there[kind])
            continue;
        es_text_append(to, "%s%c %s", before, *name, name);
        before = ", ";
    }
}

/* Returns a panel with the values of run i. The panel borrows strings and
 * values from the drawing. */
static es_heatmap_panel heads_of(const es_drawing *drawing, size_t i,
                                 const char *subtitle)
{
    const es_run_summary *run = drawing->runs[i];
    return (es_heatmap_panel){.title = es_drawing_title(drawing, i),
                              .subtitle = subtitle,
                              .values = run->values,
                              .n_layers = (int)run->n_rows,
                              .n_heads = (int)run->n_columns};
}

/*
 * Replaces each head's value in a panel by the mean of the finite values over
 * the seeds of the run that have the same shape and step. A head that is finite
 * in no seed keeps the first seed's value. The caption contains the number of
 * seeds.
 */
static es_status average(es_heatmap_panel *panel, es_drawing *drawing, size_t i,
                         char caption[ES_CAPTION_MAX])
{
    const es_run_summary *const *members;
    const es_run_summary *run = drawing->runs[i];
    const size_t n = es_drawing_members(&members, drawing, i);
    const size_t n_values = run->n_rows * run->n_columns;
    size_t n_same = 0, n_broken = 0;
    float *values;
    if (n < 2)
        return ES_OK;
    es_status status = es_drawing_array(drawing, &values, n_values);
    if (status < 0)
        return status;
    for (size_t k = 0; k < n_values; k++) {
        double sum = 0;
        size_t n_finite = 0;
        n_same = 0;
        for (size_t r = 0; r < n; r++) {
            if (members[r]->n_rows != run->n_rows ||
                members[r]->n_columns != run->n_columns ||
                members[r]->step != run->step)
                continue;
            n_same++;
            if (isfinite(members[r]->values[k])) {
                sum += (double)members[r]->values[k];
                n_finite++;
            }
        }
        values[k] = n_finite ? (float)(sum / (double)n_finite) : run->values[k];
    }
    for (size_t r = 0; r < n; r++)
        n_broken += members[r]->bands.nonfinite > 0;
    panel->values = values;
    es_text to = es_text_begin(caption, ES_CAPTION_MAX);
    char step[ES_CAPTION_MAX];
    es_text_append(&to, "%s, mean of %zu of %zu seeds",
                   es_drawing_step(step, run), n_same, drawing->n_of_all[i]);
    if (n_broken)
        es_text_append(&to, ", %zu NaN", n_broken);
    return ES_OK;
}

/* --- runs that became NaN --------------------------------------------------*/

typedef struct count {
    size_t finite, broken; /* number of finite values; number of NaN and
                              infinite values */
} count;

static count count_values(const float *values, size_t n)
{
    count found = {0, 0};
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i]))
            found.finite++;
        else if (!es_is_missing(values[i]))
            found.broken++;
    }
    return found;
}

/* Finds the last sample without a NaN at or before the shown step. Copies its
 * values to `values` (n) and its step to *step, and sets *broken to the step of
 * the first NaN after this sample. Sets *step to ES_UNKNOWN if every sample has
 * a NaN. */
static es_status find_finite(float *values, int64_t *step, int64_t *broken,
                             const es_run_summary *run, size_t n)
{
    es_reader *reader = NULL;
    es_cursor *cursor = NULL;
    es_series series;
    const float *read;
    int64_t at;
    es_status status;
    *step = *broken = ES_UNKNOWN;
    if ((status = es_source_open(&reader, run)) < 0 ||
        (status = es_reader_find(reader, run->number - 1, run->series,
                                 run->phase, &series)) < 0 ||
        (status = es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST,
                                 run->step)) < 0)
        goto done;
    while ((status = es_cursor_next(cursor, &at, &read)) == ES_OK) {
        const count found = count_values(read, n);
        if (found.broken && *broken == ES_UNKNOWN)
            *broken = at;
        if (!found.finite || found.broken)
            continue;
        memcpy(values, read, n * sizeof *values);
        *step = at;
        *broken = ES_UNKNOWN;
    }
done:
    es_cursor_close(cursor);
    es_damage_close(reader);
    return status == ES_DONE ? ES_OK : status;
}

/* If no head of the panel's run is finite, shows the last sample without NaN
 * instead, unless the user chose the step. */
static es_status show_finite(es_heatmap_panel *panel, bool *replaced,
                             es_drawing *drawing, const es_run_summary *run,
                             char caption[ES_CAPTION_MAX])
{
    const size_t n = run->n_rows * run->n_columns;
    const count shown = count_values(run->values, n);
    int64_t step, broken;
    float *values;
    if (drawing->options->step_given || shown.finite || !shown.broken)
        return ES_OK;
    es_status status;
    if ((status = es_drawing_array(drawing, &values, n)) < 0 ||
        (status = find_finite(values, &step, &broken, run, n)) < 0 ||
        step == ES_UNKNOWN)
        return status;
    panel->values = values;
    *replaced = true;
    snprintf(caption, ES_CAPTION_MAX, "step %lld%s, NaN from step %lld",
             (long long)step, run->phase == ES_PHASE_EVAL ? ", eval" : "",
             (long long)broken);
    return ES_OK;
}

/* --- heatmap --------------------------------------------------------------*/

es_status es_draw_heatmap(es_picture **out, es_drawing *drawing)
{
    char note[sizeof drawing->note + 128];
    const bool shares = shows_shares(drawing);
    bool replaced = false;
    es_heatmap_panel *panels;
    char(*captions)[ES_CAPTION_MAX];
    const char **marks;
    es_range range = ES_RANGE_NONE;
    es_status status;
    if ((status = es_drawing_array(drawing, &panels, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &captions, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &marks, drawing->n)) < 0)
        return status;
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        panels[i] = heads_of(drawing, i, es_drawing_step(captions[i], run));
        if ((status = show_finite(&panels[i], &replaced, drawing, run,
                                  captions[i])) < 0 ||
            (status = average(&panels[i], drawing, i, captions[i])) < 0 ||
            (shares && (status = share(&panels[i], drawing, run)) < 0) ||
            (status = mark_layers(&marks[i], drawing, run)) < 0)
            return status;
        es_range_add_all(&range, panels[i].values,
                         run->n_rows * run->n_columns);
    }
    double top = es_drawing_top(drawing);
    if (replaced && drawing->runs[0]->max.policy == ES_MAX_OBSERVED) {
        top = es_peak_of(top, range.high);
        snprintf(drawing->note, sizeof drawing->note, "max = %.4g (observed)",
                 top);
    }
    es_series_scale scale = shares ? (es_series_scale){0, 1, false}
                                   : es_drawing_scale(drawing, &range, top);
    es_text to = es_text_begin(note, sizeof note);
    if (shares)
        es_text_append(&to, "each head as a fraction of its ceiling");
    else
        es_text_append(&to, "%s%s%s", drawing->note,
                       scale.logarithmic ? "; logarithmic colour scale" : "",
                       scale.logarithmic && range.zero ? ", lowest colour: 0"
                                                       : "");
    append_marks(&to, drawing);
    return es_heatmap_draw(
        out, &(es_heatmap){.style = drawing->style,
                           .panels = panels,
                           .n_panels = drawing->n,
                           .low = scale.low,
                           .high = scale.high,
                           .logarithmic = scale.logarithmic,
                           .scale_text = shares ? "fraction of the ceiling"
                                                : drawing->axis,
                           .note = note,
                           .marks = marks});
}

/* --- delta ----------------------------------------------------------------*/

/* Returns the index of the first run in the --baseline file; 0 without
 * --baseline. */
static size_t find_base(const es_drawing *drawing)
{
    for (size_t i = 0; drawing->baseline && i < drawing->n; i++)
        if (strcmp(drawing->runs[i]->path, drawing->baseline) == 0)
            return i;
    return 0;
}

/* Makes a panel with the values of run i minus the values of the baseline. */
static es_status subtract(es_heatmap_panel *out, es_drawing *drawing, size_t i)
{
    enum { LENGTH = 2 * ES_CAPTION_MAX };
    const es_run_summary *run = drawing->runs[i];
    const es_run_summary *base = drawing->runs[find_base(drawing)];
    size_t n = run->n_rows * run->n_columns;
    char step[ES_CAPTION_MAX], *caption;
    float *values;
    es_status status;
    if (run->n_rows != base->n_rows || run->n_columns != base->n_columns)
        return es_fail(ES_ENOTFOUND,
                       "%s has %zu layers of %zu heads, %s has %zu of %zu: a "
                       "delta needs runs of the same shape",
                       run->path, run->n_rows, run->n_columns, base->path,
                       base->n_rows, base->n_columns);
    if ((status = es_drawing_array(drawing, &values, n)) < 0 ||
        (status = es_drawing_array(drawing, &caption, LENGTH)) < 0)
        return status;
    for (size_t k = 0; k < n; k++) {
        float a = run->values[k], b = base->values[k];
        bool missing = es_is_missing(a) || es_is_missing(b);
        values[k] = missing ? es_missing() : a - b;
    }
    es_drawing_step(step, run);
    if (run->step == base->step)
        snprintf(caption, LENGTH, "%s", step);
    else
        snprintf(caption, LENGTH, "%s, minus step %lld", step,
                 (long long)base->step);
    *out = heads_of(drawing, i, caption);
    out->values = values;
    return ES_OK;
}

es_status es_draw_delta(es_picture **out, es_drawing *drawing)
{
    size_t n = drawing->n - 1, base = find_base(drawing);
    char note[512], axis[sizeof drawing->axis + 16];
    es_heatmap_panel *panels;
    es_range range = ES_RANGE_NONE;
    es_status status;
    if (!n)
        return es_fail(ES_ENOTFOUND,
                       "%s: a delta needs at least two runs: the first one, or "
                       "--baseline, is subtracted from the others",
                       drawing->runs[0]->path);
    if ((status = es_drawing_array(drawing, &panels, n)) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        es_heatmap_panel *panel = &panels[i];
        if ((status = subtract(panel, drawing, i < base ? i : i + 1)) < 0)
            return status;
        es_range_add_all(&range, panel->values,
                         (size_t)panel->n_layers * (size_t)panel->n_heads);
    }
    /* Make the scale symmetric around zero, so that the hue shows the sign. */
    double most = range.low <= range.high ? fmax(-range.low, range.high) : NAN;
    most = most == 0 ? 1 : most;
    es_heatmap figure = {.style = drawing->style,
                         .panels = panels,
                         .n_panels = n,
                         .low = -most,
                         .high = most,
                         .scale_text = axis,
                         .note = note};
    figure.style.colormap = drawing->style.theme == ES_THEME_DARK
                                ? ES_COLORMAP_DIVERGING_DARK
                                : ES_COLORMAP_DIVERGING;
    snprintf(axis, sizeof axis, "difference of %s", drawing->axis);
    snprintf(note, sizeof note, "difference from %s",
             es_drawing_title(drawing, base));
    return es_heatmap_draw(out, &figure);
}
