/* The table of figures, and what the command line says of them. */
#include "analyzer/base/text.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"

#include <string.h>

const es_figure_entry es_figure_entries[ES_N_FIGURES] = {
#define ENTRY(kind, name, label, needs, series, other, help)                   \
    {#name, label, series, other, es_fits_##needs, es_draw_##name},
    ES_FIGURES(ENTRY)
#undef ENTRY
};

const char *es_figure_name(es_figure_kind kind)
{
    return es_figure_entries[kind].name;
}

es_status es_figure_fit(es_figure_kind kind, const es_run_summary *run)
{
    return es_figure_entries[kind].fits(run, &es_figure_entries[kind]);
}

/* --- what they need -------------------------------------------------------*/

es_status es_fits_any(const es_run_summary *run, const es_figure_entry *figure)
{
    (void)run, (void)figure;
    return ES_OK;
}

es_status es_fits_series(const es_run_summary *run,
                         const es_figure_entry *figure)
{
    es_status status = ES_ENOTFOUND;
    if (figure->other)
        status = es_source_has(run, figure->other, figure->label);
    return status == ES_ENOTFOUND
               ? es_source_has(run, figure->series, figure->label)
               : status;
}

/* --- which ----------------------------------------------------------------*/

void es_figures_want_one(es_figure_options *options, es_figure_kind kind,
                         const char *file)
{
    options->pictures[kind].wanted = true;
    options->pictures[kind].by_name = true;
    if (file)
        options->pictures[kind].file = file;
}

void es_figures_want_all(es_figure_options *options, const char *folder)
{
    for (int i = 0; i < ES_N_FIGURES; i++)
        options->pictures[i].wanted = true;
    if (folder)
        options->folder = folder;
}

es_status es_figures_want(es_figure_options *options, const char *list)
{
    for (const char *name = list;; name++) {
        size_t n = strcspn(name, ",");
        int kind = 0;
        while (kind < ES_N_FIGURES &&
               (strlen(es_figure_entries[kind].name) != n ||
                memcmp(es_figure_entries[kind].name, name, n)))
            kind++;
        if (kind == ES_N_FIGURES) {
            char known[512];
            es_text text = es_text_begin(known, sizeof known);
            for (int i = 0; i < ES_N_FIGURES; i++)
                es_text_append(&text, "%s%s", i ? ", " : "",
                               es_figure_entries[i].name);
            return es_fail(ES_EUSAGE, "--figure '%.*s': there are %s",
                           (int)(n < 40 ? n : 40), name, known);
        }
        es_figures_want_one(options, (es_figure_kind)kind, NULL);
        name += n;
        if (!*name)
            return ES_OK;
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

es_status es_figures_set_size(es_figure_options *options, const char *text)
{
    char width[32];
    const char *x = strchr(text, 'x');
    size_t n = x ? (size_t)(x - text) : 0;
    if (n && n < sizeof width) {
        snprintf(width, sizeof width, "%.*s", (int)n, text);
        if (es_double_parse(&options->width, width) == ES_OK &&
            es_double_parse(&options->height, x + 1) == ES_OK &&
            options->width >= 1 && options->height >= 1)
            return ES_OK;
    }
    return es_fail(ES_EUSAGE,
                   "--size '%.40s': width and height, such as "
                   "1200x800",
                   text);
}

bool es_figures_place(es_figure_options *options, const char *output)
{
    es_picture_request *nameless = NULL;
    size_t n = 0;
    for (int i = 0; i < ES_N_FIGURES; i++)
        if (options->pictures[i].wanted && !options->pictures[i].file) {
            nameless = &options->pictures[i];
            n++;
        }
    if (n == 1)
        nameless->file = output;
    else if (n > 1)
        options->folder = output;
    return n > 0;
}

es_status es_figures_set_format(es_figure_options *options,
                                const es_format *format)
{
    for (int i = 0; i < ES_N_FIGURES; i++) {
        es_picture_request *picture = &options->pictures[i];
        const char *file = picture->file;
        es_format by_name = ES_FORMAT_PNG;
        if (!picture->wanted)
            continue;
        bool named = file && es_format_of_path(&by_name, file);
        picture->format = format ? *format : by_name;
        if (named && picture->format != by_name)
            return es_fail(ES_EUSAGE,
                           "--format %s does not go with the name %s",
                           es_format_name(*format), file);
        if (!named && !format && file && strcmp(file, "-") != 0)
            return es_fail(ES_EUSAGE,
                           "%s: end the name in .png, .svg or .pdf, or give "
                           "--format",
                           file);
        /* Before anything is drawn: some pictures may be of another format. */
        es_status status =
            options->width > 0
                ? es_format_check_size(picture->format, options->width,
                                       options->height)
                : ES_OK;
        if (status < 0)
            return es_fail(status, "--size: %s", es_message());
    }
    return ES_OK;
}
