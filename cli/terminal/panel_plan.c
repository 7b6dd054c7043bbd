/* Where the parts of a panel stand, by the size of the terminal and the number
   of layers and heads. */
#include "cli/terminal/panel.h"

enum {
    HEADER = 3,      /* rows: title, numbers, flags */
    GAP = 2,         /* columns between heatmap and lines */
    LINE_LEAST = 16, /* columns of a line over the steps */
    LINE_WANTED = 24,
    LEFT_LEAST = 20, /* columns of what stands left of the lines */
    STACK_MOST = 8,  /* lines of layers below a wide heatmap */
    STANDARD = 80,
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Columns of the layers' numbers, and a blank. */
static int label_width(const es_tui_run *run)
{
    size_t n = run->shown->n_rows;
    return n > 1000 ? 5 : n > 100 ? 4 : 3;
}

int es_panel_n_lines(const es_tui_run *run)
{
    int n = 0;
    for (int i = 0; i < ES_TUI_N_LINES; i++)
        n += run->lines[i].trace && es_trace_n_points(run->lines[i].trace) > 0;
    return n;
}

int es_panel_wanted(const es_tui_run *run)
{
    const int least = LEFT_LEAST + GAP + LINE_WANTED;
    if (!run->shown)
        return least;
    int n_heads = (int)run->shown->n_columns;
    int beside = label_width(run) + GAP + LINE_WANTED;
    if (beside + 2 * n_heads <= STANDARD)
        return larger(beside + 2 * n_heads, least);
    return smaller(beside + n_heads, STANDARD);
}

/* Rows of everything but heatmap and the layers' lines: the numbers of heads
   above them; run's lines, scale and axis, bands below. */
static int other_rows(const es_tui_run *run)
{
    return HEADER + 1 + es_panel_n_lines(run) + 1 +
           (run->shown->bands.n_heads > 0);
}

static void place_heat(es_panel_plan *plan, const es_tui_run *run,
                       const es_panel_frame *frame)
{
    int n_layers = (int)run->shown->n_rows,
        n_heads = (int)run->shown->n_columns;
    int other = other_rows(run);
    int width = frame->width - plan->heat_x;
    int beside = width - GAP - LINE_LEAST;
    bool roomy = n_layers <= frame->high_enough - other;
    plan->stacked = n_heads > beside;
    int rows = frame->highest - other;
    if (plan->stacked) {
        plan->n_layer_lines = smaller(smaller(n_layers, STACK_MOST), rows / 3);
        rows -= plan->n_layer_lines + (plan->n_layer_lines > 0);
    }
    width = larger(plan->stacked ? width : beside, 1);
    plan->heat = es_heat_fit(n_layers, n_heads, width, larger(rows, 1), roomy,
                             frame->depth);
    plan->shares = plan->heat.layers_in > 1 || plan->heat.heads_in > 1;
    if (plan->shares) /* which is said in a row of its own */
        plan->heat = es_heat_fit(n_layers, n_heads, width, larger(rows - 1, 1),
                                 roomy, frame->depth);
}

static void place_lines(es_panel_plan *plan, const es_tui_run *run,
                        const es_panel_frame *frame)
{
    int n_layers = (int)run->shown->n_rows;
    int below_heat = plan->heat_y + plan->heat.height;
    if (plan->stacked) {
        int n = larger(plan->n_layer_lines, 1);
        plan->layers_a_line = (n_layers + n - 1) / n;
        plan->lines_y = below_heat + 1;
        plan->below_y =
            below_heat + plan->n_layer_lines + (plan->n_layer_lines > 0);
    } else {
        plan->n_layer_lines = plan->heat.height;
        plan->layers_a_line = 2 / plan->heat.halves * plan->heat.layers_in;
        plan->lines_y = plan->heat_y;
        plan->below_y = below_heat;
    }
    int left = plan->stacked ? 0 : plan->heat_x + plan->heat.width;
    plan->line_x = larger(left, LEFT_LEAST) + GAP;
    if (plan->line_x > frame->width / 2 && plan->stacked)
        plan->line_x = frame->width / 2;
    plan->line_columns = larger(frame->width - plan->line_x, 1);
}

es_panel_plan es_panel_plan_of(const es_tui_run *run,
                               const es_panel_frame *frame)
{
    es_panel_plan plan = {.height = HEADER};
    if (!run->shown)
        return plan;
    plan.heat_x = label_width(run);
    plan.heat_y = HEADER + 1;
    place_heat(&plan, run, frame);
    place_lines(&plan, run, frame);
    plan.height = plan.below_y + es_panel_n_lines(run) + 1 +
                  (run->shown->bands.n_heads > 0) + plan.shares;
    return plan;
}
