/* Fragments that grow, without their tables: frames are checked as a reader
   does, and of their records only the kinds and steps are looked at. */
#include "store/growth.h"

#include "analyzer/base/checked.h"
#include "store/esf_in_internal.h"
#include "store/esf_record.h"
#include "store/reader_internal.h"

#include <string.h>
#include <unistd.h>

struct es_growth {
    es_database database; /* its names alone */
    es_esf esf;           /* without tables */
    es_growth_news news;
};

/* --- records -------------------------------------------------------------- */

static void note(es_growth *growth, es_growth_news news)
{
    if (news > growth->news)
        growth->news = news;
}

/** Of one frame, in es_esf_replay's place. */
static es_status take_frame(es_esf *esf, const es_esf_frame *frame, int64_t at,
                            uint64_t n_lost)
{
    es_growth *growth = esf->user;
    (void)at;
    if (n_lost || frame->closed)
        note(growth, ES_GROWTH_OTHER);
    for (uint32_t used = 0; used < frame->bytes;) {
        uint32_t words[2];
        es_esf_sample sample;
        memcpy(words, esf->payload + used, sizeof words);
        used += ES_ESF_RECORD_BYTES;
        const bool is_sample = words[0] == ES_ESF_SAMPLE &&
                               words[1] >= sizeof sample &&
                               words[1] <= frame->bytes - used;
        note(growth, is_sample ? ES_GROWTH_SAMPLES : ES_GROWTH_OTHER);
        if (!is_sample)
            return ES_OK; /* who reads all of it judges it */
        memcpy(&sample, esf->payload + used, sizeof sample);
        if (sample.step > esf->step)
            esf->step = sample.step;
        used += (words[1] + 7) / 8 * 8;
    }
    return ES_OK;
}

/* --- following ------------------------------------------------------------ */

es_status es_growth_begin(es_growth **out, const es_reader *reader)
{
    const es_esf *from = reader->source.fragment;
    es_growth *growth;
    *out = NULL;
    if (!from || from->place.end == 0 || from->last_frame.closed || from->stale)
        return ES_OK;
    es_status status = es_alloc(&growth, 1, sizeof *growth, "a fragment");
    if (status < 0)
        return status;
    growth->database.owner = getpid();
    growth->esf = (es_esf){.database = &growth->database,
                           .take = take_frame,
                           .user = growth,
                           .fd = -1,
                           .device = from->device,
                           .inode = from->inode,
                           .size = from->size,
                           .place = from->place,
                           .last = from->last,
                           .last_frame = from->last_frame,
                           .step = from->step,
                           .has_lost = from->has_lost};
    memcpy(growth->esf.boot, from->boot, sizeof growth->esf.boot);
    if ((status = es_copy_text(&growth->database.path, reader->database.path)) <
            0 ||
        (status = es_copy_text(&growth->database.file, reader->database.file)) <
            0)
        es_growth_end(growth);
    else
        *out = growth;
    return status;
}

es_status es_growth_look(es_growth_news *out, es_growth *growth)
{
    bool continued = false;
    growth->news = ES_GROWTH_NONE;
    es_status status = es_esf_reopen(&growth->esf, &continued);
    if (status == ES_OK && continued)
        status = es_esf_take_frames(&growth->esf);
    es_esf_rest(&growth->esf);
    *out = status == ES_OK && continued ? growth->news : ES_GROWTH_OTHER;
    return status;
}

int64_t es_growth_last_step(const es_growth *growth)
{
    return growth->esf.step;
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
    free(growth->database.path);
    free(growth->database.file);
    free(growth);
}
