/** Declares the state that the figures of runs share: the runs, captions,
 *  scales and memory of a drawing. */
#ifndef ES_DRAWING_H
#define ES_DRAWING_H

#include "cli/figures/figures.h"
#include "cli/runs/labels.h"
#include "render/figures/axis.h"

/** The runs that one figure shows. */
typedef struct es_drawing {
    const es_figure_options *options;
    const es_run_summary **runs; /* (n) n >= 1 */
    size_t n;
    /* labels that distinguish the runs; freed by es_run_labels_free */
    es_run_labels labels;
    /* If runs are grouped (--group seed), each of the n runs represents a
     * group: all runs of its configuration, which differ only in the seed. NULL
     * if runs are not grouped. */
    const es_run_summary **members; /* members of the n groups, one group after
                                       the other */
    size_t *n_members;              /* number of runs in each of the n groups */
    /* number of runs in each of the n groups, including runs that cannot be
     * drawn */
    size_t *n_of_all;
    const char *baseline; /* copied from es_figure_job */
    size_t n_unread;      /* copied from es_figure_job */
    es_figure_style style;
    char note[512]; /* "max = 3.87 (observed)" */
    /* Name and unit of the summaries' values: "entropy (nats)". */
    char axis[256];
    void **blocks; /* memory blocks that es_drawing_alloc has allocated;
                      (n_blocks) */
    size_t n_blocks;
} es_drawing;

/** Allocates memory like es_alloc; the drawing owns the memory. Returns ES_OK
 *  or ES_ENOMEM. */
es_status es_drawing_alloc(es_drawing *drawing, void *pointer, size_t n,
                           size_t size) ES_MUST_USE;

/** Allocates an array of n elements and stores its address in *pointer. */
#define es_drawing_array(drawing, pointer, n)                                  \
    es_drawing_alloc(drawing, pointer, n, sizeof **(pointer))

/** Frees all memory that es_drawing_alloc allocated. */
void es_drawing_clear(es_drawing *drawing);

/**
 * Groups the runs by configuration, so that the first of the runs that differ
 * only in the seed represents all of them.
 *
 *   all  (n) runs, including those that were left out
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_drawing_group(es_drawing *drawing,
                           const es_run_summary *const *all,
                           size_t n) ES_MUST_USE;

/**
 * Groups the drawing's runs by configuration if there are more than `most` of
 * them and they are not grouped yet. Returns ES_OK or ES_ENOMEM.
 */
es_status es_drawing_fold(es_drawing *drawing, size_t most) ES_MUST_USE;

/**
 * Maximum number of panels of normal size; a figure with more panels draws
 * small ones.
 */
#define ES_PANELS_MOST 12

/**
 * Sets *out to the runs that run i of the drawing represents, or to run i alone
 * if the runs are not grouped. Returns the number of these runs, which the
 * drawing owns.
 */
size_t es_drawing_members(const es_run_summary *const **out,
                          const es_drawing *drawing, size_t i);

/** Returns the title of run i of the drawing. */
const char *es_drawing_title(const es_drawing *drawing, size_t i);

#define ES_CAPTION_MAX 64

/** Prints the step of a run's summary, such as "step 400" or "step 400, eval".
 *  Returns out (ES_CAPTION_MAX bytes). */
char *es_drawing_step(char *out, const es_run_summary *run);

typedef struct es_series_scale {
    /* Lower and upper end of the colour scale; high is NaN if no scale is
     * possible. */
    double low, high;
    bool logarithmic;
} es_series_scale;

/**
 * Returns a colour scale that ends at `top`, for the values of the drawing's
 * series. If `top` is NaN, no scale is possible.
 *
 * The scale begins at 0 for amounts, fractions and counts, otherwise at the
 * smallest value, so that differences between heads are visible. The scale is
 * logarithmic if the values differ so much that a linear scale would show only
 * the largest, and zeros then have a separate colour. For entropies the scale
 * is never logarithmic, because their colours are compared between figures. If
 * all entropies are 0, the scale ends at the largest ceiling of the runs.
 */
es_series_scale es_drawing_scale(const es_drawing *drawing,
                                 const es_range *range, double top);

/** Converts a severity to a level of the theme's colours. */
es_level es_drawing_level(es_severity severity);

/**
 * Returns the upper end of an entropy scale that all runs share: the largest of
 * the runs' own upper ends (m, which --max chooses); NaN if none is known.
 */
double es_drawing_top(const es_drawing *drawing);

typedef struct es_figure_entry es_figure_entry;

/** Returns ES_OK if the figure can show the run; otherwise ES_ENOTFOUND with a
 *  message that says what the figure needs and what the run has. */
typedef es_status es_figure_fits(const es_run_summary *run,
                                 const es_figure_entry *figure);

/**
 * Draws a figure from the drawing's runs, all of which the figure can show. The
 * caller clears the drawing afterwards with es_drawing_clear. Returns ES_OK;
 * the errors of reading a run; ES_ENOTFOUND if no figure can be drawn from the
 * runs together.
 */
typedef es_status es_figure_draw(es_picture **out, es_drawing *drawing);

/** The properties of a figure: one row of the table in cli/figures/list.h. */
struct es_figure_entry {
    const char *name, *label;
    const char *series, *other; /* names of two series, at least one of which
                                   the figure needs; NULL if it needs none */
    es_figure_fits *fits;
    es_figure_draw *draw;
};

/** The table of all figures, indexed by es_figure_kind. */
extern const es_figure_entry es_figure_entries[ES_N_FIGURES];

/** Draws an overview of the runs with a single column, which shows the share of
 *  heads in each quarter of the range up to the largest entropy. It replaces
 *  the figure bands if there are many runs. Returns the same statuses as
 *  es_figure_draw. */
es_status es_overview_of_heads(es_picture **out,
                               es_drawing *drawing) ES_MUST_USE;

/** A figure on a composite page. `draw` draws it in the given style; `context`
 *  is passed to `draw`. */
typedef struct es_composite_part {
    es_status (*draw)(es_picture **out, void *context,
                      const es_figure_style *style);
    void *context;
} es_composite_part;

/**
 * Stacks figures vertically on a page. Plots of figures with the same number of
 * columns are aligned, the letters that label panels continue from figure to
 * figure, and a legend that several figures share appears once.
 *
 *   parts  (n) n >= 1; each is drawn two or three times
 *   style  of the page
 *
 * Returns the errors of `draw`, or ES_EUSAGE if the requested size is too
 * small.
 */
es_status es_composite_draw(es_picture **out, const es_composite_part *parts,
                            size_t n, const es_figure_style *style) ES_MUST_USE;

/** Same as es_composite_draw for figures of runs, in the style of the first
 *  drawing; drawings and kinds (n), n <= ES_COMPOSITE_MOST. */
es_status es_composite_draw_runs(es_picture **out, es_drawing *drawings,
                                 const es_figure_kind *kinds,
                                 size_t n) ES_MUST_USE;

#define ES_FIGURE_FUNCTIONS(kind, name, label, needs, series, other, help)     \
    es_figure_fits es_fits_##needs;                                            \
    es_figure_draw es_draw_##name;
ES_FIGURES(ES_FIGURE_FUNCTIONS)

#endif
