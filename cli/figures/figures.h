/** The figures that entropy-scan draws of runs: which, where, how they look. */
#ifndef ES_FIGURES_H
#define ES_FIGURES_H

#include "cli/figures/list.h"
#include "cli/runs/summary.h"
#include "render/figures/theme.h"

/** ES_FIGURE_HEATMAP and so on, in the order of the list. */
typedef enum es_figure_kind {
#define ES_FIGURE_KIND(kind, name, label, needs, series, other, help)          \
    ES_FIGURE_##kind,
    ES_FIGURES(ES_FIGURE_KIND) ES_N_FIGURES
} es_figure_kind;

/** Beside them: one page of several, one below the other. */
enum {
    ES_FIGURE_COMPOSITE = ES_N_FIGURES,
    ES_N_PICTURES,
    ES_COMPOSITE_MOST = 8
};

/** Of a PNG. */
#define ES_PIXELS_A_POINT 2.0

/** Where a figure is to be put down, which gives it its width. */
typedef enum es_medium {
    ES_MEDIUM_SCREEN, /* as wide as its content wants */
    ES_MEDIUM_COLUMN, /* of a paper in two columns: 3.25 inches */
    ES_MEDIUM_PAGE,   /* both columns: 6.75 inches */
    ES_MEDIUM_SLIDE,  /* 13.33 x 7.5 inches, in letters twice as large */
    ES_MEDIUM_ICML,   /* a column of ICML's style: 3.25 inches */
    ES_MEDIUM_NEURIPS /* the text of NeurIPS's: 5.5 inches */
} es_medium;

/** Their names on the command line, in that order, then NULL. */
extern const char *const es_media[];
#define ES_MEDIA_EXPECTED "screen, column, page, slide, icml or neurips"

/** No wider than a column of two. */
bool es_medium_is_column(es_medium medium);

/** What the figure pareto has across. */
typedef enum es_cost {
    ES_COST_FLOPS,         /* of a forward pass: analyzer/cost/flops.h */
    ES_COST_PARAMS,        /* weights in the layers' matrices */
    ES_COST_COMMUNICATION, /* of a private forward pass: analyzer/cost/cost.h */
    ES_COST_LATENCY,       /* the same */
    ES_COST_TOKENS         /* trained on */
} es_cost;

/** What the command line says of one figure. */
typedef struct es_picture_request {
    bool wanted;
    bool by_name;     /* not by --all alone: what it lacks is a failure */
    const char *file; /* "-": standard output; NULL: a name of ours */
    es_format format;
} es_picture_request;

/** What is shaded about the mean of a layer's heads. */
typedef enum es_heads_spread {
    ES_SPREAD_NONE,
    ES_SPREAD_RANGE,    /* from the least to the largest finite value */
    ES_SPREAD_QUARTILES /* between the quartiles */
} es_heads_spread;

/** Which runs are one line, or one panel. */
typedef enum es_grouping { ES_GROUP_NONE, ES_GROUP_SEED } es_grouping;

/** Strings are argv's. Zero is a good default for every member. */
typedef struct es_figure_options {
    es_picture_request pictures[ES_N_PICTURES];
    es_figure_kind parts[ES_COMPOSITE_MOST]; /* (n_parts) of the composite */
    size_t n_parts;
    const char *composite; /* (n_composite) its name: "heatmap+curves" */
    size_t n_composite;
    bool letters;         /* panels are called (a), (b), ... */
    const char *folder;   /* of names of ours; NULL: the current one */
    const char *document; /* a PDF that has them as pages instead; or NULL */
    const char *title;
    double width, height; /* pixels of a PNG, points of others; 0: as wanted */
    bool in_points;       /* of a PNG, too */
    double letters_size;  /* points of most labels; 0: as figures have them */
    es_colormap colormap;
    es_theme theme;
    es_medium medium;
    es_heads_spread spread; /* curves */
    es_grouping group;      /* mean and range of the runs; of heatmaps the
                               mean: es_figure_groups */
    int64_t smooth;         /* curves, loss: samples; 0: not at all */
    int64_t spikes;         /* curves, loss: samples about each; 0: no */
    bool trends;            /* curves: of layers, dashed */
    bool by_head;           /* curves: the heads of `layer` instead */
    int64_t layer;
    bool logarithmic; /* curves, nans, loss */
    bool perplexity;  /* loss: exp of it */
    bool tokens;      /* loss: over tokens instead of steps */
    es_cost cost;
} es_figure_options;

/** "heatmap": the name of --figure. */
const char *es_figure_name(es_figure_kind kind);

/** Requests the figures of a list: "heatmap,loss"; "heatmap+curves": on one
 *  page, once in the list. It is kept. ES_OK or ES_EUSAGE. */
es_status es_figures_want(es_figure_options *options,
                          const char *list) ES_MUST_USE;

/** Requests every figure, into `folder`, which may be NULL. */
void es_figures_want_all(es_figure_options *options, const char *folder);

/** Requests one figure; file may be NULL. */
void es_figures_want_one(es_figure_options *options, es_figure_kind kind,
                         const char *file);

/** Is it wanted, by itself or on a page with others? */
bool es_figure_is_drawn(const es_figure_options *options, es_figure_kind kind);

/** Can it show seeds of one configuration as one? */
bool es_figure_groups(es_figure_kind kind);

/** ES_OK; ES_EUSAGE if runs are to be grouped and a figure that is wanted by
 *  name cannot. */
es_status es_figures_check_group(const es_figure_options *options) ES_MUST_USE;

bool es_figures_any(const es_figure_options *options);

/** "1200x800": width and height; "89x60mm", "3.25x2.5in", "234x180pt". ES_OK
 *  or ES_EUSAGE. */
es_status es_figures_set_size(es_figure_options *options,
                              const char *text) ES_MUST_USE;

/** "31": the samples about each that spikes stand out of; NULL: as many. ES_OK
 *  or ES_EUSAGE. */
es_status es_figures_set_spikes(es_figure_options *options,
                                const char *text) ES_MUST_USE;

/**
 * Places `output` (-o): the file of the one figure without a name of its own;
 * of several the PDF whose pages they are, if it ends so and is no folder, or
 * else their folder.
 *
 * Returns true if it was used.
 */
bool es_figures_place(es_figure_options *options, const char *output);

/**
 * The format of one figure of the options' size: `format`, or else by its
 * file's name, or PNG where that is NULL or "-" (standard output).
 *
 * ES_OK; ES_EUSAGE if format and name contradict each other, nothing says the
 * format, or a picture of it cannot have the size.
 */
es_status es_figure_format(es_format *out, const es_figure_options *options,
                           const char *file,
                           const es_format *format) ES_MUST_USE;

/** Chooses each figure's format: `format`, or else by its file's name. ES_OK;
 *  ES_EUSAGE if they contradict each other, or nothing says it. */
es_status es_figures_set_format(es_figure_options *options,
                                const es_format *format) ES_MUST_USE;

/** Title, size, colours and medium as a chart takes them. */
es_figure_style es_figures_style(const es_figure_options *options,
                                 es_format format);

/** Figures to be made, and what of. */
typedef struct es_figure_job {
    const es_figure_options *options;
    char *const *inputs; /* (n_inputs) what no output may replace */
    size_t n_inputs;
    const es_run_summary *const *runs; /* (n) in order; their m is final */
    size_t n;
    const char *baseline; /* input of the run that a delta goes from; NULL: the
                             first run's */
    size_t n_unread;      /* inputs, or runs of them, that are not among them
                             because they failed */
    bool quiet;
} es_figure_job;

/**
 * Draws one figure of the runs that it can show into a display list, and
 * writes nothing.
 *
 *   out  owned by the caller
 *
 * ES_OK, ES_ENOTFOUND (no run can be shown), or as es_figures_make.
 */
es_status es_figure_draw_runs(es_picture **out, es_figure_kind kind,
                              const es_figure_job *job) ES_MUST_USE;

/**
 * Draws the figures that are wanted, each of all runs, and writes them; says
 * so on standard error unless `quiet`. What fails is reported there too, and
 * the other figures are made; a message that several figures would give, such
 * as that a file cannot be read, is given once.
 *
 *   n_failed  written: runs that could not be shown and were left out
 *
 * A figure that only --all requests and that has nothing to show is no
 * failure: that is said. ES_OK, or the first failure, which is reported:
 * ES_ENOTFOUND (no run is left); ES_EUSAGE (the size is too small); ES_EIO,
 * ES_ENOMEM.
 */
es_status es_figures_make(size_t *n_failed,
                          const es_figure_job *job) ES_MUST_USE;

#endif
