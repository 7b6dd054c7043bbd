/* Reads fragment files. Each reading starts where the last reading ended, finds
 * complete frames, and passes their records to esf_replay.c. A torn frame at
 * the end is left for a later reading; a damaged frame is skipped and counted.
 * esf_in.h describes the functions. */
#include "store/esf_in_internal.h"

#include "analyzer/base/checked.h"
#include "store/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of bytes that are read at once, both in frames and while a frame is
 * searched for. */
#define CHUNK 65536
/* Maximum number of bytes after a damaged frame in which one reading searches
 * for the next frame. */
#define SEARCH_MOST (64 << 20)
#define N_TAILS (sizeof((es_tails *)0)->known / sizeof *((es_tails *)0)->known)

/* --- bytes ---------------------------------------------------------------- */

/** Reads exactly n bytes. Returns ES_OK, ES_DONE if the file is shorter, or
 * ES_EIO. */
static es_status read_at(const es_esf *esf, void *out, size_t n, int64_t at)
{
    unsigned char *bytes = out;
    while (n > 0) {
        ssize_t done = pread(esf->fd, bytes, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return es_fail(ES_EIO, "%s: cannot read: %s", esf->database->path,
                           strerror(errno));
        if (done == 0)
            return ES_DONE;
        bytes += done;
        n -= (size_t)done;
        at += done;
    }
    return ES_OK;
}

/**
 * Reads n bytes at offset `at`, which are valid until the next call, and reads
 * ahead up to the size that the file had when it was opened. Returns the same
 * statuses as read_at.
 */
static es_status read_on(unsigned char **out, es_esf *esf, size_t n, int64_t at)
{
    const int64_t left = esf->size - at;
    const size_t ahead = left < CHUNK ? (size_t)(left > 0 ? left : 0) : CHUNK;
    es_status status = es_esf_pieces_get(out, &esf->pieces, at, n, ahead);
    return status == ES_EIO ? es_fail(ES_EIO, "%s: cannot read: %s",
                                      esf->database->path, strerror(errno))
                            : status;
}

/**
 * Opens the file again, which makes data from other hosts visible. Sets `*same`
 * to true if the path still names the file that was read before.
 */
static es_status open_file(es_esf *esf, bool *same)
{
    const es_database *database = esf->database;
    struct stat st;
    int fd =
        open(database->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return es_fail(ES_EIO, "%s: cannot open: %s", database->path,
                       strerror(reason));
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return es_fail(ES_EIO,
                       "%s: not a regular file: only regular files hold a run",
                       database->path);
    }
    *same = esf->place.end > 0 && st.st_dev == esf->device &&
            st.st_ino == esf->inode;
    if (esf->fd >= 0)
        close(esf->fd);
    esf->fd = fd;
    es_esf_pieces_restart(&esf->pieces, fd);
    if (esf->database->samples)
        es_esf_index_set_file(esf->database->samples, fd);
    esf->device = st.st_dev;
    esf->inode = st.st_ino;
    esf->size = st.st_size;
    esf->changed =
        (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return ES_OK;
}

static es_status read_header(es_esf *esf)
{
    unsigned char header[ES_ESF_HEADER_BYTES];
    const char *path = esf->database->path;
    bool newer = false;
    es_status status = read_at(esf, header, sizeof header, 0);
    if (status == ES_OK && es_esf_header_read(&esf->place.seed, &newer, header))
        return ES_OK;
    if (status < 0)
        return status;
    if (newer)
        return es_fail(ES_EVERSION,
                       "%s: a fragment of a newer version than this program's: "
                       "upgrade entropy-scan",
                       path);
    return es_fail(ES_EFORMAT,
                   "%s: not a fragment, or its header is damaged or not yet "
                   "written",
                   path);
}

/* --- frames --------------------------------------------------------------- */

/**
 * Reads the header of a frame at offset `at`. Returns ES_DONE if no frame
 * begins there.
 */
static es_status read_head(es_esf *esf, es_esf_frame *frame, int64_t at)
{
    unsigned char *head;
    es_status status = read_on(&head, esf, ES_ESF_FRAME_BYTES, at);
    if (status != ES_OK)
        return status;
    return es_esf_frame_read(frame, head, esf->place.seed) &&
                   frame->sequence >= esf->place.sequence
               ? ES_OK
               : ES_DONE;
}

/**
 * Reads the payload of the frame at offset `at` into esf->payload. Returns
 * ES_DONE if the payload is truncated, and ES_EFORMAT without a message if it
 * is damaged.
 */
static es_status read_payload(es_esf *esf, const es_esf_frame *frame,
                              int64_t at)
{
    if (at + ES_ESF_FRAME_BYTES + (int64_t)frame->bytes > esf->size)
        return ES_DONE;
    es_status status =
        read_on(&esf->payload, esf, frame->bytes, at + ES_ESF_FRAME_BYTES);
    if (status != ES_OK)
        return status;
    return es_esf_checksum(esf->place.seed, esf->payload, frame->bytes) ==
                   frame->crc
               ? ES_OK
               : ES_EFORMAT;
}

/**
 * Returns a pointer to the offset up to which the bytes after the last frame
 * have already been searched for another frame.
 */
static int64_t *find_tail(es_esf *esf)
{
    es_tails *tails = &esf->tails;
    if (tails->seed != esf->place.seed)
        *tails = (es_tails){.most = tails->most, .seed = esf->place.seed};
    for (unsigned i = 0; i < tails->n; i++)
        if (tails->known[i].end == esf->place.end)
            return &tails->known[i].searched;
    if (tails->n < N_TAILS)
        tails->n++;
    tails->known[tails->n - 1].end = esf->place.end;
    tails->known[tails->n - 1].searched = esf->place.end;
    return &tails->known[tails->n - 1].searched;
}

/**
 * Stores how far the bytes after the last frame were searched, so that the
 * search can continue there. Does nothing if bytes before this offset may still
 * change: in a file that was written on another machine, later bytes may become
 * visible before earlier bytes.
 */
static void remember_tail(es_esf *esf, int64_t at)
{
    if (es_esf_is_of_this_machine(esf) ||
        es_esf_clock() - esf->changed >= ES_ESF_SETTLED_MS)
        *find_tail(esf) = at;
}

/**
 * If *at lies in a hole of a sparse file, moves *at to the next data. Returns
 * false if no data follows.
 */
static bool skip_hole(const es_esf *esf, int64_t *at)
{
    const off_t data = lseek(esf->fd, *at, SEEK_DATA);
    if (data > *at)
        *at = data;
    return data >= 0 || errno != ENXIO;
}

/**
 * Finds the first frame header at or after offset *at. Returns ES_DONE if
 * there is no header within the number of bytes that one reading of the file
 * may search. Holes of a sparse file are skipped and do not count towards this
 * limit.
 */
static es_status find_head(es_esf *esf, es_esf_frame *frame, int64_t *at)
{
    unsigned char bytes[CHUNK + ES_ESF_FRAME_BYTES];
    const int64_t most = esf->tails.most ? esf->tails.most : SEARCH_MOST;
    while (*at + ES_ESF_FRAME_BYTES <= esf->size && skip_hole(esf, at)) {
        const int64_t left = esf->size - *at;
        if (left < ES_ESF_FRAME_BYTES)
            break;
        if (esf->looked >= most) {
            esf->tails.more = true;
            if (!esf->tails.most) /* no later reading continues the search for
                                     frames, so the end of the data stays
                                     unknown and a writer must not append */
                esf->is_behind = esf->has_lost = true;
            break;
        }
        const size_t n =
            left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes;
        es_status status = read_at(esf, bytes, n, *at);
        if (status != ES_OK)
            return status;
        const size_t last = n - ES_ESF_FRAME_BYTES;
        for (size_t i = 0; i <= last; i++)
            if (es_esf_frame_read(frame, bytes + i, esf->place.seed) &&
                frame->sequence >= esf->place.sequence) {
                *at += (int64_t)i;
                remember_tail(esf, *at);
                return ES_OK;
            }
        *at += (int64_t)last + 1;
        esf->looked += (int64_t)last + 1;
    }
    remember_tail(esf, *at);
    return ES_DONE;
}

/**
 * Returns true if all hosts see everything that was written before a frame.
 * This is true if the frame or the last change of the file is old enough, or if
 * the frame is dated in the future.
 */
static bool is_settled(const es_esf *esf, const es_esf_frame *frame)
{
    const int64_t now = es_esf_clock(), age = now - frame->time;
    return age >= ES_ESF_SETTLED_MS || age <= -ES_ESF_SETTLED_MS ||
           now - esf->changed >= ES_ESF_SETTLED_MS;
}

/**
 * Finds the next complete frame and reads its payload. Sets `*n_lost` to the
 * number of damaged frames before it. Returns ES_DONE if there is no further
 * complete frame yet.
 */
static es_status next_frame(es_esf *esf, es_esf_frame *frame, int64_t *at,
                            uint64_t *n_lost)
{
    const uint64_t wanted = esf->place.sequence;
    bool holes = false;
    *at = esf->place.end;
    esf->is_behind = false;
    for (;;) {
        es_status status = read_head(esf, frame, *at);
        if (status == ES_DONE) {
            const int64_t searched = *find_tail(esf);
            *at = searched > *at ? searched : *at + 1;
            status = find_head(esf, frame, at);
        }
        if (status != ES_OK)
            return status;
        holes = holes || frame->sequence != wanted;
        if (holes && !is_settled(esf, frame)) {
            esf->is_behind = true;
            return ES_DONE;
        }
        status = read_payload(esf, frame, *at);
        if (status == ES_OK) {
            *n_lost = frame->sequence - wanted;
            return ES_OK;
        }
        if (status == ES_EFORMAT && !is_settled(esf, frame)) {
            esf->is_behind = true;
            return ES_DONE;
        }
        if (status != ES_EFORMAT)
            return status;
        holes = true;
        *at += ES_ESF_FRAME_BYTES + (int64_t)frame->bytes;
    }
}

es_status es_esf_take_frames(es_esf *esf)
{
    esf->looked = 0;
    esf->tails.more = false;
    for (;;) {
        es_esf_frame frame;
        int64_t at;
        uint64_t n_lost = 0;
        es_status status = next_frame(esf, &frame, &at, &n_lost);
        if (status != ES_OK)
            return status == ES_DONE ? ES_OK : status;
        if ((status = esf->take(esf, &frame, at, n_lost)) < 0)
            return status;
        esf->last = at;
        esf->last_frame = frame;
        esf->place.end = at + ES_ESF_FRAME_BYTES + (int64_t)frame.bytes;
        esf->place.sequence = frame.sequence + 1;
        if (frame.bytes > 0)
            esf->place.attempt = frame.attempt;
    }
}

/** Returns true if the file still contains the frame that was read last. */
static bool is_continued(const es_esf *esf)
{
    unsigned char head[ES_ESF_FRAME_BYTES];
    es_esf_frame frame;
    return esf->place.end > 0 && esf->size >= esf->place.end &&
           read_at(esf, head, sizeof head, esf->last) == ES_OK &&
           es_esf_frame_read(&frame, head, esf->place.seed) &&
           frame.sequence == esf->last_frame.sequence &&
           frame.crc == esf->last_frame.crc &&
           frame.time == esf->last_frame.time;
}

es_status es_esf_reopen(es_esf *esf, bool *continued)
{
    bool same = false;
    es_status status = open_file(esf, &same);
    *continued = status == ES_OK && same && !esf->stale && is_continued(esf);
    if (status == ES_OK && !*continued && esf->place.end > 0)
        esf->tails.n = 0;
    return status;
}

void es_esf_rest(es_esf *esf)
{
    if (esf->fd >= 0)
        close(esf->fd);
    esf->fd = -1;
    es_esf_pieces_free(&esf->pieces);
}

static es_status load_frames(es_esf *esf, bool continued)
{
    es_status status;
    if (!continued &&
        ((status = es_esf_forget(esf)) < 0 || (status = read_header(esf)) < 0))
        return status;
    if (!continued)
        esf->place.end = ES_ESF_HEADER_BYTES;
    if ((status = es_esf_take_frames(esf)) < 0)
        return status;
    if (esf->n_nobodys > 0)
        return es_fail(
            ES_EFORMAT,
            "%s: damaged: the frame that describes the run cannot be read: "
            "restore a copy",
            esf->database->path);
    if (esf->place.sequence > 0)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: its first frame is damaged or not yet written",
                   esf->database->path);
}

es_status es_esf_refresh(es_esf *esf)
{
    bool continued;
    es_status status = es_esf_reopen(esf, &continued);
    if (status < 0)
        return status;
    if ((status = es_writer_begin(esf->writer)) < 0)
        return status;
    status = load_frames(esf, continued);
    if (status == ES_OK)
        status = es_writer_commit(esf->writer);
    else
        es_writer_rollback(esf->writer);
    esf->stale = status < 0; /* after a failure, the tables may not contain
                                exactly the frames before esf->place, so the
                                next refresh must load the whole file again */
    return status;
}

/* --- opening and closing -------------------------------------------------- */

es_status es_esf_open(es_esf **out, es_database *database, bool is_new)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a fragment");
    if (status < 0)
        return status;
    es_esf *esf = *out;
    esf->database = database;
    esf->tails = database->tails;
    esf->fd = -1;
    esf->take = es_esf_replay;
    if ((status = es_esf_make_tables(esf)) < 0)
        return status;
    return is_new ? ES_OK : es_esf_refresh(esf);
}

void es_esf_close(es_esf *esf)
{
    if (!esf)
        return;
    es_esf_drop_tables(esf);
    es_esf_rest(esf);
    free(esf);
}

/* --- the writer ----------------------------------------------------------- */

bool es_esf_is_of_this_machine(const es_esf *esf)
{
    char boot[ES_UUID_SIZE];
    es_esf_boot(boot);
    return boot[0] && strcmp(boot, esf->boot) == 0;
}

bool es_esf_is_silent(const es_esf *esf)
{
    return es_esf_clock() - esf->last_frame.time > ES_ESF_SILENT_MS;
}

es_status es_esf_find_end(const es_esf *esf, es_esf_place *out)
{
    *out = esf->place;
    if (esf->has_lost)
        return es_fail(
            ES_EFORMAT,
            "%s: damaged, so no recording can continue in it: record into "
            "another file",
            esf->database->path);
    if (esf->place.end == 0 || esf->last_frame.closed ||
        es_esf_is_silent(esf) || es_esf_is_of_this_machine(esf))
        return ES_OK;
    return es_fail(ES_ELOCKED,
                   "%s: process %lld of host %s wrote to it %lld s ago: wait "
                   "for it to end, or write another file",
                   esf->database->path, (long long)esf->pid, esf->host,
                   (long long)(es_esf_clock() - esf->last_frame.time) / 1000);
}

es_status es_esf_is_written(const es_esf *esf, bool *out)
{
    const es_database *database = esf->database;
    char type[ES_MOUNT_TYPE_SIZE];
    *out = false;
    if (esf->place.end == 0 || esf->last_frame.closed)
        return ES_OK;
    if (es_esf_is_of_this_machine(esf) &&
        es_lock_check(out, database->file, database->path) == ES_OK) {
        if (*out)
            return ES_OK;
        /* If no lock is found, the file may still be locked through another
           mount of a file system that hosts share. */
        es_mount_of_file(type, database->file);
        if (!type[0])
            return ES_OK;
    }
    *out = !es_esf_is_silent(esf);
    return ES_OK;
}

/* --- the backend ---------------------------------------------------------- */

static es_status open_source(es_run_source *source, const char *path)
{
    es_database *database = source->database;
    es_esf *esf = NULL;
    int64_t size = 0;
    es_status status;
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_database_inspect(database, &size)) < 0)
        return status;
    if (size < 0)
        return es_fail(ES_EIO, "%s: no such file", path);
    status = es_esf_open(&esf, database, false);
    source->state = esf;
    return status;
}

static es_status refresh_source(const es_run_source *source)
{
    return es_esf_refresh(source->state);
}

static es_status is_source_written(const es_run_source *source, bool *out)
{
    return es_esf_is_written(source->state, out);
}

static void close_source(es_run_source *source)
{
    es_esf_close(source->state);
}

static const es_run_source_loss *losses_of(const es_run_source *source,
                                           size_t *n)
{
    const es_esf *esf = source->state;
    *n = esf->n_losses;
    return esf->losses;
}

/* Returns true if the file has complete frames that are not read yet: they
 * follow a missing frame and are newer than ES_ESF_SETTLED_MS. */
static bool is_source_behind(const es_run_source *source)
{
    const es_esf *esf = source->state;
    return esf->is_behind;
}

const es_store_backend es_esf_backend = {
    .accepts = es_esf_is_name,
    .open = open_source,
    .refresh = refresh_source,
    .is_written = is_source_written,
    .close = close_source,
    .losses = losses_of,
    .is_behind = is_source_behind,
};

es_esf *es_esf_of(const es_run_source *source)
{
    return source->backend == &es_esf_backend ? source->state : NULL;
}
