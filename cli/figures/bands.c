#include "render/figures/bars.h"

#include "analyzer/base/checked.h"
#include "cli/figures/drawing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_GROUPS = ES_N_BANDS + 1, SHARE_MAX = 16 };

/* A run's bars: bands, then what is not finite. */
typedef struct shares {
    char texts[N_GROUPS][SHARE_MAX], briefs[N_GROUPS][SHARE_MAX];
} shares;

es_status es_fits_bands(const es_run_summary *run)
{
    return es_fits_heads(run, "a figure of bands");
}

static bool any_nonfinite(const es_drawing *drawing)
{
    for (size_t i = 0; i < drawing->n; i++)
        if (drawing->runs[i]->bands.nonfinite)
            return true;
    return false;
}

static bool any_m(const es_drawing *drawing)
{
    for (size_t i = 0; i < drawing->n; i++)
        if (!isnan(drawing->runs[i]->m))
            return true;
    return false;
}

/* NaN where no head counts. */
static double percent_of(const es_bands *bands, size_t group)
{
    if (group < ES_N_BANDS)
        return 100 * es_bands_fraction(bands, (int)group);
    return bands->n_heads
               ? 100 * (double)bands->nonfinite / (double)bands->n_heads
               : NAN;
}

static void print_share(shares *to, size_t group, double percent)
{
    bool whole = percent == floor(percent);
    if (isnan(percent)) {
        snprintf(to->texts[group], SHARE_MAX, "n/a");
        snprintf(to->briefs[group], SHARE_MAX, "-");
        return;
    }
    snprintf(to->texts[group], SHARE_MAX, "%.*f%%", whole ? 0 : 1, percent);
    snprintf(to->briefs[group], SHARE_MAX, "%.0f", percent);
}

static void make_bars(es_bar *bars, shares *texts, const es_drawing *drawing,
                      size_t n_groups)
{
    for (size_t g = 0; g < n_groups; g++)
        for (size_t i = 0; i < drawing->n; i++) {
            double percent = percent_of(&drawing->runs[i]->bands, g);
            print_share(&texts[i], g, percent);
            bars[g * drawing->n + i] = (es_bar){.value = percent,
                                                .text = texts[i].texts[g],
                                                .brief = texts[i].briefs[g]};
        }
}

/* What m is. */
static const char *meaning_of(es_max_policy policy)
{
    static const char *const meanings[] = {
        [ES_MAX_OBSERVED] = "the largest value of all runs shown",
        [ES_MAX_RUN] = "the largest value of each run by itself",
        [ES_MAX_CEILING] = "ln(T!)/T, the largest mean of a causal head",
        [ES_MAX_LOGT] = "ln T",
        [ES_MAX_NUMBER] = "as given"};
    return meanings[policy];
}

static es_status draw(es_picture **out, const es_drawing *drawing, es_bar *bars,
                      const char **names, shares *texts)
{
    static const char *const groups[N_GROUPS] = {
        "[0,m/4)", "[m/4,m/2)", "[m/2,3m/4)", "[3m/4,m]", "NaN or infinite"};
    size_t n_groups = ES_N_BANDS + (any_nonfinite(drawing) ? 1 : 0);
    const es_run_summary *first = drawing->runs[0];
    char note[1024], subtitle[ES_CAPTION_MAX];
    es_bars_panel panel = {.bars = bars};
    es_bars figure = {.style = drawing->style,
                      .panels = &panel,
                      .n_panels = 1,
                      .groups = groups,
                      .n_groups = n_groups,
                      .series = names,
                      .n_series = drawing->n,
                      .high = NAN,
                      .limit = 100,
                      .y_text = "heads (%)",
                      .group_text = drawing->axis,
                      .note = note};
    bool same = true;
    make_bars(bars, texts, drawing, n_groups);
    for (size_t i = 0; i < drawing->n; i++) {
        const es_run_summary *run = drawing->runs[i];
        names[i] = es_summary_title(run, drawing->runs, drawing->n);
        same = same && run->step == first->step && run->phase == first->phase;
    }
    if (same)
        panel.subtitle = es_drawing_step(subtitle, first);
    if (any_m(drawing))
        snprintf(note, sizeof note, "m%s: %s%s", drawing->note + strlen("max"),
                 meaning_of(first->max.policy), same ? "" : "; steps differ");
    else
        snprintf(note, sizeof note, "m (%s) is unknown",
                 es_max_name(first->max.policy));
    return es_bars_draw(out, &figure);
}

es_status es_draw_bands(es_picture **out, const es_drawing *drawing)
{
    es_bar *bars = es_resize(NULL, drawing->n, N_GROUPS * sizeof *bars);
    const char **names = es_resize(NULL, drawing->n, sizeof *names);
    shares *texts = es_resize(NULL, drawing->n, sizeof *texts);
    es_status status =
        bars && names && texts
            ? draw(out, drawing, bars, names, texts)
            : es_fail(ES_ENOMEM, "out of memory for %zu runs", drawing->n);
    free(bars);
    free(names);
    free(texts);
    return status;
}
