/*
 * Merges the seeds of a configuration: finds the runs that belong together,
 * computes their mean and range at each step (interpolating runs that lack the
 * step), and makes labels with the number of seeds.
 */
#include "cli/figures/source.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "analyzer/statistics/smooth.h"

#include <math.h>
#include <string.h>

/* --- groups ---------------------------------------------------------------*/

static bool is_drawn(const es_drawing *drawing, size_t n,
                     const es_run_summary *run)
{
    for (size_t i = 0; i < n; i++)
        if (drawing->runs[i] == run)
            return true;
    return false;
}

static es_status find_groups(size_t *groups, size_t *n_groups,
                             const es_run_summary *const *all, size_t n)
{
    es_difference *differences = NULL;
    const es_run_setting **values = NULL;
    size_t n_differences = 0;
    es_status status =
        es_run_differences(&differences, &n_differences, &values, all, n);
    if (status == ES_OK)
        status = es_run_configurations(groups, n_groups,
                                       (const es_run_setting *const *)values,
                                       differences, n_differences, n);
    free(differences);
    free(values);
    return status;
}

es_status es_drawing_group(es_drawing *drawing,
                           const es_run_summary *const *all, size_t n)
{
    size_t *groups, n_groups = 0, n_drawn = drawing->n, n_listed = 0;
    const es_run_summary **firsts;
    es_status status;
    if ((status = es_drawing_array(drawing, &groups, n)) < 0 ||
        (status = es_drawing_array(drawing, &drawing->n_members, n)) < 0 ||
        (status = es_drawing_array(drawing, &drawing->n_of_all, n)) < 0 ||
        (status = es_drawing_alloc(drawing, &firsts, n, sizeof *firsts)) < 0 ||
        (status = es_drawing_alloc(drawing, &drawing->members, n,
                                   sizeof *drawing->members)) < 0 ||
        (status = find_groups(groups, &n_groups, all, n)) < 0)
        return status;
    drawing->n = 0;
    for (size_t group = 0; group < n_groups; group++) {
        size_t n_here = 0, n_all = 0, first = n_listed;
        for (size_t i = 0; i < n; i++) {
            n_all += groups[i] == group;
            if (groups[i] != group || !is_drawn(drawing, n_drawn, all[i]))
                continue;
            drawing->members[n_listed++] = all[i];
            n_here++;
        }
        if (!n_here)
            continue;
        firsts[drawing->n] = drawing->members[first];
        drawing->n_members[drawing->n] = n_here;
        drawing->n_of_all[drawing->n++] = n_all;
    }
    drawing->runs = firsts;
    return ES_OK;
}

es_status es_drawing_fold(es_drawing *drawing, size_t most)
{
    if (drawing->n <= most || drawing->members)
        return ES_OK;
    es_status status = es_drawing_group(drawing, drawing->runs, drawing->n);
    es_run_labels_free(&drawing->labels);
    return status < 0 ? status
                      : es_run_labels_make(&drawing->labels, drawing->runs,
                                           drawing->n);
}

char *es_group_label(char out[ES_GROUP_TEXT_MAX], const es_drawing *drawing,
                     size_t i, const es_group_lines *lines)
{
    size_t n_all = drawing->members ? drawing->n_of_all[i] : 1;
    const char *title = es_drawing_title(drawing, i);
    char nan[32] = "";
    if (lines->n_nonfinite)
        snprintf(nan, sizeof nan, ", %zu NaN", lines->n_nonfinite);
    if (n_all < 2)
        snprintf(out, ES_GROUP_TEXT_MAX, "%s", title);
    else if (lines->n_runs < n_all)
        snprintf(out, ES_GROUP_TEXT_MAX, "%s (%zu of %zu seeds%s)", title,
                 lines->n_runs, n_all, nan);
    else
        snprintf(out, ES_GROUP_TEXT_MAX, "%s (%zu seeds%s)", title, n_all, nan);
    return out;
}

/* --- lines ----------------------------------------------------------------*/

/* The lines of n runs that are being merged into one set of lines. */
typedef struct bundle {
    es_run_lines *runs; /* (n) */
    /* (n) for each run, the index of its first point that is not merged yet. */
    size_t *next;
    size_t n;
} bundle;

/* Returns true if the last recorded sample of any line is NaN or infinite. */
static bool ends_nonfinite(const es_run_lines *lines)
{
    for (size_t line = 0; line < lines->n_lines; line++)
        for (size_t k = lines->n; k-- > 0;) {
            float value = lines->values[line * lines->n + k];
            if (es_is_missing(value))
                continue;
            if (!isfinite(value))
                return true;
            break;
        }
    return false;
}

/* Finds the smallest step that is not merged yet; returns false if no step
 * remains. */
static bool next_step(int64_t *step, const bundle *b)
{
    bool any = false;
    for (size_t r = 0; r < b->n; r++) {
        const es_run_lines *lines = &b->runs[r];
        if (b->next[r] < lines->n &&
            (!any || lines->steps[b->next[r]] < *step)) {
            *step = lines->steps[b->next[r]];
            any = true;
        }
    }
    return any;
}

/* Computes point k of a merged line from the runs that have a sample at its
 * step. */
static void join_point(es_group_lines *out, const bundle *b, size_t line,
                       size_t k)
{
    const size_t at = line * out->mean.n + k;
    double sum = 0;
    size_t n_finite = 0;
    float low = INFINITY, high = -INFINITY, other = es_missing();
    for (size_t r = 0; r < b->n; r++) {
        const es_run_lines *lines = &b->runs[r];
        size_t i = b->next[r];
        if (i >= lines->n || lines->steps[i] != out->mean.steps[k])
            continue;
        float value = lines->values[line * lines->n + i];
        if (isfinite(value)) {
            sum += (double)value;
            low = fminf(low, value);
            high = fmaxf(high, value);
            n_finite++;
        } else if (!es_is_missing(value)) {
            other = value;
        }
    }
    out->mean.values[at] = n_finite ? (float)(sum / (double)n_finite) : other;
    out->low.values[at] = n_finite ? low : other;
    out->high.values[at] = n_finite ? high : other;
}

/* Interpolates the lines of a run at n given steps. */
static es_status align(es_run_lines *lines, es_drawing *drawing, int64_t *steps,
                       size_t n)
{
    float *values;
    es_status status = es_drawing_array(drawing, &values, lines->n_lines * n);
    for (size_t i = 0; i < lines->n_lines && status == ES_OK; i++)
        status = es_stats_align(values + i * n, steps, n, lines->steps,
                                lines->values + i * lines->n, lines->n);
    lines->values = values;
    lines->steps = steps;
    lines->n = n;
    return status;
}

static es_status join(es_group_lines *out, es_drawing *drawing, bundle *b)
{
    size_t n = 0, n_lines = b->runs[0].n_lines;
    int64_t step = 0;
    es_status status;
    for (size_t r = 0; r < b->n; r++)
        n += b->runs[r].n;
    es_run_lines all = {.n_lines = n_lines, .shape = b->runs[0].shape};
    if ((status = es_drawing_array(drawing, &all.steps, n)) < 0)
        return status;
    while (next_step(&step, b)) {
        all.steps[all.n++] = step;
        for (size_t r = 0; r < b->n; r++)
            while (b->next[r] < b->runs[r].n &&
                   b->runs[r].steps[b->next[r]] <= step)
                b->next[r]++;
    }
    out->mean = out->low = out->high = all;
    size_t size = n_lines * all.n;
    if ((status = es_drawing_array(drawing, &out->mean.values, size)) < 0 ||
        (status = es_drawing_array(drawing, &out->low.values, size)) < 0 ||
        (status = es_drawing_array(drawing, &out->high.values, size)) < 0)
        return status;
    for (size_t r = 0; r < b->n; r++)
        if (b->runs[r].n < all.n &&
            (status = align(&b->runs[r], drawing, all.steps, all.n)) < 0)
            return status;
    memset(b->next, 0, b->n * sizeof *b->next);
    for (size_t k = 0; k < all.n; k++) {
        for (size_t r = 0; r < b->n; r++)
            while (b->next[r] < b->runs[r].n &&
                   b->runs[r].steps[b->next[r]] < all.steps[k])
                b->next[r]++;
        for (size_t line = 0; line < n_lines; line++)
            join_point(out, b, line, k);
    }
    return ES_OK;
}

size_t es_drawing_members(const es_run_summary *const **out,
                          const es_drawing *drawing, size_t i)
{
    *out = drawing->runs + i;
    if (!drawing->members)
        return 1;
    *out = drawing->members;
    for (size_t k = 0; k < i; k++)
        *out += drawing->n_members[k];
    return drawing->n_members[i];
}

es_status es_group_lines_read(es_group_lines *out, es_drawing *drawing,
                              size_t i, const es_lines_query *query,
                              bool exponential)
{
    const es_run_summary *const *members;
    const size_t n = es_drawing_members(&members, drawing, i);
    bundle b = {.n = 0};
    es_status status = ES_OK;
    *out = (es_group_lines){.n_runs = 0};
    if ((status = es_drawing_array(drawing, &b.runs, n)) < 0 ||
        (status = es_drawing_array(drawing, &b.next, n)) < 0)
        return status;
    for (size_t r = 0; r < n; r++) {
        es_run_lines *lines = &b.runs[b.n];
        status = es_lines_read(lines, drawing, members[r], query);
        if (status == ES_ENOTFOUND && (b.n || r + 1 < n))
            continue;
        if (status < 0)
            return status;
        if (b.n && lines->n_lines != b.runs[0].n_lines)
            continue; /* the file has been replaced by a run with another number
                         of layers or heads */
        for (size_t k = 0; exponential && k < lines->n_lines * lines->n; k++)
            if (!es_is_missing(lines->values[k]))
                lines->values[k] = expf(lines->values[k]);
        out->n_nonfinite += ends_nonfinite(lines);
        b.n++;
    }
    out->n_runs = b.n;
    if (b.n > 1)
        return join(out, drawing, &b);
    out->mean = b.runs[0];
    return ES_OK;
}
