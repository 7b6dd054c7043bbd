/**
 * Tests that fragments which do not fit together, and invalid descriptions of
 * fragments, are refused.
 */

#include "tests/support/fragments.h"
#include "tests/support/test.h"

#include <stdio.h>

#define L ES_RANKS_L
#define H ES_RANKS_H

static es_status join_two(void **state)
{
    return es_rank_join(state, (const char *[]){"b.db", "a.db"}, 2);
}

/* --- fragments that do not fit -------------------------------------------- */

static void write_empty(void **state, const es_rank_file *f)
{
    es_writer *w;
    int64_t run = es_rank_open(&w, state, f);
    es_rank_close(w, run);
}

TEST(fragments_that_do_not_fit_are_refused)
{
    const struct {
        es_rank_file b;
        const char *words;
    } cases[] = {
        {{.ranks = "0"}, "rank 0 of run " ES_RANKS_UUID " is also in"},
        {{.ranks = "1", .uuid = "11234567-89ab-4def-8123-456789abcdef"},
         "a.db belongs to run"},
        {{.ranks = "1", .world = 3}, "a.db has 2 ranks for the same run"},
        {{.ranks = "1", .n_layer = L + 1}, "overlap those of"},
        {{.ranks = "1", .first_layer = 1}, "layers 1 to 3, heads 0 to 1"},
        {{.ranks = "1", .first_head = 1}, "hold the same heads"},
        {{.ranks = "1", .first_layer = 4095}, "4098 layers"},
    };
    write_empty(state, &(es_rank_file){"a.db", .ranks = "0"});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_rank_file b = cases[i].b;
        b.name = "b.db";
        write_empty(state, &b);
        const es_status status = i == 6 ? ES_EARGUMENT : ES_EFORMAT;
        es_assert_status(status, cases[i].words, join_two(state));
        remove(es_folder_file(state, "b.db"));
        es_reader *r = es_open_reader(es_folder_file(state, "all.db"));
        assert_int_equal(es_reader_n_runs(r), 0);
        es_reader_close(r);
    }
}

TEST(series_of_different_shapes_are_refused)
{
    const float values[L * H] = {1, 2, 3, 4, 5, 6};
    es_writer *w;
    int64_t run =
        es_rank_open(&w, state, &(es_rank_file){"a.db", .ranks = "0"});
    es_rank_put(w, run, "gain", ES_PHASE_TRAIN, 1, values, L);
    es_rank_close(w, run);
    run = es_rank_open(&w, state, &(es_rank_file){"b.db", .ranks = "1"});
    es_rank_put(w, run, "gain", ES_PHASE_TRAIN, 1, values, L * H);
    es_rank_close(w, run);
    es_assert_status(ES_EFORMAT, "series gain has the shape head",
                     join_two(state));
}

TEST(invalid_descriptions_of_fragments_are_refused)
{
    const struct {
        const char *world, *ranks, *layer,
            *words; /* text that the error message must contain; NULL if no
                       error is expected, because the run does not count as a
                       fragment */
    } cases[] = {
        {"2", "[0]", "[]", NULL},
        {"1e9", "[1]", "0", NULL},
        {"2", "1", "0", "\"ranks\" is empty"},
        {"2", "[]", "0", "\"ranks\" is empty"},
        {"2", "[0, 1, 1]", "0", "longer than \"world\""},
        {"2", "[2]", "0", "\"ranks\" has an entry out of range"},
        {"2", "[\"x\"]", "0", "\"ranks\" has an entry out of range"},
        {"2", "[1, 1]", "0", "not in ascending order"},
        {"99999999", "[1]", "0", "\"world\" is out of range"},
        {"0", "[]", "0", "\"world\" is out of range"},
        {"2", "[1]", "-1", "\"layer\" or \"head\" is out of range"},
        {"2", "[1]", "4096", "\"layer\" or \"head\" is out of range"},
    };
    const es_rank_file f = {"a.db", .ranks = ""};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[256];
        es_writer *w;
        es_fragment found;
        snprintf(config, sizeof config,
                 "{\"fragment\": {\"world\": %s, \"ranks\": %s, \"layer\": %s, "
                 "\"head\": 0}}",
                 cases[i].world, cases[i].ranks, cases[i].layer);
        const int64_t run = es_rank_open_config(&w, state, &f, config);
        es_rank_close(w, run);
        es_reader *r = es_open_reader(es_folder_file(state, "a.db"));
        if (cases[i].words)
            es_assert_status(ES_EFORMAT, cases[i].words,
                             es_fragment_read(&found, r, 0));
        else
            assert_int_equal(es_fragment_read(&found, r, 0), ES_DONE);
        es_reader_close(r);
        remove(es_folder_file(state, "a.db"));
    }
}

TEST(other_configurations_do_not_describe_fragments)
{
    const char *configs[] = {NULL, "{}", "[1]", "{\"fragment\": 3}",
                             "{\"fragment\": {\"world\": 2}}"};
    const es_rank_file f = {"a.db", .ranks = ""};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        es_writer *w;
        es_fragment found;
        const int64_t run = es_rank_open_config(&w, state, &f, configs[i]);
        es_rank_close(w, run);
        es_reader *r = es_open_reader(es_folder_file(state, "a.db"));
        assert_int_equal(es_fragment_read(&found, r, 0), ES_DONE);
        es_reader_close(r);
        remove(es_folder_file(state, "a.db"));
    }
}

TEST_EACH(es_folder_make, es_folder_remove)
