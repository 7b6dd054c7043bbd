/* Follows growing fragments without building tables of their contents. Checks
   frames in the same way as a reader, but reads only samples and the kinds and
   steps of other records. */
#include "store/growth.h"

#include "analyzer/base/checked.h"
#include "store/esf_in_internal.h"
#include "store/esf_record.h"
#include "store/reader_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Maximum number of sample values that one call of es_growth_look keeps. */
#define KEPT_MOST ((size_t)1 << 18)

/* A series of the reader that es_growth_begin received. The series with number
 * i in the file is at index i - 1 of es_growth.series. */
typedef struct known {
    char *name; /* name, or NULL if the reader does not know the series */
    es_phase phase;
    size_t run, n_values;
    uint32_t crc;
} known;

struct es_growth {
    es_database database; /* only its file names are set */
    es_esf esf;           /* without tables */
    es_growth_news news;
    bool is_written; /* the fragment's writer was alive at the last check */
    known *series;   /* (n_series) */
    size_t n_series;
    es_growth_sample *samples; /* (n_samples) samples that the last
                                  es_growth_look found */
    size_t n_samples;
    float *values; /* (n_values) values of all samples, one after the other */
    size_t n_values;
};

/* --- records -------------------------------------------------------------- */

static void note_news(es_growth *growth, es_growth_news news)
{
    if (news > growth->news)
        growth->news = news;
}

void es_growth_drop_samples(es_growth *growth)
{
    free(growth->samples);
    free(growth->values);
    growth->samples = NULL;
    growth->values = NULL;
    growth->n_samples = growth->n_values = 0;
}

static es_status append_sample(es_growth *growth, const known *from,
                               int64_t step, const void *values)
{
    const size_t n = from->n_values;
    es_status status = es_reserve_next(&growth->samples, growth->n_samples,
                                       sizeof *growth->samples);
    if (status < 0 || (status = es_grow(&growth->values, growth->n_values + n,
                                        sizeof *growth->values, "samples")) < 0)
        return status;
    memcpy(growth->values + growth->n_values, values, n * sizeof(float));
    growth->n_values += n;
    growth->samples[growth->n_samples++] =
        (es_growth_sample){.run = from->run,
                           .name = from->name,
                           .phase = from->phase,
                           .step = step,
                           .n = n};
    return ES_OK;
}

/**
 * Keeps a sample if it is intact, its series is known and there is space.
 * Otherwise reports ES_GROWTH_OTHER, so that the caller opens a reader.
 */
static es_status keep_sample(es_growth *growth, const es_esf_sample *sample,
                             const unsigned char *values, uint32_t bytes)
{
    const known *from =
        sample->series >= 1 && sample->series <= (int64_t)growth->n_series
            ? &growth->series[sample->series - 1]
            : NULL;
    if (from && from->name && sample->bytes == bytes &&
        bytes == from->n_values * sizeof(float) &&
        growth->n_values + from->n_values <= KEPT_MOST &&
        es_checksum_of_sample(from->crc, sample->step, values, bytes) ==
            sample->crc)
        return append_sample(growth, from, sample->step, values);
    note_news(growth, ES_GROWTH_OTHER);
    return ES_OK;
}

/**
 * Reads the kinds and steps of one frame's records. Used instead of
 * es_esf_replay.
 */
static es_status take_frame(es_esf *esf, const es_esf_frame *frame, int64_t at,
                            uint64_t n_lost)
{
    es_growth *growth = esf->user;
    (void)at;
    if (n_lost || frame->closed ||
        (frame->bytes > 0 && frame->attempt != esf->place.attempt))
        note_news(growth, ES_GROWTH_OTHER);
    for (uint32_t used = 0; used < frame->bytes;) {
        uint32_t words[2];
        es_esf_sample sample;
        memcpy(words, esf->payload + used, sizeof words);
        used += ES_ESF_RECORD_BYTES;
        const bool is_whole = words[1] <= frame->bytes - used;
        if (is_whole &&
            (words[0] == ES_ESF_RUN_AGAIN || words[0] == ES_ESF_SERIES_AGAIN)) {
            used += (words[1] + 7) / 8 * 8;
            continue; /* skips the repetition of a known record */
        }
        const bool is_sample =
            is_whole && words[0] == ES_ESF_SAMPLE && words[1] >= sizeof sample;
        note_news(growth, is_sample ? ES_GROWTH_SAMPLES : ES_GROWTH_OTHER);
        if (!is_sample)
            return ES_OK; /* stop here, because the caller will open a reader
                             anyway */
        memcpy(&sample, esf->payload + used, sizeof sample);
        if (sample.step > esf->step)
            esf->step = sample.step;
        const es_status status =
            keep_sample(growth, &sample, esf->payload + used + sizeof sample,
                        words[1] - (uint32_t)sizeof sample);
        if (status < 0)
            return status;
        used += (words[1] + 7) / 8 * 8;
    }
    return ES_OK;
}

/* --- following ------------------------------------------------------------ */

static es_status know_one(known *out, const es_reader *reader, int64_t id)
{
    size_t run;
    const es_series *s = es_contents_find_series(&run, &reader->contents, id);
    if (!s)
        return ES_OK;
    *out = (known){
        .phase = s->phase, .run = run, .n_values = s->n_values, .crc = s->crc};
    return es_copy_text(&out->name, s->name);
}

static es_status know_series(es_growth *growth, const es_reader *reader)
{
    const es_esf *from = es_esf_of(&reader->source);
    es_status status = es_alloc(&growth->series, from->n_series + 1,
                                sizeof *growth->series, "series");
    for (size_t i = 0; i < from->n_series && status == ES_OK; i++) {
        growth->n_series = i + 1;
        status = know_one(&growth->series[i], reader, from->series[i].id);
    }
    return status;
}

es_status es_growth_open(es_reader **out, const char *path,
                         const es_growth *growth, int64_t most)
{
    es_tails tails = {.most = most};
    if (growth)
        tails = growth->esf.tails;
    return es_reader_open_with(out, path, &tails);
}

bool es_growth_is_searching(const es_growth *growth)
{
    return growth->esf.tails.more;
}

es_status es_growth_begin(es_growth **out, const es_reader *reader)
{
    const es_esf *from = es_esf_of(&reader->source);
    es_growth *growth;
    *out = NULL;
    if (!from || from->place.end == 0 || from->stale ||
        (from->last_frame.closed && !from->tails.more))
        return ES_OK;
    es_status status = es_alloc(&growth, 1, sizeof *growth, "a fragment");
    if (status < 0)
        return status;
    growth->database.owner = getpid();
    growth->esf = (es_esf){.database = &growth->database,
                           .take = take_frame,
                           .user = growth,
                           .fd = -1,
                           .tails = from->tails,
                           .device = from->device,
                           .inode = from->inode,
                           .size = from->size,
                           .place = from->place,
                           .last = from->last,
                           .last_frame = from->last_frame,
                           .step = from->step,
                           .has_lost = from->has_lost};
    memcpy(growth->esf.boot, from->boot, sizeof growth->esf.boot);
    if ((status = es_esf_is_written(from, &growth->is_written)) < 0 ||
        (status = es_copy_text(&growth->database.path, reader->database.path)) <
            0 ||
        (status = es_copy_text(&growth->database.file, reader->database.file)) <
            0 ||
        (status = know_series(growth, reader)) < 0)
        es_growth_end(growth);
    else
        *out = growth;
    return status;
}

/**
 * Returns true if the fragment's writer has died, or a new writer has begun,
 * since the last check. A writer that was alive is not checked again while its
 * last frame is recent.
 */
static bool has_turned(const es_growth *growth)
{
    bool is_written;
    return (!growth->is_written || es_esf_is_silent(&growth->esf)) &&
           es_esf_is_written(&growth->esf, &is_written) == ES_OK &&
           is_written != growth->is_written;
}

es_status es_growth_look(es_growth_news *out, es_growth *growth)
{
    bool continued = false;
    growth->news = ES_GROWTH_NONE;
    es_growth_drop_samples(growth);
    es_status status = es_esf_reopen(&growth->esf, &continued);
    if (status == ES_OK && continued)
        status = es_esf_take_frames(&growth->esf);
    es_esf_rest(&growth->esf);
    if (growth->news == ES_GROWTH_NONE && has_turned(growth))
        note_news(growth, ES_GROWTH_OTHER);
    *out = status == ES_OK && continued ? growth->news : ES_GROWTH_OTHER;
    if (*out != ES_GROWTH_SAMPLES)
        es_growth_drop_samples(growth);
    const float *next = growth->values;
    for (size_t i = 0; i < growth->n_samples; i++) {
        growth->samples[i].values = next;
        next += growth->samples[i].n;
    }
    return status;
}

const es_growth_sample *es_growth_samples(size_t *n, const es_growth *growth)
{
    *n = growth->n_samples;
    return growth->samples;
}

bool es_growth_is_abroad(const es_growth *growth)
{
    return !es_esf_is_of_this_machine(&growth->esf);
}

void es_growth_end(es_growth *growth)
{
    if (!growth)
        return;
    es_esf_rest(&growth->esf);
    es_growth_drop_samples(growth);
    for (size_t i = 0; i < growth->n_series; i++)
        free(growth->series[i].name);
    free(growth->series);
    free(growth->database.path);
    free(growth->database.file);
    free(growth);
}
