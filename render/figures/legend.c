/* Patterns of areas, legends of areas in lines, and notes broken into lines. */
#include "render/figures/legend.h"

#include "render/figures/title.h"
#include <math.h>
#include <string.h>

/* --- patterns -------------------------------------------------------------*/

typedef enum pattern { PLAIN, LEVEL, UPRIGHT, DIAGONAL, CROSSED } pattern;

/* Neighbours differ in lightness, and those of one lightness in lines. */
static const uint8_t patterns[] = {PLAIN,   PLAIN,    PLAIN,    LEVEL,
                                   UPRIGHT, DIAGONAL, LEVEL,    CROSSED,
                                   LEVEL,   DIAGONAL, DIAGONAL, UPRIGHT};
#define N_LOOKS (sizeof patterns / sizeof *patterns)

#define SPACING 3.5
#define LINE 0.7

bool es_pattern_has_lines(size_t series)
{
    return patterns[series % N_LOOKS] != PLAIN;
}

static void draw_level(es_picture *picture, const es_box *area, es_color line)
{
    double bottom = area->y + area->height;
    for (double y = bottom - SPACING / 2; y > area->y + LINE; y -= SPACING)
        es_picture_line(picture, area->x, y, area->x + area->width, y, LINE,
                        line);
}

static void draw_upright(es_picture *picture, const es_box *area, es_color line)
{
    int n = (int)fmax(1, floor(area->width / SPACING));
    for (int i = 0; i < n; i++) {
        double x = area->x + (i + 0.5) * area->width / n;
        es_picture_line(picture, x, area->y, x, area->y + area->height, LINE,
                        line);
    }
}

void es_draw_pattern(es_picture *picture, es_theme theme, size_t series,
                     const es_box *area)
{
    es_color fill = es_theme_category(theme, series);
    es_color line = es_theme_colors(theme)->paper;
    pattern lines = (pattern)patterns[series % N_LOOKS];
    if (lines == DIAGONAL) {
        es_picture_hatch(picture, area->x, area->y, area->width, area->height,
                         fill, line);
        return;
    }
    es_picture_rect(picture, area->x, area->y, area->width, area->height, fill);
    if (lines == LEVEL || lines == CROSSED)
        draw_level(picture, area, line);
    if (lines == UPRIGHT || lines == CROSSED)
        draw_upright(picture, area, line);
}

/* --- legend ---------------------------------------------------------------*/

#define SWATCH_WIDTH 12.0
#define SWATCH_HEIGHT 7.5
#define NAME_GAP 4.0
#define ENTRY_GAP 12.0
#define ENTRY_LINE 12.0
#define LEGEND_FOOT 6.0

static void draw_entry(es_picture *picture, const es_legend *legend, size_t i,
                       double x, double y)
{
    double names = x + SWATCH_WIDTH + NAME_GAP;
    const es_box swatch = {x, y, SWATCH_WIDTH, SWATCH_HEIGHT};
    es_draw_pattern(picture, legend->theme, i, &swatch);
    es_draw_fitted(picture, names, y + SWATCH_HEIGHT - 1, ES_SMALL_SIZE,
                   ES_ALIGN_START, ES_WEIGHT_NORMAL,
                   es_theme_colors(legend->theme)->ink, legend->names[i],
                   legend->width - SWATCH_WIDTH - NAME_GAP + 0.5);
}

/* Draws too unless picture is NULL; returns the number of lines. */
static size_t flow(es_picture *picture, const es_legend *legend, double x0,
                   double y)
{
    double x = x0;
    size_t n_lines = 1;
    for (size_t i = 0; i < legend->n; i++) {
        double name =
            es_title_width(legend->names[i], ES_SMALL_SIZE, ES_WEIGHT_NORMAL);
        double width = fmin(legend->width, SWATCH_WIDTH + NAME_GAP + name);
        if (x > x0 && x + width > x0 + legend->width) {
            x = x0;
            y += ENTRY_LINE;
            n_lines++;
        }
        if (picture)
            draw_entry(picture, legend, i, x, y);
        x += width + ENTRY_GAP;
    }
    return n_lines;
}

static bool is_needed(const es_legend *legend)
{
    for (size_t i = 0; i < legend->n; i++)
        if (legend->names[i][0])
            return true;
    return false;
}

double es_legend_height(const es_legend *legend)
{
    if (!is_needed(legend))
        return 0;
    return (double)flow(NULL, legend, 0, 0) * ENTRY_LINE + LEGEND_FOOT;
}

void es_draw_legend(es_picture *picture, const es_legend *legend, double x,
                    double y)
{
    if (is_needed(legend))
        flow(picture, legend, x, y);
}

/* --- note -----------------------------------------------------------------*/

#define NOTE_MAX 1024

/* Bytes of text that fit into a line, ended at a blank where there is one. */
static size_t line_length(const char *text, double width)
{
    char line[NOTE_MAX];
    size_t best = 0;
    for (size_t n = 1; n < sizeof line; n++) {
        if (text[n] && text[n] != ' ')
            continue;
        memcpy(line, text, n);
        line[n] = '\0';
        if (es_text_width(line, ES_SMALL_SIZE, ES_WEIGHT_NORMAL) > width)
            break;
        best = n;
        if (!text[n])
            break;
    }
    return best;
}

/* Draws too unless picture is NULL; returns the number of lines. */
static size_t break_note(es_picture *picture, es_color color, double x,
                         double y, double width, const char *text)
{
    size_t n_lines = 0;
    while (text && *text && n_lines < ES_NOTE_LINES) {
        char line[NOTE_MAX];
        size_t n = line_length(text, width);
        bool whole = n == 0 || n_lines == ES_NOTE_LINES - 1;
        snprintf(line, sizeof line, "%.*s", whole ? NOTE_MAX - 1 : (int)n,
                 text);
        if (picture)
            es_draw_fitted(picture, x, y, ES_SMALL_SIZE, ES_ALIGN_START,
                           ES_WEIGHT_NORMAL, color, line, width);
        n_lines++;
        y += ES_NOTE_LINE;
        text += whole ? strlen(text) : n;
        text += strspn(text, " ");
    }
    return n_lines;
}

size_t es_note_lines(const char *text, double width)
{
    return break_note(NULL, (es_color){0}, 0, 0, width, text);
}

void es_draw_note(es_picture *picture, es_color color, double x, double y,
                  double width, const char *text)
{
    break_note(picture, color, x, y, width, text);
}
