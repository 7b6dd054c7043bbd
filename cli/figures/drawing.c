/*
 * Implements the drawing of a figure: manages its memory, makes the titles of
 * its runs, groups runs that differ only in the seed, and chooses the colour
 * scale that suits a series.
 */
#include "cli/figures/drawing.h"

#include "analyzer/base/checked.h"
#include "analyzer/heads/details.h"

#include <math.h>
#include <string.h>

/* The colour scale is logarithmic if the ratio of the largest to the smallest
   value is at least this number. */
#define HUGE_RANGE 1000.0

es_status es_drawing_alloc(es_drawing *drawing, void *pointer, size_t n,
                           size_t size)
{
    void *block;
    es_status status;
    if ((status = es_grow(&drawing->blocks, drawing->n_blocks + 1,
                          sizeof *drawing->blocks, "a figure")) < 0 ||
        (status = es_alloc(&block, n, size, "a figure")) < 0)
        return status;
    drawing->blocks[drawing->n_blocks++] = block;
    memcpy(pointer, &block, sizeof block);
    return ES_OK;
}

void es_drawing_clear(es_drawing *drawing)
{
    for (size_t i = 0; i < drawing->n_blocks; i++)
        free(drawing->blocks[i]);
    free(drawing->blocks);
    drawing->blocks = NULL;
    drawing->n_blocks = 0;
}

char *es_drawing_step(char *out, const es_run_summary *run)
{
    snprintf(out, ES_CAPTION_MAX, "step %lld%s", (long long)run->step,
             run->phase == ES_PHASE_EVAL ? ", eval" : "");
    return out;
}

const char *es_drawing_title(const es_drawing *drawing, size_t i)
{
    return drawing->labels.text[i];
}

es_level es_drawing_level(es_severity severity)
{
    return severity >= ES_SEVERITY_CRITICAL  ? ES_LEVEL_CRITICAL
           : severity == ES_SEVERITY_ERROR   ? ES_LEVEL_ERROR
           : severity == ES_SEVERITY_WARNING ? ES_LEVEL_WARNING
                                             : ES_LEVEL_INFO;
}

/* --- groups --------------------------------------------------------------- */

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

/* --- colour scales that suit a series -------------------------------------*/

double es_drawing_top(const es_drawing *drawing)
{
    double top = NAN;
    for (size_t i = 0; i < drawing->n; i++)
        top = es_peak_of(top, drawing->runs[i]->m);
    return top;
}

es_series_scale es_drawing_scale(const es_drawing *drawing,
                                 const es_range *range, double top)
{
    const char *series = drawing->runs[0]->series;
    const es_head_statistic *head = es_head_statistic_find(series);
    bool is_entropy = strncmp(series, "entropy", 7) == 0;
    const es_detail_line *detail = es_detail_find(series);
    bool amount = head ? head->is_amount
                  : detail
                      ? detail->is_amount
                      : is_entropy || strcmp(series, "nan_activations") == 0;
    double ceiling = NAN, low = amount ? fmin(range->low, 0) : range->low;
    es_series_scale scale = {isfinite(low) ? low : 0, top, false};
    for (size_t i = 0; i < drawing->n; i++)
        ceiling = es_peak_of(ceiling, drawing->runs[i]->ceiling);
    if (low >= 0 && !is_entropy && top >= HUGE_RANGE * range->least_positive) {
        scale.logarithmic = true;
        scale.low =
            range->zero ? range->least_positive / 2 : range->least_positive;
    }
    if (top <= low && amount)
        scale.high = is_entropy && ceiling > low ? ceiling : low + 1;
    else if (top < low)
        scale.high = low;
    return scale;
}
