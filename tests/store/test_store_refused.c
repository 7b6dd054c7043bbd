/**
 * Tests files that are not valid run files. They must be refused with a message
 * that names the file, and stay unchanged.
 */
#include "tests/support/test.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static void reader_refuses(const char *path, es_status code, const char *words)
{
    es_reader *reader = NULL;
    es_assert_status(code, words, es_reader_open(&reader, path));
    assert_null(reader);
    assert_non_null(strstr(es_message(), path));
}

static void writer_refuses(const char *path, es_status code, const char *words)
{
    es_writer *writer = NULL;
    es_assert_status(code, words, es_writer_open(&writer, path, ES_FAST));
    assert_null(writer);
    assert_non_null(strstr(es_message(), path));
    assert_false(es_file_exists_beside(path, "-lock"));
}

static void both_refuse(const char *path, es_status code, const char *words)
{
    reader_refuses(path, code, words);
    writer_refuses(path, code, words);
}

/**
 * Fails unless reader and writer refuse the file, do not change it, and leave
 * no other files next to it.
 */
static void refused_untouched(const char *path, es_status code,
                              const char *words)
{
    static const char *const litter[] = {"-wal", "-shm", "-journal", "-lock"};
    size_t n, m;
    AUTO_FREE unsigned char *before = es_file_read(path, &n);
    both_refuse(path, code, words);
    AUTO_FREE unsigned char *after = es_file_read(path, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    for (int i = 0; i < 4; i++)
        assert_false(es_file_exists_beside(path, litter[i]));
}

/* --- not files ----------------------------------------------------------- */

TEST(only_regular_files_are_opened)
{
    const char *path = es_folder_file(state, "thing.db");
    reader_refuses(path, ES_EIO, "no such file");
    assert_int_equal(mkdir(path, 0777), 0);
    both_refuse(path, ES_EIO, "is a directory");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    both_refuse(path, ES_EIO, "is a FIFO");
    assert_int_equal(unlink(path), 0);
    both_refuse("/dev/null", ES_EIO, "is a special file");
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[299] = '\0';
    reader_refuses(es_folder_file(state, long_name), ES_EIO, "too long");
    reader_refuses(es_folder_file(state, "no/such.db"), ES_EIO,
                   "No such file or directory");
    writer_refuses(es_folder_file(state, "no/such.db"), ES_EIO,
                   "No such file or directory");
    both_refuse(es_folder_file(state, ""), ES_EIO, "names no file");
    es_reader *reader = NULL;
    es_assert_status(ES_EIO, "names no file", es_reader_open(&reader, ""));
}

TEST(sockets_are_refused)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = es_folder_file(state, "s.db");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    both_refuse(path, ES_EIO, "is a socket");
    close(fd);
}

TEST(links_to_files_are_refused_but_not_to_folders)
{
    const char *link = es_folder_file(state, "link.db");
    const char *folder = es_folder_file(state, "folder");
    es_write_run(run_db, "x", 3);
    assert_int_equal(symlink(run_db, link), 0);
    both_refuse(link, ES_EIO, "symbolic link: name the file");
    assert_int_equal(symlink(".", folder), 0);
    AUTO(es_reader) r = es_open_reader(es_folder_file(state, "folder/run.db"));
}

TEST(a_file_without_permission_is_refused)
{
    es_write_run(run_db, "x", 3);
    assert_int_equal(chmod(run_db, 0), 0);
    assert_int_equal(chmod((char *)*state, 0777), 0);
    pid_t child = fork();
    if (child == 0) { /* tests as another user, because root may read every
                         file */
        es_reader *r = NULL;
        if (geteuid() == 0 && seteuid(65534) != 0)
            _exit(2);
        _exit(es_reader_open(&r, run_db) != ES_EIO ||
              !strstr(es_message(), "Permission denied"));
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

/* --- foreign files ------------------------------------------------------- */

TEST(files_with_other_contents_are_refused)
{
    const char *path = es_folder_file(state, "text.db");
    es_file_write(path, "", 0);
    reader_refuses(path, ES_EFORMAT, "is empty");
    es_file_write(path, "step,layer\n", 11);
    refused_untouched(path, ES_EFORMAT, "not an SQLite database");
    AUTO_FREE char *text = malloc(100000);
    assert_non_null(text);
    memset(text, 'x', 100000);
    es_file_write(path, text, 100000);
    refused_untouched(path, ES_EFORMAT, "not an SQLite database");
    memcpy(text, "SQLite format 3", 16);
    es_file_write(path, text, 100000);
    refused_untouched(path, ES_EFORMAT, "another program");
}

TEST(foreign_databases_are_refused)
{
    const char *path = es_folder_file(state, "foreign.db");
    es_sqlite(path, "CREATE TABLE run(a); INSERT INTO run VALUES(7)");
    refused_untouched(path, ES_EFORMAT, "another program (application_id 0)");
    es_sqlite(path, "PRAGMA journal_mode=WAL; INSERT INTO run VALUES(8)");
    refused_untouched(path, ES_EFORMAT, "another program");
    es_sqlite(path, "PRAGMA journal_mode=DELETE");
    es_sqlite(path, "PRAGMA application_id=1162761298");
    refused_untouched(path, ES_EFORMAT, "schema 0");
    es_sqlite(path, "PRAGMA user_version=1");
    refused_untouched(path, ES_EFORMAT, "its table run differs");
    es_sqlite(path, "DROP TABLE run");
    refused_untouched(path, ES_EFORMAT, "no table run");
}

TEST(a_schema_of_the_future_is_refused)
{
    es_write_run(run_db, "x", 3);
    es_sqlite(run_db, "PRAGMA user_version=4");
    refused_untouched(run_db, ES_EVERSION,
                      "schema 4 is newer than this program's 2: upgrade");
    es_sqlite(run_db, "PRAGMA user_version=-1");
    refused_untouched(run_db, ES_EFORMAT, "schema -1");
}

/**
 * The schema format at offset 44 of an SQLite file is set to 9; the highest
 * format that SQLite knows is 4.
 */
TEST(a_format_of_the_future_is_refused)
{
    size_t n;
    es_write_run(run_db, "x", 3);
    AUTO_FREE unsigned char *bytes = es_file_read(run_db, &n);
    bytes[47] = 9;
    es_file_write(run_db, bytes, n);
    refused_untouched(run_db, ES_EFORMAT, "damaged: unsupported file format");
}

TEST(triggers_and_indexes_on_our_tables_are_refused)
{
    static const struct {
        const char *make, *undo, *words;
    } cases[] = {
        {"CREATE TRIGGER t AFTER INSERT ON sample BEGIN DELETE FROM run; END",
         "DROP TRIGGER t", "has an additional trigger t"},
        {"CREATE INDEX i ON sample(step)", "DROP INDEX i",
         "has an additional index i"},
        {"ALTER TABLE run ADD COLUMN more TEXT", "SELECT 1",
         "its table run differs"},
    };
    es_write_run(run_db, "x", 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(es_sqlite(run_db, cases[i].make), "");
        refused_untouched(run_db, ES_EFORMAT, cases[i].words);
        es_sqlite(run_db, cases[i].undo);
    }
}

TEST(other_tables_and_views_are_allowed)
{
    es_write_run(run_db, "x", 3);
    assert_string_equal(
        es_sqlite(run_db,
                  "CREATE TABLE notes(text); CREATE INDEX n ON notes(text);"
                  "CREATE VIEW entropy AS SELECT * FROM sample; ANALYZE"),
        "");
    es_write_run(run_db, "y", 3);
    AUTO(es_reader) r = es_open_reader(run_db);
    assert_int_equal(es_reader_n_runs(r), 2);
}

TEST(a_file_with_a_rollback_journal_is_refused)
{
    const char *journal = es_folder_file(state, "run.db-journal");
    es_write_run(run_db, "x", 3);
    es_file_write(journal, "hostile", 7);
    both_refuse(run_db, ES_EIO, "has a rollback journal");
    assert_int_equal(unlink(journal), 0);
    assert_int_equal(symlink("/nowhere", journal), 0);
    both_refuse(run_db, ES_EIO, "has a rollback journal");
}

/* --- ours, but damaged --------------------------------------------------- */

TEST(numbers_out_of_bounds_are_damage)
{
    static const struct {
        const char *sql, *words;
    } cases[] = {
        {"UPDATE run SET n_layer = 0", "n_layer is out of bounds"},
        {"UPDATE run SET n_layer = 1000000000", "n_layer is out of bounds"},
        {"UPDATE run SET n_layer = 4096, n_head = 4096",
         "n_head is out of bounds"},
        {"UPDATE run SET n_layer = 3, n_head = -2", "n_head is out of bounds"},
        {"UPDATE run SET n_head = 2, last_step = -5",
         "last_step is not a step"},
        {"UPDATE run SET last_step = 9223372036854775807",
         "last_step is not a step"},
        {"UPDATE run SET last_step = 4, status = 'gone'",
         "status has an unknown value"},
        {"UPDATE run SET status = 'failed'; UPDATE series SET shape = 'cube'",
         "shape has an unknown value"},
        {"UPDATE series SET shape = 'run', phase = 'test'",
         "phase has an unknown value"},
    };
    char sql[512];
    es_write_run(run_db, "x", 3);
    es_sqlite(run_db, "DELETE FROM series WHERE phase = 'eval'");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(sql, sizeof sql, "PRAGMA ignore_check_constraints=ON; %s",
                 cases[i].sql);
        assert_string_equal(es_sqlite(run_db, sql), "");
        reader_refuses(run_db, ES_EFORMAT, cases[i].words);
    }
}

/** Reads every sample of the file and returns the first failure. */
static es_status read_all(const char *path)
{
    es_cursor *c = NULL;
    es_series s;
    int64_t step;
    const float *values;
    es_reader *r = es_open_reader(path);
    es_status status = es_cursor_open_run(&c, r, 0);
    while (status == ES_OK)
        status = es_cursor_next_of_run(c, &step, &values, &s);
    if (c)
        assert_int_equal(es_cursor_next_of_run(c, &step, &values, &s), ES_DONE);
    es_cursor_close(c);
    es_reader_close(r);
    return status;
}

/* In a file without checksums, a sample of the wrong length is an error.
   test_store_checksum.c tests samples of files with checksums. */
TEST(samples_of_another_length_are_damage)
{
    es_write_run(run_db, "x", 20);
    es_make_schema_1(run_db);
    assert_int_equal(read_all(run_db), ES_DONE);
    es_sqlite(run_db, "UPDATE sample SET value = zeroblob(23) WHERE step = 8"
                      " AND length(value) = 24");
    es_assert_status(ES_EFORMAT, "entropy, step 8 has 23 bytes, not 24",
                     read_all(run_db));
    es_series s;
    float values[6];
    int64_t found;
    es_reader *r = es_open_reader(run_db);
    es_assert_ok(es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    es_assert_status(ES_EFORMAT, "step 8 has 23 bytes, not 24",
                     es_reader_sample(r, &s, 8, values, 6, &found));
    es_assert_ok(es_reader_sample(r, &s, 10, values, 6, &found));
    es_reader_close(r);
    es_sqlite(run_db, "UPDATE sample SET value = x'' WHERE step = 8");
    es_assert_status(ES_EFORMAT, "step 8 has 0 bytes", read_all(run_db));
}

/* The index is in descending instead of ascending order. A search then ends at
   an arbitrary entry, and the following steps decrease, which the reader must
   report. */
TEST(an_index_in_the_opposite_order_is_damage)
{
    es_series s = {.size = sizeof s, .id = 1, .name = "entropy", .n_values = 6};
    int64_t n, step;
    const float *values;
    es_write_run(run_db, "x", 20);
    assert_string_equal(
        es_sqlite(run_db,
                  "CREATE INDEX x ON sample(series_id, step DESC);"
                  "PRAGMA writable_schema=ON;"
                  "UPDATE sqlite_schema SET rootpage ="
                  " (SELECT rootpage FROM sqlite_schema WHERE name = 'x')"
                  " WHERE name = 'sqlite_autoindex_sample_1';"
                  "DELETE FROM sqlite_schema WHERE name = 'x'"),
        "");
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_status(ES_EFORMAT, "damaged: steps out of order",
                     es_reader_count(r, &s, &n));
    AUTO(es_cursor) c = es_open_cursor(r, &s);
    es_assert_ok(es_cursor_next(c, &step, &values));
    es_assert_status(ES_EFORMAT, "damaged: entropy: steps out of order",
                     es_cursor_next(c, &step, &values));
    assert_int_equal(es_cursor_next(c, &step, &values), ES_DONE);
}

TEST(too_many_series_are_damage)
{
    es_write_run(run_db, "x", 20);
    es_sqlite(run_db, "WITH RECURSIVE n(i) AS"
                      " (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 4092)"
                      "INSERT INTO series(run_id, name, shape, phase, unit)"
                      " SELECT 1, 'more ' || i, 'run', 'eval', '' FROM n");
    assert_int_equal(read_all(run_db), ES_DONE); /* 4096 are fine */
    es_sqlite(run_db, "INSERT INTO series(run_id, name, shape, phase, unit)"
                      " VALUES(1, 'one more', 'run', 'eval', '')");
    reader_refuses(run_db, ES_EFORMAT, "has too many series");
}

TEST(a_row_of_no_run_is_damage)
{
    es_write_run(run_db, "x", 20);
    es_write_run(run_db, "y", 20);
    es_sqlite(run_db, "UPDATE series SET run_id = 77 WHERE run_id = 2");
    reader_refuses(run_db, ES_EFORMAT, ": run_id refers to no run");
    es_sqlite(run_db, "UPDATE series SET run_id = 2 WHERE run_id = 77;"
                      "UPDATE event SET run_id = 0 WHERE run_id = 1");
    AUTO(es_reader) r = es_open_reader(run_db);
    const es_event *events = NULL;
    size_t n;
    es_assert_status(ES_EFORMAT, "event 1: run_id refers to no run",
                     es_reader_events(r, 0, &events, &n));
}

TEST(names_are_returned_unchanged)
{
    es_write_run(run_db, "x", 3);
    es_sqlite(run_db,
              "UPDATE run SET name = char(27) || '[31m/../' || char(10),"
              " arch = 'cut' || char(0) || 'away', family = '',"
              " config = '{\\\"steps\\\":' || printf('%.*c', 5000, '[')");
    es_sqlite(run_db, "UPDATE series SET name = CAST(x'ff1b5b326a' AS TEXT)"
                      " WHERE shape = 'head'");
    es_run_info info;
    es_series s;
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_ok(es_reader_run(r, 0, &info));
    assert_string_equal(info.name, "\033[31m/../\n");
    assert_string_equal(info.arch, "cut");
    assert_string_equal(info.family, "");
    assert_true(es_planned_steps(r, 0) == ES_UNKNOWN);
    es_assert_ok(es_reader_find(r, 0, "\xff\x1b[2j", ES_PHASE_TRAIN, &s));
    es_assert_status(ES_ENOTFOUND, "\\xff\\x1b[2j",
                     es_reader_find(r, 0, "entropy", ES_PHASE_TRAIN, &s));
    for (const char *c = es_message(); *c; c++)
        assert_true((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f);
}

TEST(invalid_planned_steps_and_ceilings_are_unknown)
{
    static const struct {
        const char *config;
        int64_t steps;
        double ceiling;
    } cases[] = {
        {"'{}'", ES_UNKNOWN, NAN},
        {"NULL", ES_UNKNOWN, NAN},
        {"'[1,2]'", ES_UNKNOWN, NAN},
        {"'{\\\"steps\\\":12,\\\"ceiling\\\":4}'", 12, 4},
        {"'{\\\"steps\\\":-12,\\\"ceiling\\\":2.5}'", ES_UNKNOWN, 2.5},
        {"'{\\\"steps\\\":0,\\\"ceiling\\\":0}'", ES_UNKNOWN, NAN},
        {"'{\\\"steps\\\":1.5,\\\"ceiling\\\":-1}'", ES_UNKNOWN, NAN},
        {"'{\\\"steps\\\":\\\"12\\\",\\\"ceiling\\\":\\\"4\\\"}'", ES_UNKNOWN,
         NAN},
        {"'{\\\"ceiling\\\":1e999}'", ES_UNKNOWN, NAN},
        {"'{\\\"steps\\\":12'", ES_UNKNOWN, NAN},
        {"'nonsense'", ES_UNKNOWN, NAN},
        {"'{\\\"a\\\":{\\\"steps\\\":9,\\\"ceiling\\\":4}}'", ES_UNKNOWN, NAN},
    };
    char sql[256];
    es_write_run(run_db, "x", 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t none;
        snprintf(sql, sizeof sql, "UPDATE run SET config = %s",
                 cases[i].config);
        assert_string_equal(es_sqlite(run_db, sql), "");
        AUTO(es_reader) r = es_open_reader(run_db);
        double ceiling;
        assert_true(es_planned_steps(r, 0) == cases[i].steps);
        es_assert_ok(es_reader_ceiling(r, 0, &ceiling));
        assert_true(near(ceiling, cases[i].ceiling, 0));
        es_assert_status(ES_EARGUMENT, "no run",
                         es_reader_planned_steps(r, 1, &none));
        es_assert_status(ES_EARGUMENT, "no run",
                         es_reader_ceiling(r, 1, &ceiling));
        assert_true(isnan(ceiling));
    }
}

/** Exchanges two entries of an index that has only one page. */
static void exchange_in_index(const char *path, const char *index, size_t i,
                              size_t j)
{
    char sql[128];
    unsigned char kept[2];
    size_t n;
    snprintf(sql, sizeof sql,
             "SELECT (rootpage - 1) * 4096 FROM sqlite_schema WHERE name = "
             "'%s'",
             index);
    size_t page = strtoul(es_sqlite(path, sql), NULL, 10);
    AUTO_FREE unsigned char *bytes = es_file_read(path, &n);
    assert_true(page > 0 && page + 4096 <= n && bytes[page] == 10);
    unsigned char *entries = bytes + page + 8;
    memcpy(kept, entries + 2 * i, 2);
    memcpy(entries + 2 * i, entries + 2 * j, 2);
    memcpy(entries + 2 * j, kept, 2);
    es_file_write(path, bytes, n);
}

/**
 * In the damaged index, an entry in the middle of a series belongs to another
 * series, so a scan of the series ends too early. The reader detects this
 * because a search from the end finds a later step.
 */
TEST(a_series_that_ends_early_is_damage)
{
    es_series s;
    int64_t step;
    const float *values;
    es_write_run(run_db, "x", 10);
    exchange_in_index(run_db, "sqlite_autoindex_sample_1", 5, 15);
    AUTO(es_reader) r = es_open_series(run_db, "entropy", &s);
    AUTO(es_cursor) c = es_open_cursor(r, &s);
    for (int i = 0; i < 5; i++)
        es_assert_ok(es_cursor_next(c, &step, &values));
    es_assert_status(ES_EFORMAT, "samples from step 9 to 10 are lost",
                     es_cursor_next(c, &step, &values));
}

/**
 * In the damaged index, a search from the beginning finds a first step, but a
 * search from the end finds no last step.
 */
TEST(steps_out_of_order_are_damage)
{
    float values[6];
    int64_t found;
    es_series series = {0};
    es_write_run(run_db, "x", 3);
    exchange_in_index(run_db, "sqlite_autoindex_sample_1", 0, 5);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_status(ES_EFORMAT, "damaged: steps out of order",
                     es_reader_series(r, 0, 0, &series));
    es_assert_status(ES_EFORMAT, "damaged: steps out of order",
                     es_reader_series(r, 0, 1, &series));
    series.name = "alpha";
    for (series.id = 1; series.id <= 2; series.id++) {
        series.n_values = 6;
        es_assert_status(ES_EFORMAT, "damaged: steps out of order",
                         es_reader_sample(r, &series, 3, values, 6, &found));
    }
}

TEST(an_invalid_uuid_is_damage)
{
    es_write_run(run_db, "x", 3);
    assert_string_equal(
        es_sqlite(run_db, "UPDATE run SET uuid = replace(uuid, '-', ' ')"), "");
    reader_refuses(run_db, ES_EFORMAT, "run 1: uuid is not a uuid");
}

TEST(a_series_without_a_name_is_damage)
{
    es_write_run(run_db, "x", 3);
    assert_string_equal(
        es_sqlite(run_db, "UPDATE series SET name = '' WHERE name = 'alpha'"),
        "");
    reader_refuses(run_db, ES_EFORMAT, "series 2: name is empty");
}

TEST_EACH(es_folder_make, es_folder_remove)
