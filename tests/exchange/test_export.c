/* Checks that exporting a run and importing the result preserves every bit of
   its samples. */
#include "analyzer/base/value.h"
#include "cli/exchange/export.h"
#include "cli/exchange/import_write.h"
#include "store/writer.h"
#include "tests/support/chance.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/run_files.h"
#include "tests/support/same_run.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/test_export.XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"a.db", "b.db", "a.csv", "a.jsonl",
                                        "a.tfevents"};
    for (size_t i = 0; i < 5; i++)
        unlink(names[i]);
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

static uint32_t next_random(uint32_t *state)
{
    uint32_t bits = congruence_bits(state);
    return bits >> 16 | bits << 16;
}

/* Returns a float with random bits, often a special value. */
static float random_value(uint32_t *random)
{
    static const uint32_t special[] = {
        ES_MISSING_BITS, 0x7fc00000, 0x7fc00001,
        0xffc00000,      0x7f800001, 0xffffffff,
        0x7f800000,      0xff800000, 0,
        0x80000000,      1,          0x80000001,
        0x007fffff,      0x7f7fffff, 0xff7fffff,
    };
    uint32_t bits = next_random(random);
    if (next_random(random) % 3 == 0)
        bits = special[next_random(random) % 15];
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Series whose names need escapes in a CSV, a comment line or a spreadsheet. */
static const struct {
    const char *name, *unit;
    es_shape shape;
    es_phase phase;
} table[] = {
    {"entropy", "nats", ES_SHAPE_HEAD, ES_PHASE_TRAIN},
    {"entropy", "nats", ES_SHAPE_HEAD, ES_PHASE_EVAL},
    {"loss", "nats", ES_SHAPE_RUN, ES_PHASE_TRAIN},
    {"loss", "nats", ES_SHAPE_RUN, ES_PHASE_EVAL},
    {"slope", "", ES_SHAPE_LAYER, ES_PHASE_TRAIN},
    {"=1+2", "a b", ES_SHAPE_RUN, ES_PHASE_TRAIN},
    {"eval:x", "-", ES_SHAPE_LAYER, ES_PHASE_TRAIN},
    {"a,\"b\";\\x41 \n\t\x1b[31m\x7f\xc2\x9b\xff", "\n", ES_SHAPE_HEAD,
     ES_PHASE_EVAL},
    {" blank %41/layer_1/head_0 ", "\xc3\xa9", ES_SHAPE_RUN, ES_PHASE_EVAL},
    {"never", "", ES_SHAPE_HEAD, ES_PHASE_TRAIN},
};
enum { N_SERIES = sizeof table / sizeof table[0], NEVER = N_SERIES - 1 };

static void write_run(const es_run_info *info, uint32_t seed)
{
    es_writer *writer = NULL;
    int64_t run, series[N_SERIES], step = 0;
    uint32_t random = seed;
    size_t most = (size_t)(info->n_layer * info->n_head);
    float *values = malloc(most * sizeof *values);
    assert_non_null(values);
    unlink("a.db");
    assert_int_equal(es_writer_open(&writer, "a.db", ES_FAST), ES_OK);
    assert_int_equal(es_writer_run(writer, &run, info, 0), ES_OK);
    for (int i = 0; i < N_SERIES; i++)
        assert_int_equal(es_writer_series(writer, &series[i], run,
                                          table[i].name, table[i].shape,
                                          table[i].phase, table[i].unit),
                         ES_OK);
    assert_int_equal(es_writer_begin(writer), ES_OK);
    for (int k = 0; k < 40; k++) {
        step += 1 + next_random(&random) % 1000;
        for (int i = 0; i < NEVER; i++) {
            size_t n =
                es_shape_values(table[i].shape, info->n_layer, info->n_head);
            if (next_random(&random) % 4 == 0)
                continue;
            /* One sample in eight contains only missing values. */
            bool none = next_random(&random) % 8 == 0;
            for (size_t v = 0; v < n; v++)
                values[v] = none ? es_missing() : random_value(&random);
            assert_int_equal(
                es_writer_sample(writer, series[i], step, values, n), ES_OK);
        }
    }
    assert_int_equal(es_writer_commit(writer), ES_OK);
    assert_int_equal(es_writer_end_run(writer, run, ES_RUN_FAILED), ES_OK);
    assert_int_equal(es_writer_close(writer), ES_OK);
    free(values);
}

static void export_as(const char *path,
                      es_status (*print)(FILE *, es_reader *, size_t,
                                         const es_export_options *))
{
    es_reader *reader = NULL;
    es_export_options all = {0};
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(es_reader_open(&reader, "a.db"), ES_OK);
    assert_int_equal(print(stream, reader, 0, &all), ES_OK);
    assert_int_equal(fclose(stream), 0);
    es_reader_close(reader);
}

static void import_again(const char *path)
{
    es_imported about;
    es_import_options options = {.series = "entropy"};
    es_status status =
        es_import_file(&about, path, "b.db", NULL, &options, true);
    if (status != ES_OK)
        print_message("# %s\n", es_message());
    assert_int_equal(status, ES_OK);
}

static size_t assert_same_run(void)
{
    es_reader *x = NULL, *y = NULL;
    assert_int_equal(es_reader_open(&x, "a.db"), ES_OK);
    assert_int_equal(es_reader_open(&y, "b.db"), ES_OK);
    assert_int_equal(es_reader_n_series(x, 0), N_SERIES);
    es_assert_same_info(x, 0, y, 0);
    size_t n = es_assert_same_samples(x, 0, y, 0);
    es_reader_close(x);
    es_reader_close(y);
    return n;
}

static const es_run_info infos[] = {
    {.name = "a \\ name\nwith \x1b[31m lines # : ",
     .arch = "SM+LN+G",
     .family = "gpt2",
     .n_layer = 3,
     .n_head = 5,
     .d_model = 40,
     .ctx = 17,
     .vocab = 256,
     .batch = 4,
     .seed = -1,
     .config = "{\"steps\": 9,\n \"a\\\"b\": \"\\u00e9 \"}",
     .program = "some program 1.0",
     .host = "h"},
    {.name = "",
     .n_layer = 1,
     .n_head = 1,
     .d_model = ES_UNKNOWN,
     .ctx = ES_UNKNOWN,
     .vocab = ES_UNKNOWN,
     .batch = ES_UNKNOWN,
     .seed = ES_UNKNOWN,
     .program = "p"},
    {.name = "tall",
     .n_layer = 13,
     .n_head = 2,
     .d_model = ES_UNKNOWN,
     .ctx = 1,
     .vocab = ES_UNKNOWN,
     .batch = ES_UNKNOWN,
     .seed = 0,
     .program = "p"},
};

static void test_export__an_export_is_imported_bit_for_bit(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        write_run(&infos[seed % 3], seed);
        export_as("a.csv", es_export_csv);
        import_again("a.csv");
        assert_true(assert_same_run() > 200);
    }
}

/* Compares the bits of all samples that have a measured value; returns the
   number of these samples. */
static size_t assert_measured_samples(es_reader *x, es_reader *y)
{
    size_t n_samples = 0;
    for (size_t i = 0; i < es_reader_n_series(x, 0); i++) {
        es_series a, b;
        es_cursor *cursor = NULL;
        int64_t step, found;
        const float *values;
        float same[64];
        es_assert_ok(es_reader_series(x, 0, i, &a));
        if (a.first_step == ES_UNKNOWN)
            continue;
        es_assert_ok(es_reader_find(y, 0, a.name, a.phase, &b));
        assert_int_equal(a.shape, b.shape);
        assert_string_equal(a.unit, b.unit);
        es_assert_ok(
            es_cursor_open(&cursor, x, &a, ES_STEP_FIRST, ES_STEP_LAST));
        while (es_cursor_next(cursor, &step, &values) == ES_OK) {
            if (!es_is_measured(values, a.n_values))
                continue;
            es_assert_ok(
                es_reader_sample(y, &b, step, same, a.n_values, &found));
            es_assert_bits(values, same, a.n_values);
            n_samples++;
        }
        es_cursor_close(cursor);
    }
    return n_samples;
}

/* A TensorBoard event file has no scalar for a sample that contains only
   missing values. Import restores every bit of all other samples. */
static void test_export__events_are_imported_bit_for_bit(void **state)
{
    (void)state;
    for (uint32_t seed = 21; seed <= 29; seed++) {
        es_reader *x = NULL, *y = NULL;
        write_run(&infos[seed % 3], seed);
        export_as("a.tfevents", es_export_events);
        import_again("a.tfevents");
        es_assert_ok(es_reader_open(&x, "a.db"));
        es_assert_ok(es_reader_open(&y, "b.db"));
        es_assert_same_info(x, 0, y, 0);
        assert_true(assert_measured_samples(x, y) > 150);
        es_reader_close(x);
        es_reader_close(y);
    }
}

/* Compares a JSON value with a float. */
static void assert_json_number(const json_t *json, float value)
{
    if (es_is_missing(value))
        assert_true(json_is_null(json));
    else if (isfinite(value))
        assert_true((float)json_number_value(json) == value);
    else if (isinf(value))
        assert_string_equal(json_string_value(json),
                            value > 0 ? "inf" : "-inf");
    else
        assert_memory_equal(json_string_value(json), "NaN", 3);
}

static void assert_json_sample(const json_t *line, es_reader *reader)
{
    float values[64];
    int64_t found;
    es_series series;
    const char *phase = json_string_value(json_object_get(line, "phase"));
    const char *name = json_string_value(json_object_get(line, "series"));
    json_t *value = json_object_get(line, "value");
    es_status status = ES_ENOTFOUND;
    /* The only name that is not valid UTF-8 is table[7].name, which begins with
       'a'. Its invalid bytes are replaced in JSON, so recognise the name by its
       first letter. */
    for (size_t i = 0; status != ES_OK && i < N_SERIES; i++) {
        if (strcmp(name, table[i].name) == 0 || name[0] == 'a')
            status = es_reader_find(
                reader, 0, name[0] == 'a' ? table[7].name : table[i].name,
                phase[0] == 'e' ? ES_PHASE_EVAL : ES_PHASE_TRAIN, &series);
    }
    assert_int_equal(status, ES_OK);
    assert_int_equal(
        es_reader_sample(reader, &series,
                         json_integer_value(json_object_get(line, "step")),
                         values, series.n_values, &found),
        ES_OK);
    if (series.shape == ES_SHAPE_RUN)
        assert_json_number(value, values[0]);
    for (size_t i = 0; series.shape == ES_SHAPE_LAYER && i < 3; i++)
        assert_json_number(json_array_get(value, i), values[i]);
    for (size_t i = 0; series.shape == ES_SHAPE_HEAD && i < 15; i++)
        assert_json_number(json_array_get(json_array_get(value, i / 5), i % 5),
                           values[i]);
}

static void test_export__json_lines_have_every_value(void **state)
{
    (void)state;
    char line[16384];
    es_reader *reader = NULL;
    size_t n = 0;
    write_run(&infos[0], 99);
    export_as("a.jsonl", es_export_jsonl);
    FILE *stream = fopen("a.jsonl", "r");
    assert_non_null(stream);
    assert_int_equal(es_reader_open(&reader, "a.db"), ES_OK);
    for (; fgets(line, sizeof line, stream); n++) {
        json_error_t error;
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        assert_non_null(json);
        if (n) {
            assert_json_sample(json, reader);
        } else {
            json_t *run = json_object_get(json, "run");
            assert_string_equal(json_string_value(json_object_get(run, "name")),
                                infos[0].name);
            assert_int_equal(json_array_size(json_object_get(json, "series")),
                             N_SERIES);
        }
        json_decref(json);
    }
    assert_true(n > 200);
    es_reader_close(reader);
    fclose(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export__an_export_is_imported_bit_for_bit),
        cmocka_unit_test(test_export__events_are_imported_bit_for_bit),
        cmocka_unit_test(test_export__json_lines_have_every_value),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
