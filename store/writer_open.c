/* Opens and closes writers of run files and fragments. Opening takes the
   writer's lock, and creates a new file from an empty image or reads the
   existing file's tables. Closing moves the write-ahead log into the run file,
   so that one plain file is left. writer.c writes the tables. */
#include "store/writer_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/leftover.h"
#include "analyzer/base/outfile.h"
#include "store/esf_in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- opening -------------------------------------------------------------- */

/**
 * Writes the image of an empty run file into the temporary file of an
 * es_outfile. The temporary file is overwritten in place. If it were replaced,
 * no process would have the new file open, and other processes would remove it
 * as the remains of a killed process.
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
 * at settle_log().
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

/**
 * Loads the runs, series and events of the existing fragment into the private
 * database, and finds the offset at which its frames end.
 */
static es_status read_past(es_database *database, es_esf_place *place)
{
    int64_t size = 0;
    es_esf *past = NULL;
    es_status status;
    if ((status = es_database_inspect(database, &size)) == ES_OK &&
        (status = es_esf_open(&past, database, size <= 0)) == ES_OK)
        status = es_esf_find_end(past, place);
    es_esf_close(past);
    return status;
}

static es_status open_fragment(es_writer *writer, const char *path,
                               es_durability durability)
{
    es_database *database = &writer->database;
    es_esf_place place;
    es_status status;
    writer->log.none = true;
    writer->lock.is_optional = true;
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_lock_take(&writer->lock, database->file, path)) < 0 ||
        (status = read_past(database, &place)) < 0 ||
        (status = es_esf_out_open(&writer->out, database, &place,
                                  durability == ES_DURABLE)) < 0)
        return status;
    return es_writer_prepare(writer);
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
        return open_fragment(writer, path, durability);
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
 * Returns true if another file has replaced the writer's file. The write-ahead
 * log next to the path may then belong to the other file, so this function
 * makes SQLite keep the log when the file is closed.
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
 * Moves the write-ahead log into the run file, and leaves WAL mode. If SQLite
 * failed to release a lock (log.stuck), leaves the log next to the file. While
 * the mode is changed, the rollback journal is in memory, because a journal
 * that is left on the disk would make readers refuse the file. This is safe
 * because the change is within one disk sector.
 */
static es_status settle_log(es_writer *writer)
{
    sqlite3 *handle = writer->database.handle;
    if (writer->log.none)
        return es_esf_out_finish(writer->out);
    if (writer->log.stuck) {
        sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        return ES_OK;
    }
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
static void free_writer(es_writer *writer, bool remove)
{
    bool ours = writer->database.owner == getpid();
    es_database_finalise_all(&writer->database, writer->statements, ES_N_SQL);
    bool broken = ours && writer->log.broken && !has_moved(writer);
    es_esf_out_free(writer->out);
    es_database_disconnect(&writer->database);
    if (broken || (ours && remove)) {
        /* A write-ahead log with a hole is removed together with its index,
           which does not contain the hole. The file then has the state of the
           last complete checkpoint. Both files may also be left if a run file
           is abandoned on a full disk. */
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
        es_status settled = settle_log(writer);
        if (status == ES_OK)
            status = settled;
        if (status == ES_OK && away && !writer->log.settled)
            status = fail_away(writer);
        if (status == ES_OK)
            status = es_writer_check_place(writer);
    }
    free_writer(writer, false);
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
        if (settle_log(writer) < 0)
            es_fail(ES_EIO, "%s", why);
    }
    free_writer(writer, useless);
}

/* --- heartbeats of a fragment --------------------------------------------- */

void es_writer_beat(es_writer *writer)
{
    if (writer->database.owner == getpid() && !writer->in_transaction)
        es_esf_out_beat(writer->out);
}

int64_t es_writer_beat_ms(const es_writer *writer)
{
    return writer->out ? ES_ESF_BEAT_MS : -1;
}
