/* Lays out the panels of several runs on the terminal and draws them: chooses
   the number of panels per row and their heights, and draws the footer. */
#include "cli/terminal/tui.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/runs/labels.h"

#include <math.h>
#include <string.h>

enum {
    BETWEEN = 3, /* number of columns between panels */
    /* Minimum number of text rows per panel if a live view shows several rows
     * of panels. */
    LEAST_SHARE = 22,
    /* Minimum number of text rows per panel, even if the terminal has fewer
     * rows. */
    LEAST_ROWS = 24,
    /* Maximum number of text rows per panel without a live view, including 48
     * for the heatmap. */
    HIGHEST_PANEL = 60
};

/* Sets the colour scale. The scale begins at 0, or at the smallest value if
 * this value is negative, and ends at the largest m (the largest entropy of a
 * run), as in a figure of heatmaps. */
static void set_scale(es_heat_scale *out, const es_tui *tui)
{
    double low = 0, high = NAN, ceiling = NAN;
    *out = (es_heat_scale){.map = tui->colormap};
    for (size_t i = 0; i < tui->n_runs; i++) {
        const es_run_summary *run = es_watched_shown(&tui->runs[i]);
        if (!run)
            continue;
        high = es_peak_of(high, run->m);
        ceiling = es_peak_of(ceiling, run->ceiling);
        for (size_t k = 0; k < run->n_rows; k++)
            low = fmin(low, run->layers[k].min);
        out->ends_matter = strncmp(run->series, "entropy", 7) == 0;
    }
    if (!(high > low)) /* true if the values of all heads are 0 or not finite */
        high = ceiling > low ? ceiling : low + 1;
    out->low = low;
    out->high = high;
}

/* --- places ---------------------------------------------------------------*/

typedef struct places {
    es_panel_frame frame;
    size_t beside;      /* number of panels per row */
    size_t first, end;  /* range [first, end) of the runs that are drawn */
    int footer, height; /* number of rows of the footer, and of the whole
                           drawing */
} places;

static size_t count_beside(const es_tui *tui)
{
    int wanted = 1;
    size_t n = tui->n_runs - tui->first;
    for (size_t i = 0; i < tui->n_runs; i++) {
        int of_run = es_panel_wanted(&tui->runs[i]);
        wanted = of_run > wanted ? of_run : wanted;
    }
    size_t fit = (size_t)((tui->terminal.width + BETWEEN) / (wanted + BETWEEN));
    fit = fit < n ? fit : n;
    return fit > 0 ? fit : 1;
}

/* Returns the height in rows of text of the row of panels that begins with the
 * run `first`. */
static int height_of_row(const es_tui *tui, const places *p, size_t first)
{
    int height = 1;
    for (size_t i = first; i < first + p->beside && i < tui->n_runs; i++) {
        int of_run = es_panel_plan_of(&tui->runs[i], &p->frame).height;
        height = of_run > height ? of_run : height;
    }
    return height;
}

/* Sets the heights of the panels. In a live view, the height of the terminal is
 * divided equally among the rows of panels, but each gets at least LEAST_SHARE
 * rows of text. */
static void choose_height(places *p, const es_tui *tui)
{
    int rows = tui->terminal.height - p->footer;
    if (!tui->mode) {
        p->frame.high_enough = rows > LEAST_ROWS ? rows : LEAST_ROWS;
        p->frame.highest = HIGHEST_PANEL;
        return;
    }
    size_t n_rows = (tui->n_runs + p->beside - 1) / p->beside;
    n_rows = n_rows > 0 ? n_rows : 1;
    int share = n_rows < (size_t)rows ? rows / (int)n_rows - 1 : 0;
    share = share > LEAST_SHARE ? share : LEAST_SHARE;
    p->frame.highest = n_rows == 1 || share > rows ? rows : share;
    p->frame.high_enough = p->frame.highest;
}

static places place_runs(const es_tui *tui)
{
    places p = {.frame.depth = tui->terminal.depth,
                .first = tui->first,
                .beside = count_beside(tui),
                .footer = tui->mode ? 2 : 1};
    const int beside = (int)p.beside;
    int width = (tui->terminal.width - (beside - 1) * BETWEEN) / beside;
    p.frame.width = width > 1 ? width : 1;
    set_scale(&p.frame.scale, tui);
    choose_height(&p, tui);
    p.end = p.first;
    while (p.end < tui->n_runs) {
        int height = height_of_row(tui, &p, p.end) + (p.end > p.first);
        bool full = p.height + height + p.footer > tui->terminal.height;
        if (tui->mode && full && p.end > p.first)
            break;
        p.height += height;
        p.end += p.beside;
    }
    p.end = p.end < tui->n_runs ? p.end : tui->n_runs;
    p.height += p.footer;
    if (tui->mode && p.height > tui->terminal.height)
        p.height = tui->terminal.height;
    return p;
}

/* --- drawing --------------------------------------------------------------*/

static es_status draw_panels(es_screen *screen, const es_tui *tui,
                             const places *p, const es_run_labels *labels)
{
    int y = 0;
    size_t n_shown = 0; /* number of runs before run i that have samples and
                           therefore a label */
    es_status status = ES_OK;
    for (size_t i = 0; i < p->first; i++)
        n_shown += es_watched_shown(&tui->runs[i]) != NULL;
    for (size_t i = p->first; i < p->end && status == ES_OK; i++) {
        const es_watched *run = &tui->runs[i];
        size_t column = (i - p->first) % p->beside;
        if (column == 0 && i > p->first)
            y += height_of_row(tui, p, i - p->beside) + 1;
        const es_run_summary *shown = es_watched_shown(run);
        const char *title = shown       ? labels->plain[n_shown++]
                            : run->name ? run->name
                                        : run->path;
        int x = (int)column * (p->frame.width + BETWEEN);
        status = es_panel_draw(screen, x, y, run, &p->frame, title);
    }
    return status;
}

/* Draws the footer "m = 2.528 (observed)", which lists the m (the largest
 * entropy) of every run if the runs differ. In a live view the footer also
 * shows the state and the keys. */
static void draw_footer(es_screen *screen, const es_tui *tui, const places *p,
                        const es_run_summary **all, size_t n_all)
{
    int y = p->height - p->footer, width = tui->terminal.width, x = 0;
    char number[ES_FLOAT_TEXT_MAX];
    bool same = true;
    for (size_t i = 1; i < n_all; i++)
        same = same && all[i]->m == all[0]->m;
    for (size_t i = 0; i < (same && n_all ? 1 : n_all); i++)
        if (isnan(all[i]->m))
            x += es_screen_say(screen, x, y, width - x, ES_FAINT, "%s",
                               i ? ", unknown" : "m unknown");
        else
            x += es_screen_say(
                screen, x, y, width - x, ES_FAINT, "%s%s",
                i ? ", " : "m = ", es_number_print(number, all[i]->m, 4));
    if (n_all)
        es_screen_say(screen, x, y, width - x, ES_FAINT, " (%s)",
                      es_max_name(all[0]->max.policy));
    if (!tui->mode)
        return;
    x = es_screen_say(screen, 0, ++y, width, ES_BOLD, "%s  ", tui->mode);
    if (p->end - p->first < tui->n_runs)
        x += es_screen_say(screen, x, y, width - x, ES_PLAIN,
                           "runs %zu-%zu of %zu  ", p->first + 1, p->end,
                           tui->n_runs);
    es_screen_write(screen, x, y, width - x, tui->keys, ES_FAINT);
}

es_status es_tui_draw(es_screen **out, size_t *n_shown, const es_tui *tui)
{
    const places p = place_runs(tui);
    es_screen *screen = NULL;
    const es_run_summary **all;
    es_run_labels labels = {.n = 0};
    size_t n_all = 0;
    es_status status = es_alloc(&all, tui->n_runs, sizeof *all, "runs");
    if (status < 0)
        return status;
    for (size_t i = 0; i < tui->n_runs; i++)
        if (es_watched_shown(&tui->runs[i]))
            all[n_all++] = es_watched_shown(&tui->runs[i]);
    if ((status = es_screen_new(&screen, tui->terminal.depth,
                                tui->terminal.width, p.height)) < 0 ||
        (status = es_run_labels_make(&labels, all, n_all)) < 0 ||
        (status = draw_panels(screen, tui, &p, &labels)) < 0) {
        es_screen_free(screen);
        goto done;
    }
    draw_footer(screen, tui, &p, all, n_all);
    *out = screen;
    if (n_shown)
        *n_shown = p.end - p.first;
done:
    es_run_labels_free(&labels);
    free(all);
    return status;
}
