#include "cli/figures/figures.h"

#include "analyzer/base/text.h"
#include "cli/figures/drawing.h"

#include <string.h>

static const es_figure_entry entries[ES_N_FIGURES] = {
    [ES_FIGURE_HEATMAP] = {"heatmap", es_fits_heatmap, es_draw_heatmap},
    [ES_FIGURE_CURVES] = {"curves", NULL, es_draw_curves},
    [ES_FIGURE_DELTA] = {"delta", es_fits_heatmap, es_draw_delta},
    [ES_FIGURE_BANDS] = {"bands", es_fits_bands, es_draw_bands},
    [ES_FIGURE_THRESHOLDS] = {"thresholds", es_fits_thresholds,
                              es_draw_thresholds},
    [ES_FIGURE_NANS] = {"nans", es_fits_nans, es_draw_nans},
    [ES_FIGURE_SCALES] = {"scales", es_fits_scales, es_draw_scales},
    [ES_FIGURE_SLOPES] = {"slopes", es_fits_slopes, es_draw_slopes},
    [ES_FIGURE_LOSS] = {"loss", es_fits_loss, es_draw_loss},
    [ES_FIGURE_FLOPS] = {"flops", es_fits_flops, es_draw_flops},
    [ES_FIGURE_PARETO] = {"pareto", es_fits_pareto, es_draw_pareto},
    [ES_FIGURE_RASTER] = {"raster", es_fits_raster, es_draw_raster},
    [ES_FIGURE_TIMELINE] = {"timeline", NULL, es_draw_timeline},
};

const es_figure_entry *es_figure_entry_of(es_figure_kind kind)
{
    return &entries[kind];
}

const char *es_figure_name(es_figure_kind kind)
{
    return entries[kind].name;
}

/* --- which ----------------------------------------------------------------*/

void es_figures_want_one(es_figure_options *to, es_figure_kind kind,
                         const char *file)
{
    to->pictures[kind].wanted = true;
    to->pictures[kind].by_name = true;
    if (file)
        to->pictures[kind].file = file;
}

void es_figures_want_all(es_figure_options *to, const char *folder)
{
    for (int i = 0; i < ES_N_FIGURES; i++)
        to->pictures[i].wanted = true;
    if (folder)
        to->folder = folder;
}

static es_status unknown(const char *name, size_t n)
{
    char known[512];
    es_text list = es_text_begin(known, sizeof known);
    for (int i = 0; i < ES_N_FIGURES; i++)
        es_text_append(&list, "%s%s", i ? ", " : "", entries[i].name);
    return es_fail(ES_EUSAGE, "--figure '%.*s': there are %s",
                   (int)(n < 40 ? n : 40), name, known);
}

es_status es_figures_want(es_figure_options *to, const char *list)
{
    const char *name = list;
    for (;;) {
        size_t n = strcspn(name, ",");
        int kind = 0;
        while (kind < ES_N_FIGURES && (strlen(entries[kind].name) != n ||
                                       memcmp(entries[kind].name, name, n)))
            kind++;
        if (kind == ES_N_FIGURES)
            return unknown(name, n);
        es_figures_want_one(to, (es_figure_kind)kind, NULL);
        if (!name[n])
            return ES_OK;
        name += n + 1;
    }
}

bool es_figures_any(const es_figure_options *options)
{
    for (int i = 0; i < ES_N_FIGURES; i++)
        if (options->pictures[i].wanted)
            return true;
    return false;
}

/* --- where ----------------------------------------------------------------*/

es_status es_cost_parse(es_cost *out, const char *text)
{
    static const char *const names[] = {"flops", "params", "nonlinear",
                                        "tokens"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (es_cost)i;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE,
                   "--cost '%.40s': flops, params, nonlinear or tokens", text);
}

es_status es_medium_parse(es_medium *out, const char *text)
{
    static const char *const names[] = {"screen", "column", "page", "slide"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (es_medium)i;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE, "--for '%.40s': screen, column, page or slide",
                   text);
}

es_status es_spread_parse(es_spread *out, const char *text)
{
    static const char *const names[] = {"none", "range", "quartiles"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (es_spread)i;
            return ES_OK;
        }
    return es_fail(ES_EUSAGE, "--spread '%.40s': none, range or quartiles",
                   text);
}

es_status es_figures_set_size(es_figure_options *to, const char *text)
{
    char width[32];
    const char *x = strchr(text, 'x');
    size_t n = x ? (size_t)(x - text) : 0;
    if (n && n < sizeof width) {
        snprintf(width, sizeof width, "%.*s", (int)n, text);
        if (es_double_parse(&to->width, width) == ES_OK &&
            es_double_parse(&to->height, x + 1) == ES_OK && to->width >= 1 &&
            to->height >= 1)
            return ES_OK;
    }
    return es_fail(ES_EUSAGE,
                   "--size '%.40s': width and height, such as "
                   "1200x800",
                   text);
}

bool es_figures_place(es_figure_options *to, const char *output)
{
    es_picture_request *nameless = NULL;
    size_t n = 0;
    for (int i = 0; i < ES_N_FIGURES; i++)
        if (to->pictures[i].wanted && !to->pictures[i].file) {
            nameless = &to->pictures[i];
            n++;
        }
    if (n == 1)
        nameless->file = output;
    else if (n > 1)
        to->folder = output;
    return n > 0;
}

/* Before anything is drawn: some pictures may be of another format. */
static es_status check_size(const es_figure_options *options, es_format format)
{
    if (options->width <= 0)
        return ES_OK;
    es_status status =
        es_format_check_size(format, options->width, options->height);
    return status == ES_OK ? ES_OK
                           : es_fail(status, "--size: %s", es_message());
}

static es_status set_format(es_picture_request *picture,
                            const es_format *format)
{
    static const char *const names[] = {"png", "svg", "pdf"};
    es_format by_name = ES_FORMAT_PNG;
    bool named = picture->file && es_format_of_path(&by_name, picture->file);
    picture->format = format ? *format : by_name;
    if (named && picture->format != by_name)
        return es_fail(ES_EUSAGE, "--format %s does not go with the name %s",
                       names[*format], picture->file);
    if (!named && !format && picture->file && strcmp(picture->file, "-") != 0)
        return es_fail(ES_EUSAGE,
                       "%s: end the name in .png, .svg or .pdf, or give "
                       "--format",
                       picture->file);
    return ES_OK;
}

es_status es_figures_set_format(es_figure_options *to, const es_format *format)
{
    es_status status = ES_OK;
    for (int i = 0; i < ES_N_FIGURES && status == ES_OK; i++)
        if (to->pictures[i].wanted) {
            status = set_format(&to->pictures[i], format);
            if (status == ES_OK)
                status = check_size(to, to->pictures[i].format);
        }
    return status;
}
