/* Parses the arguments of requests. A request names runs by their keys, so the
 * URL of a request can never name a file. */
#include "cli/serve/request.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "store/reader.h"

#include <string.h>

enum { VALUES_DEFAULT = 250000, VALUES_MOST = 4000000 };

es_status es_serve_request_new(es_serve_request **out, es_serve_ask ask)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a request");
    if (status < 0)
        return status;
    (*out)->ask = ask;
    (*out)->phase = -1;
    (*out)->step = ES_STEP_LAST;
    (*out)->n_values = VALUES_DEFAULT;
    (*out)->format = ES_FORMAT_SVG;
    return ES_OK;
}

void es_serve_request_free(es_serve_request *request)
{
    if (!request)
        return;
    for (size_t i = 0; i < request->n_runs; i++)
        free(request->runs[i].path);
    for (size_t i = 0; i < request->n_names; i++)
        free(request->names[i]);
    free(request);
}

static es_status add_run(es_serve_request *to, const es_serve_listing *listing,
                         const char *key)
{
    const es_serve_listed *run =
        es_serve_listing_find(listing, key, strlen(key));
    const size_t most =
        to->ask == ES_SERVE_DRAW ? ES_SERVE_PLACES_MOST : ES_SERVE_BLOCK_RUNS;
    if (!run)
        return es_fail(ES_ENOTFOUND, "no such run: %s", key);
    if (to->n_runs == most)
        return es_fail(ES_EUSAGE, "more than %zu runs", most);
    es_serve_place *place = &to->runs[to->n_runs];
    memcpy(place->key, run->key, sizeof place->key);
    place->number = run->number;
    place->phase = run->phase;
    es_status status = es_copy_text(&place->path, run->path);
    to->n_runs += status == ES_OK;
    return status;
}

static es_status add_name(es_serve_request *to, const char *name)
{
    if (to->n_names == ES_SERVE_NAMES_MOST)
        return es_fail(ES_EUSAGE, "more than %d names of series",
                       ES_SERVE_NAMES_MOST);
    es_status status = es_copy_text(&to->names[to->n_names], name);
    to->n_names += status == ES_OK;
    return status;
}

static es_status add_mark(es_serve_request *to, const char *mark)
{
    if (to->n_marks == ES_SERVE_BLOCK_RUNS)
        return es_fail(ES_EUSAGE, "more than %d values of the argument since",
                       ES_SERVE_BLOCK_RUNS);
    if (strlen(mark) >= ES_SERVE_MARK_MOST)
        return es_fail(ES_EUSAGE,
                       "since: '%s': expected the mark of an earlier answer",
                       mark);
    strcpy(to->marks[to->n_marks++], mark);
    return ES_OK;
}

static es_status set_phase(es_serve_request *to, const char *text)
{
    for (int phase = ES_PHASE_TRAIN; phase <= ES_PHASE_EVAL; phase++)
        if (strcmp(text, es_phase_name((es_phase)phase)) == 0) {
            to->phase = phase;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE, "phase: '%s': expected train or eval", text);
}

static es_status add_figure(es_serve_request *to, const char *name)
{
    if (to->n_figures == ES_COMPOSITE_MOST)
        return es_fail(ES_EUSAGE, "more than %d figures", ES_COMPOSITE_MOST);
    for (int i = 0; i < ES_N_FIGURES; i++)
        if (strcmp(name, es_figure_name((es_figure_kind)i)) == 0) {
            to->figures[to->n_figures++] = (es_figure_kind)i;
            return ES_OK;
        }
    return es_fail(ES_ENOTFOUND, "no such figure: '%s'", name);
}

static es_status set_format(es_serve_request *to, const char *name)
{
    static const es_format formats[] = {ES_FORMAT_SVG, ES_FORMAT_PNG,
                                        ES_FORMAT_PDF};
    if (strcmp(name, "csv") == 0) {
        to->ask = ES_SERVE_EXPORT;
        return ES_OK;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, es_format_name(formats[i])) == 0) {
            to->format = (int)formats[i];
            return ES_OK;
        }
    return es_fail(ES_EUSAGE, "format: '%s': expected svg, png, pdf or csv",
                   name);
}

static es_status set_step(es_serve_request *to, const char *text)
{
    if (strcmp(text, "last") == 0 ||
        es_int_parse(&to->step, text, 0, INT64_MAX - 1) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "step: '%s': expected a step or last", text);
}

static es_status set_flag(bool *to, const char *name, const char *text)
{
    *to = strcmp(text, "1") == 0;
    return *to || strcmp(text, "0") == 0
               ? ES_OK
               : es_fail(ES_EUSAGE, "%s: '%s': expected 0 or 1", name, text);
}

static es_status set_values(es_serve_request *to, const char *text)
{
    int64_t n;
    if (es_int_parse(&n, text, 1, VALUES_MOST) != ES_OK)
        return es_fail(ES_EUSAGE, "values: '%s': expected a number up to %d",
                       text, VALUES_MOST);
    to->n_values = (size_t)n;
    return ES_OK;
}

es_status es_serve_request_add(es_serve_request *request,
                               const es_serve_listing *listing,
                               const char *name, const char *value)
{
    const bool draws =
        request->ask == ES_SERVE_DRAW || request->ask == ES_SERVE_EXPORT;
    if (!value)
        value = "";
    if (strcmp(name, "run") == 0)
        return add_run(request, listing, value);
    if (strcmp(name, "name") == 0)
        return add_name(request, value);
    if (strcmp(name, "since") == 0)
        return add_mark(request, value);
    if (strcmp(name, "phase") == 0)
        return set_phase(request, value);
    if (strcmp(name, "step") == 0)
        return set_step(request, value);
    if (strcmp(name, "values") == 0)
        return set_values(request, value);
    if (draws && strcmp(name, "figure") == 0)
        return add_figure(request, value);
    if (draws && strcmp(name, "log") == 0)
        return set_flag(&request->style.logarithmic, name, value);
    if (draws && strcmp(name, "full") == 0)
        return set_flag(&request->style.full, name, value);
    if (draws && strcmp(name, "format") == 0)
        return set_format(request, value);
    if (draws && strcmp(name, "theme") == 0)
        request->style.theme =
            strcmp(value, "dark") == 0 ? ES_THEME_DARK : ES_THEME_LIGHT;
    if (draws && strcmp(name, "steps") == 0)
        return es_figures_set_steps(&request->style, value);
    return ES_OK;
}

es_status es_serve_request_check(const es_serve_request *request)
{
    const bool needs_name = request->ask == ES_SERVE_SERIES;
    const bool is_single = request->ask == ES_SERVE_STOP ||
                           request->ask == ES_SERVE_MAPS ||
                           request->ask == ES_SERVE_EXPORT;
    if (!request->n_runs)
        return es_fail(ES_EUSAGE, "no run given: add run=KEY");
    if (is_single && request->n_runs > 1)
        return es_fail(ES_EUSAGE, "more than one run given: give one run=KEY");
    if (needs_name && !request->n_names)
        return es_fail(ES_EUSAGE, "no series given: add name=NAME");
    if (request->ask == ES_SERVE_DRAW && !request->n_figures)
        return es_fail(ES_EUSAGE, "no figure given: add figure=NAME");
    return ES_OK;
}
