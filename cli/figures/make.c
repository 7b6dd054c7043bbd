/* Defines the table of figures, and parses the options of figures on the
 * command line. */
#include "analyzer/base/text.h"
#include "cli/figures/drawing.h"
#include "cli/figures/source.h"
#include "cli/runs/tree.h"
#include "render/cells.h"

#include <string.h>
#include <unistd.h>

enum { SPIKES_OUT_OF = 31 }; /* default window of --spikes, in samples */

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

const char *es_figure_about(es_figure_kind kind)
{
#define HELP(kind, name, label, needs, series, other, help) help,
    static const char *const helps[] = {ES_FIGURES(HELP)};
#undef HELP
    const char *about = helps[kind] + strlen(es_figure_name(kind));
    return about + strspn(about, " ");
}

es_status es_figure_fit(es_figure_kind kind, const es_run_summary *run)
{
    return es_figure_entries[kind].fits(run, &es_figure_entries[kind]);
}

es_status es_figure_fitting(const es_run_summary **fitting, size_t *n_fitting,
                            es_figure_kind kind,
                            const es_run_summary *const *runs, size_t n)
{
    es_status failure = ES_OK;
    *n_fitting = 0;
    for (size_t i = 0; i < n; i++) {
        const es_status status = es_figure_fit(kind, runs[i]);
        if (status == ES_OK)
            fitting[(*n_fitting)++] = runs[i];
        else if (status != ES_ENOTFOUND && failure == ES_OK)
            failure = status;
    }
    if (*n_fitting < (kind == ES_FIGURE_DELTA ? 2 : 1))
        *n_fitting = 0;
    return failure;
}

/* --- needs -----------------------------------------------------------------*/

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

bool es_figure_groups(es_figure_kind kind)
{
    return kind == ES_FIGURE_OVERVIEW || kind == ES_FIGURE_HEATMAP ||
           kind == ES_FIGURE_CURVES || kind == ES_FIGURE_NANS ||
           kind == ES_FIGURE_SLOPES || kind == ES_FIGURE_LOSS ||
           kind == ES_FIGURE_VALUES;
}

es_status es_figures_check_group(const es_figure_options *options)
{
    for (int i = 0; i < ES_N_FIGURES; i++) {
        const es_figure_kind kind = (es_figure_kind)i;
        bool named =
            options->pictures[i].wanted && options->pictures[i].by_name;
        for (size_t k = 0; k < options->n_parts; k++)
            named = named || options->parts[k] == kind;
        if (options->group != ES_GROUP_NONE && named && !es_figure_groups(kind))
            return es_fail(ES_EUSAGE,
                           "--group: %s cannot show a mean over seeds: draw it "
                           "separately, without --group",
                           es_figure_name(kind));
    }
    return ES_OK;
}

/* --- choice ---------------------------------------------------------------*/

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

/* Finds the figure whose name equals the first n bytes of `name`. */
static es_status find_kind(es_figure_kind *out, const char *name, size_t n)
{
    char known[512];
    es_text text = es_text_begin(known, sizeof known);
    for (int kind = 0; kind < ES_N_FIGURES; kind++) {
        const char *other = es_figure_entries[kind].name;
        *out = (es_figure_kind)kind;
        if (strlen(other) == n && memcmp(other, name, n) == 0)
            return ES_OK;
        es_text_append(&text, "%s%s", kind ? ", " : "", other);
    }
    return es_fail(ES_EUSAGE, "--figure: unknown figure '%.*s': expected %s",
                   (int)(n < 40 ? n : 40), name, known);
}

/* Requests a composite page such as "heatmap+curves", which is described by the
 * first n bytes of `list`. */
static es_status want_composite(es_figure_options *options, const char *list,
                                size_t n)
{
    if (options->n_parts)
        return es_fail(ES_EUSAGE,
                       "--figure '%.*s': only one page of several figures can "
                       "be drawn at a time",
                       (int)(n < 40 ? n : 40), list);
    for (const char *name = list; name <= list + n;) {
        size_t length = strcspn(name, "+,");
        if (options->n_parts == ES_COMPOSITE_MOST)
            return es_fail(
                ES_EUSAGE,
                "--figure '%.40s...': a page holds at most %d figures", list,
                ES_COMPOSITE_MOST);
        es_status status =
            find_kind(&options->parts[options->n_parts], name, length);
        if (status < 0)
            return status;
        options->n_parts++;
        name += length + 1;
    }
    options->composite = list;
    options->n_composite = n;
    options->pictures[ES_FIGURE_COMPOSITE].wanted = true;
    options->pictures[ES_FIGURE_COMPOSITE].by_name = true;
    return ES_OK;
}

es_status es_figures_want(es_figure_options *options, const char *list)
{
    for (const char *name = list;; name++) {
        size_t n = strcspn(name, ",");
        es_figure_kind kind;
        es_status status;
        if (memchr(name, '+', n))
            status = want_composite(options, name, n);
        else if ((status = find_kind(&kind, name, n)) == ES_OK)
            es_figures_want_one(options, kind, NULL);
        if (status < 0)
            return status;
        name += n;
        if (!*name)
            return ES_OK;
    }
}

bool es_figure_is_drawn(const es_figure_options *options, es_figure_kind kind)
{
    bool drawn = options->pictures[kind].wanted;
    for (size_t i = 0; i < options->n_parts; i++)
        drawn = drawn || options->parts[i] == kind;
    return drawn;
}

bool es_figures_any(const es_figure_options *options)
{
    for (int i = 0; i < ES_N_PICTURES; i++)
        if (options->pictures[i].wanted)
            return true;
    return false;
}

const char *const es_media[] = {"screen", "column",  "page", "slide",
                                "icml",   "neurips", NULL};

bool es_medium_is_column(es_medium medium)
{
    return medium == ES_MEDIUM_COLUMN || medium == ES_MEDIUM_ICML;
}

/* --- output ---------------------------------------------------------------*/

/* Searches for a unit (mm, in or pt) at the end of `text`. Returns the number
 * of points per unit and sets *n to the length of the text before the unit.
 * Returns 0 if there is no unit. */
static double unit_of(const char *text, size_t *n)
{
    static const struct {
        const char *name;
        double points;
    } units[] = {{"pt", 1}, {"mm", 72 / 25.4}, {"cm", 72 / 2.54}, {"in", 72}};
    *n = strlen(text);
    for (size_t i = 0; *n > 2 && i < sizeof units / sizeof *units; i++)
        if (strcmp(text + *n - 2, units[i].name) == 0) {
            *n -= 2;
            return units[i].points;
        }
    return 0;
}

/* Parses one end of a range of steps, text[0..n); keeps *end if n is 0. */
static bool parse_end(int64_t *end, const char *text, size_t n)
{
    char number[24];
    if (n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    return n == 0 || es_int_parse(end, number, 0, ES_MAX_STEP) == ES_OK;
}

char *es_step_range_print(char out[ES_STEP_RANGE_MAX],
                          const es_step_range *range)
{
    int n = snprintf(out, ES_STEP_RANGE_MAX, "from step %lld ",
                     (long long)range->first);
    snprintf(out + n, ES_STEP_RANGE_MAX - (size_t)n,
             range->last < ES_MAX_STEP ? "to %lld" : "on",
             (long long)range->last);
    return out;
}

es_status es_figures_set_steps(es_figure_options *options, const char *text)
{
    es_step_range range = {true, 0, ES_MAX_STEP};
    const size_t n = strcspn(text, "-");
    const char *last = text + n + (text[n] == '-');
    if (text[n] && text[1] && parse_end(&range.first, text, n) &&
        parse_end(&range.last, last, strlen(last)) &&
        range.first <= range.last) {
        options->steps = range;
        return ES_OK;
    }
    return es_fail(ES_EUSAGE,
                   "--steps '%.40s': expected a range of steps, as in 200-400, "
                   "200- or -400",
                   text);
}

es_status es_figures_set_spikes(es_figure_options *options, const char *text)
{
    options->spikes = SPIKES_OUT_OF;
    if (!text || es_int_parse(&options->spikes, text, 3, 9999) == ES_OK)
        return ES_OK;
    return es_fail(ES_EUSAGE, "--spikes '%.40s': expected 3 to 9999 samples",
                   text);
}

es_status es_figures_set_size(es_figure_options *options, const char *text)
{
    char sides[64];
    size_t n;
    const double unit = unit_of(text, &n);
    char *x = NULL;
    if (n < sizeof sides) {
        snprintf(sides, sizeof sides, "%.*s", (int)n, text);
        x = strchr(sides, 'x');
    }
    if (x) {
        *x = '\0';
        if (es_double_parse(&options->width, sides) == ES_OK &&
            es_double_parse(&options->height, x + 1) == ES_OK) {
            options->in_points = unit > 0;
            options->width *= unit > 0 ? unit : 1;
            options->height *= unit > 0 ? unit : 1;
            if (options->width >= 1 && options->height >= 1)
                return ES_OK;
        }
    }
    return es_fail(ES_EUSAGE,
                   "--size '%.40s': expected width and height, such as "
                   "1200x800, 89x60mm or 3.25x2.5in",
                   text);
}

bool es_figures_place(es_figure_options *options, const char *output)
{
    size_t n = 0;
    for (int i = 0; i < ES_N_PICTURES; i++)
        n += options->pictures[i].wanted && !options->pictures[i].file;
    es_format format;
    const bool is_pdf = es_format_of_path(&format, output) &&
                        format == ES_FORMAT_PDF && !es_path_is_folder(output);
    const bool piped = strcmp(output, "-") == 0;
    for (int i = 0; i < ES_N_PICTURES; i++)
        if (options->pictures[i].wanted && !options->pictures[i].file &&
            (piped || n == 1))
            options->pictures[i].file = output;
    if (piped || n == 1)
        return n > 0;
    if (n > 1 && is_pdf)
        options->document = output;
    else if (n > 1)
        options->folder = output;
    return n > 0;
}

es_status es_figure_format(es_format *out, const es_figure_options *options,
                           const char *file, const es_format *format)
{
    const bool piped = file && strcmp(file, "-") == 0;
    es_format by_name =
        piped && isatty(STDOUT_FILENO) ? ES_FORMAT_TEXT : ES_FORMAT_PNG;
    bool named = file && es_format_of_path(&by_name, file);
    *out = format ? *format : by_name;
    if (named && *out != by_name)
        return es_fail(ES_EUSAGE, "--format %s contradicts the file name %s",
                       es_format_name(*out), file);
    if (!named && !format && file && !piped)
        return es_fail(
            ES_EUSAGE,
            "%s: unknown picture format: end the name in .png, .svg, "
            ".pdf or .txt, or give --format",
            file);
    const bool text = *out == ES_FORMAT_TEXT && !options->in_points;
    const double pixels =
        options->in_points && *out == ES_FORMAT_PNG ? ES_PIXELS_A_POINT : 1;
    const double across = text ? ES_CELL_WIDTH : pixels;
    const double down = text ? ES_CELL_HEIGHT : pixels;
    es_status status = options->width > 0
                           ? es_format_check_size(*out, across * options->width,
                                                  down * options->height)
                           : ES_OK;
    return status < 0 ? es_fail(status, "--size: %s", es_message()) : ES_OK;
}

es_status es_figures_set_format(es_figure_options *options,
                                const es_format *format)
{
    /* Check the formats of all figures before drawing the first figure, because
     * the formats may differ. */
    for (int i = 0; i < ES_N_PICTURES; i++) {
        es_picture_request *picture = &options->pictures[i];
        if (!picture->wanted)
            continue;
        es_status status = es_figure_format(
            &picture->format, options,
            picture->file ? picture->file : options->document, format);
        if (status < 0)
            return status;
    }
    return ES_OK;
}
