/* Replays a fragment's records into the reader's in-memory database, with the
 * same calls of es_writer that the recording process made. The values of
 * samples stay in the file; esf_index.c stores their offsets. */
#include "store/esf_in_internal.h"

#include "analyzer/base/checked.h"
#include "store/esf_index.h"
#include "store/esf_record.h"
#include "store/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The largest number by which a record may identify a run or a series. */
#define NUMBERS_MOST (1 << 20)

/* --- the tables ----------------------------------------------------------- */

es_status es_esf_make_tables(es_esf *esf)
{
    es_database *database = esf->database;
    es_status status = es_database_open_private(database);
    if (status < 0)
        return status;
    if ((status = es_esf_index_make(&database->samples, database)) < 0 ||
        (status = es_schema_make_private(database)) < 0)
        return status;
    return es_writer_attach(&esf->writer, database);
}

void es_esf_drop_tables(es_esf *esf)
{
    es_writer_detach(esf->writer);
    if (esf->database->samples)
        es_esf_index_set_file(esf->database->samples, -1);
    free(esf->runs);
    free(esf->series);
    free(esf->losses);
}

es_status es_esf_forget(es_esf *esf)
{
    es_status status = es_writer_forget(esf->writer);
    esf->place = (es_esf_place){0};
    esf->n_runs = esf->n_series = esf->n_losses = 0;
    esf->attempt = 0;
    esf->step = 0;
    esf->has_lost = false;
    esf->n_nobodys = 0;
    esf->last_frame = (es_esf_frame){0};
    esf->host[0] = esf->boot[0] = '\0';
    return status;
}

/* --- records -------------------------------------------------------------- */

/** A record of the current frame. */
typedef struct record {
    const es_esf_frame *frame;
    uint32_t kind, bytes;
    unsigned char *data; /* (bytes) */
    int64_t place;       /* offset of `data` in the file */
} record;

static es_status fail_record(const es_esf *esf, const record *r)
{
    return es_fail(ES_EFORMAT,
                   "%s: damaged: frame %llu has an invalid record: "
                   "restore a copy",
                   esf->database->path, (unsigned long long)r->frame->sequence);
}

/**
 * Checks a record that refers to an unknown record. If frames were lost, one of
 * them may have contained the unknown record; otherwise the file is invalid,
 * and the function fails.
 */
static es_status check_lost(const es_esf *esf, const record *r)
{
    return esf->has_lost ? ES_OK : fail_record(esf, r);
}

/**
 * Skips a record that refers to an unknown record, which was in a lost frame.
 * Fails if no frames were lost.
 */
static es_status skip_unknown(es_esf *esf, const record *r)
{
    esf->has_missed = true;
    return check_lost(esf, r);
}

static bool unpack(const record *r,
                   void (*pack_it)(es_pack *pack, void *record), void *out,
                   size_t *n)
{
    es_pack pack = {.mode = ES_PACK_READ, .data = r->data, .size = r->bytes};
    pack_it(&pack, out);
    *n = pack.at;
    return !pack.failed;
}

static es_status take_writer(es_esf *esf, const record *r)
{
    es_esf_writer who;
    size_t n;
    if (!unpack(r, es_esf_pack_writer, &who, &n))
        return fail_record(esf, r);
    snprintf(esf->host, sizeof esf->host, "%s", who.host ? who.host : "");
    snprintf(esf->boot, sizeof esf->boot, "%s", who.boot ? who.boot : "");
    esf->pid = who.pid;
    return ES_OK;
}

/** Returns the run_id of the frame's run; 0 if it is unknown. */
static int64_t run_of(const es_esf *esf, const es_esf_frame *frame)
{
    return frame->run >= 1 && frame->run <= esf->n_runs
               ? esf->runs[frame->run - 1]
               : 0;
}

/**
 * Extends an array to at least `number` elements. New elements are zero, which
 * stands for unknown.
 */
static es_status extend_array(void *array, size_t *n, int64_t number,
                              size_t size)
{
    es_status status = ES_OK;
    while ((int64_t)*n < number && status == ES_OK) {
        status = es_reserve_next(array, *n, size);
        if (status == ES_OK)
            memset(*(unsigned char **)array + (*n)++ * size, 0, size);
    }
    return status;
}

static es_status add_run(es_esf *esf, const record *r, es_run_info *info)
{
    char started[ES_TIME_SIZE];
    const time_t seconds = (time_t)(r->frame->time / 1000);
    struct tm then;
    gmtime_r(&seconds, &then);
    if (!info->started_at && /* if the frame that began the run is lost, the
                                record describes a resumption and has no start
                                time */
        strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%S.000Z", &then))
        info->started_at = started;
    info->status = ES_RUN_RUNNING;
    info->ended_at = NULL;
    es_status status = extend_array(&esf->runs, &esf->n_runs, r->frame->run,
                                    sizeof *esf->runs);
    if (status < 0)
        return status;
    int64_t *id = &esf->runs[r->frame->run - 1];
    return es_writer_add_run(esf->writer, id, info);
}

static es_status take_run(es_esf *esf, const record *r)
{
    es_esf_run run = {.info = {.size = sizeof run.info}};
    size_t n;
    const int64_t known = run_of(esf, r->frame);
    if (!unpack(r, es_esf_pack_run, &run, &n) || !run.info.uuid ||
        r->frame->run < 1 || r->frame->run > NUMBERS_MOST ||
        (known && !run.resumed) || r->frame->resume < 0 ||
        r->frame->attempt <= esf->attempt)
        return fail_record(esf, r);
    esf->attempt = r->frame->attempt;
    if (!known)
        return run.resumed && !esf->has_lost ? fail_record(esf, r)
                                             : add_run(esf, r, &run.info);
    return es_writer_resume_run(esf->writer, known, &run.info,
                                r->frame->resume);
}

/**
 * Adds a run from a repeated copy of its record, because the first copy was
 * lost.
 */
static es_status take_run_again(es_esf *esf, const record *r)
{
    es_esf_run run = {.info = {.size = sizeof run.info}};
    size_t n;
    es_status status;
    if (run_of(esf, r->frame))
        return ES_OK;
    if ((status = check_lost(esf, r)) < 0)
        return status;
    if (!unpack(r, es_esf_pack_run, &run, &n) || !run.info.uuid ||
        r->frame->run < 1 || r->frame->run > NUMBERS_MOST ||
        r->frame->attempt < esf->attempt)
        return fail_record(esf, r);
    esf->attempt = r->frame->attempt;
    return add_run(esf, r, &run.info);
}

static es_status take_series(es_esf *esf, const record *r, int64_t run)
{
    es_esf_series series = {0};
    size_t n;
    int64_t id;
    if (!unpack(r, es_esf_pack_series, &series, &n) || series.number < 1 ||
        series.number > NUMBERS_MOST || series.shape < ES_SHAPE_RUN ||
        series.shape > ES_SHAPE_HEAD || series.phase < ES_PHASE_TRAIN ||
        series.phase > ES_PHASE_EVAL)
        return fail_record(esf, r);
    es_status status = es_writer_series(esf->writer, &id, run, series.name,
                                        (es_shape)series.shape,
                                        (es_phase)series.phase, series.unit);
    if (status < 0 ||
        (status = extend_array(&esf->series, &esf->n_series, series.number,
                               sizeof *esf->series)) < 0)
        return status;
    const es_written_run *owner = es_writer_known_run(esf->writer, run);
    const es_esf_known known = {
        .id = id,
        .bytes = (uint32_t)(es_shape_values((es_shape)series.shape,
                                            owner->n_layer, owner->n_head) *
                            sizeof(float))};
    esf->series[series.number - 1] = known;
    return es_esf_index_add_series(esf->database->samples, id, run,
                                   known.bytes);
}

static es_status take_series_again(es_esf *esf, const record *r, int64_t run)
{
    es_esf_series series = {0};
    size_t n;
    if (!unpack(r, es_esf_pack_series, &series, &n))
        return fail_record(esf, r);
    if (series.number >= 1 && series.number <= (int64_t)esf->n_series &&
        esf->series[series.number - 1].id)
        return ES_OK;
    es_status status = check_lost(esf, r);
    return status < 0 ? status : take_series(esf, r, run);
}

static es_status take_sample(es_esf *esf, const record *r)
{
    es_esf_sample sample;
    if (r->bytes < sizeof sample)
        return fail_record(esf, r);
    memcpy(&sample, r->data, sizeof sample);
    if (sample.series < 1 || sample.series > (int64_t)esf->n_series ||
        !esf->series[sample.series - 1].id)
        return skip_unknown(esf, r);
    const es_esf_known *known = &esf->series[sample.series - 1];
    if (sample.bytes != known->bytes ||
        r->bytes != sizeof sample + sample.bytes)
        return fail_record(esf, r);
    if (sample.step > esf->step)
        esf->step = sample.step;
    return es_writer_place(esf->writer, known->id, sample.step,
                           r->place + (int64_t)sizeof sample);
}

static es_status take_event(es_esf *esf, const record *r, int64_t run)
{
    es_event event = {.severity = ES_SEVERITY_NONE};
    size_t n;
    return unpack(r, es_esf_pack_event, &event, &n)
               ? es_writer_event(esf->writer, run, &event)
               : fail_record(esf, r);
}

static es_status take_map(es_esf *esf, const record *r, int64_t run)
{
    es_map map = {.phase = ES_PHASE_TRAIN};
    size_t n;
    if (!unpack(r, es_esf_pack_map, &map, &n) || map.size < 1 ||
        map.size > ES_MAP_MAX ||
        r->bytes != n + (size_t)(map.size * map.size) * sizeof(float))
        return fail_record(esf, r);
    const float *values = (const float *)(const void *)(r->data + n);
    return es_writer_map(esf->writer, run, &map, values);
}

static es_status take_end(es_esf *esf, const record *r, int64_t run)
{
    es_esf_end end = {0};
    size_t n;
    if (!unpack(r, es_esf_pack_end, &end, &n) || end.status < ES_RUN_RUNNING ||
        end.status > ES_RUN_STOPPED)
        return fail_record(esf, r);
    return es_writer_set_end(esf->writer, run, (es_run_status)end.status,
                             end.at);
}

/**
 * Processes a record that belongs to a run. A frame belongs to an attempt
 * (start or resumption) to record the run. If the record that began the attempt
 * is lost, first removes the samples that the attempt replaces, which begin at
 * the step `resume` of the frame.
 */
static es_status take_of_run(es_esf *esf, const record *r)
{
    const int64_t run = run_of(esf, r->frame);
    es_status status;
    if (!run)
        return skip_unknown(esf, r);
    if (r->frame->attempt < esf->attempt || r->frame->resume < 0)
        return fail_record(esf, r);
    if (r->frame->attempt > esf->attempt) {
        if ((status = check_lost(esf, r)) < 0 ||
            (status = es_writer_cut_run(esf->writer, run, r->frame->resume)) <
                0)
            return status;
        esf->attempt = r->frame->attempt;
    }
    switch (r->kind) {
    case ES_ESF_SERIES:
        return take_series(esf, r, run);
    case ES_ESF_SERIES_AGAIN:
        return take_series_again(esf, r, run);
    case ES_ESF_SAMPLE:
        return take_sample(esf, r);
    case ES_ESF_EVENT:
        return take_event(esf, r, run);
    case ES_ESF_MAP:
        return take_map(esf, r, run);
    case ES_ESF_END:
        return take_end(esf, r, run);
    default:
        return fail_record(esf, r);
    }
}

static es_status take_record(es_esf *esf, const record *r)
{
    switch (r->kind) {
    case ES_ESF_WRITER:
        return take_writer(esf, r);
    case ES_ESF_RUN:
        return take_run(esf, r);
    case ES_ESF_RUN_AGAIN:
        return take_run_again(esf, r);
    default:
        return take_of_run(esf, r);
    }
}

/* --- frames --------------------------------------------------------------- */

/**
 * Records in the list of losses that n frames were lost after a step of a run.
 * If the last entry has the same run and step, adds n to this entry.
 */
static es_status add_loss(es_esf *esf, int64_t run, int64_t step, uint64_t n)
{
    es_run_source_loss *last =
        esf->n_losses ? &esf->losses[esf->n_losses - 1] : NULL;
    if (last && last->run_id == run && last->step == step) {
        last->n_frames += n;
        return ES_OK;
    }
    es_status status =
        es_reserve_next(&esf->losses, esf->n_losses, sizeof *esf->losses);
    if (status == ES_OK)
        esf->losses[esf->n_losses++] =
            (es_run_source_loss){.run_id = run, .step = step, .n_frames = n};
    return status;
}

/**
 * Reports that n frames before this frame are lost, by adding an event to the
 * frame's run or, if the frame's run is unknown, to the first known run. If no
 * run is known yet, the report is postponed.
 */
static es_status note_lost(es_esf *esf, const es_esf_frame *frame, int64_t step,
                           uint64_t n)
{
    char message[128], dedupe[64];
    int64_t run = run_of(esf, frame);
    for (size_t i = 0; !run && i < esf->n_runs; i++)
        run = esf->runs[i];
    n += esf->n_nobodys;
    esf->n_nobodys = run ? 0 : n;
    if (!run)
        return ES_OK;
    snprintf(message, sizeof message,
             "%llu frame%s of the fragment %s damaged: the data that %s held "
             "is missing",
             (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are",
             n == 1 ? "it" : "they");
    snprintf(dedupe, sizeof dedupe, "damaged/frames/%llu",
             (unsigned long long)frame->sequence);
    const es_event event = {.step = step,
                            .kind = "damaged",
                            .severity = ES_SEVERITY_ERROR,
                            .layer = ES_UNKNOWN,
                            .head = ES_UNKNOWN,
                            .message = message,
                            .dedupe = dedupe};
    es_status status = add_loss(esf, run, step, n);
    return status < 0 ? status : es_writer_event(esf->writer, run, &event);
}

/**
 * Counts the current frame as lost, too, because its records depend on lost
 * frames.
 */
static void note_missed(es_esf *esf)
{
    if (esf->n_losses)
        esf->losses[esf->n_losses - 1].n_frames++;
    else
        esf->n_nobodys++;
}

es_status es_esf_replay(es_esf *esf, const es_esf_frame *frame, int64_t at,
                        uint64_t n_lost)
{
    const int64_t before = esf->step;
    es_status status = ES_OK;
    if (n_lost)
        esf->has_lost = true;
    esf->has_missed = false;
    for (uint32_t used = 0; used < frame->bytes && status >= ES_OK;) {
        uint32_t words[2];
        memcpy(words, esf->payload + used, sizeof words);
        used += ES_ESF_RECORD_BYTES;
        const record r = {.frame = frame,
                          .kind = words[0],
                          .bytes = words[1],
                          .data = esf->payload + used,
                          .place = at + ES_ESF_FRAME_BYTES + (int64_t)used};
        if (r.bytes > frame->bytes - used)
            return fail_record(esf, &r);
        status = take_record(esf, &r);
        used += (r.bytes + 7) / 8 * 8;
    }
    if (status >= ES_OK && (n_lost || esf->n_nobodys))
        status = note_lost(esf, frame, before, n_lost);
    if (status >= ES_OK && esf->has_missed)
        note_missed(esf);
    return status < 0 ? status : ES_OK;
}
