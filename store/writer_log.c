/* Manages the write-ahead log of a file that is being written. SQLite trusts
   the log's index in shared memory: if another program truncated the log,
   SQLite would continue writing after the missing part and copy the missing
   part into the run file. This file therefore compares the log's length with
   the index before each transaction and commit. It also makes the checkpoints,
   before which it compares all frames with the index. Relies on the format of
   both files (sqlite.org/walformat.html). */
#include "store/writer_internal.h"

#include "analyzer/base/kernel.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_HEADER 32
#define FRAME_HEADER 24
/* Number of frames after which a checkpoint is made (4 MiB), as by default in
   SQLite. */
#define CHECKPOINT_FRAMES 1000
/* Number of further frames after which a checkpoint is tried again if readers
   blocked it. */
#define AGAIN_FRAMES 256
/* A log becomes this long (in frames) only if readers keep it in use, so that
 * SQLite cannot restart it. The writer then tries to empty the log. */
#define EMPTY_FRAMES 2000
/* Size in bytes to which SQLite truncates a log when the log restarts. */
#define LOG_BYTES "4194304"
/* Maximum number of times that one attempt to empty the log waits 1 ms for
 * readers to finish. */
#define PATIENCE 500
/* Minimum time between two attempts to empty the log. */
#define SHORTEST_PAUSE_MS 1000
#define LONGEST_PAUSE_MS 8000

/** The first bytes of the index, in the machine's byte order. */
typedef struct es_log_index {
    uint32_t version, unused, change;
    uint8_t is_init, big_endian;
    uint16_t page_size; /* 1 means 65536 */
    uint32_t n_frames, n_pages;
    uint32_t checksum[2]; /* checksum of the last frame */
    uint32_t salt[2];     /* salts of the log, in the byte order of the log */
    uint32_t own_checksum[2];
} es_log_index;

static sqlite3_file *file_of(const es_writer *writer, int which)
{
    sqlite3_file *file = NULL;
    sqlite3_file_control(writer->database.handle, "main", which, &file);
    return file && file->pMethods ? file : NULL;
}

/* --- comparing ----------------------------------------------------------- */

static es_status fail_broken(es_writer *writer)
{
    writer->log.broken = true;
    return es_fail(ES_EIO,
                   "%s-wal: another program truncated or overwrote it while it "
                   "was written: its contents are lost",
                   writer->database.path);
}

/**
 * Reads the index. Must be called within a write transaction. Returns false if
 * there is no index yet, or if the log is empty.
 */
static bool read_index(const es_writer *writer, es_log_index *index)
{
    void volatile *region = NULL;
    sqlite3_file *file = file_of(writer, SQLITE_FCNTL_FILE_POINTER);
    if (!file || file->pMethods->iVersion < 2 ||
        file->pMethods->xShmMap(file, 0, 32768, 0, &region) != SQLITE_OK ||
        !region)
        return false;
    const volatile uint32_t *shared = region;
    uint32_t words[sizeof *index / sizeof(uint32_t)];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = shared[i];
    memcpy(index, words, sizeof *index);
    return index->is_init && index->n_frames > 0;
}

static int64_t frame_size(const es_log_index *index)
{
    return FRAME_HEADER +
           (index->page_size == 1 ? 65536 : (int64_t)index->page_size);
}

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
           (uint32_t)bytes[2] << 8 | bytes[3];
}

/**
 * Sets *same to false if the frames first..last of the log, counted from 1, do
 * not match the index.
 */
static int compare_frames(sqlite3_file *log, const es_log_index *index,
                          uint32_t first, uint32_t last, bool *same)
{
    unsigned char header[FRAME_HEADER] = {0};
    int rc = SQLITE_OK;
    for (uint32_t i = first; i <= last && *same && rc == SQLITE_OK; i++) {
        int64_t place = LOG_HEADER + (i - 1) * frame_size(index);
        rc = log->pMethods->xRead(log, header, sizeof header, place);
        *same = memcmp(header + 8, index->salt, sizeof index->salt) == 0;
    }
    if (rc == SQLITE_OK && last == index->n_frames)
        *same = *same && big_endian(header + 16) == index->checksum[0] &&
                big_endian(header + 20) == index->checksum[1];
    return rc;
}

/** Checks that the log is long enough for all frames in its index. */
static es_status compare_size(es_writer *writer, sqlite3_file *log,
                              const es_log_index *index)
{
    sqlite3_int64 size = 0;
    int rc = log ? log->pMethods->xFileSize(log, &size) : SQLITE_OK;
    if (rc == SQLITE_OK &&
        size < LOG_HEADER + index->n_frames * frame_size(index))
        return fail_broken(writer);
    return es_database_status(&writer->database, rc);
}

/**
 * Checks the log's size, the log's header, and the log's frames from frame
 * `first` on.
 */
static es_status compare_frames_from(es_writer *writer,
                                     const es_log_index *index, uint32_t first)
{
    unsigned char header[LOG_HEADER] = {0};
    sqlite3_file *log = file_of(writer, SQLITE_FCNTL_JOURNAL_POINTER);
    es_status status = compare_size(writer, log, index);
    if (status < 0)
        return status;
    int rc = log->pMethods->xRead(log, header, sizeof header, 0);
    bool same = memcmp(header + 16, index->salt, sizeof index->salt) == 0;
    if (rc == SQLITE_OK && same)
        rc = compare_frames(log, index, first, index->n_frames, &same);
    if (rc == SQLITE_IOERR_SHORT_READ || (rc == SQLITE_OK && !same))
        return fail_broken(writer);
    return es_database_status(&writer->database, rc);
}

es_status es_log_check(es_writer *writer)
{
    es_log_index index;
    if (writer->log.none)
        return ES_OK;
    if (writer->log.broken)
        return fail_broken(writer);
    if (!read_index(writer, &index))
        return ES_OK;
    return compare_size(writer, file_of(writer, SQLITE_FCNTL_JOURNAL_POINTER),
                        &index);
}

es_status es_log_begin(es_writer *writer)
{
    es_status status =
        es_database_step(&writer->database, writer->statements[ES_SQL_BEGIN]);
    if (status < 0 &&
        sqlite3_errcode(writer->database.handle) == SQLITE_PROTOCOL)
        writer->log.stuck = true;
    return status;
}

/**
 * Checks all frames that were not checked by an earlier call. The function
 * holds the writer's lock during the check, so that no other process can
 * restart the log.
 */
static es_status check_all(es_writer *writer)
{
    es_log_index index;
    es_log *log = &writer->log;
    if (log->broken)
        return fail_broken(writer);
    es_status status = es_log_begin(writer);
    if (status < 0)
        return status;
    if (read_index(writer, &index)) {
        bool restarted = log->n_checked == 0 || index.salt[0] != log->salt ||
                         index.n_frames < log->n_checked;
        /* The last checked frame is read again, because its checksum covers all
           earlier frames. */
        status =
            compare_frames_from(writer, &index, restarted ? 1 : log->n_checked);
        log->salt = index.salt[0];
        log->n_checked = status == ES_OK ? index.n_frames : 0;
    }
    sqlite3_step(writer->statements[ES_SQL_ROLLBACK]);
    sqlite3_reset(writer->statements[ES_SQL_ROLLBACK]);
    return status;
}

/* --- its place ------------------------------------------------------------ */

static bool stat_log(const es_writer *writer, struct stat *st)
{
    return es_beside_stat(st, writer->database.file, "-wal") == 0;
}

bool es_writer_log_is_away(const es_writer *writer)
{
    struct stat st;
    const es_log *log = &writer->log;
    return log->is_known &&
           (!stat_log(writer, &st) || st.st_ino != log->inode ||
            st.st_dev != log->device);
}

bool es_writer_log_is_broken(es_writer *writer)
{
    char message[ES_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", es_message());
    const es_log *log = &writer->log;
    if (!log->none && !log->broken && !log->stuck && !writer->in_transaction &&
        check_all(writer) < 0 && !log->broken)
        es_fail(ES_EIO, "%s", message);
    return log->broken;
}

bool es_writer_is_stuck(const es_writer *writer)
{
    return writer->log.stuck;
}

int64_t es_writer_log_bytes(const es_writer *writer)
{
    sqlite3_int64 size = 0;
    sqlite3_file *log =
        writer->log.none ? NULL : file_of(writer, SQLITE_FCNTL_JOURNAL_POINTER);
    return !log || log->pMethods->xFileSize(log, &size) != SQLITE_OK ? 0 : size;
}

/* SQLite's readers each lock one of these bytes of FILE-shm; see
   sqlite.org/walformat.html, section 2.3.2. */
#define FIRST_READ_LOCK 123
#define LAST_READ_LOCK 127

pid_t es_writer_log_reader(const es_writer *writer)
{
    struct stat st;
    char line[256];
    pid_t found = 0;
    FILE *locks = fopen("/proc/locks", "re");
    if (locks && es_beside_stat(&st, writer->database.file, "-shm") == 0)
        while (!found && fgets(line, sizeof line, locks)) {
            int pid;
            unsigned long long inode;
            long long first;
            if (sscanf(line, "%*s %*s %*s READ %d %*x:%*x:%llu %lld", &pid,
                       &inode, &first) == 3 &&
                inode == st.st_ino && first >= FIRST_READ_LOCK &&
                first <= LAST_READ_LOCK && pid > 0 && pid != getpid())
                found = pid;
        }
    if (locks)
        fclose(locks);
    return found;
}

/* --- checkpoints --------------------------------------------------------- */

static int count_frames(void *user, sqlite3 *handle, const char *name, int n)
{
    es_writer *writer = user;
    (void)handle;
    (void)name;
    writer->log.n_frames = n;
    writer->log.settled = false;
    return SQLITE_OK;
}

es_status es_log_open(es_writer *writer)
{
    /* The hook counts frames. It replaces SQLite's hook, which makes automatic
     * checkpoints. */
    sqlite3_wal_hook(writer->database.handle, count_frames, writer);
    return es_database_execute(&writer->database,
                               "PRAGMA journal_size_limit=" LOG_BYTES);
}

es_status es_log_checkpoint(es_writer *writer, int mode)
{
    int n_frames = -1, n_done = -1;
    es_status status = check_all(writer);
    if (status < 0)
        return status;
    int rc = sqlite3_wal_checkpoint_v2(writer->database.handle, "main", mode,
                                       &n_frames, &n_done);
    if (n_frames >= 0 && n_frames == n_done)
        writer->log.settled = true;
    if (n_frames >= 0)
        writer->log.n_frames = n_frames;
    return es_database_status(&writer->database, rc);
}

void es_log_after_commit(es_writer *writer)
{
    struct stat st;
    es_log *log = &writer->log;
    if (log->none)
        return;
    if (!log->is_known && stat_log(writer, &st)) {
        log->device = st.st_dev;
        log->inode = st.st_ino;
    }
    log->is_known = true;
    if (log->n_frames < CHECKPOINT_FRAMES)
        log->next = CHECKPOINT_FRAMES;
    else if (log->n_frames >= log->next) {
        /* The result is ignored, because the next transaction detects a failure
           that affects it. */
        (void)!es_log_checkpoint(writer, SQLITE_CHECKPOINT_PASSIVE);
        log->next = log->n_frames + AGAIN_FRAMES;
    }
}

es_status es_writer_settle(es_writer *writer)
{
    if (writer->log.none || writer->log.settled)
        return ES_OK;
    sqlite3_busy_timeout(writer->database.handle, ES_CLOSING_BUSY_MS);
    es_status status = es_log_checkpoint(writer, SQLITE_CHECKPOINT_TRUNCATE);
    sqlite3_busy_timeout(writer->database.handle, ES_BUSY_MS);
    if (status == ES_OK && !writer->log.settled)
        return es_database_fail(&writer->database, SQLITE_BUSY);
    return status;
}

bool es_writer_is_settled(const es_writer *writer)
{
    return writer->log.none || writer->log.settled;
}

/** Limits how long one attempt to empty the log waits for readers. */
typedef struct patience {
    int naps; /* remaining number of waits of 1 ms; the time for copying frames
                 does not count */
    bool (*has_time)(void *user);
    void *user;
} patience;

static int wait_for_readers(void *user, int n_waits)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    patience *left = user;
    (void)n_waits;
    if (!left->naps || !left->has_time(left->user))
        return 0;
    left->naps--;
    nanosleep(&nap, NULL);
    return 1;
}

void es_writer_tend_log(es_writer *writer, bool (*has_time)(void *user),
                        void *user)
{
    es_log *log = &writer->log;
    if (log->none || log->broken || log->stuck ||
        log->n_frames < EMPTY_FRAMES || es_now_ms() < log->retry)
        return;
    patience left = {PATIENCE, has_time, user};
    sqlite3_busy_handler(writer->database.handle, wait_for_readers, &left);
    es_status status = es_log_checkpoint(writer, SQLITE_CHECKPOINT_TRUNCATE);
    sqlite3_busy_timeout(writer->database.handle, ES_BUSY_MS);
    log->pause = 2 * log->pause;
    if (log->pause < SHORTEST_PAUSE_MS)
        log->pause = SHORTEST_PAUSE_MS;
    if (log->pause > LONGEST_PAUSE_MS)
        log->pause = LONGEST_PAUSE_MS;
    if (status == ES_OK)
        log->pause = 0;
    log->retry = es_now_ms() + log->pause;
}
