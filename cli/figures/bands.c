/* Draws the figure bands, which has one bar per run. The segments of a bar are
 * the shares of heads whose entropy is in each quarter of the range from zero
 * to the largest entropy. */
#include "render/figures/bars.h"

#include "cli/figures/drawing.h"

#include <string.h>

enum { N_GROUPS = ES_N_BANDS + 1, SHARE_MAX = 16, RUNS_MOST = 6 };

/* Strings with the percentages that are printed on a bar. */
typedef struct share {
    char text[SHARE_MAX], brief[SHARE_MAX];
} share;

/* Returns the percentage of heads in a band (`group`); NaN if there are no
 * heads. */
static double percent_of(const es_bands *bands, size_t group)
{
    if (group < ES_N_BANDS)
        return 100 * es_bands_fraction(bands, (int)group);
    return bands->n_heads
               ? 100 * (double)bands->nonfinite / (double)bands->n_heads
               : NAN;
}

static es_bar bar_of(share *texts, double percent)
{
    bool whole = percent == floor(percent), known = !isnan(percent);
    snprintf(texts->text, SHARE_MAX, known ? "%.*f%%" : "n/a", whole ? 0 : 1,
             percent);
    snprintf(texts->brief, SHARE_MAX, known ? "%.0f" : "-", percent);
    return (es_bar){
        .value = percent, .text = texts->text, .brief = texts->brief};
}

/* Returns the definition of m, the largest entropy, for a value of the option
 * --max. */
static const char *meaning_of(es_max_policy policy)
{
    static const char *const meanings[] = {
        [ES_MAX_OBSERVED] = "the largest value of all runs shown",
        [ES_MAX_RUN] = "the largest value of each run",
        [ES_MAX_CEILING] =
            "the largest possible mean of a head, ln(T!)/T if causal",
        [ES_MAX_LOGT] = "ln T",
        [ES_MAX_NUMBER] = "as given"};
    return meanings[policy];
}

es_status es_draw_bands(es_picture **out, es_drawing *drawing)
{
    static const char *const groups[N_GROUPS] = {
        "[0,m/4)", "[m/4,m/2)", "[m/2,3m/4)", "[3m/4,m]", "NaN or infinite"};
    const es_run_summary *first = drawing->runs[0];
    char note[1024], subtitle[ES_CAPTION_MAX];
    bool same_step = true, nonfinite = false;
    es_bar *bars;
    const char **names;
    share *texts;
    size_t n = drawing->n;
    es_status status;
    if (n > RUNS_MOST)
        return es_overview_of_heads(out, drawing);
    if ((status = es_drawing_array(drawing, &bars, n * N_GROUPS)) < 0 ||
        (status = es_drawing_array(drawing, &names, n)) < 0 ||
        (status = es_drawing_array(drawing, &texts, n * N_GROUPS)) < 0)
        return status;
    es_bars_panel panel = {.bars = bars};
    for (size_t i = 0; i < n; i++) {
        const es_run_summary *run = drawing->runs[i];
        names[i] = es_drawing_title(drawing, i);
        nonfinite = nonfinite || run->bands.nonfinite;
        same_step =
            same_step && run->step == first->step && run->phase == first->phase;
        for (size_t g = 0; g < N_GROUPS; g++)
            bars[g * n + i] =
                bar_of(&texts[g * n + i], percent_of(&run->bands, g));
    }
    if (same_step)
        panel.subtitle = es_drawing_step(subtitle, first);
    if (!isnan(es_drawing_top(drawing)))
        snprintf(note, sizeof note, "m%s: %s%s", drawing->note + strlen("max"),
                 meaning_of(first->max.policy),
                 same_step ? "" : "; steps differ");
    else
        snprintf(note, sizeof note, "m (%s) is unknown",
                 es_max_name(first->max.policy));
    return es_bars_draw(out, &(es_bars){.style = drawing->style,
                                        .panels = &panel,
                                        .n_panels = 1,
                                        .groups = groups,
                                        .n_groups = ES_N_BANDS + nonfinite,
                                        .series = names,
                                        .n_series = n,
                                        .high = NAN,
                                        .limit = 100,
                                        .y_text = "heads (%)",
                                        .group_text = drawing->axis,
                                        .note = note});
}
