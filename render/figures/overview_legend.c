/* Draws the legend below the rows of an overview. It explains the colours of
 * the bars, strips and flags. */
#include "render/figures/overview_internal.h"

#define LEGEND_LINE 12.0
#define RAMP_WIDTH 64.0 /* width of the ramp of the layer colours */

/* The entries of the legend. The first entries are the shares of heads. */
enum {
    FIRST_LEVEL = ES_OVERVIEW_SHARES,
    MISSING = FIRST_LEVEL + 4,
    RAMP,
    N_ENTRIES
};

/* Returns the text of an entry, or NULL if the legend does not need it. */
static const char *entry_text(const es_overview_sheet *s, int i)
{
    static const char *const texts[] = {
        "[0, m/4)",  "[m/4, m/2)",      "[m/2, 3m/4)",
        "[3m/4, m]", "NaN or infinite", "flag: too short to judge",
        "warning",   "error",           "critical",
        "missing"};
    if (i >= FIRST_LEVEL && s->figure->heads_only)
        return NULL;
    if (i == FIRST_LEVEL && !s->has_info)
        return NULL;
    if (i == FIRST_LEVEL + 1 && !s->has_info)
        return "flag: warning";
    if (i == RAMP)
        return es_scale_is_there(&s->scale) ? s->ramp : NULL;
    return i == MISSING && !s->page.missing ? NULL : texts[i];
}

static double swatch_width(int i)
{
    return i == RAMP ? RAMP_WIDTH : 8;
}

static void draw_swatch(const es_overview_sheet *s, int i, double x, double y)
{
    const es_canvas *canvas = &s->page.canvas;
    const int n = es_colormap_levels(s->scale.map);
    const double width = swatch_width(i), top = y - 7;
    if (i < FIRST_LEVEL)
        es_picture_rect(canvas->picture, x, top, 8, 8,
                        es_overview_share_color(s, i));
    else if (i < MISSING)
        es_picture_rect(
            canvas->picture, x, top, 8, 8,
            es_theme_level(s->figure->style.theme,
                           (es_level)(ES_LEVEL_INFO + i - FIRST_LEVEL)));
    for (int k = 0; i == RAMP && k < n;
         k++) /* each colour extends underneath the next colour */
        es_picture_rect(canvas->picture, x + width * k / n, top,
                        width * (n - k) / n, 8,
                        es_scale_level_color(&s->scale, k));
    if (i >= MISSING)
        es_picture_frame(canvas->picture, x, top, width, 8, 0.5,
                         canvas->colors->muted);
}

double es_overview_legend(const es_overview_sheet *s, double y)
{
    const es_canvas *canvas = &s->page.canvas;
    const double left = s->page.plots.x, width = s->page.plots.width;
    const double first = y;
    double x = 0;
    for (int i = 0; i < N_ENTRIES; i++) {
        const char *text = entry_text(s, i);
        if (!text)
            continue;
        const double text_x = swatch_width(i) + 4;
        const double own =
            text_x + es_text_width(text, ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
        x += x > 0 && (i == FIRST_LEVEL + !s->has_info || i >= MISSING)
                 ? 12
                 : 0; /* gap between groups of entries */
        if (x > 0 && x + own > width) {
            x = 0;
            y += LEGEND_LINE;
        }
        if (canvas->picture) {
            draw_swatch(s, i, left + x, y);
            es_draw_small(canvas, left + x + text_x, y, ES_ALIGN_START,
                          canvas->colors->ink, text, width - x - text_x);
        }
        x += own + 12;
    }
    return y - first + LEGEND_LINE;
}

void es_overview_name_ramp(es_overview_sheet *s)
{
    char low[ES_LABEL_MAX], high[ES_LABEL_MAX];
    snprintf(low, sizeof low, "%.3g", s->scale.low);
    snprintf(high, sizeof high, "%.3g", s->scale.high);
    es_label_typeset(low, sizeof low);
    es_label_typeset(high, sizeof high);
    snprintf(s->ramp, sizeof s->ramp, "%s to %s%s%.80s%s", low, high,
             s->figure->scale_text ? ", " : "",
             s->figure->scale_text ? s->figure->scale_text : "",
             s->scale.logarithmic ? ", log scale" : "");
}
