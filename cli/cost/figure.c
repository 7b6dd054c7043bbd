/*
 * Draws the figures of entropy-scan cost: FLOPs, communication or latency as
 * bars, each divided into the shares of the operations, or the perplexity of
 * runs. A figure has a bar for each model, or a panel for each model with a bar
 * for each context length. Several figures are stacked on a page.
 */
#include "render/figures/axis.h"
#include "render/figures/bars.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/cost/cost.h"
#include "cli/figures/cost.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PARTS = ES_N_COST_ITEMS, FFN = 0, ATTENTION = 1 };

/* The bars, panels and strings of a figure. */
typedef struct plan {
    const es_cost_options *options;
    es_cost_quantity quantity;
    const es_cost_entry *entries;
    size_t n_panels, n_groups, n_series;
    bool shown[MOST_PARTS];      /* for each part, true if the part occurs in
                                    at least one bar */
    es_bars_panel *panels;       /* (n_panels) */
    es_bar *bars;                /* (n_panels,n_groups,n_series) */
    char (*texts)[ES_COST_MAX];  /* (n_panels,n_groups,n_series) */
    char (*totals)[ES_COST_MAX]; /* (n_panels,n_groups) */
    const char **total_texts;    /* (n_panels,n_groups) */
    char (*subtitles)[64];       /* (n_panels) */
    const char **groups;         /* (n_groups) */
    const char *series[MOST_PARTS];
    double inside, outside; /* largest half width of an interval, relative to
                               the modelled value: `inside` among the models
                               inside the fitted range, `outside` among the
                               others */
    bool unknown;           /* true if the value of at least one model is
                               unknown */
    char note[512];
} plan;

/* Returns the entry whose value is drawn as the bar at `panel` and `group`,
 * with the context length of the bar. */
static es_cost_entry entry_at(const plan *p, size_t panel, size_t group)
{
    const bool over_ctx = p->options->over == ES_COST_OVER_CTX;
    es_cost_entry entry = p->entries[over_ctx ? panel : group];
    if (over_ctx)
        entry.model.ctx = es_cost_lengths[group];
    return entry;
}

static size_t count_parts(const plan *p)
{
    return p->quantity == ES_COST_OF_PERPLEXITY ? 1
           : p->quantity == ES_COST_OF_FLOPS    ? 2
                                                : ES_N_COST_ITEMS;
}

static const char *part_name(const plan *p, size_t part)
{
    if (p->quantity == ES_COST_OF_PERPLEXITY)
        return ""; /* no legend */
    if (p->quantity == ES_COST_OF_FLOPS)
        return part == FFN ? "FFN" : "attention";
    return part == ES_COST_LINEAR   ? "products with weights"
           : part == ES_COST_OUTPUT ? "embedding and output"
                                    : es_cost_item_name((es_cost_item)part);
}

static es_modelled known(double value)
{
    return (es_modelled){value, value, value};
}

/* Computes the parts of the value of a bar and returns their sum, in billions
 * of FLOPs, GB, minutes or perplexity; NaN if the value is unknown. */
static es_modelled compute_parts(double parts[MOST_PARTS], const plan *p,
                                 const es_cost_entry *entry)
{
    const es_cost_model *model = &entry->model;
    const es_cost_kind kind =
        p->quantity == ES_COST_OF_LATENCY ? ES_COST_SECONDS : ES_COST_BYTES;
    if (p->quantity == ES_COST_OF_PERPLEXITY)
        return known(parts[0] = (double)entry->eval_ppl);
    if (p->quantity == ES_COST_OF_FLOPS) {
        const es_flops flops = es_flops_forward(&model->shape, model->ctx);
        parts[FFN] = flops.ffn / 1e9;
        parts[ATTENTION] = flops.attention / 1e9;
        return known(parts[FFN] + parts[ATTENTION]);
    }
    es_cost_parts(parts, kind, model);
    for (int i = 0; i < ES_N_COST_ITEMS; i++)
        parts[i] = es_cost_shown(kind, parts[i]);
    const es_modelled sum = es_cost_predict(kind, model);
    return (es_modelled){es_cost_shown(kind, sum.value),
                         es_cost_shown(kind, sum.low),
                         es_cost_shown(kind, sum.high)};
}

/* --- texts ----------------------------------------------------------------*/

static bool is_narrow(const plan *p)
{
    return es_medium_is_column(p->options->look.medium);
}

static void print_number(char out[ES_COST_MAX], const plan *p, double value)
{
    if (isnan(value))
        snprintf(out, ES_COST_MAX, is_narrow(p) ? "?" : "unknown");
    else if (p->quantity != ES_COST_OF_FLOPS && value > 0 && value < 0.005)
        snprintf(out, ES_COST_MAX, "<0.01");
    else if (p->quantity == ES_COST_OF_FLOPS)
        es_cost_print(out, 1e9 * value);
    else
        snprintf(out, ES_COST_MAX, "%.*f",
                 value < 0.9995  ? 2
                 : value < 99.95 ? 1
                                 : 0,
                 value);
}

/* Formats a perplexity with three digits, such as "7.30". */
static void print_perplexity(char out[ES_COST_MAX], const plan *p,
                             float perplexity)
{
    char text[ES_FLOAT_TEXT_MAX];
    const double value = (double)perplexity;
    if (es_is_missing(perplexity))
        print_number(out, p, value);
    else if (value < 99.95) /* the comparison is false if `value` is NaN */
        snprintf(out, ES_COST_MAX, "%.*f", value < 9.995 ? 2 : 1, value);
    else
        snprintf(out, ES_COST_MAX, "%s", es_number_print(text, value, 3));
}

/* Formats the label above a bar, such as "25.3±0.3". If space is short, the
 * label is "25.3" and the figure's note contains the intervals. */
static void print_total(char out[ES_COST_MAX], const plan *p, es_modelled sum)
{
    const double half = (sum.high - sum.low) / 2;
    if (isnan(sum.value) || p->quantity == ES_COST_OF_FLOPS ||
        p->options->over == ES_COST_OVER_CTX || is_narrow(p))
        print_number(out, p, sum.value);
    else
        snprintf(out, ES_COST_MAX, half < 0.0995 ? "%.2f±%.2f" : "%.1f±%.1f",
                 sum.value, half);
}

/* Updates the widest relative interval of all bars, which the figure's note
 * reports. */
static void note_interval(plan *p, const es_cost_model *model, es_modelled sum)
{
    double *widest = es_cost_is_fitted(model) ? &p->inside : &p->outside;
    const double half = (sum.high - sum.low) / 2 / sum.value;
    if (half > *widest) /* the comparison is false if `half` is NaN, so NaN
                           is ignored */
        *widest = half;
}

/* --- bars -----------------------------------------------------------------*/

static void find_parts(plan *p)
{
    double parts[MOST_PARTS];
    for (size_t panel = 0; panel < p->n_panels; panel++)
        for (size_t group = 0; group < p->n_groups; group++) {
            const es_cost_entry entry = entry_at(p, panel, group);
            (void)compute_parts(parts, p, &entry);
            for (size_t i = 0; i < count_parts(p); i++)
                p->shown[i] = p->shown[i] || parts[i] > 0;
        }
    for (size_t i = 0; i < count_parts(p); i++)
        if (p->shown[i])
            p->series[p->n_series++] = part_name(p, i);
}

static void fill_stack(plan *p, size_t panel, size_t group)
{
    const size_t stack = panel * p->n_groups + group;
    const es_cost_entry entry = entry_at(p, panel, group);
    double parts[MOST_PARTS];
    const es_modelled sum = compute_parts(parts, p, &entry);
    note_interval(p, &entry.model, sum);
    p->unknown = p->unknown || isnan(sum.value);
    size_t bar = stack * p->n_series;
    for (size_t i = 0; i < count_parts(p); i++) {
        if (!p->shown[i])
            continue;
        const double percent = 100 * parts[i] / sum.value;
        if (p->options->shares && !isnan(percent))
            es_cost_print_share(p->texts[bar], percent);
        else
            print_number(p->texts[bar], p, parts[i]);
        p->bars[bar] =
            (es_bar){.value = p->options->shares ? percent : parts[i],
                     .text = isnan(parts[i]) || parts[i] == 0 ||
                                     p->quantity == ES_COST_OF_PERPLEXITY
                                 ? NULL
                                 : p->texts[bar]};
        bar++;
    }
    if (p->quantity == ES_COST_OF_PERPLEXITY)
        print_perplexity(p->totals[stack], p, entry.eval_ppl);
    else
        print_total(p->totals[stack], p, sum);
    p->total_texts[stack] = p->totals[stack];
}

static es_status make_plan(plan *p)
{
    const bool over_ctx = p->options->over == ES_COST_OVER_CTX;
    const size_t stacks = p->n_panels * p->n_groups;
    es_status status;
    find_parts(p);
    if (p->n_series == 0 && p->quantity == ES_COST_OF_PERPLEXITY)
        return es_fail(ES_ENOTFOUND,
                       "a figure of perplexity: none of the models is a run "
                       "with a perplexity on held-out data");
    if (p->n_series == 0)
        return es_fail(ES_ENOTFOUND,
                       "a figure of costs: no model has a modelled cost");
    if ((status = es_alloc(&p->panels, p->n_panels, sizeof *p->panels,
                           "a figure")) < 0 ||
        (status = es_alloc(&p->bars, stacks * p->n_series, sizeof *p->bars,
                           "a figure")) < 0 ||
        (status = es_alloc(&p->texts, stacks * p->n_series, sizeof *p->texts,
                           "a figure")) < 0 ||
        (status = es_alloc(&p->totals, stacks, sizeof *p->totals, "a figure")) <
            0 ||
        (status = es_alloc(&p->total_texts, stacks, sizeof *p->total_texts,
                           "a figure")) < 0 ||
        (status = es_alloc(&p->subtitles, p->n_panels, sizeof *p->subtitles,
                           "a figure")) < 0 ||
        (status = es_alloc(&p->groups, p->n_groups, sizeof *p->groups,
                           "a figure")) < 0)
        return status;
    for (size_t group = 0; group < p->n_groups; group++)
        p->groups[group] =
            over_ctx ? es_cost_length_names[group] : p->entries[group].title;
    for (size_t panel = 0; panel < p->n_panels; panel++) {
        const es_cost_shape *shape = &p->entries[panel].model.shape;
        for (size_t group = 0; group < p->n_groups; group++)
            fill_stack(p, panel, group);
        snprintf(p->subtitles[panel], sizeof *p->subtitles,
                 "L = %lld, d = %lld", (long long)shape->n_layer,
                 (long long)shape->d_model);
        p->panels[panel] =
            (es_bars_panel){.title = over_ctx ? p->entries[panel].title : NULL,
                            .subtitle = over_ctx ? p->subtitles[panel] : NULL,
                            .bars = p->bars + panel * p->n_groups * p->n_series,
                            .totals = p->total_texts + panel * p->n_groups};
    }
    return ES_OK;
}

static void free_plan(plan *p)
{
    free(p->panels);
    free(p->bars);
    free(p->texts);
    free(p->totals);
    free(p->total_texts);
    free(p->subtitles);
    free(p->groups);
}

/* --- figure --------------------------------------------------------------- */

static const char *axis_text(const plan *p)
{
    static const char *const texts[][2] = {
        [ES_COST_OF_FLOPS] = {"FLOPs (billions)", "FLOPs (%)"},
        [ES_COST_OF_COMMUNICATION] = {"communication, modelled (GB)",
                                      "communication, modelled (%)"},
        [ES_COST_OF_LATENCY] = {"latency, modelled (minutes)",
                                "latency, modelled (%)"},
        [ES_COST_OF_PERPLEXITY] = {"perplexity, eval"}};
    return texts[p->quantity][p->options->shares];
}

/* Appends a size of the models, such as "L = 12", or "L = 12 to 18" if the
 * models differ in this size. */
static void append_size(es_text *to, const char *name, const es_range *size)
{
    es_text_append(to, "%s\u00a0=\u00a0%.0f", name, size->low);
    if (size->high > size->low)
        es_text_append(to, " to %.0f", size->high);
}

/* Appends the models' context length T, number of layers L and width d. If the
 * bars are for several context lengths, appends only "T tokens", because the
 * titles of the panels contain the sizes. */
static void append_sizes(es_text *to, const plan *p)
{
    es_range t = ES_RANGE_NONE, l = ES_RANGE_NONE, d = ES_RANGE_NONE;
    if (p->options->over == ES_COST_OVER_CTX) {
        es_text_append(to, "T tokens");
        return;
    }
    for (size_t i = 0; i < p->n_groups; i++) {
        const es_cost_model *model = &p->entries[i].model;
        es_range_add(&t, (double)model->ctx);
        es_range_add(&l, (double)model->shape.n_layer);
        es_range_add(&d, (double)model->shape.d_model);
    }
    append_size(to, "T", &t);
    es_text_append(to, " tokens with ");
    append_size(to, "L", &l);
    es_text_append(to, " and ");
    append_size(to, "d", &d);
}

static void make_note(plan *p)
{
    const bool flops = p->quantity == ES_COST_OF_FLOPS;
    es_text to = es_text_begin(p->note, sizeof p->note);
    if (p->quantity == ES_COST_OF_PERPLEXITY) {
        if (p->unknown && is_narrow(p))
            es_text_append(&to, "?: not evaluated.");
        return;
    }
    es_text_append(&to, flops ? "A forward pass over "
                              : "A private forward pass over ");
    append_sizes(&to, p);
    if (flops) {
        es_text_append(&to, "; without embeddings and output.");
        return;
    }
    es_text_append(&to, ", modelled from AERO's tables 4 to 7. Intervals of "
                        "95\u00a0%%: ");
    if (p->inside > 0)
        es_text_append(&to, "at most ±%.0f\u00a0%%%s", ceil(100 * p->inside),
                       p->outside > 0 ? "; " : "");
    if (p->outside > 0)
        es_text_append(&to,
                       "±%.0f\u00a0%% outside of the published shapes (L 12 to "
                       "18, T 128 to 512, d\u00a0=\u00a0768, H\u00a0=\u00a012)",
                       ceil(100 * p->outside));
    es_text_append(&to, ".");
    if (p->unknown && is_narrow(p))
        es_text_append(&to, " Without a bar: not modelled.");
    if (p->options->shares)
        es_text_append(&to, " Above the bars: %s.",
                       p->quantity == ES_COST_OF_LATENCY ? "minutes" : "GB");
}

/* The models and the quantity of one figure on the page. */
typedef struct bars_part {
    const es_cost_entry *entries;
    size_t n;
    const es_cost_options *options;
    es_cost_quantity quantity;
} bars_part;

static es_status draw_bars(es_picture **out, void *context,
                           const es_figure_style *style)
{
    const bars_part *part = context;
    const es_cost_options *options = part->options;
    const bool over_ctx = options->over == ES_COST_OVER_CTX;
    plan p = {.options = options,
              .quantity = part->quantity,
              .entries = part->entries,
              .n_panels = over_ctx ? part->n : 1,
              .n_groups = over_ctx ? ES_N_COST_LENGTHS : part->n};
    es_status status = make_plan(&p);
    if (status == ES_OK) {
        make_note(&p);
        status = es_bars_draw(
            out, &(es_bars){.style = *style,
                            .panels = p.panels,
                            .n_panels = p.n_panels,
                            .groups = p.groups,
                            .n_groups = p.n_groups,
                            .series = p.series,
                            .n_series = p.n_series,
                            .stacked = true,
                            .high = options->shares ? 100 : (double)NAN,
                            .y_text = axis_text(&p),
                            .group_text = over_ctx ? "context length T" : NULL,
                            .note = p.note[0] ? p.note : NULL});
    }
    free_plan(&p);
    return status;
}

es_status es_cost_draw(es_picture **out, const es_cost_entry *entries, size_t n,
                       const es_cost_options *options)
{
    const es_figure_style style =
        es_figures_style(&options->look, options->format);
    bars_part figures[ES_COMPOSITE_MOST];
    es_composite_part parts[ES_COMPOSITE_MOST];
    for (size_t i = 0; i < options->n_figures; i++) {
        figures[i] = (bars_part){entries, n, options, options->figures[i]};
        parts[i] = (es_composite_part){draw_bars, &figures[i]};
    }
    if (options->n_figures == 1)
        return draw_bars(out, &figures[0], &style);
    return es_composite_draw(out, parts, options->n_figures, &style);
}
