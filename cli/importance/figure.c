/* Draws the figure of entropy-scan importance. It has a group of bars for each
 * setting, with a bar for each outcome. The height of a bar is the strength of
 * the association between the setting and the outcome. */
#include "render/figures/bars.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "cli/importance/importance.h"

#include <math.h>

/* Maximum number of settings that are drawn. The settings with the strongest
   associations are drawn first. */
#define SETTINGS_MOST 12

/* Formats the strength of the association with outcome k, as "+0.83" for a
 * setting that is a number, or "0.62" for a category. "*" is appended if p <
 * 0.05. */
static void print_strength(char out[16], const es_important *setting, int k)
{
    const double strength = setting->by[k].strength;
    const char *mark = setting->p_holm[k] < 0.05 ? "*" : "";
    const bool zero = fabs(strength) < 0.005;
    if (isnan(strength))
        snprintf(out, 16, "\u2013");
    else
        snprintf(out, 16, "%s%.2f%s",
                 zero || !setting->number ? ""
                 : strength < 0           ? "\u2212"
                                          : "+",
                 fabs(strength), mark);
}

/* Returns true if the association of outcome k with any setting is known. */
static bool is_known(const es_importance *importance, int k)
{
    for (size_t i = 0; i < importance->n; i++)
        if (!isnan(importance->settings[i].by[k].strength))
            return true;
    return false;
}

static void make_note(char *out, size_t size, const es_importance *importance,
                      size_t n_shown)
{
    es_text to = es_text_begin(out, size);
    es_text_append(
        &to,
        "%zu runs. With a sign: Spearman's rank correlation; without: eta "
        "squared of ranks, for a category. *: p below 0.05 by permutation, "
        "adjusted for all settings and outcomes by Holm. \u2013: the outcome "
        "or the setting is the same in all runs that have it.",
        importance->n_runs);
    for (int k = 0; k < ES_N_OUTCOMES; k++)
        if (!is_known(importance, k))
            es_text_append(&to, " Without bars: %s.",
                           es_outcome_title(importance, (es_run_outcome)k));
    if (n_shown < importance->n)
        es_text_append(&to, " The strongest %zu of %zu settings.", n_shown,
                       importance->n);
}

es_status es_importance_draw(es_picture **out, const es_importance *importance,
                             const es_figure_style *style)
{
    const size_t n =
        importance->n < SETTINGS_MOST ? importance->n : SETTINGS_MOST;
    const char *series[ES_N_OUTCOMES], *groups[SETTINGS_MOST];
    char texts[SETTINGS_MOST][ES_N_OUTCOMES][16], note[640];
    es_bar bars[SETTINGS_MOST * ES_N_OUTCOMES];
    int outcomes[ES_N_OUTCOMES];
    size_t n_series = 0;
    if (es_important_most(&importance->settings[0]) == 0)
        return es_fail(
            ES_ENOTFOUND,
            "a figure of importance: no outcome is associated with a setting");
    for (int k = 0; k < ES_N_OUTCOMES; k++)
        if (is_known(importance, k)) {
            series[n_series] = es_outcome_title(importance, (es_run_outcome)k);
            outcomes[n_series++] = k;
        }
    for (size_t i = 0; i < n; i++) {
        const es_important *setting = &importance->settings[i];
        groups[i] = setting->key;
        for (size_t k = 0; k < n_series; k++) {
            print_strength(texts[i][k], setting, outcomes[k]);
            bars[i * n_series + k] =
                (es_bar){.value = fabs(setting->by[outcomes[k]].strength),
                         .text = texts[i][k]};
        }
    }
    make_note(note, sizeof note, importance, n);
    const es_bars_panel panel = {.bars = bars};
    return es_bars_draw(out, &(es_bars){.style = *style,
                                        .panels = &panel,
                                        .n_panels = 1,
                                        .groups = groups,
                                        .n_groups = n,
                                        .series = series,
                                        .n_series = n_series,
                                        .high = 1,
                                        .y_text = "strength of association",
                                        .note = note});
}
