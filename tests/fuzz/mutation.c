/* Mutates run files for the fuzz targets: changes single values of a valid
 * file, so that most results pass SQLite's own checks. */
#include "tests/fuzz/mutation.h"

#include "store/store_internal.h"
#include "store/writer.h"

#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAYERS = 3, HEADS = 2, STEPS = 12, MOST = 1 << 17, OPERATIONS = 24 };

/* Two valid files, one of schema 2 and one of schema 1, which has no checksums.
 * The reader detects changed values in files of schema 2, unless their
 * checksums are recomputed, which is done for half of these files. */
static unsigned char sound[2][MOST], damaged[MOST];
static size_t n_sound[2];
/* Offsets of the bytes of the valid file that are not zero. Most of the file is
 * free space, which contains only zeros. */
static uint32_t busy[MOST];
static size_t n_busy;

/* --- the sound file -------------------------------------------------------*/

float fuzz_run_value(int64_t step, size_t i, size_t n)
{
    const int64_t number = step / 5;
    if (i == (size_t)number % n)
        return number == 7 ? NAN : 0.125F;
    return (float)(3.5 - 0.25 * (double)number + (double)i / 8);
}

static void write_series(es_writer *writer, int64_t run, const char *name,
                         es_shape shape, es_phase phase)
{
    int64_t id;
    float values[LAYERS * HEADS];
    size_t n = es_shape_values(shape, LAYERS, HEADS);
    fuzz_require(es_writer_series(writer, &id, run, name, shape, phase, NULL) ==
                 ES_OK);
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < n; i++)
            values[i] = fuzz_run_value(5 * step, i, n);
        fuzz_require(es_writer_sample(writer, id, 5 * step, values, n) ==
                     ES_OK);
    }
}

static void write_run(es_writer *writer, const char *uuid, const char *name)
{
    int64_t run;
    const es_run_info info = {.uuid = uuid,
                              .name = name,
                              .arch = "SM+LN+G",
                              .family = "gpt2",
                              .n_layer = LAYERS,
                              .n_head = HEADS,
                              .d_model = 8,
                              .ctx = 16,
                              .vocab = 256,
                              .batch = 2,
                              .seed = 1,
                              .config = "{\"steps\":60,\"lr\":0.001}",
                              .program = "fuzz",
                              .host = "here",
                              .started_at = "2025-01-31T23:59:59.123Z"};
    const es_event event = {.step = 35,
                            .kind = "nan",
                            .severity = ES_SEVERITY_CRITICAL,
                            .layer = 1,
                            .head = ES_UNKNOWN,
                            .message = "not finite",
                            .data = "{\"n\":1}",
                            .dedupe = "nan",
                            .at = "2025-01-31T23:59:59.123Z"};
    fuzz_require(es_writer_run(writer, &run, &info, 0) == ES_OK);
    write_series(writer, run, "entropy", ES_SHAPE_HEAD, ES_PHASE_TRAIN);
    write_series(writer, run, "max_logit", ES_SHAPE_HEAD, ES_PHASE_TRAIN);
    write_series(writer, run, "nan_activations", ES_SHAPE_LAYER,
                 ES_PHASE_TRAIN);
    write_series(writer, run, "loss", ES_SHAPE_RUN, ES_PHASE_TRAIN);
    write_series(writer, run, "loss", ES_SHAPE_RUN, ES_PHASE_EVAL);
    fuzz_require(es_writer_event(writer, run, &event) == ES_OK);
    fuzz_require(es_writer_end_run(writer, run, ES_RUN_FINISHED) == ES_OK);
}

static void read_sound(int which, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, sound[which], MOST);
    fuzz_require(n > 0 && n < MOST);
    n_sound[which] = (size_t)n;
    close(fd);
}

static void make_schema_1(const char *path)
{
    static const char sql[] =
        "ALTER TABLE sample RENAME TO old;"
        "CREATE TABLE sample(\n"
        "  series_id INTEGER NOT NULL REFERENCES series,\n"
        "  step INTEGER NOT NULL,\n"
        "  value BLOB NOT NULL, -- packed little-endian float32, layer-major\n"
        "  PRIMARY KEY(series_id, step)\n"
        ") STRICT;"
        "INSERT INTO sample SELECT series_id, step, value FROM old;"
        "DROP TABLE old; PRAGMA user_version = 1; VACUUM";
    sqlite3 *handle = NULL;
    fuzz_require(sqlite3_open(path, &handle) == SQLITE_OK);
    fuzz_require(sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(handle);
}

static void make_sound(void)
{
    es_writer *writer = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s-sound", fuzz_file("", 0));
    fuzz_require(es_writer_open(&writer, path, ES_FAST) == ES_OK);
    write_run(writer, "00000000-0000-4000-8000-000000000001", "first");
    write_run(writer, "00000000-0000-4000-8000-000000000002", "second");
    fuzz_require(es_writer_close(writer) == ES_OK);
    read_sound(0, path);
    make_schema_1(path);
    read_sound(1, path);
    unlink(path);
    for (size_t i = 0; i < n_sound[0]; i++)
        if (sound[0][i])
            busy[n_busy++] = (uint32_t)i;
}

/* --- damage through SQL ---------------------------------------------------*/

static const struct {
    const char *table, *column;
} columns[] = {
    {"run", "run_id"},     {"run", "uuid"},         {"run", "name"},
    {"run", "arch"},       {"run", "family"},       {"run", "n_layer"},
    {"run", "n_head"},     {"run", "d_model"},      {"run", "ctx"},
    {"run", "vocab"},      {"run", "batch"},        {"run", "seed"},
    {"run", "config"},     {"run", "program"},      {"run", "host"},
    {"run", "started_at"}, {"run", "ended_at"},     {"run", "status"},
    {"run", "last_step"},  {"series", "series_id"}, {"series", "run_id"},
    {"series", "name"},    {"series", "shape"},     {"series", "phase"},
    {"series", "unit"},    {"sample", "series_id"}, {"sample", "step"},
    {"sample", "value"},   {"event", "run_id"},     {"event", "step"},
    {"event", "kind"},     {"event", "severity"},   {"event", "layer"},
    {"event", "head"},     {"event", "message"},    {"event", "data"},
    {"event", "at"},       {"event", "dedupe"},
};

#define N_COLUMNS (sizeof columns / sizeof *columns)

static void bind(sqlite3_stmt *statement, fuzz_input *input)
{
    uint8_t how = fuzz_byte(input);
    uint64_t number = how % 4 == 0 ? fuzz_number(input) : 0;
    const char *text =
        how % 4 == 2 || how % 4 == 3 ? fuzz_text(input, 200) : "";
    switch (how % 4) {
    case 0:
        sqlite3_bind_int64(statement, 1, (int64_t)number);
        break;
    case 1:
        if (how & 4)
            sqlite3_bind_zeroblob(statement, 1, how * 40);
        break; /* NULL */
    case 2:
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_TRANSIENT);
        break;
    default:
        sqlite3_bind_blob(statement, 1, text, (int)strlen(text),
                          SQLITE_TRANSIENT);
    }
}

/* Changes a value in a table. SQLite's checks are off; a value that the
 * column's type does not allow is not stored. */
static void change_value(sqlite3 *handle, fuzz_input *input)
{
    sqlite3_stmt *statement = NULL;
    size_t column = fuzz_byte(input) % N_COLUMNS;
    uint8_t row = fuzz_byte(input);
    char *sql =
        sqlite3_mprintf("UPDATE OR IGNORE %s SET %s = ?1 WHERE rowid %s %d",
                        columns[column].table, columns[column].column,
                        row & 128 ? ">" : "=", row & 127);
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) == SQLITE_OK) {
        bind(statement, input);
        sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    sqlite3_free(sql);
}

static void remove_rows(sqlite3 *handle, fuzz_input *input)
{
    size_t column = fuzz_byte(input) % N_COLUMNS;
    char *sql = sqlite3_mprintf("DELETE FROM %s WHERE rowid %% 8 = %d",
                                columns[column].table, fuzz_byte(input) % 8);
    sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
}

/** Recomputes the checksum of each sample and removes the checksums of rows. */
static void checksum_samples(sqlite3 *handle)
{
    sqlite3_exec(handle, "DELETE FROM row_checksum", NULL, NULL, NULL);
    sqlite3_stmt *read = NULL, *write = NULL;
    if (sqlite3_prepare_v2(handle,
                           "SELECT sample.rowid, step, value, uuid, phase,"
                           " series.name FROM sample JOIN series"
                           " USING(series_id) JOIN run USING(run_id)",
                           -1, &read, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(handle,
                           "UPDATE sample SET crc = ?2 WHERE rowid = ?1", -1,
                           &write, NULL) == SQLITE_OK)
        while (sqlite3_step(read) == SQLITE_ROW) {
            const char *uuid = (const char *)sqlite3_column_text(read, 3);
            const char *phase = (const char *)sqlite3_column_text(read, 4);
            const char *name = (const char *)sqlite3_column_text(read, 5);
            const int n = sqlite3_column_bytes(read, 2);
            const void *value = sqlite3_column_blob(read, 2);
            if (!uuid || !phase || !name)
                continue;
            uint32_t crc = es_checksum_of_series(
                uuid,
                strcmp(phase, "eval") == 0 ? ES_PHASE_EVAL : ES_PHASE_TRAIN,
                name);
            sqlite3_bind_int64(write, 1, sqlite3_column_int64(read, 0));
            sqlite3_bind_int(
                write, 2,
                es_checksum_of_sample(crc, sqlite3_column_int64(read, 1),
                                      value ? value : "", (size_t)n));
            sqlite3_step(write);
            sqlite3_reset(write);
        }
    sqlite3_finalize(read);
    sqlite3_finalize(write);
}

static size_t damage_rows(size_t n, fuzz_input *input, bool keep_sums)
{
    sqlite3 *handle = NULL;
    sqlite3_int64 size = 0;
    fuzz_require(sqlite3_open(":memory:", &handle) == SQLITE_OK);
    fuzz_require(sqlite3_deserialize(handle, "main", damaged, (sqlite3_int64)n,
                                     MOST, 0) == SQLITE_OK);
    sqlite3_exec(handle,
                 "PRAGMA ignore_check_constraints=1; PRAGMA foreign_keys=0;"
                 "PRAGMA journal_mode=MEMORY; BEGIN",
                 NULL, NULL, NULL);
    for (int i = fuzz_byte(input) % 8; i >= 0; i--)
        if (fuzz_byte(input) % 8)
            change_value(handle, input);
        else
            remove_rows(handle, input);
    if (!keep_sums)
        checksum_samples(handle);
    sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
    /* NOCOPY returns `damaged` itself, changed in place. */
    sqlite3_serialize(handle, "main", &size, SQLITE_SERIALIZE_NOCOPY);
    sqlite3_close(handle);
    return size > 0 ? (size_t)size : n;
}

/* --- damage to bytes ------------------------------------------------------*/

static void damage_bytes(fuzz_input *input, size_t n)
{
    uint8_t how = fuzz_byte(input);
    size_t place = (size_t)fuzz_number(input);
    size_t at = how & 1 ? place % n : busy[place % n_busy];
    int length = 1 + (how >> 1) % 8;
    for (int i = 0; i < length && at < n; i++, at++)
        damaged[at] = how & 128 ? (uint8_t)(damaged[at] + 1) : fuzz_byte(input);
}

const char *fuzz_damaged_run(const uint8_t *bytes, size_t n, bool *sealed)
{
    fuzz_input input = {bytes, n};
    if (n_sound[0] == 0)
        make_sound();
    uint8_t what = fuzz_byte(&input);
    int which = what >> 3 & 1;
    *sealed = what & 1 && !(what & 16);
    size_t size = n_sound[which];
    memcpy(damaged, sound[which], size);
    if (what & 1)
        size = damage_rows(size, &input, what & 16);
    if (what & 2)
        for (int i = 0; i < OPERATIONS && input.left > 0; i++)
            damage_bytes(&input, size);
    if (what == 4)
        size = (size_t)fuzz_number(&input) % (size + 1);
    return fuzz_file(damaged, size);
}
