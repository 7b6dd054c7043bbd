/*
 * Measures and draws the texts of a page, for page.c: the note, and the
 * letters, titles and subtitles of panels. The same function breaks a text into
 * lines and draws it, so that measured and drawn lines agree.
 */
#include "render/figures/page_internal.h"

#define TITLE_LINE 13.0
#define SUBTITLE_LINE 11.0

enum {
    NOTE_LINES = 10,
    NOTE_MAX = 1024,
    LETTER_MAX = 24,
    TITLE_LINES = 3,
    SUBTITLE_LINES = 2
};

/* --- notes ----------------------------------------------------------------*/

/* Returns the number of bytes of the first line: as much of `text` as fits into
 * `width`, up to a space or the end of the text. Returns 0 if not even one word
 * fits. */
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

size_t es_page_break_note(const es_page *page, double y)
{
    const char *text = page->note;
    size_t n_lines = 0;
    while (*text && n_lines < NOTE_LINES) {
        char line[NOTE_MAX];
        size_t n = line_length(text, page->note_width);
        bool whole = n == 0 || n_lines == NOTE_LINES - 1;
        snprintf(line, sizeof line, "%.*s", whole ? NOTE_MAX - 1 : (int)n,
                 text);
        if (page->canvas.picture)
            es_draw_small(&page->canvas, page->plots.x, y, ES_ALIGN_START,
                          page->canvas.colors->muted, line, page->note_width);
        n_lines++;
        y += ES_PAGE_NOTE_LINE;
        text += whole ? strlen(text) : n;
        text += strspn(text, " ");
    }
    return n_lines;
}

/* --- titles ---------------------------------------------------------------*/

/* Returns the letter of panel i, "(a) " to "(z) ", then "(aa) "; or "" if
 * panels have no letters. */
static const char *letter_of(char out[LETTER_MAX], const es_page *page,
                             size_t i)
{
    size_t n = page->style->letters ? page->style->letters + i : 0;
    char *at = out + LETTER_MAX;
    *--at = '\0';
    if (n > 0) {
        *--at = ' ';
        *--at = ')';
    }
    for (; n > 0 && at > out + 1; n = (n - 1) / 26)
        *--at = (char)('a' + (n - 1) % 26);
    if (*at)
        *--at = '(';
    return at;
}

static double letter_width(const es_page *page, size_t i)
{
    char letter[LETTER_MAX];
    return es_text_width(letter_of(letter, page, i), ES_PANEL_TITLE_SIZE,
                         ES_WEIGHT_BOLD);
}

double es_page_title_width(const es_page *page, size_t i)
{
    const es_page_panel *panel = &page->panels[i];
    double title =
        panel->title
            ? es_title_width(panel->title, ES_PANEL_TITLE_SIZE, ES_WEIGHT_BOLD)
            : 0;
    title += letter_width(page, i);
    return panel->subtitle
               ? fmax(title, es_title_width(panel->subtitle, ES_SMALL_SIZE,
                                            ES_WEIGHT_NORMAL))
               : title;
}

/* Returns the indent of panel i's title, which leaves space for the letter. */
static double title_shift(const es_page *page, size_t i)
{
    return page->letters_above ? 0 : letter_width(page, i);
}

/* Returns true if the title of panel i fits into its panel only without the
 * letter, and cannot be broken because it has no comma. */
static bool is_cut_by_letter(const es_page *page, size_t i)
{
    const char *title = page->panels[i].title;
    if (!page->style->letters || !title || strstr(title, ", "))
        return false;
    const double width =
        es_title_width(title, ES_PANEL_TITLE_SIZE, ES_WEIGHT_BOLD);
    return width <= page->panels[i].width &&
           width + letter_width(page, i) > page->panels[i].width;
}

/* Breaks the title of panel i into lines, and draws them unless `picture` is
 * NULL; y is the baseline of the first line. Returns the number of lines. */
static size_t break_title(const es_page *page, es_picture *picture, size_t i,
                          double y)
{
    const es_page_panel *panel = &page->panels[i];
    const double shift = title_shift(page, i);
    return es_draw_run_lines(
        picture, panel->plot.x + shift, y, ES_PANEL_TITLE_SIZE, ES_WEIGHT_BOLD,
        page->canvas.colors->ink, panel->title ? panel->title : "",
        panel->width - shift, TITLE_LINE,
        page->most_lines ? page->most_lines : TITLE_LINES);
}

/* Breaks the subtitle of panel i into lines, and draws them unless `picture` is
 * NULL; y is the baseline of the first line. Returns the number of lines. */
static size_t break_subtitle(const es_page *page, es_picture *picture, size_t i,
                             double y)
{
    const es_page_panel *panel = &page->panels[i];
    return es_draw_run_lines(picture, panel->plot.x, y, ES_SMALL_SIZE,
                             ES_WEIGHT_NORMAL, page->canvas.colors->muted,
                             panel->subtitle ? panel->subtitle : "",
                             panel->width, SUBTITLE_LINE, SUBTITLE_LINES);
}

void es_page_measure_head(es_page *page)
{
    page->head = 0;
    page->title_lines = page->subtitle_lines = 1;
    page->letters_above = false;
    for (size_t i = 0; i < page->n_panels && !page->letters_above; i++)
        page->letters_above = is_cut_by_letter(page, i);
    for (size_t i = 0; i < page->n_panels; i++) {
        const size_t n = break_title(page, NULL, i, 0);
        const size_t m = break_subtitle(page, NULL, i, 0);
        page->title_lines = n > page->title_lines ? n : page->title_lines;
        page->subtitle_lines =
            m > page->subtitle_lines ? m : page->subtitle_lines;
    }
    const double below = SUBTITLE_LINE * (double)page->subtitle_lines;
    for (size_t i = 0; i < page->n_panels; i++) {
        const char *title = page->panels[i].title;
        const char *subtitle = page->panels[i].subtitle;
        const size_t n = title && *title ? page->title_lines : 0;
        page->head = fmax(page->head, TITLE_LINE * (double)n +
                                          (subtitle && *subtitle ? below : 0));
    }
    if (page->style->letters &&
        (page->letters_above || page->head <= SUBTITLE_LINE))
        page->head += TITLE_LINE;
}

void es_page_draw_title(const es_page *page, size_t i, double y)
{
    const es_page_panel *panel = &page->panels[i];
    es_picture *picture = page->canvas.picture;
    const es_color ink = page->canvas.colors->ink;
    char letter[LETTER_MAX];
    const size_t n = break_title(page, NULL, i, 0);
    break_subtitle(page, picture, i,
                   y - SUBTITLE_LINE * (double)(page->subtitle_lines - 1));
    y +=
        TITLE_LINE * (double)(page->title_lines + 1 - (n ? n : 1)) - page->head;
    if (page->style->letters)
        es_picture_text(picture, panel->plot.x, y, ES_PANEL_TITLE_SIZE,
                        ES_ALIGN_START, ES_WEIGHT_BOLD, 0, ink,
                        letter_of(letter, page, i));
    break_title(page, picture, i, y + (page->letters_above ? TITLE_LINE : 0));
}
