/* Tests drawing pictures with characters: shapes, texts that touch, hostile
 * texts, small and large pages. */
#include "render/cells.h"
#include "tests/support/chance.h"
#include "tests/support/drawn.h"
#include "tests/support/golden_text.h"
#include "tests/support/test.h"

AUTO_OF(es_screen, es_screen_free)

static const es_color white = {255, 255, 255, 255};
static const es_color black = {0, 0, 0, 255};
static const es_color red = {200, 0, 0, 255};
static const es_color blue = {0, 0, 200, 255};

static es_picture *blank(int columns, int rows)
{
    es_picture *picture = NULL;
    assert_int_equal(es_picture_new(&picture, columns * ES_CELL_WIDTH,
                                    rows * ES_CELL_HEIGHT, white),
                     ES_OK);
    return picture;
}

/* Returns a picture as it is printed, which the caller frees. */
static char *printed(const es_picture *picture, int columns, es_depth depth)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(es_cells_print(picture, out, columns, depth), ES_OK);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Writes a text at a cell, in letters of the usual size. */
static void write_at(es_picture *picture, double column, int row,
                     es_align align, double degrees, const char *text)
{
    es_picture_text(picture, column * ES_CELL_WIDTH,
                    (row + 0.9) * ES_CELL_HEIGHT, 8.5, align, ES_WEIGHT_NORMAL,
                    degrees, black, text);
}

static void assert_ascii(const es_picture *picture, const char *wanted)
{
    AUTO_FREE char *text = printed(picture, 0, ES_DEPTH_ASCII);
    assert_string_equal(text, wanted);
}

/* --- shapes ----------------------------------------------------------------*/

/* Draws a heatmap, a curve, a grid, a bar, a hatching, an image, a dot and
 * texts. */
static es_picture *every_shape(void)
{
    const es_color palette[] = {red, blue}, grid = {225, 225, 225, 255};
    es_picture *p = blank(60, 16);
    double wave[2 * 40], spans[2 * 20];
    for (int i = 0; i < 40; i++) {
        wave[2 * i] = 40 + 2.5 * i;
        wave[2 * i + 1] = i == 20 ? NAN : 50 - 20 * sin(i / 4.0);
    }
    for (int i = 0; i < 20; i++) {
        spans[2 * i] = i == 10 ? NAN : 90.0 - i;
        spans[2 * i + 1] = 91;
    }
    es_picture_line(p, 40, 50, 140, 50, 0.5, grid);
    es_picture_line(p, 40, 20, 40, 80, 1, black);
    es_picture_line(p, 40, 80, 140, 80, 1, black);
    es_picture_polyline(p, wave, 40, 1.2, red);
    for (int i = 0; i < 16; i++)
        es_picture_rect(p, 150 + 7 * (i % 4), 21 + 14 * (i / 4.0 - i % 4 / 4.0),
                        7, 14, (es_color){(uint8_t)(16 * i), 90, 120, 255});
    es_picture_hatch(p, 150, 77, 28, 14, (es_color){250, 240, 240, 255}, red);
    es_picture_image(p, 185, 21, 21, 28, (const uint8_t[]){0, 1, 1, 0}, 2, 2,
                     palette, 2);
    es_picture_dot(p, 195, 70, 3, blue);
    es_picture_frame(p, 182, 55, 24, 30, 1, black);
    es_picture_spans(p, 40, 5, spans, 20, blue);
    write_at(p, 6, 1, ES_ALIGN_START, 0, "every shape");
    write_at(p, 26, 13, ES_ALIGN_MIDDLE, 0, "10⁻⁴ → ±1 …");
    write_at(p, 3, 8, ES_ALIGN_MIDDLE, 90, "down");
    write_at(p, 59, 15, ES_ALIGN_END, 0, "at the end");
    return p;
}

TEST(every_shape_is_golden)
{
    static const char *const names[] = {"cells_ascii.txt", "cells_256.txt",
                                        "cells_true.txt"};
    AUTO(es_picture) picture = every_shape();
    for (int depth = ES_DEPTH_ASCII; depth <= ES_DEPTH_TRUE; depth++) {
        AUTO_FREE char *text = printed(picture, 0, (es_depth)depth);
        assert_true(es_text_is_golden(text, names[depth]));
    }
}

TEST(a_narrow_grid_shows_the_whole_page)
{
    AUTO(es_picture) picture = every_shape();
    AUTO(es_screen) screen = NULL;
    AUTO(es_screen) same = NULL;
    assert_int_equal(es_cells_draw(&screen, picture, 30, ES_DEPTH_TRUE), ES_OK);
    assert_int_equal(screen->width, 30);
    assert_int_equal(screen->height, 8);
    assert_int_equal(es_cells_draw(&same, picture, 100, ES_DEPTH_TRUE), ES_OK);
    assert_int_equal(same->width, 60); /* a wider terminal does not enlarge the
                                          drawing */
}

TEST(the_text_format_has_no_colours)
{
    AUTO(es_picture) picture = every_shape();
    size_t n;
    AUTO_FREE char *text =
        picture_bytes(&n, picture, ES_FORMAT_TEXT, 1, NULL, 0);
    AUTO_FREE char *ascii = printed(picture, 0, ES_DEPTH_ASCII);
    assert_int_equal(n, strlen(ascii));
    assert_memory_equal(text, ascii, n);
    for (size_t i = 0; i < n; i++)
        assert_true(ascii[i] == '\n' || (ascii[i] >= ' ' && ascii[i] < 127));
}

TEST(a_thin_shape_is_visible)
{
    AUTO(es_picture) p = blank(8, 4);
    es_picture_rect(p, 1, 3, 0.01, 0.01, black);
    es_picture_dot(p, 12.2, 3, 0.01, black);
    es_picture_line(p, 15, 8, 20, 20, 0.01, black);
    es_picture_spans(p, 0, 3, (double[]){16, 16.001}, 1, black);
    AUTO_FREE char *text = printed(p, 0, ES_DEPTH_TRUE);
    int n_marks = 0;
    for (const char *at = text; (at = strstr(at, "\033[0;38;")); at++)
        n_marks++;
    assert_true(n_marks >= 5);
}

/* --- texts -----------------------------------------------------------------*/

TEST(texts_have_the_place_of_the_picture)
{
    AUTO(es_picture) p = blank(20, 4);
    write_at(p, 0, 0, ES_ALIGN_START, 0, "left");
    write_at(p, 20, 0, ES_ALIGN_END, 0, "right");
    write_at(p, 10, 2, ES_ALIGN_MIDDLE, 0, "mid");
    assert_ascii(p, "left           right\n\n         mid\n\n");
}

/* A text that would touch another text of its row is moved to another row, or
 * left out if that row is occupied, too. */
TEST(texts_do_not_touch)
{
    AUTO(es_picture) p = blank(12, 3);
    write_at(p, 0, 1, ES_ALIGN_START, 0, "0.5");
    write_at(p, 3, 1, ES_ALIGN_START, 0, "1.0");
    write_at(p, 0, 1, ES_ALIGN_START, 0, "2.0");
    write_at(p, 0, 1, ES_ALIGN_START, 0, "3.0");
    write_at(p, 0, 1, ES_ALIGN_START, 0, "lost");
    assert_ascii(p, "2.0\n0.5 1.0\n3.0\n");
}

TEST(a_long_text_is_cut_at_the_edge)
{
    AUTO(es_picture) p = blank(8, 2);
    write_at(p, 4, 0, ES_ALIGN_MIDDLE, 0, "0123456789abcdef");
    assert_ascii(p, "01234567\n\n");
}

TEST(a_vertical_text_is_written_downwards)
{
    AUTO(es_picture) p = blank(5, 5);
    write_at(p, 1.9, 4, ES_ALIGN_START, 90, "up");
    write_at(p, 3.9, 0, ES_ALIGN_END, 90, "on");
    assert_ascii(p, "\n   o\n   n\n u\n p\n");
}

TEST(a_hostile_text_is_harmless)
{
    static const char *const texts[] = {
        "\033[31mred\033[0m",
        "a\tb\nc\rd\x7f",
        "\xc2\x9b"
        "1m",
        "\xff\xfe",
        "\xe2\x80\xae"
        "evil",
        "\xe6\xa8\xa1\xe5\x9e\x8b",
        "\xf0\x9f\x94\xa5\xe2\x80\x8d\xf0\x9f\xa7\xa0",
        "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81",
        "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int depth = ES_DEPTH_ASCII; depth <= ES_DEPTH_TRUE; depth++) {
            AUTO(es_picture) p = blank(12, 3);
            write_at(p, 1, 1, ES_ALIGN_START, 0, texts[i]);
            AUTO_FREE char *text = printed(p, 0, (es_depth)depth);
            for (const char *c = text; *c; c++) {
                const bool control =
                    (unsigned char)*c < ' ' || *c == 0x7f ||
                    ((unsigned char)*c == 0xc2 && (unsigned char)c[1] < 0xa0);
                const bool ours =
                    *c == '\n' || (*c == '\033' && c[1] == '[' && c[2] == '0');
                assert_true(!control || ours);
            }
            assert_null(strstr(text, "\xe2\x80\xae"));
            assert_null(strstr(text, "\033[31m"));
        }
}

TEST(a_wide_letter_covers_two_cells)
{
    AUTO(es_picture) p = blank(8, 1);
    write_at(p, 0, 0, ES_ALIGN_START, 0, "\xe6\xa8\xa1");
    write_at(p, 3, 0, ES_ALIGN_START, 0, "a");
    AUTO_FREE char *text = printed(p, 0, ES_DEPTH_256);
    assert_non_null(strstr(text, "\xe6\xa8\xa1"));
    assert_non_null(strstr(text, "a"));
}

/* --- sizes -----------------------------------------------------------------*/

TEST(pages_of_any_size_are_drawn)
{
    static const double sides[][2] = {{1, 1},      {35, 21}, {20000, 1},
                                      {1, 20000},  {3.5, 7}, {3.6, 7.1},
                                      {4000, 2000}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int columns = 0; columns < 90; columns += 40) {
            AUTO(es_picture) p = NULL;
            AUTO(es_screen) screen = NULL;
            assert_int_equal(
                es_picture_new(&p, sides[i][0], sides[i][1], white), ES_OK);
            es_picture_hatch(p, -50, -50, 30000, 30000, red, blue);
            es_picture_polyline(p, (double[]){-1e5, 1e5, NAN, NAN, 1e5, -1e5},
                                3, 1e5, red);
            write_at(p, -1e4, -1000, ES_ALIGN_END, 0, "far away");
            write_at(p, 1e4, 9000, ES_ALIGN_START, 90, "far away");
            assert_int_equal(es_cells_draw(&screen, p, columns, ES_DEPTH_TRUE),
                             ES_OK);
            assert_true(!columns || screen->width <= columns);
        }
}

TEST(a_grid_of_too_many_cells_is_refused)
{
    AUTO(es_picture) p = NULL;
    es_screen *screen = NULL;
    assert_int_equal(es_picture_new(&p, 20000, 20000, white), ES_OK);
    assert_int_equal(es_cells_draw(&screen, p, 0, ES_DEPTH_TRUE), ES_EUSAGE);
    assert_non_null(strstr(es_message(), "characters"));
    assert_null(screen);
}

TEST(random_pictures_are_drawn)
{
    chance_seed(7);
    for (int i = 0; i < 60; i++) {
        AUTO(es_picture)
        p = blank(1 + (int)chance_below(60), 1 + (int)chance_below(20));
        for (int k = 0; k < 40; k++) {
            double at[4];
            for (int j = 0; j < 4; j++)
                at[j] = (double)chance_below(400) - 100;
            es_picture_rect(p, at[0], at[1], at[2] / 9, at[3] / 9, blue);
            es_picture_line(p, at[3], at[2], at[1], at[0], at[0] / 50, red);
            es_picture_text(p, at[1], at[3], 8, (es_align)(k % 3),
                            (es_font_weight)(k % 2), k % 4 * 30, black,
                            "a text");
        }
        for (int depth = ES_DEPTH_ASCII; depth <= ES_DEPTH_TRUE; depth++) {
            AUTO_FREE char *text = printed(p, 0, (es_depth)depth);
            assert_true(strlen(text) > 0);
        }
    }
}
