/**
 * Tests writing and reading attention maps: their values are kept bit for bit,
 * they are returned in order, and a table of the same name from another program
 * is left unchanged.
 */
#include "analyzer/base/value.h"
#include "store/map.h"
#include "store/merge.h"
#include "tests/support/test.h"

#include <string.h>

enum { MOST = 32 };

/** The maps that es_reader_maps has passed to the handler. */
typedef struct found {
    int n, n_damaged;
    es_map maps[MOST];
    float values[MOST][ES_MAP_MAX * ES_MAP_MAX];
} found;

static es_status keep(void *user, const es_map *map, const float *values)
{
    found *f = user;
    assert_true(f->n < MOST);
    f->maps[f->n] = *map;
    f->n_damaged += !values;
    for (int64_t i = 0; i < map->size * map->size; i++)
        f->values[f->n][i] = values ? values[i] : es_missing();
    f->n++;
    return ES_OK;
}

static es_status walk(found *f, const char *path)
{
    AUTO(es_reader) reader = es_open_reader(path);
    memset(f, 0, sizeof *f);
    return es_reader_maps(reader, 0, keep, f);
}

static es_map map_of(int64_t step, int64_t layer, int64_t head, int64_t size)
{
    return (es_map){ES_PHASE_EVAL, step, layer, head, size, 4 * size};
}

/** Fills `values` with numbers, one NaN and one missing value. */
static void fill(float *values, const es_map *map)
{
    for (int64_t i = 0; i < map->size * map->size; i++)
        values[i] = (float)(map->step + 100 * map->layer + 10 * map->head + i);
    if (map->size > 1) {
        values[1] = es_missing();
        values[2] = NAN;
    }
}

static es_status put(es_writer *w, int64_t run, es_map map)
{
    float values[ES_MAP_MAX * ES_MAP_MAX];
    if (map.size > 0 && map.size <= ES_MAP_MAX)
        fill(values, &map);
    return es_writer_map(w, run, &map, values);
}

static int64_t open_run(es_writer **w, const char *path, const char *uuid,
                        int64_t resume)
{
    int64_t run;
    es_run_info info = es_run_of(3, 2);
    info.uuid = uuid;
    *w = es_open_writer(path);
    es_assert_ok(es_writer_run(*w, &run, &info, resume));
    return run;
}

static const char uuid[] = "01234567-89ab-4def-8123-456789abcdef";

static void write_maps(const char *path)
{
    es_writer *w;
    const int64_t run = open_run(&w, path, uuid, 0);
    es_assert_ok(put(w, run, map_of(20, 2, 1, 64)));
    es_assert_ok(put(w, run, map_of(10, 0, ES_MAP_MEAN, 3)));
    es_assert_ok(put(w, run, map_of(10, 0, 1, 3)));
    es_assert_ok(put(w, run, map_of(10, 2, 0, 1)));
    es_assert_ok(es_writer_close(w));
}

static void expect(const found *f, int i, es_map map)
{
    float want[ES_MAP_MAX * ES_MAP_MAX];
    fill(want, &map);
    const es_map *got = &f->maps[i];
    assert_true(got->phase == map.phase && got->step == map.step &&
                got->layer == map.layer && got->head == map.head &&
                got->size == map.size && got->n_ctx == map.n_ctx);
    es_assert_bits(f->values[i], want, (size_t)(map.size * map.size));
}

TEST(maps_are_read_bit_by_bit_in_order)
{
    static found f;
    write_maps(run_db);
    es_assert_ok(walk(&f, run_db));
    assert_int_equal(f.n, 4);
    expect(&f, 0, map_of(10, 0, ES_MAP_MEAN, 3));
    expect(&f, 1, map_of(10, 0, 1, 3));
    expect(&f, 2, map_of(10, 2, 0, 1));
    expect(&f, 3, map_of(20, 2, 1, 64));
    assert_string_equal(es_sqlite(run_db, "SELECT last_step FROM run"), "20");
}

TEST(a_run_without_maps_has_no_table_of_them)
{
    static found f;
    es_write_run(run_db, "x", 3);
    es_assert_ok(walk(&f, run_db));
    assert_int_equal(f.n, 0);
    assert_string_equal(
        es_sqlite(run_db, "SELECT count(*) FROM sqlite_schema WHERE name ="
                          " 'attention_map'"),
        "0");
}

TEST(maps_out_of_bounds_are_refused_and_change_nothing)
{
    static found f;
    es_writer *w;
    const int64_t run = open_run(&w, run_db, uuid, 0);
    const es_map bad[] = {map_of(-1, 0, 0, 2), map_of(1, 3, 0, 2),
                          map_of(1, -1, 0, 2), map_of(1, 0, 2, 2),
                          map_of(1, 0, -2, 2), map_of(1, 0, 0, 0),
                          map_of(1, 0, 0, 65)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        es_assert_status(ES_EARGUMENT, "attention map", put(w, run, bad[i]));
    es_map narrow = map_of(1, 0, 0, 8);
    narrow.n_ctx = 7;
    es_assert_status(ES_EARGUMENT, "for 7 tokens: ", put(w, run, narrow));
    es_assert_status(ES_EARGUMENT, "no run", put(w, 99, map_of(1, 0, 0, 2)));
    es_assert_ok(put(w, run, map_of(1, 0, 0, 2)));
    es_assert_ok(es_writer_close(w));
    es_assert_ok(walk(&f, run_db));
    assert_int_equal(f.n, 1);
}

TEST(a_second_map_of_a_place_replaces_the_first)
{
    static found f;
    es_writer *w;
    const int64_t run = open_run(&w, run_db, uuid, 0);
    es_assert_ok(put(w, run, map_of(5, 1, 1, 4)));
    es_assert_ok(put(w, run, map_of(5, 1, 1, 2)));
    es_assert_ok(es_writer_close(w));
    es_assert_ok(walk(&f, run_db));
    assert_int_equal(f.n, 1);
    expect(&f, 0, map_of(5, 1, 1, 2));
}

TEST(a_resumed_run_writes_its_later_maps_again)
{
    static found f;
    es_writer *w;
    write_maps(run_db);
    open_run(&w, run_db, uuid, 15);
    es_assert_ok(es_writer_close(w));
    es_assert_ok(walk(&f, run_db));
    assert_int_equal(f.n, 3);
    assert_int_equal(f.maps[2].step, 10);
}

TEST(a_merge_copies_maps)
{
    static found f;
    const char *to = es_folder_file(state, "to.db");
    size_t copied = 0, skipped = 0;
    write_maps(run_db);
    es_writer *w = es_open_writer(to);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_merge(w, r, &copied, &skipped, NULL));
    es_assert_ok(es_writer_close(w));
    es_assert_ok(walk(&f, to));
    assert_int_equal(f.n, 4);
    expect(&f, 3, map_of(20, 2, 1, 64));
}

TEST(a_changed_map_is_missing_and_counts_as_damaged)
{
    static const char *const changes[] = {
        "UPDATE attention_map SET size = 2 WHERE head = 1 AND step = 10",
        "UPDATE attention_map SET head = 0 WHERE head = 1 AND step = 10",
        "UPDATE attention_map SET ctx = 99 WHERE head = 1 AND step = 10",
        "UPDATE attention_map SET step = 11 WHERE head = 1 AND step = 10",
        "UPDATE attention_map SET value = x'00' WHERE head = 1 AND step = 10",
    };
    static found f;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *path = es_folder_file(state, "damaged.db");
        unlink(path);
        write_maps(path);
        es_sqlite(path, changes[i]);
        es_assert_ok(walk(&f, path));
        assert_int_equal(f.n, 4);
        assert_int_equal(f.n_damaged, 1);
    }
}

TEST(a_map_out_of_bounds_is_an_error_of_the_file)
{
    static const char *const changes[] = {
        "UPDATE attention_map SET layer = 3 WHERE step = 20",
        "UPDATE attention_map SET head = -2 WHERE step = 20",
        "UPDATE attention_map SET ctx = 1 WHERE step = 20",
        "UPDATE attention_map SET step = -4 WHERE step = 20",
    };
    static found f;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *path = es_folder_file(state, "bounds.db");
        unlink(path);
        write_maps(path);
        es_sqlite(path, changes[i]);
        es_assert_status(ES_EFORMAT, "out of bounds", walk(&f, path));
    }
}

TEST(a_foreign_table_of_the_same_name_is_left_alone)
{
    static found f;
    es_writer *w;
    es_write_run(run_db, "x", 3);
    es_sqlite(run_db, "CREATE TABLE attention_map(mine); INSERT INTO"
                      " attention_map VALUES (1)");
    es_assert_status(ES_EFORMAT, "attention_map has an unknown schema",
                     walk(&f, run_db));
    const int64_t run = open_run(&w, run_db, uuid, 0);
    es_assert_status(ES_EFORMAT, "rename or drop it",
                     put(w, run, map_of(1, 0, 0, 2)));
    es_assert_ok(es_writer_close(w));
    open_run(&w, run_db, uuid, 0);
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "SELECT * FROM attention_map"), "1");
}

TEST_EACH(es_folder_make, es_folder_remove)
