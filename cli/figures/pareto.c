/* Draws the figure pareto: perplexity on held-out data against cost, with one
 * point per run. */
#include "render/figures/scatter.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/figures/cost.h"
#include "cli/runs/model.h"

#include <math.h>
#include <string.h>

#define NOTE_MAX 2048
/* An axis is logarithmic if the ratio of its largest to its smallest value is
   at least this number. */
#define WIDE_RANGE 8.0
/* Maximum number of runs for which every point gets a label. */
#define NAMED_MOST 12

/* The points and the note of the figure. */
typedef struct plan {
    es_drawing *drawing;
    /* One point for each run; points with NaN coordinates are not drawn. */
    es_point *points;
    /* names of the models, one for each run */
    char (*models)[ES_ARCH_TEXT_MAX];
    bool alike; /* true if there are few runs and all have the same model */
    char note[NOTE_MAX];
    es_text said; /* appends text to `note` */
} plan;

es_status es_fits_pareto(const es_run_summary *run,
                         const es_figure_entry *figure)
{
    es_cost_model shape;
    if (!es_is_missing(run->eval_ppl))
        return es_run_shape_read(&shape, run, figure->label);
    return es_fail(ES_ENOTFOUND,
                   "%s: the run has no evaluation: a figure of perplexity "
                   "against cost needs a series ce or loss in the eval phase",
                   run->path);
}

/* --- which runs -----------------------------------------------------------*/

static bool is_drawn(const plan *p, size_t i)
{
    return isfinite(p->points[i].x) && isfinite(p->points[i].y);
}

static bool is_same_model(const plan *p, size_t i, size_t k)
{
    return strcmp(p->models[i], p->models[k]) == 0;
}

static bool are_alike(const plan *p)
{
    bool alike = p->drawing->n <= NAMED_MOST;
    for (size_t i = 1; alike && i < p->drawing->n; i++)
        alike = is_same_model(p, 0, i);
    return alike;
}

/* Returns true if run i gets a label. If there are few runs and all have the
 * same architecture, every point gets a label, which names the settings in
 * which the run differs. Otherwise only the best run of each architecture and
 * cost gets a label. */
static bool is_named(const plan *p, size_t i)
{
    bool best = is_drawn(p, i);
    if (p->alike)
        return best;
    for (size_t k = 0; best && k < p->drawing->n; k++) {
        double difference = p->points[k].y - p->points[i].y;
        bool same = is_drawn(p, k) && p->points[i].x == p->points[k].x &&
                    is_same_model(p, i, k);
        best = !same || !(difference < 0 || (difference == 0 && k < i));
    }
    return best;
}

static bool is_undrawn(const plan *p, size_t i, bool costless)
{
    return !is_drawn(p, i) && isfinite(p->points[i].y) == costless;
}

/* Appends the architecture of run i, and the number of runs with this
 * architecture that are not drawn. */
static void name_group(plan *p, size_t i, const char *before, bool costless)
{
    size_t n = 0, n_undrawn = 0;
    for (size_t k = 0; k < p->drawing->n; k++) {
        if (!is_same_model(p, k, i))
            continue;
        n++;
        n_undrawn += is_undrawn(p, k, costless);
    }
    es_text_append(&p->said, "%s%s", before, p->models[i]);
    if (n > 1)
        es_text_append(&p->said, " (%zu of %zu runs)", n_undrawn, n);
}

/* Appends the runs that are not drawn, such as "No finite perplexity: SM (2 of
 * 3 runs), SM+G. ". If `costless` is true, lists the runs whose cost is
 * unknown, otherwise the runs without a finite perplexity. */
static void name_undrawn(plan *p, const char *why, bool costless)
{
    size_t n = 0;
    for (size_t i = 0; i < p->drawing->n; i++) {
        bool said = !is_undrawn(p, i, costless);
        for (size_t k = 0; k < i && !said; k++)
            said = is_undrawn(p, k, costless) && is_same_model(p, k, i);
        if (!said)
            name_group(p, i, n++ ? ", " : why, costless);
    }
    if (n)
        es_text_append(&p->said, ". ");
}

static es_status gather(plan *p)
{
    es_drawing *drawing = p->drawing;
    size_t n_costs = 0;
    es_status status = ES_OK;
    for (size_t i = 0; i < drawing->n; i++) {
        es_point *point = &p->points[i];
        es_modelled costs = {NAN, NAN, NAN};
        status = es_run_cost(&costs, drawing, drawing->runs[i],
                             drawing->options->cost);
        *point = (es_point){.x = costs.value,
                            .y = (double)drawing->runs[i]->eval_ppl,
                            .low = costs.low,
                            .high = costs.high};
        n_costs += status == ES_OK;
        if (status != ES_OK && status != ES_ENOTFOUND)
            return status;
    }
    if (n_costs == 0)
        return status;
    for (size_t i = 0; i < drawing->n; i++)
        if (is_named(p, i))
            p->points[i].label =
                p->alike ? es_drawing_title(drawing, i) : p->models[i];
    return ES_OK;
}

/* --- the figure -----------------------------------------------------------*/

static bool is_wide(const es_range *range)
{
    return range->low > 0 && range->high / range->low >= WIDE_RANGE;
}

es_status es_draw_pareto(es_picture **out, es_drawing *drawing)
{
    es_cost cost = drawing->options->cost;
    plan p = {.drawing = drawing};
    es_range x = ES_RANGE_NONE, y = ES_RANGE_NONE;
    es_status status;
    if ((status = es_drawing_array(drawing, &p.points, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &p.models, drawing->n)) < 0)
        return status;
    for (size_t i = 0; i < drawing->n; i++)
        es_model_name(p.models[i], drawing->runs[i]->arch,
                      drawing->runs[i]->family);
    p.alike = are_alike(&p);
    if ((status = gather(&p)) < 0)
        return status;
    p.said = es_text_begin(p.note, sizeof p.note);
    name_undrawn(&p, "No finite perplexity: ", false);
    name_undrawn(&p, "Cost unknown: ", true);
    es_text_append(
        &p.said, "%s. Lower left is better; the line is the Pareto front.%s",
        es_cost_meaning(cost),
        p.alike ? ""
                : " Only the best of the runs with the same architecture and "
                  "cost is labelled.");
    for (size_t i = 0; i < drawing->n; i++)
        if (is_drawn(&p, i)) {
            es_range_add(&x, p.points[i].low);
            es_range_add(&x, p.points[i].high);
            es_range_add(&y, p.points[i].y);
        }
    return es_scatter_draw(
        out, &(es_scatter){.style = drawing->style,
                           .points = p.points,
                           .n = drawing->n,
                           .x_log = is_wide(&x),
                           .y_log = is_wide(&y),
                           .x_counts = cost != ES_COST_COMMUNICATION &&
                                       cost != ES_COST_LATENCY,
                           .front = true,
                           .x_text = es_cost_text(cost),
                           .y_text = "perplexity, eval",
                           .note = p.note});
}
