/**
 * Draws the titles and labels of figures. The notation of an architecture is
 * typeset: thin spaces around plus signs and after commas, and in `ScFuFFNi6`
 * or `ScFuFFNe6` a subscript i or e with the index 6. The notation may be
 * followed by " (3 seeds)" or ", γ = 0.2". Any other text, such as the name of
 * a run, is drawn unchanged.
 */
#ifndef ES_TITLE_H
#define ES_TITLE_H

#include "render/figures/theme.h"

/** Returns true if `text` is an architecture in the notation of
 *  analyzer/arch/arch.h. */
bool es_title_is_arch(const char *text);

/** Returns the width in points of a text that es_draw_fitted draws without
 *  cutting. */
double es_title_width(const char *text, double size, es_font_weight weight);

/**
 * Draws a horizontal text, cut to `width` points with an ellipsis; draws
 * nothing if not even the ellipsis fits.
 *
 *   x, y  start, middle or end of the baseline, according to `align`
 *   size  font size; subscripts are smaller, but at least 5 points (or `size`,
 *         if this is less), and extend 0.3 * size below the baseline
 *
 * Consecutive characters of the same size are appended to the picture as one
 * text.
 */
void es_draw_fitted(es_picture *picture, double x, double y, double size,
                    es_align align, es_font_weight weight, es_color color,
                    const char *text, double width);

/** Draws the name of a run from x on. If the name is too wide, its middle is
 *  left out, because names usually differ at their ends. */
void es_draw_run_name(es_picture *picture, double x, double y, double size,
                      es_font_weight weight, es_color color, const char *text,
                      double width);

/**
 * Draws the name of a run on several lines if it does not fit on one. Lines
 * break at the commas between settings; a comma at the end of a line is left
 * out.
 *
 *   picture      NULL to draw nothing
 *   y            baseline of the first line
 *   line_height  distance between lines
 *   most         maximum number of lines; if the last is too long, its middle
 *                is cut
 *
 * Returns the number of lines.
 */
size_t es_draw_run_lines(es_picture *picture, double x, double y, double size,
                         es_font_weight weight, es_color color,
                         const char *text, double width, double line_height,
                         size_t most);

/** Draw texts at the size ES_SMALL_SIZE. es_draw_small cuts a text to `width`
 *  points; es_draw_label draws it without cutting. */
void es_draw_small(const es_canvas *canvas, double x, double y, es_align align,
                   es_color color, const char *text, double width);
void es_draw_label(const es_canvas *canvas, double x, double y, es_align align,
                   es_color color, const char *text);

/** Draws the name of an axis or a plot, centred on x, at the size
 *  ES_LABEL_SIZE. */
void es_draw_name(const es_canvas *canvas, double x, double y, double degrees,
                  es_color color, const char *text);

/* distance from a text's centre to its baseline */
#define ES_SMALL_DROP (0.36 * ES_SMALL_SIZE)

#endif
