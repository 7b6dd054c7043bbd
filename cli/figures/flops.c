/* Draws the figure flops: FLOPs of a forward pass over several context lengths,
 * divided into FFN and attention. */
#include "render/figures/bars.h"

#include "analyzer/base/text.h"
#include "cli/figures/cost.h"

#include <string.h>

enum { FFN = 0, ATTENTION = 1, N_PARTS = 2, MOST_NAMED = 8 };

/* The bars of one model and the texts of their labels. */
typedef struct stacks {
    es_bar bars[ES_N_COST_LENGTHS * N_PARTS];
    char texts[ES_N_COST_LENGTHS * N_PARTS][ES_COST_MAX];
    char details[ES_N_COST_LENGTHS * N_PARTS][ES_COST_MAX];
    char total_texts[ES_N_COST_LENGTHS][ES_COST_MAX];
    const char *totals[ES_N_COST_LENGTHS];
    char subtitle[64];
    const char *archs[MOST_NAMED]; /* (n_archs) */
    size_t n_archs;
    es_cost_model shape;
} stacks;

es_status es_fits_flops(const es_run_summary *run,
                        const es_figure_entry *figure)
{
    es_cost_model shape;
    return es_run_shape_read(&shape, run, figure->label);
}

static void fill(stacks *s)
{
    for (size_t g = 0; g < ES_N_COST_LENGTHS; g++) {
        es_flops flops = es_flops_forward(&s->shape.shape, es_cost_lengths[g]);
        double parts[N_PARTS] = {flops.ffn, flops.attention};
        double total = flops.ffn + flops.attention;
        s->totals[g] = es_cost_print(s->total_texts[g], total);
        for (size_t p = 0; p < N_PARTS; p++) {
            size_t i = g * N_PARTS + p;
            double percent = 100 * parts[p] / total;
            s->bars[i] =
                (es_bar){.value = percent,
                         .text = es_cost_print(s->texts[i], parts[p]),
                         .detail = es_cost_print_share(s->details[i], percent)};
        }
    }
}

static bool is_same(const es_cost_model *a, const es_cost_model *b)
{
    return a->shape.n_layer == b->shape.n_layer &&
           a->shape.d_model == b->shape.d_model &&
           es_flops_forward(&a->shape, es_cost_lengths[0]).ffn ==
               es_flops_forward(&b->shape, es_cost_lengths[0]).ffn;
}

/* Makes one panel for each distinct set of FLOPs. Runs with equal FLOPs share a
 * panel, which lists the architectures of the runs. */
static es_status gather(stacks *all, size_t *n, const es_drawing *drawing)
{
    for (size_t i = 0; i < drawing->n; i++) {
        stacks *next = &all[*n], *same = all;
        const char *arch = drawing->runs[i]->arch;
        bool named = false;
        *next = (stacks){.n_archs = 0};
        es_status status = es_run_shape_read(&next->shape, drawing->runs[i],
                                             "a figure of FLOPs");
        if (status < 0)
            return status;
        while (same < next && !is_same(&same->shape, &next->shape))
            same++;
        for (size_t k = 0; k < same->n_archs; k++)
            named = named || strcmp(same->archs[k], arch) == 0;
        /* a longer list of names would be truncated */
        if (!named && same->n_archs < MOST_NAMED)
            same->archs[same->n_archs++] = arch;
        if (same == next)
            fill(&all[(*n)++]);
    }
    for (stacks *s = all; s < all + *n; s++)
        snprintf(s->subtitle, sizeof s->subtitle, "L = %lld, d = %lld",
                 (long long)s->shape.shape.n_layer,
                 (long long)s->shape.shape.d_model);
    return ES_OK;
}

/* Writes the note below the figure: which FLOPs are counted, and which models
 * share a panel. */
static void make_note(char *out, size_t size, const stacks *all, size_t n)
{
    es_text to = es_text_begin(out, size);
    es_text_append(
        &to, "A forward pass over T tokens, embeddings and output excluded. "
             "For each token and layer: FFN 4\u00a0m\u00a0d\u00b2 with "
             "m\u00a0=\u00a04 unless the run says otherwise, fused "
             "2\u00a0d\u00b2, removed 0; attention "
             "8\u00a0d\u00b2\u00a0+\u00a02\u00a0T\u00a0d\u00a0+"
             "\u00a0d\u00a0(T\u00a0+\u00a01).");
    for (const stacks *s = all; s < all + n; s++) {
        for (size_t i = 1; i < s->n_archs; i++)
            es_text_append(&to, "%s%s%s%s", i > 1 ? ", " : " Same as ",
                           i > 1 ? "" : s->archs[0], i > 1 ? "" : ": ",
                           s->archs[i]);
        es_text_append(&to, "%s", s->n_archs > 1 ? "." : "");
    }
}

es_status es_draw_flops(es_picture **out, es_drawing *drawing)
{
    static const char *const series[N_PARTS] = {
        [FFN] = "FFN", [ATTENTION] = "attention"};
    size_t n_panels = 0;
    char note[2048];
    stacks *all;
    es_bars_panel *panels;
    es_status status;
    if ((status = es_drawing_array(drawing, &all, drawing->n)) < 0 ||
        (status = es_drawing_array(drawing, &panels, drawing->n)) < 0 ||
        (status = gather(all, &n_panels, drawing)) < 0)
        return status;
    for (size_t i = 0; i < n_panels; i++)
        panels[i] = (es_bars_panel){.title = all[i].archs[0],
                                    .subtitle = all[i].subtitle,
                                    .bars = all[i].bars,
                                    .totals = all[i].totals};
    es_bars figure = {.style = drawing->style,
                      .panels = panels,
                      .n_panels = n_panels,
                      .groups = es_cost_length_names,
                      .n_groups = ES_N_COST_LENGTHS,
                      .series = series,
                      .n_series = N_PARTS,
                      .stacked = true,
                      .high = 100,
                      .y_text = "FLOPs (%)",
                      .group_text = "context length T",
                      .note = note};
    make_note(note, sizeof note, all, n_panels);
    return es_bars_draw(out, &figure);
}
