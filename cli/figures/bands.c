/* The share of heads in each quarter of the largest entropy, of every run. */
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

static void print_share(shares *out, size_t group, double percent)
{
    bool whole = percent == floor(percent);
    if (isnan(percent)) {
        snprintf(out->texts[group], SHARE_MAX, "n/a");
        snprintf(out->briefs[group], SHARE_MAX, "-");
        return;
    }
    snprintf(out->texts[group], SHARE_MAX, "%.*f%%", whole ? 0 : 1, percent);
    snprintf(out->briefs[group], SHARE_MAX, "%.0f", percent);
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

static void print_note(char *out, size_t size, const es_drawing *drawing,
                       bool same_step)
{
    es_max_policy policy = drawing->runs[0]->max.policy;
    if (any_m(drawing))
        snprintf(out, size, "m%s: %s%s", drawing->note + strlen("max"),
                 meaning_of(policy), same_step ? "" : "; steps differ");
    else
        snprintf(out, size, "m (%s) is unknown", es_max_name(policy));
}

static bool is_one_step(const es_drawing *drawing)
{
    const es_run_summary *first = drawing->runs[0];
    for (size_t i = 1; i < drawing->n; i++)
        if (drawing->runs[i]->step != first->step ||
            drawing->runs[i]->phase != first->phase)
            return false;
    return true;
}

es_status es_draw_bands(es_picture **out, const es_drawing *drawing)
{
    static const char *const groups[N_GROUPS] = {
        "[0,m/4)", "[m/4,m/2)", "[m/2,3m/4)", "[3m/4,m]", "NaN or infinite"};
    char note[1024], subtitle[ES_CAPTION_MAX];
    bool same_step = is_one_step(drawing);
    es_bar *bars = NULL;
    const char **names = NULL;
    shares *texts = NULL;
    es_status status;
    if ((status = es_alloc(&bars, drawing->n, N_GROUPS * sizeof *bars,
                           "bands")) < 0 ||
        (status = es_alloc(&names, drawing->n, sizeof *names, "bands")) < 0 ||
        (status = es_alloc(&texts, drawing->n, sizeof *texts, "bands")) < 0)
        goto done;
    es_bars_panel panel = {.bars = bars};
    es_bars figure = {.style = drawing->style,
                      .panels = &panel,
                      .n_panels = 1,
                      .groups = groups,
                      .n_groups = ES_N_BANDS + any_nonfinite(drawing),
                      .series = names,
                      .n_series = drawing->n,
                      .high = NAN,
                      .limit = 100,
                      .y_text = "heads (%)",
                      .group_text = drawing->axis,
                      .note = note};
    make_bars(bars, texts, drawing, figure.n_groups);
    for (size_t i = 0; i < drawing->n; i++)
        names[i] = es_drawing_title(drawing, i);
    if (same_step)
        panel.subtitle = es_drawing_step(subtitle, drawing->runs[0]);
    print_note(note, sizeof note, drawing, same_step);
    status = es_bars_draw(out, &figure);
done:
    free(bars);
    free(names);
    free(texts);
    return status;
}
