/* Implements the opening, transactions and closing of writers of run files.
   writer.h describes the functions. The log is checked at the begin and at the
   commit of each transaction (writer_log.c), and closing a writer leaves one
   plain file. */
#include "store/writer_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/leftover.h"
#include "analyzer/base/outfile.h"
#include "store/esf_index.h"
#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- statements ---------------------------------------------------------- */

static const char *const sql_text[ES_N_SQL] = {
    [ES_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [ES_SQL_COMMIT] = "COMMIT",
    [ES_SQL_ROLLBACK] = "ROLLBACK",
    [ES_SQL_SAMPLE] =
        "INSERT INTO sample(rowid, series_id, step, crc, value)"
        " VALUES(?4, ?1, ?2, ?5, ?3) ON CONFLICT(series_id, step)"
        " DO UPDATE SET crc = excluded.crc, value = excluded.value",
    [ES_SQL_LAST_STEP] = "UPDATE run SET last_step = ?2 WHERE run_id = ?1",
    [ES_SQL_EVENT] =
        "INSERT INTO event(run_id, step, kind, severity, layer, head, message,"
        " data, at, dedupe) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
        " (SELECT uuid FROM run WHERE run_id = ?1) || '/' || ?10)"
        " ON CONFLICT(dedupe) DO NOTHING",
    [ES_SQL_FIND_RUN] =
        "SELECT run_id, n_layer, n_head FROM run WHERE uuid = ?1",
    [ES_SQL_ADD_RUN] =
        "INSERT INTO run(uuid, name, arch, family, n_layer, n_head, d_model,"
        " ctx, vocab, batch, seed, config, program, host, started_at, ended_at,"
        " status) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
        " ?13, ?14, ?15, ?16, ?17)",
    [ES_SQL_RESUME_RUN] =
        "UPDATE run SET status = 'running', ended_at = NULL,"
        " config = coalesce(?2, config), program = coalesce(?3, program),"
        " host = coalesce(?4, host) WHERE run_id = ?1",
    [ES_SQL_RESUME_SAMPLES] =
        "DELETE FROM sample WHERE step >= ?2 AND series_id IN"
        " (SELECT series_id FROM series WHERE run_id = ?1)",
    [ES_SQL_RESUME_EVENTS] =
        "DELETE FROM event WHERE run_id = ?1 AND step >= ?2",
    [ES_SQL_FIND_LAST_STEP] = "SELECT max((SELECT max(step) FROM sample"
                              " WHERE sample.series_id = series.series_id))"
                              " FROM series WHERE run_id = ?1",
    [ES_SQL_END_RUN] =
        "UPDATE run SET status = ?2, ended_at = ?3 WHERE run_id = ?1",
    [ES_SQL_FIND_SERIES] = "SELECT series_id, shape FROM series"
                           " WHERE run_id = ?1 AND name = ?2 AND phase = ?3",
    [ES_SQL_ADD_SERIES] = "INSERT INTO series(run_id, name, shape, phase, unit)"
                          " VALUES(?1, ?2, ?3, ?4, ?5)",
    [ES_SQL_IS_JSON] = "SELECT json_valid(?1)",
    [ES_SQL_COUNT_SERIES] = "SELECT count(*) FROM series WHERE run_id = ?1",
    [ES_SQL_RUN_ROW] = "SELECT " ES_RUN_COLUMNS " FROM run WHERE run_id = ?1",
    [ES_SQL_SERIES_ROW] =
        "SELECT " ES_SERIES_COLUMNS " FROM series WHERE series_id = ?1",
    [ES_SQL_EVENT_ROW] =
        "SELECT " ES_EVENT_COLUMNS " FROM event WHERE event_id = ?1",
    [ES_SQL_CHECKSUM] =
        "INSERT OR REPLACE INTO row_checksum VALUES(?1, ?2, ?3)",
    [ES_SQL_RESUME_CHECKSUMS] =
        "DELETE FROM row_checksum WHERE of_table = 'event' AND id IN"
        " (SELECT event_id FROM event WHERE run_id = ?1 AND step >= ?2)",
};

static const char sample_sql_1[] =
    "INSERT INTO sample(rowid, series_id, step, value) VALUES(?4, ?1, ?2, ?3)"
    " ON CONFLICT(series_id, step) DO UPDATE SET value = excluded.value";

es_status es_writer_prepare(es_writer *writer)
{
    const char *sql[ES_N_SQL];
    memcpy(sql, sql_text, sizeof sql);
    if (writer->database.schema == 1)
        sql[ES_SQL_SAMPLE] = sample_sql_1;
    for (int i = ES_SQL_RUN_ROW;
         i <= ES_SQL_RESUME_CHECKSUMS && !writer->database.has_row_checksums;
         i++)
        sql[i] = NULL;
    if (writer->database.samples) /* samples are added to the index instead of a
                                     table, so these statements are not
                                     needed */
        sql[ES_SQL_SAMPLE] = sql[ES_SQL_RESUME_SAMPLES] = NULL;
    es_status status = es_database_prepare_all(
        &writer->database, writer->statements, sql, ES_N_SQL);
    writer->ready = status == ES_OK;
    return status;
}

es_status es_writer_step(es_writer *writer, sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(statement);
    return status;
}

es_status es_writer_seal(es_writer *writer, int row, int64_t id)
{
    sqlite3_stmt *s = writer->statements[row];
    sqlite3_stmt *put = writer->statements[ES_SQL_CHECKSUM];
    if (!s)
        return ES_OK;
    sqlite3_bind_int64(s, 1, id);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        const int n = sqlite3_column_count(s);
        sqlite3_bind_int(put, 3, es_checksum_of_columns(s, 0, n));
    }
    es_status status = es_database_status(&writer->database, rc);
    sqlite3_reset(s);
    if (rc != SQLITE_ROW)
        return status;
    es_bind_text(
        put, 1,
        es_row_table_name((es_row_table)(row - ES_SQL_RUN_ROW + ES_ROW_RUN)));
    sqlite3_bind_int64(put, 2, id);
    return es_writer_step(writer, put);
}

es_status es_writer_check_text(const es_writer *writer, const char *name,
                               const char *text, size_t longest)
{
    if (!text || strlen(text) <= longest)
        return ES_OK;
    return es_fail(ES_EARGUMENT, "%s: %s is longer than %zu bytes",
                   writer->database.path, name, longest);
}

es_status es_writer_check_json(const es_writer *writer, const char *name,
                               const char *text)
{
    es_status status;
    if ((status = es_writer_check_text(writer, name, text, ES_MAX_TEXT)) < 0 ||
        (status = es_database_check_owner(&writer->database)) < 0 || !text)
        return status;
    sqlite3_stmt *s = writer->statements[ES_SQL_IS_JSON];
    es_bind_text(s, 1, text);
    bool valid = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int(s, 0) == 1;
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return valid ? ES_OK
                 : es_fail(ES_EARGUMENT, "%s: %s is not JSON",
                           writer->database.path, name);
}

/* --- opening ------------------------------------------------------------- */

/**
 * Writes the image of an empty run file into the temporary file of an
 * es_outfile. The file is overwritten and not replaced, because no process
 * would have the new file open, and other processes would remove it as a file
 * of a killed process.
 */
static es_status fill_temporary(const char *path, const unsigned char *image,
                                size_t n)
{
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    int reason = fd < 0 ? errno : es_write_at(fd, image, n, 0);
    if (fd >= 0)
        close(fd);
    return reason
               ? es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(reason))
               : ES_OK;
}

/**
 * Creates a run file, or replaces an empty file. The new file appears
 * completely or not at all.
 */
static es_status create_file(const es_database *database)
{
    unsigned char *image = NULL;
    size_t n = 0;
    es_outfile *file = NULL;
    FILE *stream = NULL;
    const char *slash = strrchr(database->file, '/');
    es_status status = es_schema_image(&image, &n);
    if (status == ES_OK &&
        es_leftover_is_name(slash ? slash + 1 : database->file)) {
        status = fill_temporary(database->file, image, n);
    } else if (status == ES_OK &&
               (status = es_outfile_open(&file, &stream, database->file)) ==
                   ES_OK) {
        fwrite(image, 1, n, stream); /* es_outfile_close reports a failure */
        status = es_outfile_close(file);
    }
    sqlite3_free(image);
    return status;
}

/** Runs a PRAGMA that returns the journal mode. */
static es_status query_log(const es_database *database, const char *sql,
                           bool *is_log)
{
    sqlite3_stmt *statement = NULL;
    es_status status = es_database_prepare(database, &statement, sql);
    if (status < 0)
        return status;
    int rc = sqlite3_step(statement);
    const char *mode = rc == SQLITE_ROW
                           ? (const char *)sqlite3_column_text(statement, 0)
                           : NULL;
    *is_log = mode && strcmp(mode, "wal") == 0;
    status = es_database_status(database, rc);
    sqlite3_finalize(statement);
    return status;
}

/**
 * Switches to WAL mode by way of the mode MEMORY, for the reason that is given
 * at settle().
 */
static es_status start_log(const es_database *database)
{
    bool is_log = false;
    es_status status = query_log(database, "PRAGMA journal_mode", &is_log);
    if (status < 0 || is_log)
        return status;
    status = es_database_execute(database, "PRAGMA journal_mode=MEMORY");
    if (status < 0 ||
        (status = query_log(database, "PRAGMA journal_mode=WAL", &is_log)) <
            0 ||
        is_log)
        return status;
    return es_fail(ES_EIO,
                   "%s: its file system does not let SQLite keep a write-ahead "
                   "log: write to a local disk",
                   database->path);
}

static es_status open_writer(es_writer *writer, const char *path,
                             es_durability durability)
{
    es_database *database = &writer->database;
    const char *synchronous = durability == ES_FAST
                                  ? "PRAGMA synchronous=NORMAL"
                                  : "PRAGMA synchronous=FULL";
    int64_t size = 0;
    es_status status;
    if (es_esf_is_name(path))
        return es_writer_open_fragment(writer, path, durability);
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_lock_take(&writer->lock, database->file, path)) < 0 ||
        (status = es_database_inspect(database, &size)) < 0 ||
        (size <= 0 && (status = create_file(database)) < 0))
        return status;
    writer->fresh = size <= 0;
    if ((status = es_database_open(database, true)) < 0 ||
        (status = start_log(database)) < 0 ||
        (status = es_log_open(writer)) < 0 ||
        (status = es_database_execute(database, synchronous)) < 0)
        return status;
    return es_writer_prepare(writer);
}

es_status es_writer_open(es_writer **out, const char *path,
                         es_durability durability)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a writer");
    if (status == ES_OK && (status = open_writer(*out, path, durability)) < 0) {
        es_writer_abandon(*out);
        *out = NULL;
    }
    return status;
}

/* --- closing ------------------------------------------------------------- */

static bool has_moved(const es_writer *writer)
{
    int moved = 0;
    if (writer->out)
        return es_esf_out_has_moved(writer->out);
    sqlite3_file_control(writer->database.handle, "main",
                         SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
}

es_status es_writer_check_place(const es_writer *writer)
{
    es_status status;
    if ((status = es_database_check_owner(&writer->database)) < 0)
        return status;
    if (has_moved(writer))
        return es_fail(ES_EIO,
                       "%s: removed, moved or replaced while it was "
                       "written: the recorded data is in the old file, if "
                       "that still exists",
                       writer->database.path);
    return ES_OK;
}

/**
 * Makes SQLite keep the log when the file is closed, if another file has
 * replaced ours. The log next to the file may then belong to the other file.
 * Returns true in this case.
 */
static bool keep_log_of_other(es_writer *writer)
{
    int yes = 1;
    if (!has_moved(writer) || access(writer->database.file, F_OK) != 0)
        return false;
    sqlite3_file_control(writer->database.handle, "main",
                         SQLITE_FCNTL_PERSIST_WAL, &yes);
    return true;
}

/**
 * Moves the log into the file, which then is a plain file. The journal of this
 * last change is kept in memory, because a journal that is left on the disk
 * would make readers refuse the file. This is safe because the change is within
 * one disk sector.
 */
static es_status settle(es_writer *writer)
{
    sqlite3 *handle = writer->database.handle;
    if (writer->log.none)
        return es_esf_out_finish(writer->out);
    bool replaced = keep_log_of_other(writer);
    sqlite3_busy_timeout(handle, ES_CLOSING_BUSY_MS);
    es_status status = es_log_checkpoint(writer, SQLITE_CHECKPOINT_TRUNCATE);
    if (writer->log.broken)
        sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    else if (status == ES_OK && !replaced)
        status = es_database_execute(&writer->database,
                                     "PRAGMA journal_mode=MEMORY");
    return status == ES_ELOCKED ? ES_OK : status;
}

/** Frees the writer. If `remove` is true, also removes the file. */
static void release(es_writer *writer, bool remove)
{
    bool ours = writer->database.owner == getpid();
    es_database_finalise_all(&writer->database, writer->statements, ES_N_SQL);
    bool broken = ours && writer->log.broken && !has_moved(writer);
    es_esf_out_free(writer->out);
    es_database_disconnect(&writer->database);
    if (broken || (ours && remove)) {
        /* A log with a hole is removed together with its index, which does not
           contain the hole. The file then has the state of the last complete
           checkpoint. Both files may also be left if a run file is abandoned on
           a full disk. */
        char path[PATH_MAX];
        unlink(es_beside(path, writer->database.file, "-wal"));
        unlink(es_beside(path, writer->database.file, "-shm"));
    }
    if (ours && remove)
        unlink(writer->database.file);
    es_database_close(&writer->database);
    es_lock_release(&writer->lock, ours);
    free(writer->runs);
    free(writer->series);
    free(writer);
}

static es_status fail_away(const es_writer *writer)
{
    return es_fail(ES_EIO,
                   "%s-wal: removed, moved or replaced while it was written: "
                   "its contents are lost, because a reader kept them from "
                   "being moved into the run file",
                   writer->database.path);
}

es_status es_writer_close(es_writer *writer)
{
    if (!writer)
        return ES_OK;
    es_database *database = &writer->database;
    es_status status = es_database_check_owner(database);
    if (status == ES_OK) {
        if (writer->in_transaction)
            status = es_writer_commit(writer);
        bool away = es_writer_log_is_away(writer);
        es_status settled = settle(writer);
        if (status == ES_OK)
            status = settled;
        if (status == ES_OK && away && !writer->log.settled)
            status = fail_away(writer);
        if (status == ES_OK)
            status = es_writer_check_place(writer);
    }
    release(writer, false);
    return status;
}

void es_writer_abandon(es_writer *writer)
{
    if (!writer)
        return;
    char why[ES_MESSAGE_MAX];
    snprintf(why, sizeof why, "%s", es_message());
    es_writer_rollback(writer);
    bool useless = writer->fresh; /* remove a new file that contains no run */
    if (writer->ready && writer->database.owner == getpid()) {
        useless = useless && !has_moved(writer);
        if (settle(writer) < 0)
            es_fail(ES_EIO, "%s", why);
    }
    release(writer, useless);
}

/* --- transactions -------------------------------------------------------- */

/** Writes the last step of each run to which samples were added. */
static es_status save_last_steps(es_writer *writer)
{
    for (size_t i = 0; i < writer->n_runs; i++) {
        es_written_run *run = &writer->runs[i];
        if (run->last_step == run->saved_step)
            continue;
        sqlite3_stmt *s = writer->statements[ES_SQL_LAST_STEP];
        sqlite3_bind_int64(s, 1, run->id);
        es_bind_number(s, 2, run->last_step);
        es_status status = es_writer_step(writer, s);
        if (status < 0 ||
            (run->has_ended &&
             (status = es_writer_seal(writer, ES_SQL_RUN_ROW, run->id)) < 0))
            return status;
    }
    return ES_OK;
}

/**
 * Rolls back without setting an error message, because the preceding failure
 * has set one.
 */
static void roll_back(es_writer *writer)
{
    sqlite3_stmt *s = writer->statements[ES_SQL_ROLLBACK];
    if (!sqlite3_get_autocommit(writer->database.handle)) {
        sqlite3_step(s);
        sqlite3_reset(s);
    }
    es_esf_out_rollback(writer->out);
    es_esf_index_roll_back(writer->database.samples);
    /* Pending runs are at the end of the array, so removing them does not
       change the indexes by which series refer to runs. */
    size_t n = 0;
    for (size_t i = 0; i < writer->n_series; i++)
        if (!writer->series[i].pending)
            writer->series[n++] = writer->series[i];
    writer->n_series = n;
    while (writer->n_runs > 0 && writer->runs[writer->n_runs - 1].pending)
        writer->n_runs--;
    for (size_t i = 0; i < writer->n_runs; i++)
        writer->runs[i].last_step = writer->runs[i].saved_step;
}

static es_status commit(es_writer *writer)
{
    es_status status;
    if ((status = save_last_steps(writer)) < 0 ||
        (status = es_log_check(writer)) < 0 ||
        (status = es_esf_out_commit(writer->out)) < 0 ||
        (status = es_writer_step(writer, writer->statements[ES_SQL_COMMIT])) <
            0) {
        roll_back(writer);
        return status;
    }
    es_esf_index_commit(writer->database.samples);
    /* The runs and series added since begin are now in the file. */
    for (size_t i = 0; i < writer->n_runs; i++) {
        writer->runs[i].saved_step = writer->runs[i].last_step;
        writer->runs[i].pending = false;
    }
    for (size_t i = 0; i < writer->n_series; i++)
        writer->series[i].pending = false;
    writer->fresh = false;
    es_log_after_commit(writer);
    return ES_OK;
}

/**
 * Begins a transaction and then checks the log, because pages that SQLite reads
 * from a log with a hole are out of date.
 */
static es_status begin(es_writer *writer)
{
    es_status status;
    if ((status = es_writer_step(writer, writer->statements[ES_SQL_BEGIN])) <
            0 ||
        (status = es_log_check(writer)) < 0)
        roll_back(writer);
    return status;
}

es_status es_writer_begin(es_writer *writer)
{
    es_status status = es_database_check_owner(&writer->database);
    if (status < 0)
        return status;
    if (writer->in_transaction)
        return es_fail(ES_EARGUMENT, "%s: begin within a transaction",
                       writer->database.path);
    status = begin(writer);
    writer->in_transaction = status == ES_OK;
    writer->spoilt = false;
    return status;
}

es_status es_writer_commit(es_writer *writer)
{
    es_status status = es_database_check_owner(&writer->database);
    if (status < 0)
        return status;
    if (!writer->in_transaction)
        return es_fail(ES_EARGUMENT, "%s: commit without begin",
                       writer->database.path);
    writer->in_transaction = false;
    if (!writer->spoilt)
        return commit(writer);
    roll_back(writer);
    return es_fail(ES_EIO, "%s: nothing of this transaction was written",
                   writer->database.path);
}

void es_writer_rollback(es_writer *writer)
{
    if (!writer->in_transaction || writer->database.owner != getpid())
        return;
    writer->in_transaction = false;
    roll_back(writer);
}

es_status es_writer_enter(es_writer *writer, bool *own)
{
    es_status status = es_database_check_owner(&writer->database);
    if (status < 0)
        return status;
    *own = !writer->in_transaction;
    if (*own)
        return begin(writer);
    if (writer->spoilt)
        return es_fail(ES_EIO, "%s: this transaction failed: roll it back",
                       writer->database.path);
    return ES_OK;
}

es_status es_writer_leave(es_writer *writer, bool own, es_status status)
{
    if (own && status == ES_OK)
        return commit(writer);
    if (own)
        roll_back(writer);
    else if (status < 0)
        writer->spoilt = true;
    return status;
}
