/** Checksums of samples: what a flipped bit does, and what a file without them
 *  is like. */
#include "store/crc32c.h"
#include "store/merge.h"
#include "tests/support/test.h"

/* --- CRC-32C ------------------------------------------------------------- */

/** RFC 3720, appendix B.4; and the check value of every catalogue. */
TEST(published_values_are_met)
{
    unsigned char bytes[32] = {0};
    assert_int_equal(es_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(es_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(es_crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(es_crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(es_crc32c(es_crc32c(0, bytes, 11), bytes + 11, 21),
                     0x46dd794e);
}

static uint32_t by_bits(const unsigned char *bytes, size_t n)
{
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

TEST(all_forms_agree_at_every_length)
{
    static const es_crc32c_form *const forms[] = {
        &es_crc32c_avx512, &es_crc32c_sse42, &es_crc32c_plain};
    static unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i * 31 + i / 7);
    for (int f = 0; f < 3; f++) {
        if (!forms[f]->is_supported()) {
            print_message("%s: this machine has it not\n", forms[f]->name);
            continue;
        }
        assert_true(es_crc32c_agrees(forms[f]));
        for (size_t n = 0; n < 4990; n += n < 900 ? 1 : 37)
            assert_int_equal(forms[f]->update(0, bytes + n % 9, n),
                             by_bits(bytes + n % 9, n));
    }
}

static bool always(void)
{
    return true;
}

/** As plain as can be, but for the byte 700 of a long text. */
static uint32_t wrong(uint32_t crc, const void *bytes, size_t n)
{
    crc = es_crc32c_plain.update(crc, bytes, n);
    return n > 700 ? crc ^ 1 : crc;
}

TEST(a_wrong_form_is_not_trusted)
{
    const es_crc32c_form form = {"wrong", wrong, always};
    assert_false(es_crc32c_agrees(&form));
}

/* --- damaged samples ----------------------------------------------------- */

/** The sample's values are missing, and it is the reader's only damaged one. */
static void assert_damaged(es_reader *r, const es_series *s, int64_t step)
{
    float values[6];
    int64_t found;
    es_damaged damaged;
    for (int i = 0; i < 2; i++) /* it counts once */
        es_assert_ok(es_reader_sample(r, s, step, values, s->n_values, &found));
    for (size_t i = 0; i < s->n_values; i++)
        assert_true(es_is_missing(values[i]));
    assert_int_equal(es_reader_n_damaged(r), 1);
    es_assert_ok(es_reader_damaged(r, 0, &damaged));
    assert_int_equal(damaged.run, 0);
    assert_int_equal(damaged.step, step);
    assert_string_equal(damaged.series, s->name);
    assert_int_equal(damaged.phase, s->phase);
    es_assert_status(ES_EARGUMENT, "index 1",
                     es_reader_damaged(r, 1, &damaged));
}

TEST(damaged_samples_are_missing)
{
    static const struct {
        const char *sql, *series;
        int64_t step;
    } cases[] = {
        {"UPDATE sample SET value = zeroblob(24) WHERE series_id = 1"
         " AND step = 8",
         "entropy", 8},
        {"UPDATE sample SET value = zeroblob(23) WHERE series_id = 1"
         " AND step = 8",
         "entropy", 8},
        {"UPDATE sample SET value = x'' WHERE series_id = 1 AND step = 8",
         "entropy", 8},
        {"UPDATE sample SET crc = crc + 1 WHERE series_id = 2 AND step = 0",
         "alpha", 0},
        /* right at another step; right in another series */
        {"UPDATE sample SET (crc, value) = (SELECT crc, value FROM sample"
         " WHERE series_id = 3 AND step = 6) WHERE series_id = 3 AND step = 38",
         "loss", 38},
        {"UPDATE sample SET (crc, value) = (SELECT crc, value FROM sample"
         " WHERE series_id = 4 AND step = 20) WHERE series_id = 3"
         " AND step = 20",
         "loss", 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.db", i);
        const char *path = es_folder_file(state, name);
        es_series s;
        es_write_run(path, "x", 20);
        assert_string_equal(es_sqlite(path, cases[i].sql), "");
        AUTO(es_reader) r = es_open_series(path, cases[i].series, &s);
        assert_true(es_reader_has_checksums(r));
        assert_int_equal(es_reader_n_damaged(r), 0);
        assert_damaged(r, &s, cases[i].step);
        es_assert_ok(es_reader_refresh(r));
        assert_int_equal(es_reader_n_damaged(r), 1);
    }
}

TEST(a_cursor_goes_on_behind_damage)
{
    es_series s;
    int64_t step, n = 0;
    const float *values;
    es_write_run(run_db, "x", 20);
    es_sqlite(run_db, "UPDATE sample SET crc = ~crc WHERE series_id = 1"
                      " AND step IN (0, 8, 38)");
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    AUTO(es_cursor) c = es_open_cursor(r, &s);
    for (; es_cursor_next(c, &step, &values) == ES_OK; n++)
        if (step == 0 || step == 8 || step == 38)
            assert_false(es_is_measured(values, 6));
        else
            es_assert_values(values, s.id, step, 6);
    assert_int_equal(n, 20);
    assert_int_equal(es_reader_n_damaged(r), 3);
}

/** Their names are part of it: what bears another is damaged. */
TEST(a_checksum_knows_run_and_series)
{
    static const struct {
        const char *sql;
        size_t n_damaged;
    } cases[] = {
        {"UPDATE run SET uuid = replace(uuid, '-4', '-5')", 62},
        {"UPDATE series SET name = 'beta' WHERE name = 'alpha'", 20},
        {"UPDATE series SET phase = 'eval' WHERE name = 'entropy'", 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        es_cursor *c = NULL;
        es_series s;
        int64_t step;
        const float *values;
        snprintf(name, sizeof name, "%zu.db", i);
        const char *path = es_folder_file(state, name);
        es_write_run(path, "x", 20);
        assert_string_equal(es_sqlite(path, cases[i].sql), "");
        es_reader *r = es_open_reader(path);
        es_assert_ok(es_cursor_open_run(&c, r, 0));
        while (es_cursor_next_of_run(c, &step, &values, &s) == ES_OK)
            continue;
        assert_int_equal(es_reader_n_damaged(r), cases[i].n_damaged);
        es_cursor_close(c);
        es_reader_close(r);
    }
}

TEST(damage_is_an_event)
{
    const es_event *events;
    size_t n;
    es_series s;
    float value;
    int64_t found;
    es_write_run(run_db, "x", 20); /* it has an event at step 20 */
    es_sqlite(run_db, "UPDATE sample SET crc = ~crc WHERE series_id = 3"
                      " AND step IN (8, 38)");
    AUTO(es_reader) r = es_open_series(run_db, "loss", &s);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 1);
    es_assert_ok(es_reader_sample(r, &s, 38, &value, 1, &found));
    es_assert_ok(es_reader_sample(r, &s, 8, &value, 1, &found));
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 3);
    assert_string_equal(events[0].kind, "damaged");
    assert_int_equal(events[0].step, 8);
    assert_int_equal(events[0].severity, ES_SEVERITY_ERROR);
    assert_non_null(strstr(events[0].message, "loss (train)"));
    assert_string_equal(events[1].kind, "test");
    assert_int_equal(events[2].step, 38);
}

/** What is copied is a missing value with a good checksum, and says why. */
TEST(merge_keeps_damage_apart)
{
    const char *from = es_folder_file(state, "from.db");
    const char *to = es_folder_file(state, "to.db");
    size_t copied = 0, skipped = 0, n;
    const es_event *events;
    float values[6];
    int64_t found;
    es_series s;
    es_write_run(from, "x", 20);
    es_sqlite(from, "UPDATE sample SET crc = ~crc WHERE series_id = 1"
                    " AND step = 8");
    AUTO(es_reader) r = es_open_reader(from);
    es_writer *w = es_open_writer(to);
    es_assert_ok(es_merge(w, r, &copied, &skipped, NULL));
    assert_int_equal(es_reader_n_damaged(r), 1);
    es_assert_ok(es_writer_close(w));
    es_reader_close(r);
    r = es_open_series(to, "entropy", &s);
    es_assert_ok(es_reader_sample(r, &s, 8, values, 6, &found));
    assert_false(es_is_measured(values, 6));
    es_assert_ok(es_reader_sample(r, &s, 10, values, 6, &found));
    es_assert_values(values, 1, 10, 6);
    assert_int_equal(es_reader_n_damaged(r), 0);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(n, 2);
    assert_string_equal(events[0].kind, "damaged");
    assert_int_equal(events[0].step, 8);
}

/* --- flipped bits -------------------------------------------------------- */

typedef struct contents {
    es_status status;
    uint64_t hash; /* of series, steps and values */
    size_t n_samples, n_damaged;
} contents;

static void add(uint64_t *hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        *hash = (*hash ^ at[i]) * UINT64_C(0x100000001b3);
}

static void read_run(contents *to, es_reader *r, size_t run)
{
    AUTO(es_cursor) c = NULL;
    es_series s;
    int64_t step;
    const float *values;
    to->status = es_cursor_open_run(&c, r, run);
    while (to->status == ES_OK && (to->status = es_cursor_next_of_run(
                                       c, &step, &values, &s)) == ES_OK) {
        add(&to->hash, s.name, strlen(s.name));
        add(&to->hash, &s.phase, sizeof s.phase);
        add(&to->hash, &step, sizeof step);
        add(&to->hash, values, s.n_values * sizeof *values);
        to->n_samples++;
    }
}

static contents read_file(const char *path)
{
    contents all = {.hash = 1};
    es_reader *r = NULL;
    all.status = es_reader_open(&r, path);
    for (size_t i = 0; all.status >= ES_OK && i < es_reader_n_runs(r); i++)
        read_run(&all, r, i);
    if (all.status >= ES_OK)
        all.n_damaged = es_reader_n_damaged(r);
    es_reader_close(r);
    return all;
}

/**
 * A bit anywhere in the file: no sample is ever other than it was without a
 * word. That one is gone, which no checksum of samples can see, is rare: the
 * row of a series says it is another run's, or the first entry of a series in
 * the index says it is another's.
 */
TEST(a_flipped_bit_never_changes_a_sample)
{
    size_t n, n_flips = 0, n_changed = 0, n_gone = 0, n_damaged = 0;
    es_write_run(run_db, "x", 120);
    unsigned char *bytes = es_file_read(run_db, &n);
    const contents sound = read_file(run_db);
    assert_int_equal(sound.n_samples, 372);
    FILE *file = fopen(run_db, "r+b");
    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    for (size_t bit = 0; bit < 8 * n; bit += 421, n_flips++) {
        int flipped = bytes[bit / 8] ^ 1 << bit % 8;
        fseek(file, (long)(bit / 8), SEEK_SET);
        fputc(flipped, file);
        const contents now = read_file(run_db);
        fseek(file, (long)(bit / 8), SEEK_SET);
        fputc(bytes[bit / 8], file);
        n_damaged += now.status >= ES_OK && now.n_damaged > 0;
        if (now.status < ES_OK || now.n_damaged || now.hash == sound.hash)
            continue;
        n_gone += now.n_samples < sound.n_samples;
        n_changed += now.n_samples >= sound.n_samples;
    }
    print_message("%zu flips: %zu damaged, %zu changed, %zu gone\n", n_flips,
                  n_damaged, n_changed, n_gone);
    assert_true(n_flips > 500 && n_damaged > n_flips / 10);
    assert_int_equal(n_changed, 0);
    assert_true(n_gone <= n_flips / 200);
    fclose(file);
    free(bytes);
}

/* --- schema 1 ------------------------------------------------------------ */

TEST(schema_1_has_none)
{
    es_series s;
    float values[6];
    int64_t found;
    es_write_run(run_db, "x", 20);
    const contents two = read_file(run_db);
    es_make_schema_1(run_db);
    const contents one = read_file(run_db);
    assert_int_equal(one.status, ES_DONE);
    assert_true(one.hash == two.hash);
    es_sqlite(run_db,
              "UPDATE sample SET value = zeroblob(24) WHERE series_id = 1"
              " AND step = 8");
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    assert_false(es_reader_has_checksums(r));
    es_assert_ok(es_reader_sample(r, &s, 8, values, 6, &found));
    assert_true(values[0] == 0);
    assert_int_equal(es_reader_n_damaged(r), 0);
}

/** The table and the version have to fit. */
TEST(half_a_schema_is_refused)
{
    es_reader *r = NULL;
    es_write_run(run_db, "x", 1);
    es_sqlite(run_db, "PRAGMA user_version = 1");
    es_assert_status(ES_EFORMAT, "its table sample differs",
                     es_reader_open(&r, run_db));
    es_make_schema_1(run_db);
    es_sqlite(run_db, "PRAGMA user_version = 2");
    es_assert_status(ES_EFORMAT, "its table sample differs",
                     es_reader_open(&r, run_db));
}

TEST(a_run_of_schema_1_can_be_continued)
{
    es_write_run(run_db, "x", 20);
    es_make_schema_1(run_db);
    es_write_run(run_db, "y", 20);
    assert_string_equal(es_sqlite(run_db, "PRAGMA user_version"), "1");
    const contents all = read_file(run_db);
    assert_int_equal(all.status, ES_DONE);
    assert_int_equal(all.n_samples, 2 * 62);
}

TEST_EACH(es_folder_make, es_folder_remove)
