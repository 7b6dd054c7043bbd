/** Lists all figures of entropy-scan. The enum, the declarations, the table,
 *  --figure and --help are generated from this list. */
#ifndef ES_FIGURE_LIST_H
#define ES_FIGURE_LIST_H

/*
 * FIGURE(KIND, name, label, needs, series, other, help)
 *
 *   KIND           makes the enum value ES_FIGURE_<KIND>
 *   name           name for --figure; the function es_draw_<name> draws the
 *                  figure
 *   label          noun for messages, with its article
 *   needs          es_fits_<needs> decides which runs the figure can show: any,
 *                  heads (the series shown has a value per head), series (the
 *                  run has `series` or `other`), or a separate function
 *   series, other  names of the series that the figure shows if `needs` is
 *                  series, otherwise NULL; `other` may be NULL
 *   help           lines for --help
 */
#define ES_FIGURES(FIGURE)                                                     \
    FIGURE(OVERVIEW, overview, "an overview", any, NULL, NULL,                 \
           "overview    one row per run: settings, loss, heads, layers, "      \
           "flags, status")                                                    \
    FIGURE(HEATMAP, heatmap, "a heatmap", heads, NULL, NULL,                   \
           "heatmap     layers by heads at one step")                          \
    FIGURE(CURVES, curves, "a figure of curves", any, NULL, NULL,              \
           "curves      every layer over the steps")                           \
    FIGURE(DELTA, delta, "a delta", heads, NULL, NULL,                         \
           "delta       heatmap of each run minus the first run or "           \
           "--baseline")                                                       \
    FIGURE(BANDS, bands, "a figure of bands", heads, NULL, NULL,               \
           "bands       share of heads in each quarter of the largest "        \
           "entropy")                                                          \
    FIGURE(THRESHOLDS, thresholds, "a figure of thresholds", series, "theta",  \
           NULL,                                                               \
           "thresholds  learnt thresholds, with the layers' mean and "         \
           "variance")                                                         \
    FIGURE(NANS, nans, "a figure of NaNs", series, "nan_activations",          \
           "nonfinite_rows",                                                   \
           "nans        NaN and infinities of every layer over the steps")     \
    FIGURE(SCALES, scales, "a figure of scales", series, "alpha", "beta",      \
           "scales      alpha and beta of every layer at one step")            \
    FIGURE(SLOPES, slopes, "a figure of slopes", series, "slope", NULL,        \
           "slopes      learnable slopes over the steps")                      \
    FIGURE(LOSS, loss, "a figure of loss", series, "loss", NULL,               \
           "loss        train and eval loss of all runs")                      \
    FIGURE(VALUES, values, "a figure of values", values, NULL, NULL,           \
           "values      loss, learning rate and other values of all runs")     \
    FIGURE(FLOPS, flops, "a figure of FLOPs", flops, NULL, NULL,               \
           "flops       shares of FFN and attention over context lengths")     \
    FIGURE(PARETO, pareto, "a figure of costs", pareto, NULL, NULL,            \
           "pareto      perplexity on held-out data against --cost")           \
    FIGURE(RASTER, raster, "a raster", raster, NULL, NULL,                     \
           "raster      every layer and every head over the steps, in "        \
           "colours")                                                          \
    FIGURE(MAPS, maps, "a figure of attention maps", maps, NULL, NULL,         \
           "maps        attention maps of every layer or, with --heads, of "   \
           "its heads")                                                        \
    FIGURE(                                                                    \
        TIMELINE, timeline, "a timeline", any, NULL, NULL,                     \
        "timeline    main series over the steps, with flags and events below")

/** The lines of --help for all figures, each ending in a newline. */
#define ES_FIGURE_HELP_LINE(kind, name, label, needs, series, other, help)     \
    "  " help "\n"
#define ES_FIGURES_HELP ES_FIGURES(ES_FIGURE_HELP_LINE)

#endif
