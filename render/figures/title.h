/**
 * Titles and labels of figures. One that is the notation of an architecture
 * is typeset: thin spaces about its plus signs and after its commas, the x of
 * `ScFuFFNi x` or e as the index of a subscript; so is one that a text begins
 * with before " (3 seeds)" or ", γ = 0.2". Anything else, a run's name for one,
 * is drawn as it is.
 */
#ifndef ES_TITLE_H
#define ES_TITLE_H

#include "render/figures/theme.h"

/** True if `text` is the notation of an architecture (analyzer/arch/arch.h). */
bool es_title_is_arch(const char *text);

/** Width in points as es_draw_fitted draws it uncut. */
double es_title_width(const char *text, double size, es_font_weight weight);

/**
 * Draws a level text, cut to `width` points with an ellipsis; nothing where
 * not even that fits.
 *
 *   x, y  on the baseline: start, middle or end by `align`
 *   size  of its letters; those of an index are smaller, never below 5 points
 *         unless `size` is, and reach 0.3 sizes below the baseline
 *
 * The letters of one size are one text of the picture.
 */
void es_draw_fitted(es_picture *picture, double x, double y, double size,
                    es_align align, es_font_weight weight, es_color color,
                    const char *text, double width);

/** Draws what a run is called, from x on: where it does not fit its middle is
 *  left out, for runs differ at the ends. */
void es_draw_run_name(es_picture *picture, double x, double y, double size,
                      es_font_weight weight, es_color color, const char *text,
                      double width);

/**
 * The same in several lines, where it does not fit into one: broken after the
 * commas between settings, which are left out there.
 *
 *   picture      NULL: nothing is drawn
 *   y            of the first line's baseline
 *   line_height  from one to the next
 *   most         lines; what does not fit into the last loses its middle
 *
 * Returns the number of lines.
 */
size_t es_draw_run_lines(es_picture *picture, double x, double y, double size,
                         es_font_weight weight, es_color color,
                         const char *text, double width, double line_height,
                         size_t most);

/** Texts in small letters, ES_SMALL_SIZE: cut to `width` as above, or as they
 *  are. */
void es_draw_small(const es_canvas *canvas, double x, double y, es_align align,
                   es_color color, const char *text, double width);
void es_draw_label(const es_canvas *canvas, double x, double y, es_align align,
                   es_color color, const char *text);

/** What an axis or a plot is called, around x: ES_LABEL_SIZE, as it is. */
void es_draw_name(const es_canvas *canvas, double x, double y, double degrees,
                  es_color color, const char *text);

#define ES_SMALL_DROP (0.36 * ES_SMALL_SIZE) /* from middle to baseline */

#endif
