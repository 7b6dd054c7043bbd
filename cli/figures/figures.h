/** Declares the figures that entropy-scan draws from runs: options, output
 *  files and style. */
#ifndef ES_FIGURES_H
#define ES_FIGURES_H

#include "cli/figures/list.h"
#include "cli/runs/summary.h"
#include "render/figures/theme.h"
#include "render/screen.h"

/** The figures, in the order of cli/figures/list.h: ES_FIGURE_OVERVIEW,
 *  ES_FIGURE_HEATMAP, ... */
typedef enum es_figure_kind {
#define ES_FIGURE_KIND(kind, name, label, needs, series, other, help)          \
    ES_FIGURE_##kind,
    ES_FIGURES(ES_FIGURE_KIND) ES_N_FIGURES
} es_figure_kind;

/** A composite figure: one page with several figures, stacked vertically. */
enum {
    ES_FIGURE_COMPOSITE = ES_N_FIGURES,
    ES_N_PICTURES,
    ES_COMPOSITE_MOST = 8
};

/** Number of pixels per point in PNG files. */
#define ES_PIXELS_A_POINT 2.0

/** The medium for which a figure is drawn, which determines its width. */
typedef enum es_medium {
    ES_MEDIUM_SCREEN, /* a screen: the content has its natural width */
    ES_MEDIUM_COLUMN, /* a column of a two-column paper, 3.25 inches */
    ES_MEDIUM_PAGE,   /* page width of a two-column paper, 6.75 inches */
    /* A slide of 13.33 x 7.5 inches with letters twice as large. */
    ES_MEDIUM_SLIDE,
    ES_MEDIUM_ICML,   /* a column of the ICML style, 3.25 inches */
    ES_MEDIUM_NEURIPS /* the text width of the NeurIPS style, 5.5 inches */
} es_medium;

/** The names of the media on the command line, in the order of es_medium; ends
 *  with NULL. */
extern const char *const es_media[];
#define ES_MEDIA_EXPECTED "screen, column, page, slide, icml or neurips"

/** Returns true if the medium is a column of a two-column paper. */
bool es_medium_is_column(es_medium medium);

/** The quantities for the x axis of the figure pareto (--cost). */
typedef enum es_cost {
    /* FLOPs of a forward pass, computed by analyzer/cost/flops.h */
    ES_COST_FLOPS,
    ES_COST_PARAMS, /* number of weights in the layers' matrices */
    /* bytes exchanged in a private forward pass, computed by
     * analyzer/cost/cost.h */
    ES_COST_COMMUNICATION,
    /* time of a private forward pass, computed by analyzer/cost/cost.h */
    ES_COST_LATENCY,
    ES_COST_TOKENS /* number of tokens on which the model was trained */
} es_cost;

/** The options of one requested figure. */
typedef struct es_picture_request {
    bool wanted;
    bool by_name; /* true if the figure is requested by name, not only by --all;
                     failing to draw the figure is then an error */
    /* Output file; "-" means standard output, NULL an automatic name. */
    const char *file;
    es_format format;
} es_picture_request;

/** The range shaded around the mean of a layer's heads. */
typedef enum es_heads_spread {
    ES_SPREAD_NONE,
    ES_SPREAD_RANGE,    /* from the smallest to the largest finite value */
    ES_SPREAD_QUARTILES /* from the lower to the upper quartile */
} es_heads_spread;

/** The steps that a figure shows (--steps). */
typedef struct es_step_range {
    bool given; /* false if all steps are shown; the other members are then 0 */
    int64_t first, last; /* last is ES_MAX_STEP for a range without an end */
} es_step_range;

#define ES_STEP_RANGE_MAX 64

/** Prints a given range, such as "from step 200 to 400" or "from step 200 on".
 *  Returns out. */
char *es_step_range_print(char out[ES_STEP_RANGE_MAX],
                          const es_step_range *range);

/** Selects the runs that are merged into one line or panel. */
typedef enum es_grouping { ES_GROUP_NONE, ES_GROUP_SEED } es_grouping;

/**
 * Options of the figures. Strings are borrowed from argv. The default of every
 * member is zero.
 */
typedef struct es_figure_options {
    es_picture_request pictures[ES_N_PICTURES];
    /* (n_parts) figures on the composite page. */
    es_figure_kind parts[ES_COMPOSITE_MOST];
    size_t n_parts;
    /* name of the composite page, such as "heatmap+curves"; n_composite bytes,
     * not NUL-terminated */
    const char *composite;
    size_t n_composite;
    bool letters; /* true: label the panels (a), (b), ... */
    /* Folder for automatic names; NULL: the current folder. */
    const char *folder;
    const char *document; /* PDF file with all figures as pages; NULL: separate
                             files */
    const char *title;
    /* Size of the page in pixels for PNG, in columns and rows for text,
     * otherwise in points; 0: natural size. */
    double width, height;
    bool in_points; /* true if width and height are in points in every
                       format */
    /* For text: the width of the page in columns, used if neither size nor
     * medium is given; and the characters and colours of the terminal. */
    int columns;
    es_depth depth;
    double letters_size; /* font size of labels in points; 0: default */
    es_colormap colormap;
    es_theme theme;
    /* False if the user chose no theme: text then has the dark theme, which
     * suits most terminals, and other formats have the light theme. */
    bool theme_given;
    es_medium medium;
    es_heads_spread spread; /* curves */
    es_grouping group;      /* ES_GROUP_SEED: show the mean and range over
                               seeds, in heatmaps the mean only; see
                               es_figure_groups */
    /* for curves and loss: smoothing window in samples; 0: no smoothing */
    int64_t smooth;
    int64_t spikes; /* for curves and loss: number of samples in the window of
                       the spike search; 0: spikes are not searched for */
    bool trends;    /* for curves: true to draw a dashed trend per layer */
    bool by_head;   /* for curves and maps: true to show the heads of `layer` */
    int64_t layer;
    bool logarithmic; /* for curves, nans and loss: true for a logarithmic y
                         axis */
    bool perplexity;  /* for loss: true to show exp(loss) */
    bool full;        /* for loss: true to show all values; otherwise the y axis
                         fits the last two thirds of every run that does not
                         diverge */
    bool step_given;  /* for heatmap: true to show the chosen step even if none
                         of its heads is finite */
    bool tokens;      /* for loss: true for an x axis in tokens instead of
                         steps */
    es_step_range steps; /* for figures over the steps: curves, nans, slopes,
                            loss, raster and timeline */
    es_cost cost;
} es_figure_options;

/** Returns the figure's name for --figure, such as "heatmap". */
const char *es_figure_name(es_figure_kind kind);

/** Returns the description of the figure: "every layer over the steps". */
const char *es_figure_about(es_figure_kind kind);

/** Requests the figures of a comma-separated list, such as "heatmap,loss". An
 *  item "heatmap+curves" puts these figures on one page; a list may have one
 *  such item. The options borrow `list`. Returns ES_OK or ES_EUSAGE. */
es_status es_figures_want(es_figure_options *options,
                          const char *list) ES_MUST_USE;

/**
 * Requests every figure. The files are written to `folder`, or to the current
 * folder if `folder` is NULL.
 */
void es_figures_want_all(es_figure_options *options, const char *folder);

/** Requests one figure; `file` is its output file, or NULL for an automatic
 *  name. */
void es_figures_want_one(es_figure_options *options, es_figure_kind kind,
                         const char *file);

/** Returns true if the figure is requested, as a separate file or as part of a
 *  composite page. */
bool es_figure_is_drawn(const es_figure_options *options, es_figure_kind kind);

/** Returns true if the figure can merge the seeds of a configuration (--group
 *  seed). */
bool es_figure_groups(es_figure_kind kind);

/** Returns ES_EUSAGE if --group is given but a figure requested by name cannot
 *  merge seeds; otherwise ES_OK. */
es_status es_figures_check_group(const es_figure_options *options) ES_MUST_USE;

/** Returns true if any figure is requested. */
bool es_figures_any(const es_figure_options *options);

/** Parses the figure size of --size, such as "1200x800", "89x60mm",
 *  "3.25x2.5in" or "234x180pt". Returns ES_OK or ES_EUSAGE. */
es_status es_figures_set_size(es_figure_options *options,
                              const char *text) ES_MUST_USE;

/** Parses the range of --steps: "A-B", "A-" or "-B". Returns ES_OK or
 *  ES_EUSAGE. */
es_status es_figures_set_steps(es_figure_options *options,
                               const char *text) ES_MUST_USE;

/** Parses the window of --spikes in samples; NULL selects the default, 31.
 *  Returns ES_OK or ES_EUSAGE. */
es_status es_figures_set_spikes(es_figure_options *options,
                                const char *text) ES_MUST_USE;

/**
 * Assigns `output` (the argument of -o) to the figures that have no file name.
 * A single figure is written to that file; if `output` is "-", all figures are
 * written to standard output. Several figures become the pages of the document
 * `output` if `output` ends in .pdf and is not a folder; otherwise they are
 * written to the folder `output`.
 *
 * Returns true if `output` was used.
 */
bool es_figures_place(es_figure_options *options, const char *output);

/**
 * Chooses the format of a figure: `format` if it is not NULL; else the format
 * that belongs to the extension of `file`; else text if `file` is "-" and
 * standard output is a terminal; else PNG. Also checks that the format allows
 * the size in the options.
 *
 * Returns ES_OK, or ES_EUSAGE if format and file name contradict each other,
 * the format is unknown, or the format does not allow the size.
 */
es_status es_figure_format(es_format *out, const es_figure_options *options,
                           const char *file,
                           const es_format *format) ES_MUST_USE;

/** Calls es_figure_format for every requested figure. Returns ES_OK or the
 *  first error. */
es_status es_figures_set_format(es_figure_options *options,
                                const es_format *format) ES_MUST_USE;

/** Converts the options title, size, colours and medium to the style of a
 *  chart. */
es_figure_style es_figures_style(const es_figure_options *options,
                                 es_format format);

/** Writes a picture like es_picture_write. Text has the width, characters and
 *  colours of the options, but no colours if `out` should get none
 *  (es_print_has_colour). */
es_status es_figure_write(const es_picture *picture, FILE *out,
                          es_format format, const es_figure_options *options,
                          const es_picture_note *notes,
                          size_t n_notes) ES_MUST_USE;

/** A job for es_figures_make: the figures to draw and their runs. */
typedef struct es_figure_job {
    const es_figure_options *options;
    /* (n_inputs) input files, which no output may overwrite. */
    char *const *inputs;
    size_t n_inputs;
    const es_run_summary *const *runs; /* (n) runs in the order of display, with
                                          their final m (the largest entropy) */
    size_t n;
    const char *baseline; /* input file whose run the figure delta subtracts;
                             NULL: the first input */
    size_t n_unread;      /* number of inputs or runs that could not be read */
    bool quiet;
} es_figure_job;

/**
 * Draws one figure into a display list, from the runs that the figure can show.
 * Writes no file.
 *
 *   out     owned by the caller
 *   kind    ES_FIGURE_COMPOSITE: the page of options->parts
 *   format  determines the units of the size in the options
 *
 * Returns ES_OK; ES_ENOTFOUND if no run can be shown; other errors of
 * es_figures_make.
 */
es_status es_figure_draw_runs(es_picture **out, es_figure_kind kind,
                              const es_figure_job *job,
                              es_format format) ES_MUST_USE;

/**
 * Finds the runs that the figure can show.
 *
 *   fitting    (n) the runs
 *   n_fitting  their number; 0 if they are too few for the figure, such as a
 *              single run for a difference
 *
 * Returns ES_OK, or the first error that occurred while a run was read; an
 * error does not prevent the other runs from being tried.
 */
es_status es_figure_fitting(const es_run_summary **fitting, size_t *n_fitting,
                            es_figure_kind kind,
                            const es_run_summary *const *runs,
                            size_t n) ES_MUST_USE;

/** Returns ES_OK if the figure can show the run; otherwise ES_ENOTFOUND with a
 *  message that says what the figure needs, or an error of reading the run. */
es_status es_figure_fit(es_figure_kind kind,
                        const es_run_summary *run) ES_MUST_USE;

/**
 * Draws the requested figures of all runs and writes them, with a note on
 * standard error unless `quiet`. Errors are reported on standard error too, and
 * the other figures are still made. A message that several figures would
 * repeat, for example about an unreadable file, appears once.
 *
 *   n_failed  set to the number of runs that could not be shown and were left
 *             out
 *
 * If a figure that only --all requests has nothing to show, a note says so, but
 * this is not an error. Returns ES_OK or the first error, which has been
 * reported: ES_ENOTFOUND (no run is left), ES_EUSAGE (the size is too small),
 * ES_EIO, ES_ENOMEM.
 */
es_status es_figures_make(size_t *n_failed,
                          const es_figure_job *job) ES_MUST_USE;

#endif
