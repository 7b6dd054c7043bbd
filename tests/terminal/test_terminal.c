/** Tests the drawing of runs on the terminal: capabilities, cells, heatmaps,
 *  lines, whole drawings and repeated reads. */
#include "cli/terminal/heat.h"
#include "cli/terminal/spark.h"
#include "cli/terminal/tui.h"
#include "tests/support/golden_text.h"
#include "tests/support/recorded.h"
#include "tests/support/shown.h"
#include "tests/support/test.h"

AUTO_OF(es_screen, es_screen_free)

/* --- capabilities ----------------------------------------------------------*/

TEST(depth_follows_the_variables)
{
    const struct {
        es_terminal_variables variables;
        es_depth depth;
    } cases[] = {
        {{.term = "xterm", .colorterm = "truecolor", .lang = "C.UTF-8"},
         ES_DEPTH_TRUE},
        {{.term = "xterm", .colorterm = "24bit", .lc_all = "de_DE.utf8"},
         ES_DEPTH_TRUE},
        {{.term = "xterm", .colorterm = "yes", .lang = "C.UTF-8"},
         ES_DEPTH_256},
        {{.term = "xterm-256color", .lc_ctype = "en_GB.UTF-8", .lang = "C"},
         ES_DEPTH_256},
        {{.term = "xterm", .lang = "C.UTF-8@euro"}, ES_DEPTH_256},
        {{.term = "xterm", .no_color = "", .lang = "C.UTF-8"}, ES_DEPTH_256},
        {{.term = "xterm", .no_color = "1", .lang = "C.UTF-8"}, ES_DEPTH_ASCII},
        {{.term = "dumb", .colorterm = "truecolor", .lang = "C.UTF-8"},
         ES_DEPTH_ASCII},
        {{.colorterm = "truecolor", .lang = "C.UTF-8"}, ES_DEPTH_ASCII},
        {{.term = "vt100", .lang = "C.UTF-8"}, ES_DEPTH_ASCII},
        {{.term = "xterm", .lc_all = "C", .lang = "C.UTF-8"}, ES_DEPTH_ASCII},
        {{.term = "xterm", .lc_all = "", .lang = "C.UTF-8"}, ES_DEPTH_256},
        {{.term = "xterm", .lang = "de_DE"}, ES_DEPTH_ASCII},
        {{.term = "xterm", .lang = "de_DE.ISO-8859-1"}, ES_DEPTH_ASCII},
        {{.term = "xterm"}, ES_DEPTH_ASCII},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(es_terminal_depth(&cases[i].variables),
                         cases[i].depth);
}

/* The colours of xterm's cube have the index 16 + 36 * r + 6 * g + b; the
 * levels are 0, 95, 135, 175, 215 and 255. */
TEST(cube_colour_is_the_nearest)
{
    static const int steps[] = {0, 95, 135, 175, 215, 255};
    for (int channel = 0; channel < 256; channel++) {
        int best = 0;
        for (int i = 1; i < 6; i++)
            if (abs(steps[i] - channel) < abs(steps[best] - channel))
                best = i;
        uint8_t c = (uint8_t)channel;
        int red = es_ink_cube((es_color){c, 0, 0, 255}) - 16;
        int blue = es_ink_cube((es_color){255, 95, c, 255}) - 16;
        assert_int_equal(red % 36, 0);
        assert_int_equal(abs(steps[red / 36] - channel),
                         abs(steps[best] - channel));
        assert_int_equal(blue / 36, 5);
        assert_int_equal(blue / 6 % 6, 1);
        assert_int_equal(abs(steps[blue % 6] - channel),
                         abs(steps[best] - channel));
    }
}

/* --- cells ----------------------------------------------------------------*/

static void assert_row(const es_screen *screen, int y, const char *expected)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    es_screen_print_row(screen, y, stream);
    fclose(stream);
    assert_string_equal(text, expected);
}

TEST(text_takes_its_columns)
{
    static const struct {
        int x, y, columns;
        const char *text;
        int taken;
        const char *row; /* NULL: unchanged */
    } cases[] = {
        {0, 0, 99, "模型-α", 6, "模型-α"},
        {6, 0, 99, "|", 1, "模型-α|"},
        {0, 1, 3, "模型", 2, "模"},
        /* accents are drawn; characters that change the direction of text or
           join emoji are dropped */
        {0, 2, 99,
         "e\xcc\x81\xe2\x80\xae"
         "x\xe2\x81\xa6y\xef\xb8\x8f",
         3, "e\xcc\x81xy"},
        {8, 3, 99, "\033[31mred", 2, "        ?["},
        {0, 4, 99, "\xc2\x9b\xff\xc3", 3, "???"},
        {0, 5, 9, "no", 0, NULL},
        {10, 0, 9, "no", 0, "模型-α|"},
        {-1, 0, 9, "no", 0, "模型-α|"},
    };
    AUTO(es_screen) screen = NULL;
    es_assert_ok(es_screen_new(&screen, ES_DEPTH_TRUE, 10, 5));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(es_screen_write(screen, cases[i].x, cases[i].y,
                                         cases[i].columns, cases[i].text,
                                         ES_PLAIN),
                         cases[i].taken);
        if (cases[i].row)
            assert_row(screen, cases[i].y, cases[i].row);
    }
}

TEST(colours_only_where_they_change)
{
    es_screen *screen = NULL;
    const es_style style = {.ink = es_ink_of((es_color){1, 2, 3, 255}),
                            .paper = es_ink_of((es_color){95, 135, 255, 255})};
    const es_depth depths[] = {ES_DEPTH_TRUE, ES_DEPTH_256, ES_DEPTH_ASCII};
    const char *const expected[] = {
        "a\033[0;38;2;1;2;3;48;2;95;135;255mbc\033[0;1;31md\033[0m",
        "a\033[0;38;5;16;48;5;69mbc\033[0;1;31md\033[0m", "abcd"};
    for (int i = 0; i < 3; i++) {
        es_assert_ok(es_screen_new(&screen, depths[i], 9, 1));
        es_screen_write(screen, 0, 0, 9, "a", ES_PLAIN);
        es_screen_write(screen, 1, 0, 9, "bc", style);
        es_screen_write(screen, 3, 0, 9, "d",
                        (es_style){.ink = ES_INK_RED, .bold = true});
        es_screen_write(screen, 4, 0, 9, "  ", ES_FAINT);
        assert_row(screen, 0, expected[i]);
        es_screen_free(screen);
    }
}

/* --- heatmap --------------------------------------------------------------*/

TEST(heatmap_fits_any_shape)
{
    static const int sizes[] = {1, 2, 3, 7, 12, 24, 95, 96, 128, 4096};
    const int n = sizeof sizes / sizeof *sizes;
    for (int i = 0; i < n * n * 3; i++) {
        int n_layers = sizes[i % n], n_heads = sizes[i / n % n];
        es_depth depth = (es_depth)(i / n / n);
        for (int space = 1; space < 90; space += 11) {
            es_heat_layout at = es_heat_fit(
                n_layers, n_heads, space, space / 2 + 1, space % 2 == 1, depth);
            int first, last, expected = 0;
            assert_in_range(at.width, 1, space);
            assert_in_range(at.height, 1, space / 2 + 1);
            assert_true((at.width / at.columns) * at.heads_in >= n_heads);
            for (int row = 0; row < at.height; row++, expected = last + 1) {
                es_heat_layers_of_row(&at, row, &first, &last);
                assert_int_equal(first, expected);
                assert_true(last >= first);
            }
            assert_int_equal(expected, n_layers);
        }
    }
}

TEST(two_layers_share_a_row_of_half_blocks)
{
    const float x[6] = {0, 1, NAN, NAN, es_missing(), 1}; /* L 3, H 2 */
    const es_heat_scale scale = {0, 1, ES_COLORMAP_VIRIDIS, true};
    AUTO(es_screen) screen = NULL;
    es_heat_layout at = es_heat_fit(3, 2, 2, 2, false, ES_DEPTH_TRUE);
    assert_int_equal(at.width, 2);
    assert_int_equal(at.height, 2);
    es_assert_ok(es_screen_new(&screen, ES_DEPTH_TRUE, 2, 2));
    es_heat_draw(screen, 0, 0, x, &at, &scale);
    assert_row(screen, 0,
               "\033[0;38;2;68;1;84;48;2;230;30;30m▀"
               "\033[0;38;2;253;231;37;48;2;230;30;30m▀\033[0m");
    assert_row(screen, 1, " \033[0;38;2;253;231;37m▀\033[0m");
    es_screen_free(screen);
    at = es_heat_fit(3, 2, 4, 3, true, ES_DEPTH_ASCII);
    es_assert_ok(es_screen_new(&screen, ES_DEPTH_ASCII, 4, 3));
    es_heat_draw(screen, 0, 0, x, &at, &scale);
    assert_row(screen, 0, "..@@");
    assert_row(screen, 1, "xxxx");
    assert_row(screen, 2, "  @@");
}

TEST(a_shared_place_shows_the_worst)
{
    const es_heat_scale ends = {0, 4, ES_COLORMAP_VIRIDIS, true};
    const es_heat_scale top = {0, 4, ES_COLORMAP_VIRIDIS, false};
    const float x[12] = {1, 2, 3.5F,         0.25F, /* L 2, H 6 */
                         1, 3, es_missing(), 2.5F,  NAN, 4.0F, 1.5F, 2.5F};
    const es_heat_layout at = {.n_layers = 2,
                               .n_heads = 6,
                               .columns = 1,
                               .halves = 1,
                               .layers_in = 2,
                               .heads_in = 2};
    const float broken = es_heat_place(x, &at, &ends, 0, 1);
    assert_true(es_heat_place(x, &at, &ends, 0, 0) ==
                1); /* the heads 1 2 | - 2.5 */
    assert_true(es_heat_place(x, &at, &top, 0, 0) == 2.5F);
    assert_true(isnan(broken) && !es_is_missing(broken)); /* 3.5 .25 | NaN 4 */
    assert_true(es_heat_place(x, &at, &ends, 0, 2) == 1); /* 1 3 | 1.5 2.5 */
    assert_true(es_is_missing(es_heat_place(x, &at, &ends, 1, 0)));
}

/* --- lines ----------------------------------------------------------------*/

enum { COLUMNS = 40, SAMPLES = 5000 };

static void spark_of(es_spark_column *columns, const int64_t *steps,
                     const float *values, size_t n)
{
    es_spark_column line[COLUMNS];
    es_spark_clear(columns, COLUMNS);
    es_spark_add(columns, line, COLUMNS, steps[0], steps[n - 1], steps, values,
                 n);
}

/* A single sample that falls, peaks or is NaN is visible in its column wherever
   it is, however noisy the other samples are. */
TEST(a_single_sample_is_always_visible)
{
    static int64_t steps[SAMPLES];
    static float values[SAMPLES];
    es_spark_column columns[COLUMNS];
    const double unit = 4.0 / 8;
    for (int i = 0; i < SAMPLES; i++) {
        steps[i] = 3 * i;
        values[i] = 2 + 0.2F * (float)sin(i * 0.7) + (float)(i % 3) * 0.05F;
    }
    for (int at = 0; at < SAMPLES; at += 613) {
        float before = values[at];
        const float odd[] = {0, 4, NAN, -INFINITY};
        for (int k = 0; k < 4; k++) {
            values[at] = odd[k];
            spark_of(columns, steps, values, SAMPLES);
            size_t i = es_spark_column_of(steps[at], steps[0],
                                          steps[SAMPLES - 1], COLUMNS);
            double value =
                es_spark_value(columns, COLUMNS, i, unit,
                               k == 0 ? ES_SPARK_FALLS : ES_SPARK_PEAKS);
            assert_int_equal(columns[i].broken, k > 1);
            assert_true(k > 1 || value == (double)odd[k]);
            for (size_t other = 0; other < COLUMNS; other++) {
                assert_true(other == i || !columns[other].broken);
                value = es_spark_value(columns, COLUMNS, other, unit,
                                       ES_SPARK_FALLS);
                assert_true(other == i || fabs(value - 2.05) < 0.3);
            }
        }
        values[at] = before;
    }
}

TEST(a_fall_and_a_peak_share_a_column)
{
    int64_t steps[120];
    float values[120];
    es_spark_column columns[COLUMNS];
    for (int i = 0; i < 120; i++) {
        steps[i] = i;
        values[i] = 2;
    }
    values[60] = 0.5F;
    values[61] = 4;
    spark_of(columns, steps, values, 120);
    assert_true(es_spark_value(columns, COLUMNS, 20, 0.5, ES_SPARK_FALLS) ==
                0.5);
    assert_true(es_spark_value(columns, COLUMNS, 20, 0.5, ES_SPARK_PEAKS) == 4);
}

TEST(zero_missing_and_nan_differ_in_a_line)
{
    const int64_t steps[] = {10, 20, 30, 40, 50, 60, 69};
    const float values[] = {0, 1, es_missing(), NAN, 0, INFINITY, 1};
    const es_spark_scale scale = {0, 1, ES_SPARK_FALLS, false,
                                  ES_COLORMAP_VIRIDIS};
    es_spark_column columns[12], line[12];
    AUTO(es_screen) screen = NULL;
    es_spark_clear(columns, 12);
    es_spark_add(columns, line, 12, 10, 69, steps, values, 7);
    es_assert_ok(es_screen_new(&screen, ES_DEPTH_ASCII, 20, 1));
    es_spark_draw(screen, 1, 0, columns, 12, &scale);
    /* a sample fills all columns up to the next sample */
    assert_row(screen, 0, " __##  xx__x#");
}

/* --- whole drawings -------------------------------------------------------*/

static es_watch_list list; /* the runs that the current test shows */

static int clean(void **state)
{
    es_watch_list_free(&list);
    list = (es_watch_list){0};
    return es_folder_remove(state);
}

/* Adds the runs of a file. The string `path` must stay valid during the
 * test. */
static void watch(const char *path)
{
    es_summary_options options;
    es_summary_options_default(&options);
    AUTO(es_reader) reader = es_open_reader(path);
    for (size_t i = 0; i < es_reader_n_runs(reader); i++) {
        es_assert_ok(es_watch_list_add(&list, path, i));
        es_assert_ok(es_watched_read(&list.list[list.n - 1], reader, &options));
    }
}

static es_tui tui_of(es_depth depth, int width, int height)
{
    es_watched_set_max(list.list, list.n);
    return (es_tui){.runs = list.list,
                    .n_runs = list.n,
                    .terminal = {depth, width, height}};
}

static char *draw(const es_tui *tui)
{
    es_screen *screen = NULL;
    char *text = NULL;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    es_assert_ok(es_tui_draw(&screen, NULL, tui));
    assert_int_equal(screen->width, tui->terminal.width);
    assert_true(!tui->mode || screen->height <= tui->terminal.height);
    es_screen_print(screen, stream);
    fclose(stream);
    es_screen_free(screen);
    return text;
}

static void assert_golden(es_depth depth, int width, const char *name)
{
    const es_tui tui = tui_of(depth, width, 24);
    AUTO_FREE char *text = draw(&tui);
    assert_true(es_text_is_golden(text, name));
}

TEST(published_heatmaps_are_golden)
{
    static const char *const files[] = {"SM+LN+G.db", "SM+LN+R.db", "SM+G.db",
                                        "SM+R.db", "SM.db"};
    es_shown shown;
    es_shown_published(&shown, state, (es_max){ES_MAX_OBSERVED, 0});
    es_shown_free(&shown);
    for (int i = 0; i < 5; i++)
        watch(es_folder_file(state, files[i]));
    assert_golden(ES_DEPTH_TRUE, 80, "tui_published_true.txt");
    assert_golden(ES_DEPTH_256, 100, "tui_published_256.txt");
    assert_golden(ES_DEPTH_ASCII, 48, "tui_published_ascii.txt");
}

static void watch_troubled(void **state)
{
    es_shown shown;
    es_shown_troubled(&shown, state, (es_max){ES_MAX_OBSERVED, 0});
    es_shown_free(&shown);
    watch(es_folder_file(state, "hostile.db"));
    watch(es_folder_file(state, "unknown.db"));
    watch(es_folder_file(state, "two.db"));
}

TEST(troubled_runs_are_golden)
{
    watch_troubled(state);
    assert_golden(ES_DEPTH_TRUE, 80, "tui_troubled_true.txt");
    assert_golden(ES_DEPTH_256, 120, "tui_troubled_256.txt");
    assert_golden(ES_DEPTH_ASCII, 80, "tui_troubled_ascii.txt");
}

/* Records a run of 96 layers with 128 heads over several steps. One value is
 * NaN. */
static void write_deep(const char *path)
{
    enum { N_LAYERS = 96, N_HEADS = 128, N = N_LAYERS * N_HEADS };
    static float x[N];
    es_run_info info = es_run_of(N_LAYERS, N_HEADS);
    info.name = "deep \xf0\x9f\x92\xa5 \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d";
    info.ctx = 128;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 5; step++) {
        for (int i = 0; i < N; i++)
            x[i] = 0.1F + (float)((i * 37 + step * 11) % 370) / 100;
        x[50 * N_HEADS + 77] = step == 4 ? NAN : 1;
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, N);
    }
    es_record_close(&to);
}

TEST(a_deep_and_wide_run_shares_places)
{
    write_deep(es_folder_file(state, "deep.db"));
    watch(es_folder_file(state, "deep.db"));
    assert_golden(ES_DEPTH_ASCII, 80, "tui_deep_ascii.txt");
}

/* The file was just created and has no samples. */
TEST(a_live_view_of_no_run_is_drawn)
{
    es_tui tui = tui_of(ES_DEPTH_ASCII, 40, 8);
    tui.mode = "live";
    tui.keys = "q quits";
    AUTO_FREE char *text = draw(&tui);
    assert_non_null(strstr(text, "live"));
}

/* For any size and colour depth of the screen, drawing succeeds and prints no
   control character of a run's name. At the depth ES_DEPTH_ASCII it prints no
   escape sequence. */
TEST(any_size_is_drawn_within_bounds)
{
    watch_troubled(state);
    write_deep(es_folder_file(state, "any.db"));
    watch(es_folder_file(state, "any.db"));
    for (int width = 1; width < 260; width += width < 12 ? 1 : 17)
        for (int height = 1; height < 80; height += height < 6 ? 1 : 13)
            for (int k = 0; k < 6; k++) {
                es_tui tui = tui_of((es_depth)(k / 2), width, height);
                tui.mode = k % 2 == 1 ? "live" : NULL;
                tui.keys = "q quits";
                tui.first = tui.mode ? (size_t)width % list.n : 0;
                AUTO_FREE char *text = draw(&tui);
                for (const char *c = text; *c; c++)
                    assert_true((unsigned char)*c >= 0x20 || *c == '\n' ||
                                (*c == '\033' && k > 1));
            }
}

/* --- reading again --------------------------------------------------------*/

/* Records the steps from..to with the value `value`. The run is resumed at step
 * `from`. */
static void write_on(const char *path, int64_t from, int64_t to, float value)
{
    es_run_info info = es_run_of(3, 2);
    info.uuid = "01234567-89ab-cdef-0123-456789abcdef";
    info.ctx = 128;
    es_recorded file = {.n_layers = 3, .n_heads = 2};
    es_assert_ok(es_writer_open(&file.writer, path, ES_FAST));
    es_assert_ok(es_writer_run(file.writer, &file.run, &info, from));
    for (int64_t step = from; step <= to; step++) {
        es_record_all(&file, "entropy", step, value);
        es_record_value(&file, "loss", step, value + 1);
        es_record_all(&file, "max_logit", step, value + 2);
    }
    es_record_close(&file);
}

static void read_on(es_watched *run)
{
    es_summary_options options;
    es_summary_options_default(&options);
    AUTO(es_reader) reader = es_open_reader(run->path);
    es_assert_ok(es_watched_read(run, reader, &options));
    es_assert_ok(es_watched_move(run, reader, ES_STEP_LAST, &options));
}

/* Checks that the sparklines cover the steps 0 to n - 1, with the value `first`
 * before step `from` and the value `then` from there on. */
static void assert_lines(const es_watched *run, size_t n, size_t from,
                         float first, float then)
{
    const es_trace *traces[] = {run->layers.trace, run->lines[0].trace,
                                run->lines[1].trace};
    float values[16];
    int64_t steps[16];
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(es_trace_n_points(traces[k]), n);
        es_trace_steps(traces[k], steps);
        es_trace_line(traces[k], k == 0 ? 2 : 0, values);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(steps[i], i);
            assert_true(values[i] == (i < from ? first : then) + (float)k);
        }
    }
    assert_true(run->values[0] == then + 1 && run->values[1] == then + 2);
    assert_int_equal(run->judged->step, n - 1);
}

TEST(replaced_samples_of_a_resumed_run_are_read_again)
{
    es_watched run = {.path = es_folder_file(state, "resumed.db")};
    write_on(run.path, 0, 5, 0.5F);
    read_on(&run);
    assert_lines(&run, 6, 0, 0, 0.5F);
    write_on(run.path, 6, 9, 1.5F); /* the run continues after its last step */
    read_on(&run);
    assert_lines(&run, 10, 6, 0.5F, 1.5F);
    /* The run has more steps than before, but earlier samples were replaced. */
    write_on(run.path, 6, 11, 2.5F);
    read_on(&run);
    assert_lines(&run, 12, 6, 0.5F, 2.5F);
    write_on(run.path, 6, 7, 3.5F); /* fewer steps */
    read_on(&run);
    assert_lines(&run, 8, 6, 0.5F, 3.5F);
    es_watched_forget(&run);
}

TEST(keys_move_between_samples)
{
    es_watched run = {.path = es_folder_file(state, "moved.db")};
    es_summary_options options;
    es_summary_options_default(&options);
    write_on(run.path, 3, 7, 0.5F);
    read_on(&run);
    static const int64_t moves[][3] = {{5, -1, 4},
                                       {5, 1, 6},
                                       {5, 100, 7},
                                       {5, -100, 3},
                                       {ES_STEP_FIRST, 0, 3},
                                       {1000, 0, 7}};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        assert_int_equal(es_watched_step(&run, moves[i][0], moves[i][1]),
                         moves[i][2]);
    es_reader *reader = es_open_reader(run.path);
    es_assert_ok(es_watched_move(&run, reader, 4, &options));
    assert_int_equal(es_watched_shown(&run)->step, 4);
    assert_int_equal(run.judged->step, 7);
    es_assert_ok(es_watched_move(&run, reader, ES_STEP_LAST, &options));
    assert_int_equal(es_watched_shown(&run)->step, 7);
    es_reader_close(reader);
    es_watched_forget(&run);
}

TEST_EACH(es_folder_make, clean)
