/**
 * Tests the checksums of samples and rows: flipped bits are detected, and files
 * without checksums can be used.
 */
#include "store/crc32c.h"
#include "store/merge.h"
#include "tests/support/test.h"

/* --- CRC-32C ------------------------------------------------------------- */

/**
 * The expected values are those of RFC 3720, appendix B.4, and the commonly
 * used check value for "123456789".
 */
TEST(published_checksums_are_computed)
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

TEST(all_implementations_agree_at_every_length)
{
    static const es_crc32c_form *const forms[] = {
        &es_crc32c_avx512, &es_crc32c_sse42, &es_crc32c_plain};
    static unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i * 31 + i / 7);
    for (int f = 0; f < 3; f++) {
        if (!forms[f]->is_supported()) {
            print_message("%s: not available on this machine\n",
                          forms[f]->name);
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

/**
 * A wrong implementation, which agrees with the portable implementation only up
 * to 700 bytes.
 */
static uint32_t wrong(uint32_t crc, const void *bytes, size_t n)
{
    crc = es_crc32c_plain.update(crc, bytes, n);
    return n > 700 ? crc ^ 1 : crc;
}

TEST(a_wrong_implementation_is_rejected)
{
    const es_crc32c_form form = {"wrong", wrong, always};
    assert_false(es_crc32c_agrees(&form));
}

/* --- damaged samples ----------------------------------------------------- */

/**
 * Fails unless the sample's values are missing, and no other sample is damaged.
 */
static void assert_damaged(es_reader *r, const es_series *s, int64_t step)
{
    float values[6];
    int64_t found;
    es_damaged damaged;
    for (int i = 0; i < 2; i++) /* reads twice, because a second read must not
                                   count the damage again */
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
        /* copies a checksum that is valid only at another step or in another
         * series */
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

TEST(a_cursor_continues_after_damage)
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

/**
 * The checksum covers uuid, name and phase. If one of them is changed, all
 * samples of the series are damaged.
 */
TEST(a_checksum_covers_run_and_series)
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
        /* the changed row counts as damaged, too */
        assert_int_equal(es_reader_n_damaged(r), cases[i].n_damaged + 1);
        es_cursor_close(c);
        es_reader_close(r);
    }
}

TEST(damage_is_reported_as_an_event)
{
    const es_event *events;
    size_t n;
    es_series s;
    float value;
    int64_t found;
    es_write_run(run_db, "x", 20); /* writes an event at step 20 */
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

/**
 * Merging copies a damaged sample as missing values with a valid checksum, and
 * adds an event that reports the damage.
 */
TEST(a_merge_copies_damaged_samples_as_missing)
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

/* --- rows ---------------------------------------------------------------- */

/**
 * A row that was edited, or damaged by a flipped bit, is returned as it is and
 * reported as damaged.
 */
TEST(a_changed_row_counts_as_damaged)
{
    static const struct {
        const char *sql;
        es_row_table table;
        int64_t row;
    } cases[] = {
        {"UPDATE run SET name = 'renamed'", ES_ROW_RUN, 1},
        {"UPDATE run SET config = '{\"steps\": 5001}'", ES_ROW_RUN, 1},
        {"UPDATE run SET ctx = NULL", ES_ROW_RUN, 1},
        {"UPDATE run SET last_step = 37", ES_ROW_RUN, 1},
        {"UPDATE run SET status = 'running'", ES_ROW_RUN, 1},
        {"UPDATE series SET unit = 'bits' WHERE series_id = 2", ES_ROW_SERIES,
         2},
        {"DELETE FROM sample WHERE series_id = 4; DELETE FROM series WHERE "
         "series_id = 4",
         ES_ROW_SERIES, 4},
        {"UPDATE event SET message = 'quarter-way'", ES_ROW_EVENT, 1},
        {"DELETE FROM event", ES_ROW_EVENT, 1},
        {"UPDATE row_checksum SET crc = crc + 1 WHERE of_table = 'run'",
         ES_ROW_RUN, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        const es_event *events;
        size_t n;
        es_damaged damaged;
        es_run_info info;
        snprintf(name, sizeof name, "row%zu.db", i);
        const char *path = es_folder_file(state, name);
        es_write_run(path, "x", 20);
        assert_string_equal(es_sqlite(path, cases[i].sql), "");
        AUTO(es_reader) r = es_open_reader(path);
        es_assert_ok(es_reader_run(r, 0, &info));
        assert_string_equal(info.name, i ? "x" : "renamed");
        es_assert_ok(es_reader_events(r, 0, &events, &n));
        assert_int_equal(es_reader_n_damaged(r), 1);
        es_assert_ok(es_reader_damaged(r, 0, &damaged));
        assert_int_equal(damaged.table, cases[i].table);
        assert_int_equal(damaged.row, cases[i].row);
        assert_string_equal(damaged.series, "");
        size_t n_said = 0;
        for (size_t k = 0; k < n; k++)
            n_said += strcmp(events[k].kind, "damaged") == 0;
        assert_int_equal(n_said, 1);
        es_assert_ok(es_reader_refresh(r)); /* reading the row again must not
                                               count it again */
        assert_int_equal(es_reader_n_damaged(r), 1);
        es_reader_close(r);
        es_sqlite(path,
                  "DELETE FROM row_checksum"); /* accepts the edited row */
        r = es_open_reader(path);
        es_assert_ok(es_reader_events(r, 0, &events, &n));
        assert_int_equal(es_reader_n_damaged(r), 0);
    }
}

/**
 * Every operation of the library keeps the checksums of rows valid: writing a
 * run, ending it once or twice, resuming it, and merging it.
 */
TEST(rows_of_the_library_match_their_checksums)
{
    const char *to = es_folder_file(state, "to.db");
    const es_event *events;
    size_t n, copied = 0, skipped = 0;
    int64_t run, loss;
    es_write_run(run_db, "x", 20);
    es_run_info info = es_run_of(3, 2);
    char uuid[ES_UUID_SIZE];
    snprintf(uuid, sizeof uuid, "%s",
             es_sqlite(run_db, "SELECT uuid FROM run"));
    info.uuid = uuid;
    info.config = "{}";
    es_writer *w = es_open_writer(run_db);
    es_reader *r = NULL;
    for (int stage = 0; stage < 4; stage++) {
        if (stage == 0)
            es_assert_ok(es_writer_run(w, &run, &info, 10));
        if (stage == 1) {
            es_assert_ok(es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                                          ES_PHASE_TRAIN, NULL));
            es_assert_ok(es_write_values(w, loss, 30, 1));
        }
        if (stage == 2)
            es_assert_ok(es_writer_end_run(w, run, ES_RUN_FAILED));
        if (stage == 3) /* writes a sample after the end of the run */
            es_assert_ok(es_write_values(w, loss, 32, 1));
        r = es_open_reader(run_db);
        es_assert_ok(es_reader_events(r, 0, &events, &n));
        assert_int_equal(es_reader_n_damaged(r), 0);
        es_reader_close(r);
    }
    es_assert_ok(es_writer_close(w));
    assert_string_equal(es_sqlite(run_db, "SELECT count(*) FROM row_checksum"
                                          " WHERE of_table = 'run'"),
                        "1");
    r = es_open_reader(run_db);
    w = es_open_writer(to);
    es_assert_ok(es_merge(w, r, &copied, &skipped, NULL));
    es_assert_ok(es_writer_close(w));
    es_reader_close(r);
    r = es_open_reader(to);
    es_assert_ok(es_reader_events(r, 0, &events, &n));
    assert_int_equal(es_reader_n_damaged(r), 0);
    es_reader_close(r);
    assert_string_equal(
        es_sqlite(to, "SELECT group_concat(of_table || id) FROM (SELECT * FROM"
                      " row_checksum ORDER BY of_table, id)"),
        "run1,series1,series2,series3,series4");
}

/**
 * A file without the table row_checksum can be read and resumed, and the table
 * is not added.
 */
TEST(a_file_without_row_checksums_gets_none)
{
    es_write_run(run_db, "x", 20);
    es_sqlite(run_db, "DROP TABLE row_checksum; UPDATE run SET name = 'y'");
    es_write_run(run_db, "z", 20);
    AUTO(es_reader) r = es_open_reader(run_db);
    assert_int_equal(es_reader_n_runs(r), 2);
    assert_int_equal(es_reader_n_damaged(r), 0);
    es_reader_close(r);
    r = NULL;
    es_sqlite(run_db, "CREATE TABLE row_checksum(x)");
    es_assert_status(ES_EFORMAT, "its table row_checksum differs",
                     es_reader_open(&r, run_db));
}

/* --- flipped bits -------------------------------------------------------- */

typedef struct contents {
    es_status status;
    uint64_t hash; /* hash of the series, steps and values of all samples */
    uint64_t rows; /* hash of the rows of the tables run, series and event */
    size_t n_samples, n_damaged;
} contents;

static void add(uint64_t *hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        *hash = (*hash ^ at[i]) * UINT64_C(0x100000001b3);
}

static void add_text(uint64_t *hash, const char *text)
{
    add(hash, text ? text : "(none)", text ? strlen(text) + 1 : 6);
}

/**
 * Hashes the rows of a run, except the events that the reader has added to
 * report damage.
 */
static void read_rows(contents *to, es_reader *r, size_t run)
{
    es_run_info info;
    es_series s;
    const es_event *events = NULL;
    size_t n = 0;
    to->status = es_reader_run(r, run, &info);
    if (to->status < 0)
        return;
    const char *texts[] = {info.uuid,   info.name,       info.arch,
                           info.family, info.config,     info.program,
                           info.host,   info.started_at, info.ended_at};
    const int64_t numbers[] = {info.n_layer, info.n_head, info.d_model,
                               info.ctx,     info.vocab,  info.batch,
                               info.seed,    info.status, info.last_step};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_text(&to->rows, texts[i]);
    add(&to->rows, numbers, sizeof numbers);
    for (size_t i = 0; i < es_reader_n_series(r, run); i++) {
        if ((to->status = es_reader_series(r, run, i, &s)) < 0)
            return;
        add_text(&to->rows, s.name);
        add_text(&to->rows, s.unit);
        add(&to->rows, &s.shape, sizeof s.shape);
        add(&to->rows, &s.phase, sizeof s.phase);
    }
    to->status = es_reader_events(r, run, &events, &n);
    for (size_t i = 0; i < n && to->status == ES_OK; i++) {
        const es_event *e = &events[i];
        const int64_t places[] = {e->step, e->severity, e->layer, e->head};
        if (strcmp(e->kind, "damaged") == 0)
            continue;
        add(&to->rows, places, sizeof places);
        add_text(&to->rows, e->kind);
        add_text(&to->rows, e->message);
        add_text(&to->rows, e->data);
        add_text(&to->rows, e->at);
        add_text(&to->rows, e->dedupe);
    }
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
    contents all = {.hash = 1, .rows = 1};
    es_reader *r = NULL;
    all.status = es_reader_open(&r, path);
    for (size_t i = 0; all.status >= ES_OK && i < es_reader_n_runs(r); i++) {
        read_rows(&all, r, i);
        if (all.status >= ES_OK)
            read_run(&all, r, i);
    }
    if (all.status >= ES_OK)
        all.n_damaged = es_reader_n_damaged(r);
    es_reader_close(r);
    return all;
}

/**
 * Flips bits in the whole file. No sample, and no field of a run, series or
 * event, may change unless the change is reported. Checksums of samples cannot
 * detect samples that disappear. This must be rare. It happens if a flip
 * assigns the first index entry of a series to another series.
 */
TEST(a_flipped_bit_never_changes_what_is_read)
{
    size_t n, n_flips = 0, n_changed = 0, n_gone = 0, n_damaged = 0;
    size_t n_rows = 0, n_refused = 0, n_same = 0;
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
        n_refused += now.status < ES_OK;
        n_damaged += now.status >= ES_OK && now.n_damaged > 0;
        if (now.status < ES_OK || now.n_damaged)
            continue;
        n_rows += now.rows != sound.rows;
        n_gone += now.n_samples < sound.n_samples;
        n_changed += now.hash != sound.hash && now.n_samples >= sound.n_samples;
        n_same += now.rows == sound.rows && now.hash == sound.hash;
    }
    print_message(
        "%zu flips: %zu refused, %zu damaged; undetected: %zu without "
        "effect, %zu changed rows, %zu changed samples, %zu lost samples\n",
        n_flips, n_refused, n_damaged, n_same, n_rows, n_changed, n_gone);
    assert_true(n_flips > 500 && n_damaged > n_flips / 10);
    assert_int_equal(n_rows, 0);
    assert_int_equal(n_changed, 0);
    assert_true(n_gone <= n_flips / 200);
    fclose(file);
    free(bytes);
}

/** Returns the offset of a table's first page. */
static size_t page_of(const char *path, const char *table)
{
    char sql[96];
    snprintf(
        sql, sizeof sql,
        "SELECT (rootpage - 1) * 4096 FROM sqlite_schema WHERE name = '%s'",
        table);
    return (size_t)strtoull(es_sqlite(path, sql), NULL, 10);
}

/**
 * Flips a bit in every nonzero byte of the small tables. The change must be
 * refused or reported, unless it is in bytes that are not read, such as the
 * names of series, which SQLite reads from the index.
 */
TEST(a_flipped_bit_in_a_small_table_is_detected)
{
    static const char *const tables[] = {"run", "series", "event",
                                         "row_checksum"};
    size_t n, n_flips = 0, n_seen = 0, n_same = 0;
    es_write_run(run_db, "a run with a name", 2);
    unsigned char *bytes = es_file_read(run_db, &n);
    const contents sound = read_file(run_db);
    assert_int_equal(sound.n_damaged, 0);
    FILE *file = fopen(run_db, "r+b");
    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    for (size_t t = 0; t < 4; t++) {
        const size_t page = page_of(run_db, tables[t]);
        assert_true(page >= 4096 && page + 4096 <= n);
        for (size_t i = page; i < page + 4096; i++) {
            if (!bytes[i])
                continue;
            fseek(file, (long)i, SEEK_SET);
            fputc(bytes[i] ^ 1 << i % 8, file);
            const contents now = read_file(run_db);
            fseek(file, (long)i, SEEK_SET);
            fputc(bytes[i], file);
            const bool seen = now.status < ES_OK || now.n_damaged > 0;
            const bool same = now.rows == sound.rows && now.hash == sound.hash;
            n_flips++;
            n_seen += seen;
            n_same += !seen && same;
            if (!seen && !same)
                print_message("%s: change of byte %zu not detected\n",
                              tables[t], i - page);
        }
    }
    print_message("%zu flips: %zu detected, %zu without effect\n", n_flips,
                  n_seen, n_same);
    assert_true(n_flips > 300 && n_same < n_flips / 5);
    assert_int_equal(n_seen + n_same, n_flips);
    fclose(file);
    free(bytes);
}

/* --- schema 1 ------------------------------------------------------------ */

TEST(schema_1_has_no_checksums)
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

/**
 * A file is refused if one of its tables has the columns of another schema
 * version.
 */
TEST(a_table_of_another_schema_version_is_refused)
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
