/* Draws the figure maps: attention maps at one step, of every layer or of the
 * heads of one layer, with one row of maps per run. */
#include "render/figures/maps.h"

#include "analyzer/base/text.h"
#include "cli/figures/source.h"
#include "cli/runs/damage.h"
#include "store/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/**
 * Fraction of the largest weight at which the colour scale begins; all smaller
 * weights have the lowest colour.
 */
#define LOWEST 1e-3

/* --- finding maps ---------------------------------------------------------*/

/** Selects the maps to show from one run. */
typedef struct maps_query {
    bool by_head;
    int64_t layer; /* layer whose heads are shown, if by_head */
    int64_t step;  /* requested step; the map nearest to this step is shown */
    int64_t found; /* step of the map that is shown; ES_UNKNOWN if the run has
                      no map */
    es_phase phase;
    /* (n) panels to fill; NULL during the search for the step. */
    es_map_panel *panels;
    size_t n, n_damaged;
    es_drawing *drawing;
} maps_query;

static bool is_of(const maps_query *query, const es_map *map)
{
    if (query->by_head)
        return map->layer == query->layer && map->head != ES_MAP_MEAN;
    return map->head == ES_MAP_MEAN;
}

/**
 * Finds the map that is nearest to the requested step. Searches the steps of
 * the maps instead of the steps of training samples, because an evaluation
 * after the end of training has a step without a training sample.
 */
static es_status find_step(void *user, const es_map *map, const float *values)
{
    maps_query *query = user;
    (void)values;
    if (!is_of(query, map))
        return ES_OK;
    if (query->found == ES_UNKNOWN || map->phase != query->phase ||
        llabs(map->step - query->step) < llabs(query->found - query->step)) {
        query->found = map->step;
        query->phase = map->phase;
    }
    return ES_OK;
}

static es_status take(void *user, const es_map *map, const float *values)
{
    maps_query *query = user;
    const int64_t at = query->by_head ? map->head : map->layer;
    const size_t n = (size_t)(map->size * map->size);
    if (!is_of(query, map) || map->step != query->found ||
        map->phase != query->phase || (size_t)at >= query->n)
        return ES_OK;
    es_map_panel *panel = &query->panels[at];
    panel->size = (int)map->size;
    panel->n_ctx = (int)map->n_ctx;
    if (!values) {
        query->n_damaged++;
        return ES_OK;
    }
    float *copy;
    es_status status = es_drawing_array(query->drawing, &copy, n);
    if (status < 0)
        return status;
    memcpy(copy, values, n * sizeof *copy);
    panel->values = copy;
    return ES_OK;
}

static es_status walk(const es_run_summary *run, maps_query *query,
                      es_map_handler *handler)
{
    es_reader *reader = NULL;
    es_status status = es_source_open(&reader, run);
    if (status == ES_OK)
        status = es_reader_maps(reader, run->number - 1, handler, query);
    es_damage_close(reader);
    return status;
}

static maps_query query_of(const es_run_summary *run,
                           const es_figure_options *options)
{
    return (maps_query){.by_head = options && options->by_head,
                        .layer = options ? options->layer : 0,
                        .step = run->step,
                        .found = ES_UNKNOWN};
}

es_status es_fits_maps(const es_run_summary *run, const es_figure_entry *figure)
{
    maps_query query = query_of(run, NULL);
    es_status status = walk(run, &query, find_step);
    if (status < 0 || query.found != ES_UNKNOWN)
        return status;
    return es_fail(ES_ENOTFOUND,
                   "%s: the run has no attention maps, which %s needs: train "
                   "with --maps 32",
                   run->path, figure->label);
}

/* --- the figure -----------------------------------------------------------*/

/**
 * Sets the title of each panel to its layer, such as "layer 3". If the figure
 * shows several runs, the title is the run's name and the layer is the
 * subtitle.
 */
static es_status name_panels(maps_query *query, size_t run)
{
    es_drawing *drawing = query->drawing;
    for (size_t i = 0; i < query->n; i++) {
        char *text;
        es_status status = es_drawing_alloc(drawing, &text, ES_CAPTION_MAX, 1);
        if (status < 0)
            return status;
        snprintf(text, ES_CAPTION_MAX, "%s %zu",
                 query->by_head ? "head" : "layer", i);
        query->panels[i].title =
            drawing->n > 1 ? es_drawing_title(drawing, run) : text;
        query->panels[i].subtitle = drawing->n > 1 ? text : NULL;
    }
    return ES_OK;
}

static es_status read_run(maps_query *query, es_drawing *drawing, size_t i)
{
    const es_run_summary *run = drawing->runs[i];
    es_status status;
    *query = query_of(run, drawing->options);
    query->drawing = drawing;
    query->n = (size_t)(query->by_head ? run->n_head : run->n_layer);
    if ((status = walk(run, query, find_step)) < 0)
        return status;
    if (query->found == ES_UNKNOWN)
        return es_fail(ES_ENOTFOUND,
                       "%s: no attention maps of the heads of layer %lld: "
                       "train with --map-heads",
                       run->path, (long long)query->layer);
    if ((status = es_drawing_array(drawing, &query->panels, query->n)) < 0 ||
        (status = name_panels(query, i)) < 0)
        return status;
    for (size_t k = 0; k < query->n; k++)
        query->panels[k].size = query->panels[k].n_ctx = 1;
    return walk(run, query, take);
}

static void add_range(es_range *range, const maps_query *query)
{
    for (size_t i = 0; i < query->n; i++) {
        const es_map_panel *panel = &query->panels[i];
        if (panel->values)
            es_range_add_all(range, panel->values,
                             (size_t)panel->size * (size_t)panel->size);
    }
}

/** Writes the note below the figure, such as "heads of layer 2; evaluated at
 *  step 300; logarithmic colour scale". */
static void write_note(char *out, size_t size, const maps_query *queries,
                       size_t n)
{
    es_text to = es_text_begin(out, size);
    size_t n_damaged = 0;
    bool same = true;
    for (size_t i = 0; i < n; i++) {
        n_damaged += queries[i].n_damaged;
        same = same && queries[i].found == queries[0].found &&
               queries[i].phase == queries[0].phase;
    }
    if (queries[0].by_head)
        es_text_append(&to, "heads of layer %lld; ",
                       (long long)queries[0].layer);
    if (same)
        es_text_append(&to, "%s step %lld; ",
                       queries[0].phase == ES_PHASE_EVAL ? "evaluated at"
                                                         : "training,",
                       (long long)queries[0].found);
    es_text_append(&to, "logarithmic colour scale");
    if (n_damaged)
        es_text_append(&to, "; damaged maps: %zu", n_damaged);
}

es_status es_draw_maps(es_picture **out, es_drawing *drawing)
{
    char note[256];
    maps_query *queries;
    es_map_panel *panels;
    es_range range = ES_RANGE_NONE;
    size_t n = 0, widest = 0;
    es_status status = es_drawing_array(drawing, &queries, drawing->n);
    for (size_t i = 0; i < drawing->n && status == ES_OK; i++) {
        status = read_run(&queries[i], drawing, i);
        if (status == ES_OK) {
            add_range(&range, &queries[i]);
            n += queries[i].n;
            widest = queries[i].n > widest ? queries[i].n : widest;
        }
    }
    if (status < 0 || (status = es_drawing_array(drawing, &panels, n)) < 0)
        return status;
    n = 0;
    for (size_t i = 0; i < drawing->n; i++) {
        memcpy(panels + n, queries[i].panels, queries[i].n * sizeof *panels);
        n += queries[i].n;
    }
    write_note(note, sizeof note, queries, drawing->n);
    es_map_figure figure = {.style = drawing->style,
                            .panels = panels,
                            .n_panels = n,
                            .low =
                                fmax(range.least_positive, range.high * LOWEST),
                            .high = range.high,
                            .logarithmic = true,
                            .scale_text = "mean weight",
                            .note = note};
    /* If all runs have the same number of panels, each run gets a separate
     * row. */
    if (!figure.style.most_columns && drawing->n > 1 && widest <= 12 &&
        n == widest * drawing->n)
        figure.style.most_columns = widest;
    if (!(range.high > 0)) /* no weight is positive, so none gets a colour of
                              the scale, and any scale will do */
        figure.low = LOWEST, figure.high = 1;
    return es_maps_draw(out, &figure);
}
