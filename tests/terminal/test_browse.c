/* Tests the list of many runs on the terminal: lines, order and selection. */
#include "cli/terminal/browse.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

enum { N = 5 };

static char text[16384];

/* Draws the list of runs. Returns the screen as text. */
static const char *drawn(es_browse *browse)
{
    es_screen *screen = NULL;
    es_assert_ok(es_browse_draw(&screen, browse));
    FILE *stream = fmemopen(text, sizeof text, "w");
    assert_non_null(stream);
    es_screen_print(screen, stream);
    fclose(stream);
    es_screen_free(screen);
    return text;
}

/* Loads runs of 3 layers with 2 heads: four with the losses 3, NaN, 1 and 2,
 * and one without samples. */
static void load(es_watch_list *list)
{
    static const float losses[] = {3, NAN, 1, 2};
    es_recorded file = {.writer = NULL};
    char config[32];
    for (int i = 0; i < N; i++) {
        es_run_info info = es_run_of(3, 2);
        info.name = i == 4 ? "empty" : "x";
        info.arch = "SM";
        info.ctx = 64;
        info.config = config;
        snprintf(config, sizeof config, "{\"lr\":0.%d}", i + 1);
        if (i)
            es_record_run(&file, &info);
        else
            file = es_record(run_db, &info);
        if (i == 4)
            continue;
        es_record_all(&file, "entropy", 10 * i, i == 1 ? NAN : 1);
        es_record_value(&file, "loss", 10 * i, losses[i]);
    }
    es_record_close(&file);
    AUTO(es_reader) reader = es_open_reader(run_db);
    es_summary_options options;
    es_summary_options_default(&options);
    for (size_t i = 0; i < N; i++) {
        es_assert_ok(es_watch_list_add(list, run_db, i));
        const es_status status =
            es_watched_read(&list->list[i], reader, &options);
        assert_int_equal(status, i == 4 ? ES_ENOTFOUND : ES_OK);
    }
    es_watched_set_max(list->list, list->n);
}

static es_browse browse_of(const es_watch_list *list, int width, int height)
{
    return (es_browse){.runs = list->list,
                       .n_runs = list->n,
                       .terminal = {ES_DEPTH_ASCII, width, height}};
}

/* Returns the first occurrence of a word in `in`; fails the test if there is
 * none. */
static const char *find(const char *in, const char *word)
{
    const char *at = strstr(in, word);
    if (!at)
        print_error("the screen lacks '%s':\n%s", word, in);
    assert_non_null(at);
    return at;
}

TEST(a_line_has_settings_number_heads_layers_and_flag)
{
    es_watch_list list = {0};
    load(&list);
    es_browse browse = browse_of(&list, 100, 5);
    /* Without a live view, the list is as high as its contents. */
    const char *all = drawn(&browse);
    static const char *const words[] = {"lr",    "ppl",
                                        "heads", "layers",
                                        "flag",  "0.1",
                                        "20.09", "NaN",
                                        "xxx",   "nan",
                                        "2.718", "no sample yet",
                                        "4 <=m", "m = 1 (observed)"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        find(all, words[i]);
    assert_null(strstr(all, "> "));
    es_watch_list_free(&list);
}

TEST(lines_are_sorted_and_runs_without_number_are_last)
{
    es_watch_list list = {0};
    load(&list);
    es_browse browse = browse_of(&list, 100, 24);
    browse.order = ES_BROWSE_BY_LOSS;
    const char *all = drawn(&browse);
    assert_true(find(all, "2.718") < find(all, "7.389"));
    assert_true(find(all, "7.389") < find(all, "20.09"));
    assert_true(find(all, "20.09") < find(all, "NaN"));
    browse.order = ES_BROWSE_BY_FLAG;
    all = drawn(&browse);
    assert_true(find(all, "nan") < find(all, "20.09"));
    es_watch_list_free(&list);
}

TEST(the_selected_line_is_always_visible)
{
    es_watch_list list = {0};
    load(&list);
    es_browse browse = browse_of(&list, 100, 5);
    browse.mode = "live";
    browse.keys = "q quits";
    browse.order = ES_BROWSE_BY_LOSS;
    browse.chosen = 2; /* the run with the smallest loss */
    find(drawn(&browse), "> 0.3");
    find(text, "runs 1-2 of 5 by loss");
    es_assert_ok(es_browse_move(&browse, 2));
    assert_int_equal(browse.chosen, 0);
    find(drawn(&browse), "> 0.1");
    find(text, "runs 2-3 of 5");
    es_assert_ok(es_browse_move(&browse, INT64_MAX));
    assert_int_equal(browse.chosen, 4);
    es_assert_ok(es_browse_move(&browse, -INT64_MAX));
    assert_int_equal(browse.chosen, 2);
    es_watch_list_free(&list);
}

TEST(any_size_is_drawn)
{
    static const es_depth depths[] = {ES_DEPTH_ASCII, ES_DEPTH_256,
                                      ES_DEPTH_TRUE};
    es_watch_list list = {0};
    load(&list);
    for (int width = 1; width < 200; width += 3)
        for (int height = 1; height < 12; height++) {
            es_browse browse = browse_of(&list, width, height);
            browse.terminal.depth = depths[width % 3];
            browse.mode = height % 2 ? "live" : NULL;
            browse.keys = "";
            drawn(&browse);
        }
    es_watch_list_free(&list);
}

TEST_EACH(es_folder_make, es_folder_remove)
