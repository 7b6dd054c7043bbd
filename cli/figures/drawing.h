/** Shared between the figures of runs. */
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
    es_run_labels labels; /* of the runs; es_run_labels_free */
    /* Of runs that stand for seeds of a configuration (--group seed); NULL:
       each for itself. */
    const es_run_summary **members; /* (n) lists, one after the other */
    size_t *n_members;              /* (n) in each */
    size_t *n_of_all;               /* (n) with those left out */
    const char *baseline;           /* es_figure_job's */
    size_t n_unread;                /* the same */
    es_figure_style style;
    char note[512]; /* "max = 3.87 (observed)" */
    char axis[256]; /* "entropy (nats)": of the summaries' values */
    void **blocks;  /* (n_blocks) es_drawing_alloc's */
    size_t n_blocks;
} es_drawing;

/** As es_alloc; the memory is the drawing's. ES_OK or ES_ENOMEM. */
es_status es_drawing_alloc(es_drawing *drawing, void *pointer, size_t n,
                           size_t size) ES_MUST_USE;

/** The same of n elements of what `pointer` points to. */
#define es_drawing_array(drawing, pointer, n)                                  \
    es_drawing_alloc(drawing, pointer, n, sizeof **(pointer))

/** Frees all that was allocated for the drawing. */
void es_drawing_clear(es_drawing *drawing);

/**
 * From runs to configurations: of runs that differ in the seed alone the first
 * stands for all.
 *
 *   all  (n) runs, also those that were left out
 *
 * ES_OK or ES_ENOMEM.
 */
es_status es_drawing_group(es_drawing *drawing,
                           const es_run_summary *const *all,
                           size_t n) ES_MUST_USE;

/** The same of all its runs if there are more than `most` of them, and they
 *  are not grouped yet. ES_OK or ES_ENOMEM. */
es_status es_drawing_fold(es_drawing *drawing, size_t most) ES_MUST_USE;

/** Beyond so many runs a figure of panels is one of small ones. */
#define ES_PANELS_MOST 12

/** The runs that run i of the drawing stands for, itself if they are not
 *  grouped: *out (returned) borrowed. */
size_t es_drawing_members(const es_run_summary *const **out,
                          const es_drawing *drawing, size_t i);

/** What run i of the drawing is called. */
const char *es_drawing_title(const es_drawing *drawing, size_t i);

#define ES_CAPTION_MAX 64

/** "step 400", "step 400, eval". Returns out (ES_CAPTION_MAX bytes). */
char *es_drawing_step(char *out, const es_run_summary *run);

typedef struct es_series_scale {
    double low, high; /* high is NaN if there is nothing to go by */
    bool logarithmic;
} es_series_scale;

/**
 * A scale up to `top`, which may be NaN, for values of the drawing's series.
 *
 * From 0 where that is the natural foot (of what is an amount, a share or a
 * count); else from the smallest value, for the differences of the heads are
 * what is looked for. Logarithmic where a linear scale would show one head
 * alone, zeros then with a colour of their own: never for entropies, whose
 * colours are compared between figures. If all of them are 0, they go up to
 * the ceiling, the largest of the runs'.
 */
es_series_scale es_drawing_scale(const es_drawing *drawing,
                                 const es_range *range, double top);

/** The colour of a severity. */
es_level es_drawing_level(es_severity severity);

/** The largest m of the runs; NaN if none is known. */
double es_drawing_top(const es_drawing *drawing);

typedef struct es_figure_entry es_figure_entry;

/** ES_OK if the figure can show the run; else ES_ENOTFOUND, and the message
 *  says what it needs and what the run has. */
typedef es_status es_figure_fits(const es_run_summary *run,
                                 const es_figure_entry *figure);

/** Draws the runs, all of which fit; es_drawing_clear afterwards. A run that
 * cannot be read any more fails it; ES_ENOTFOUND if they do not make a figure
 * together. */
typedef es_status es_figure_draw(es_picture **out, es_drawing *drawing);

/** A row of cli/figures/list.h. */
struct es_figure_entry {
    const char *name, *label;
    const char *series, *other; /* that it needs; NULL: none */
    es_figure_fits *fits;
    es_figure_draw *draw;
};

/** By kind: what its row says. */
extern const es_figure_entry es_figure_entries[ES_N_FIGURES];

/** Can the figure show the run? As es_figure_fits. */
es_status es_figure_fit(es_figure_kind kind,
                        const es_run_summary *run) ES_MUST_USE;

/** An overview of nothing but the heads: what bars of many runs become. Returns
 *  as es_figure_draw. */
es_status es_overview_of_heads(es_picture **out,
                               es_drawing *drawing) ES_MUST_USE;

/**
 * Draws figures one below the other on a page: plots of the same number of
 * columns begin and end at the same places, panels are lettered throughout, a
 * legend that several would have stands once.
 *
 *   drawings, kinds  (n) n >= 1
 *
 * Returns as es_figure_draw; ES_EUSAGE too if the size is too small.
 */
es_status es_composite_draw(es_picture **out, es_drawing *drawings,
                            const es_figure_kind *kinds, size_t n) ES_MUST_USE;

#define ES_FIGURE_FUNCTIONS(kind, name, label, needs, series, other, help)     \
    es_figure_fits es_fits_##needs;                                            \
    es_figure_draw es_draw_##name;
ES_FIGURES(ES_FIGURE_FUNCTIONS)

#endif
