/* Draws figures for the live view: summarises the watched runs, draws the
 * figure as a picture of the terminal's size, and prints this picture as
 * characters. */
#include "cli/terminal/figure.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/kernel.h"
#include "cli/runs/settings.h"
#include "render/cells.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    /* A figure that took t ms to draw is redrawn at the earliest REST * t ms
     * later if the runs have changed, so that keys are answered in between. */
    REST = 10,
    FRAME_ROWS = 2, /* rows for the names of the figures and the keys */
    /* Minimum width of a page in columns; on a narrower terminal, the page is
     * scaled down. */
    LEAST_COLUMNS = 67,
    /* Height in rows that most figures fit into; on a terminal with fewer rows,
     * figures scroll. */
    SCROLLED_ROWS = 38
};

void es_figures_fit_terminal(es_figure_options *options, bool theme_given)
{
    es_terminal terminal;
    es_terminal_detect(&terminal);
    options->theme_given = theme_given;
    options->columns = terminal.width;
    options->depth = terminal.depth == ES_DEPTH_ASCII && !isatty(STDOUT_FILENO)
                         ? ES_DEPTH_256
                         : terminal.depth;
}

/* --- runs -----------------------------------------------------------------*/

/* The summaries of the runs of a figure. */
typedef struct summaries {
    es_run_summary **list; /* (n) */
    size_t n;
} summaries;

static void free_summaries(summaries *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        es_summary_free(runs->list[i]);
    free(runs->list);
}

/* Summarises a watched run at the step shown, and reads its settings. */
static es_status load_run(es_run_summary **out, const es_watched *run,
                          const es_summary_options *options)
{
    const es_run_summary *shown = es_watched_shown(run);
    es_summary_options at = *options;
    es_reader *reader = NULL;
    es_status status;
    at.step = run->moment ? shown->step : ES_STEP_LAST;
    if ((status = es_reader_open(&reader, run->path)) == ES_OK &&
        (status = es_summary_load(out, reader, run->index, &at)) == ES_OK)
        status = es_run_settings_read(*out, reader, run->index);
    es_reader_close(reader);
    return status;
}

/* Loads the runs that have samples; runs that cannot be read are left out,
 * since the live view reports their problems. */
static es_status load_runs(summaries *out, const es_figure_source *source)
{
    double observed = NAN;
    es_status status =
        es_alloc(&out->list, source->n_runs, sizeof *out->list, "runs");
    for (size_t i = 0; i < source->n_runs && status == ES_OK; i++) {
        es_run_summary *run = NULL;
        if (!es_watched_shown(&source->runs[i]))
            continue;
        const es_status loaded =
            load_run(&run, &source->runs[i], source->summary);
        if (loaded == ES_OK) {
            observed = es_peak_of(observed, run->peak);
            out->list[out->n++] = run;
            continue;
        }
        es_summary_free(run);
        status = loaded == ES_ENOMEM ? loaded : ES_OK;
    }
    for (size_t i = 0; i < out->n; i++)
        es_summary_set_max(out->list[i], observed);
    return status;
}

/* --- the drawing ----------------------------------------------------------*/

/* Draws the picture at the size of the terminal. If the content does not fit
 * into the height of the terminal, draws it SCROLLED_ROWS rows high, or at its
 * natural height if it does not fit into these rows either. */
static es_status draw_picture(es_picture **out, es_figure_kind kind,
                              const es_run_summary *const *runs, size_t n,
                              const es_figure_source *source)
{
    const int columns = source->terminal.width;
    const int rows = source->terminal.height - FRAME_ROWS;
    const es_figure_options high = {.columns = columns,
                                    .colormap = source->colormap};
    es_figure_options sized = high;
    es_figure_job job = {
        .options = &sized, .runs = runs, .n = n, .quiet = true};
    es_status status = ES_EUSAGE;
    sized.width = fmax(columns, LEAST_COLUMNS);
    for (int i = 0; i < 3 && status == ES_EUSAGE; i++) {
        sized.height = i == 0 ? fmax(1, rows) : fmax(SCROLLED_ROWS, rows);
        job.options = i < 2 ? &sized : &high;
        status = es_figure_draw_runs(out, kind, &job, ES_FORMAT_TEXT);
    }
    return status;
}

/* Draws the figure that the user has selected, with the runs that this figure
 * can show. If it can show none of the runs, draws the next figure that can. */
static es_status draw_runs(es_shown_figure *figure, const summaries *runs,
                           const es_figure_source *source)
{
    const es_run_summary *const *all =
        (const es_run_summary *const *)runs->list;
    const es_run_summary **fitting;
    es_picture *picture = NULL;
    es_status status = es_alloc(&fitting, runs->n, sizeof *fitting, "runs");
    if (status < 0)
        return status;
    size_t n = 0;
    for (int kind = 0; kind < ES_N_FIGURES && status == ES_OK; kind++) {
        status =
            es_figure_fitting(fitting, &n, (es_figure_kind)kind, all, runs->n);
        figure->fits[kind] = n > 0;
    }
    for (int i = 0; i < ES_N_FIGURES && !figure->fits[figure->kind]; i++)
        figure->kind = (figure->kind + 1) % ES_N_FIGURES;
    if (status == ES_OK)
        status = es_figure_fitting(fitting, &n, figure->kind, all, runs->n);
    if (status == ES_OK)
        status = n > 0
                     ? draw_picture(&picture, figure->kind, fitting, n, source)
                     : es_fail(ES_ENOTFOUND, "no run has a sample yet");
    if (status == ES_OK)
        status = es_cells_draw(&figure->drawing, picture,
                               source->terminal.width, source->terminal.depth);
    es_picture_free(picture);
    free(fitting);
    return status;
}

static void clear_drawing(es_shown_figure *figure)
{
    es_screen_free(figure->drawing);
    free(figure->problem);
    figure->drawing = NULL;
    figure->problem = NULL;
}

es_status es_shown_figure_update(es_shown_figure *figure,
                                 const es_figure_source *source)
{
    const int64_t begin = es_now_ms();
    summaries runs = {0};
    if (!figure->stale && figure->width == source->terminal.width &&
        figure->height == source->terminal.height)
        return ES_OK;
    clear_drawing(figure);
    es_status status = load_runs(&runs, source);
    if (status == ES_OK)
        status = draw_runs(figure, &runs, source);
    if (status < 0 && !(figure->problem = strdup(es_message())))
        status = ES_ENOMEM;
    free_summaries(&runs);
    figure->stale = figure->behind = false;
    figure->width = source->terminal.width;
    figure->height = source->terminal.height;
    figure->next = es_now_ms() + REST * (es_now_ms() - begin);
    return status == ES_ENOMEM ? status : ES_OK;
}

/* --- the screen -----------------------------------------------------------*/

/* Returns the total width in columns of the names of the figures from `first`
 * to `last`, counting only figures that can show the runs. */
static int width_of_names(const es_shown_figure *figure, int first, int last)
{
    int width = 0;
    for (int kind = first; kind <= last; kind++)
        if (figure->fits[kind])
            width += 2 + (int)strlen(es_figure_name((es_figure_kind)kind));
    return width;
}

/* Writes the names of the figures that can show the runs, and the selected name
 * in bold. If the row is too narrow, names before the selected name are left
 * out. */
static void write_names(es_screen *screen, const es_shown_figure *figure)
{
    int first = 0, x = 0;
    while (first < (int)figure->kind &&
           width_of_names(figure, first, (int)figure->kind) > screen->width)
        first++;
    for (int kind = first; kind < ES_N_FIGURES; kind++) {
        const bool chosen = kind == (int)figure->kind;
        if (figure->fits[kind])
            x += es_screen_write(screen, x, 0, screen->width - x,
                                 es_figure_name((es_figure_kind)kind),
                                 chosen ? ES_BOLD : ES_FAINT) +
                 2;
    }
}

es_status es_shown_figure_draw(es_screen **out, es_shown_figure *figure,
                               const es_figure_source *source, const char *mode,
                               const char *keys)
{
    const int width = source->terminal.width, height = source->terminal.height;
    const int rows = height > FRAME_ROWS ? height - FRAME_ROWS : 1;
    es_screen *screen;
    es_status status = es_shown_figure_update(figure, source);
    if (status < 0 || (status = es_screen_new(&screen, source->terminal.depth,
                                              width, height)) < 0)
        return status;
    write_names(screen, figure);
    if (figure->drawing) {
        const int last = figure->drawing->height - rows;
        figure->top = figure->top < last ? figure->top : last;
        figure->top = figure->top > 0 ? figure->top : 0;
        for (int y = 0; y < rows; y++)
            es_screen_copy_row(screen, 1 + y, figure->drawing, figure->top + y);
    } else
        es_screen_write(screen, 0, 1, width, figure->problem, ES_PLAIN);
    if (height > FRAME_ROWS) {
        const int x =
            es_screen_say(screen, 0, height - 1, width, ES_BOLD, "%s  ", mode);
        es_screen_write(screen, x, height - 1, width - x, keys, ES_FAINT);
    }
    *out = screen;
    return ES_OK;
}

/* --- the choice -----------------------------------------------------------*/

void es_shown_figure_turn(es_shown_figure *figure, bool back)
{
    const int step = back ? ES_N_FIGURES - 1 : 1;
    if (figure->open)
        for (int i = 0; i < ES_N_FIGURES; i++) {
            figure->kind =
                (es_figure_kind)(((int)figure->kind + step) % ES_N_FIGURES);
            if (figure->fits[figure->kind])
                break;
        }
    figure->open = figure->stale = true;
    figure->top = 0;
}

void es_shown_figure_close(es_shown_figure *figure)
{
    clear_drawing(figure);
    figure->open = false;
    figure->stale = true;
}
