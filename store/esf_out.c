/* Appends to a fragment file. Records are gathered in memory, and each
 * transaction is written as one frame with one write and, for a durable file,
 * one fdatasync. The file logically ends with the last complete frame, so the
 * next frame overwrites the remains of a failed write. */
#include "store/esf_out.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/kernel.h"
#include "store/esf_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD ((size_t)ES_ESF_HEADER_BYTES + ES_ESF_FRAME_BYTES)

/** The state that a rollback restores. */
typedef struct state {
    uint32_t attempt;
    int64_t run, resume;
    size_t n_said; /* number of valid bytes in es_esf_out.said */
} state;

struct es_esf_out {
    const es_database *database;
    int fd; /* descriptor of the file, or -1 if the file is not created yet */
    bool durable;
    unsigned char *buffer; /* (size) bytes: file header, frame header,
                              payload */
    size_t size, used;     /* size of the buffer in bytes; number of payload
                              bytes in it */
    int64_t end; /* offset of the end of the last complete frame; 0 if the file
                    has no header */
    uint64_t sequence;
    uint32_t seed;
    state now, saved;
    int64_t beat; /* time of the last frame, in ms of a monotonic clock */
    /* Copies of the records that describe the current run and its series. They
     * are written again from time to time, so that damage loses little. */
    unsigned char *said;
    size_t since, again; /* payload bytes since the records in `said` were last
                            written; number of bytes after which they are
                            written again */
};

/* --- opening and closing -------------------------------------------------- */

static es_status fail_call(const es_esf_out *out, const char *doing, int reason)
{
    return es_fail(ES_EIO, "%s: cannot %s: %s", out->database->path, doing,
                   strerror(reason));
}

static es_status open_old(es_esf_out *out)
{
    out->fd = open(out->database->file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (out->fd < 0)
        return fail_call(out, "open", errno);
    return ftruncate(out->fd, out->end) == 0 ? ES_OK
                                             : fail_call(out, "write", errno);
}

es_status es_esf_out_open(es_esf_out **out, const es_database *database,
                          const es_esf_place *place, bool durable)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a fragment");
    if (status < 0)
        return status;
    **out = (es_esf_out){.database = database,
                         .fd = -1,
                         .durable = durable,
                         .end = place->end,
                         .sequence = place->sequence,
                         .seed = place->seed,
                         .now = {.attempt = place->attempt},
                         .saved = {.attempt = place->attempt},
                         .beat = es_now_ms()};
    return place->end > 0 ? open_old(*out) : ES_OK;
}

void es_esf_out_free(es_esf_out *out)
{
    if (!out)
        return;
    if (out->fd >= 0)
        close(out->fd);
    free(out->buffer);
    free(out->said);
    free(out);
}

bool es_esf_out_has_moved(const es_esf_out *out)
{
    struct stat by_name, by_fd;
    return out->fd >= 0 &&
           (lstat(out->database->file, &by_name) != 0 ||
            fstat(out->fd, &by_fd) != 0 || by_name.st_dev != by_fd.st_dev ||
            by_name.st_ino != by_fd.st_ino);
}

/* --- records -------------------------------------------------------------- */

/** Grows the buffer so that n more bytes of payload fit. */
static es_status grow_payload(es_esf_out *out, size_t n)
{
    if (n > ES_ESF_MOST - out->used)
        return es_fail(
            ES_EARGUMENT,
            "%s: transaction of more than %d MiB: commit more often, "
            "or write a run file (.db)",
            out->database->path, ES_ESF_MOST >> 20);
    const size_t wanted = HEAD + out->used + n;
    if (wanted <= out->size)
        return ES_OK;
    const size_t size = wanted < 2 * out->size ? 2 * out->size : wanted;
    es_status status = es_grow(&out->buffer, size, 1, "a fragment's frame");
    if (status == ES_OK)
        out->size = size;
    return status;
}

/**
 * Appends a record of n zero bytes, padded to a multiple of 8, and sets *place
 * to the address of the first of these bytes.
 */
static es_status append_record(es_esf_out *out, unsigned char **place,
                               es_esf_kind kind, size_t n)
{
    const size_t whole = ES_ESF_RECORD_BYTES + (n + 7) / 8 * 8;
    es_status status = grow_payload(out, n > ES_ESF_MOST ? n : whole);
    if (status < 0)
        return status;
    unsigned char *record = out->buffer + HEAD + out->used;
    const uint32_t words[] = {kind, (uint32_t)n};
    memset(record, 0, whole);
    memcpy(record, words, sizeof words);
    *place = record + sizeof words;
    out->used += whole;
    return ES_OK;
}

static es_status put_record(es_esf_out *out, es_esf_kind kind,
                            void (*pack_it)(es_pack *pack, void *record),
                            void *record, const void *values, size_t n_values)
{
    es_pack pack = {.mode = ES_PACK_MEASURE};
    pack_it(&pack, record);
    const size_t n = pack.at;
    unsigned char *place;
    es_status status = append_record(out, &place, kind, n + n_values);
    if (status < 0)
        return status;
    pack = (es_pack){.mode = ES_PACK_WRITE, .data = place, .size = n};
    pack_it(&pack, record);
    if (n_values)
        memcpy(place + n, values, n_values);
    return ES_OK;
}

/**
 * Keeps a copy of the last record, which begins at offset `from`, so that it
 * can be written again later.
 */
static es_status keep_record(es_esf_out *out, es_esf_kind kind, size_t from)
{
    const size_t n = out->used - from;
    es_status status =
        es_grow(&out->said, out->now.n_said + n, 1, "a fragment's series");
    if (status < 0)
        return status;
    const uint32_t word = kind;
    memcpy(out->said + out->now.n_said, out->buffer + HEAD + from, n);
    memcpy(out->said + out->now.n_said, &word, sizeof word);
    out->now.n_said += n;
    return ES_OK;
}

/**
 * At the beginning of a transaction, writes the kept records (those that
 * describe the run and its series) again if enough bytes were written since
 * they were last written.
 */
static es_status say_again(es_esf_out *out)
{
    if (out->used || out->since < out->again)
        return ES_OK;
    const size_t n = out->now.n_said;
    es_status status = grow_payload(out, n);
    if (status < 0)
        return status;
    if (n)
        memcpy(out->buffer + HEAD, out->said, n);
    out->used = n;
    out->since = 0;
    out->again *= out->again < ES_ESF_AGAIN_MOST ? 2 : 1;
    return ES_OK;
}

void es_esf_boot(char out[ES_UUID_SIZE])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, ES_UUID_SIZE - 1) : 0;
    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static es_status put_writer(es_esf_out *out)
{
    char host[256] = "", boot[ES_UUID_SIZE];
    gethostname(host, sizeof host - 1);
    es_esf_boot(boot);
    es_esf_writer who = {.host = host, .boot = boot, .pid = getpid()};
    return put_record(out, ES_ESF_WRITER, es_esf_pack_writer, &who, NULL, 0);
}

es_status es_esf_out_run(es_esf_out *out, int64_t run, const es_run_info *info,
                         int64_t resume)
{
    if (!out)
        return ES_OK;
    if (out->used)
        return es_fail(
            ES_EARGUMENT,
            "%s: a run must be the first record of a transaction in a "
            "fragment",
            out->database->path);
    es_esf_run record = {.info = *info, .resumed = resume >= 0};
    es_status status;
    if ((status = put_writer(out)) < 0)
        return status;
    out->now = (state){.attempt = out->now.attempt + 1,
                       .run = run,
                       .resume = resume < 0 ? 0 : resume};
    out->since = 0;
    out->again = ES_ESF_AGAIN_FIRST;
    const size_t from = out->used;
    status = put_record(out, ES_ESF_RUN, es_esf_pack_run, &record, NULL, 0);
    return status < 0 ? status : keep_record(out, ES_ESF_RUN_AGAIN, from);
}

static es_status check_run(const es_esf_out *out, int64_t run)
{
    if (out->now.run == run)
        return ES_OK;
    return es_fail(ES_EARGUMENT,
                   "%s: run %lld: a fragment records one run at a time",
                   out->database->path, (long long)run);
}

es_status es_esf_out_series(es_esf_out *out, int64_t run, int64_t series,
                            const char *name, es_shape shape, es_phase phase,
                            const char *unit)
{
    es_status status = out ? check_run(out, run) : ES_DONE;
    es_esf_series record = {.number = series,
                            .name = name,
                            .unit = unit,
                            .shape = shape,
                            .phase = phase};
    if (status != ES_OK)
        return status == ES_DONE ? ES_OK : status;
    const size_t from = out->used;
    status =
        put_record(out, ES_ESF_SERIES, es_esf_pack_series, &record, NULL, 0);
    return status < 0 ? status : keep_record(out, ES_ESF_SERIES_AGAIN, from);
}

es_status es_esf_out_sample(es_esf_out *out, int64_t run, int64_t series,
                            int64_t step, int32_t crc, const float *values,
                            size_t n)
{
    unsigned char *place;
    const es_esf_sample record = {.series = series,
                                  .step = step,
                                  .crc = crc,
                                  .bytes = (uint32_t)(n * sizeof *values)};
    es_status status;
    if (!out)
        return ES_OK;
    if ((status = check_run(out, run)) < 0 || (status = say_again(out)) < 0 ||
        (status = append_record(out, &place, ES_ESF_SAMPLE,
                                sizeof record + record.bytes)) < 0)
        return status;
    memcpy(place, &record, sizeof record);
    memcpy(place + sizeof record, values, record.bytes);
    return ES_OK;
}

es_status es_esf_out_event(es_esf_out *out, int64_t run, const es_event *event)
{
    es_event record = *event;
    es_status status = out ? check_run(out, run) : ES_DONE;
    if (status != ES_OK)
        return status == ES_DONE ? ES_OK : status;
    return put_record(out, ES_ESF_EVENT, es_esf_pack_event, &record, NULL, 0);
}

es_status es_esf_out_map(es_esf_out *out, int64_t run, const es_map *map,
                         const float *values)
{
    es_map record = *map;
    es_status status = out ? check_run(out, run) : ES_DONE;
    if (status != ES_OK)
        return status == ES_DONE ? ES_OK : status;
    return put_record(out, ES_ESF_MAP, es_esf_pack_map, &record, values,
                      (size_t)(map->size * map->size) * sizeof *values);
}

es_status es_esf_out_end(es_esf_out *out, int64_t run, es_run_status run_status,
                         const char *at)
{
    es_esf_end record = {.status = run_status, .at = at};
    es_status status = out ? check_run(out, run) : ES_DONE;
    if (status != ES_OK)
        return status == ES_DONE ? ES_OK : status;
    return put_record(out, ES_ESF_END, es_esf_pack_end, &record, NULL, 0);
}

/* --- frames --------------------------------------------------------------- */

/** Creates the file with a new uuid, and prepares its header in the buffer. */
static es_status create_file(es_esf_out *out)
{
    char uuid[ES_UUID_SIZE];
    es_status status = es_uuid_make(uuid);
    if (status < 0)
        return status;
    if (out->fd < 0)
        out->fd = open(out->database->file,
                       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (out->fd < 0)
        return fail_call(out, "create", errno);
    out->seed = es_esf_header_write(out->buffer, uuid);
    return ES_OK;
}

/** Syncs the folder, so that the new file's name survives a power loss. */
static void sync_folder(const es_esf_out *out)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(out->database->file, '/');
    snprintf(folder, sizeof folder, "%.*s",
             (int)(slash - out->database->file) + 1, out->database->file);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/**
 * Writes the gathered records as one frame. Without records the frame is empty.
 */
static es_status append_frame(es_esf_out *out, bool closed)
{
    es_status status;
    const bool fresh = out->end == 0;
    if (out->size < HEAD) {
        if ((status = es_grow(&out->buffer, HEAD, 1, "a frame")) < 0)
            return status;
        out->size = HEAD;
    }
    if (fresh && (status = create_file(out)) < 0)
        return status;
    const es_esf_frame frame = {
        .bytes = (uint32_t)out->used,
        .sequence = out->sequence,
        .time = es_esf_clock(),
        .attempt = out->now.attempt,
        .run = (uint32_t)out->now.run,
        .resume = out->now.resume,
        .closed = closed,
        .crc = es_esf_checksum(out->seed, out->buffer + HEAD, out->used)};
    es_esf_frame_write(out->buffer + ES_ESF_HEADER_BYTES, &frame, out->seed);
    const size_t skipped = fresh ? 0 : ES_ESF_HEADER_BYTES;
    const size_t n = HEAD + out->used - skipped;
    int reason = es_write_at(out->fd, out->buffer + skipped, n, out->end);
    if (!reason && out->durable && fdatasync(out->fd) != 0)
        reason = errno;
    if (reason) {
        /* The result is ignored, because the next frame overwrites the remains
         * if the file cannot be truncated. */
        (void)!ftruncate(out->fd, out->end);
        return fail_call(out, "write", reason);
    }
    if (fresh && out->durable)
        sync_folder(out);
    out->end += (int64_t)n;
    out->since += n;
    out->sequence++;
    out->beat = es_now_ms();
    return ES_OK;
}

es_status es_esf_out_commit(es_esf_out *out)
{
    if (!out || !out->used)
        return ES_OK;
    es_status status = append_frame(out, false);
    if (status < 0) {
        es_esf_out_rollback(out);
        return status;
    }
    out->saved = out->now;
    out->used = 0;
    return ES_OK;
}

void es_esf_out_rollback(es_esf_out *out)
{
    if (!out)
        return;
    if (out->now.attempt != out->saved.attempt)
        /* The kept records have been overwritten by those of a new attempt,
         * which was rolled back. */
        out->saved.n_said = 0;
    out->now = out->saved;
    out->used = 0;
}

void es_esf_out_beat(es_esf_out *out)
{
    if (out && out->end > 0 && !out->used &&
        es_now_ms() - out->beat >= ES_ESF_BEAT_MS)
        (void)!append_frame(out, false);
}

es_status es_esf_out_finish(es_esf_out *out)
{
    if (!out || out->saved.run == 0)
        return ES_OK;
    es_esf_out_rollback(out);
    return append_frame(out, true);
}
