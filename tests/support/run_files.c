/* Makes run files for tests, in a folder that is removed when the test ends. */
#include "tests/support/test.h"

/* --- files --------------------------------------------------------------- */

char run_db[4096];

int es_folder_make(void **state)
{
    const char *base = getenv("TMPDIR");
    char *path = malloc(4096);
    if (!path)
        return -1;
    snprintf(path, 4096, "%s/entropy-store-XXXXXX", base ? base : "/tmp");
    *state = path;
    if (!mkdtemp(path))
        return -1;
    snprintf(run_db, sizeof run_db, "%s/run.db", path);
    return 0;
}

int es_folder_remove(void **state)
{
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    int failed = system(command);
    free(*state);
    return failed;
}

char *es_folder_file(void **state, const char *name)
{
    static char paths[8][4200];
    static int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", (char *)*state, name);
    return path;
}

es_reader *es_open_reader(const char *path)
{
    es_reader *reader = NULL;
    es_assert_ok(es_reader_open(&reader, path));
    return reader;
}

es_writer *es_open_writer(const char *path)
{
    es_writer *writer = NULL;
    es_assert_ok(es_writer_open(&writer, path, ES_FAST));
    return writer;
}

es_cursor *es_open_cursor(es_reader *reader, const es_series *series)
{
    es_cursor *cursor = NULL;
    es_assert_ok(
        es_cursor_open(&cursor, reader, series, ES_STEP_FIRST, ES_STEP_LAST));
    return cursor;
}

es_reader *es_open_series(const char *path, const char *name, es_series *out)
{
    es_reader *reader = es_open_reader(path);
    es_assert_ok(es_reader_find(reader, 0, name, ES_PHASE_TRAIN, out));
    return reader;
}

bool es_is_written(const es_reader *reader)
{
    bool written;
    es_assert_ok(es_reader_is_written(reader, &written));
    return written;
}

int64_t es_planned_steps(es_reader *reader, size_t run)
{
    int64_t steps;
    es_assert_ok(es_reader_planned_steps(reader, run, &steps));
    return steps;
}

bool es_file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

bool es_file_exists_beside(const char *path, const char *suffix)
{
    char name[4300];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return es_file_exists(name);
}

void es_file_write(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

long long es_bytes_read(void)
{
    long long n = -1;
    FILE *file = fopen("/proc/self/io", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "rchar: %lld", &n), 1);
    fclose(file);
    return n;
}

unsigned char *es_file_read(const char *path, size_t *n)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    unsigned char *bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    *n = fread(bytes, 1, (size_t)st.st_size, file);
    assert_int_equal(*n, st.st_size);
    fclose(file);
    return bytes;
}

const char *es_sqlite(const char *path, const char *sql)
{
    static char output[65536];
    char command[8192];
    int n = snprintf(command, sizeof command, "sqlite3 '%s' \"%s\" 2>&1", path,
                     sql);
    assert_true(n < (int)sizeof command);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    pclose(pipe);
    char *newline = strrchr(output, '\n');
    if (newline && !newline[1])
        *newline = '\0';
    return output;
}

/* --- expectations -------------------------------------------------------- */

void es_assert_status_at(es_status code, const char *words, es_status status,
                         const char *expr, const char *file, int line)
{
    if (status != code) {
        print_error("%s: %d, not %d: %s\n", expr, status, code,
                    status < 0 ? es_message() : "no error");
        _fail(file, line);
    }
    if (code < 0 && !strstr(es_message(), words)) {
        print_error("%s: message \"%s\" does not contain \"%s\"\n", expr,
                    es_message(), words);
        _fail(file, line);
    }
}

void es_assert_bits(const float *a, const float *b, size_t n)
{
    assert_memory_equal(a, b, n * sizeof *a);
}

/* --- runs ---------------------------------------------------------------- */

es_run_info es_run_of(int64_t n_layer, int64_t n_head)
{
    return (es_run_info){
        .size = sizeof(es_run_info),
        .name = "test",
        .n_layer = n_layer,
        .n_head = n_head,
        .d_model = ES_UNKNOWN,
        .ctx = ES_UNKNOWN,
        .vocab = ES_UNKNOWN,
        .batch = ES_UNKNOWN,
        .seed = ES_UNKNOWN,
        .last_step = ES_UNKNOWN,
    };
}

float es_value_of(int64_t series_id, int64_t step, size_t i)
{
    int64_t mixed = series_id * 7919 + step * 31 + (int64_t)i;
    if (mixed % 97 == 0)
        return NAN;
    if (mixed % 101 == 0)
        return es_missing();
    return 0.125F + (float)(mixed % 1000003) / 4096;
}

#define MOST_VALUES 65536

static float *values_of(int64_t series_id, int64_t step, size_t n)
{
    static float values[MOST_VALUES];
    assert_true(n <= MOST_VALUES);
    for (size_t i = 0; i < n; i++)
        values[i] = es_value_of(series_id, step, i);
    return values;
}

es_status es_write_values(es_writer *writer, int64_t series_id, int64_t step,
                          size_t n)
{
    return es_writer_sample(writer, series_id, step,
                            values_of(series_id, step, n), n);
}

void es_assert_values(const float *values, int64_t series_id, int64_t step,
                      size_t n)
{
    es_assert_bits(values, values_of(series_id, step, n), n);
}

void es_write_run(const char *path, const char *name, int64_t n_steps)
{
    es_writer *w = NULL;
    int64_t run, entropy, alpha, loss, eval;
    es_run_info info = es_run_of(3, 2);
    info.name = name;
    info.arch = "SM+LN+G";
    info.ctx = 128;
    info.config = "{\"steps\": 5000}";
    es_assert_ok(es_writer_open(&w, path, ES_FAST));
    es_assert_ok(es_writer_begin(w));
    es_assert_ok(es_writer_run(w, &run, &info, 0));
    es_assert_ok(es_writer_series(w, &entropy, run, "entropy", ES_SHAPE_HEAD,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &alpha, run, "alpha", ES_SHAPE_LAYER,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &loss, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_TRAIN, NULL));
    es_assert_ok(es_writer_series(w, &eval, run, "loss", ES_SHAPE_RUN,
                                  ES_PHASE_EVAL, NULL));
    for (int64_t i = 0; i < n_steps; i++) {
        es_assert_ok(es_write_values(w, entropy, 2 * i, 6));
        es_assert_ok(es_write_values(w, alpha, 2 * i, 3));
        es_assert_ok(es_write_values(w, loss, 2 * i, 1));
        if (i % 10 == 0)
            es_assert_ok(es_write_values(w, eval, 2 * i, 1));
    }
    es_event event = {.step = n_steps,
                      .kind = "test",
                      .severity = ES_SEVERITY_INFO,
                      .layer = 1,
                      .head = ES_UNKNOWN,
                      .message = "half-way",
                      .dedupe = "half"};
    es_assert_ok(es_writer_event(w, run, &event));
    es_assert_ok(es_writer_end_run(w, run, ES_RUN_FINISHED));
    es_assert_ok(es_writer_commit(w));
    es_assert_ok(es_writer_close(w));
}

void es_make_schema_1(const char *path)
{
    assert_string_equal(
        es_sqlite(path,
                  "ALTER TABLE sample RENAME TO old;\n"
                  "CREATE TABLE sample(\n"
                  "  series_id INTEGER NOT NULL REFERENCES series,\n"
                  "  step INTEGER NOT NULL,\n"
                  "  value BLOB NOT NULL, -- packed little-endian float32,"
                  " layer-major\n"
                  "  PRIMARY KEY(series_id, step)\n"
                  ") STRICT;\n"
                  "INSERT INTO sample SELECT series_id, step, value FROM old;"
                  "DROP TABLE old; PRAGMA user_version = 1"),
        "");
}
