/* Plans the push of one run: finds the step at which each series continues, and
 * the step from which the database's samples have to be deleted. Planning holds
 * no lock. */
#include "store/push/push_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/flags/flags.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Finds the first day of the month in which a run started; 1970-01-01 if the
 * time is invalid. */
static void find_month(char out[ES_DATE_SIZE], const char *started_at)
{
    int year, month, n = 0;
    const time_t soon = time(NULL) + 24 * 3600;
    struct tm latest;
    gmtime_r(&soon, &latest);
    if (!started_at ||
        sscanf(started_at, "%4d-%2d-%n", &year, &month, &n) < 2 || n != 8 ||
        month < 1 || month > 12 || year < 1970 ||
        year * 12 + month > (latest.tm_year + 1900) * 12 + latest.tm_mon + 1)
        year = 1970, month = 1;
    snprintf(out, ES_DATE_SIZE, "%04u-%02u-01", (unsigned)year % 10000,
             (unsigned)month % 100);
}

static es_status refuse_elsewhere(const es_push_job *j)
{
    return es_fail(
        ES_EFORMAT,
        "%s: the database has run %s with different samples, from %s: "
        "push that file, or remove the run from the database by SELECT "
        "entropy_scan.drop_run('%s')",
        es_reader_path(j->reader), j->info.uuid, j->pushed.source,
        j->info.uuid);
}

/* Plans the push of a series that is in the database. Only the file from which
 * the run was pushed may replace samples; another file may continue the series
 * or be an older copy. */
static es_status plan_known(es_push_lane *l, const es_push_job *j,
                            es_pushed_series *known)
{
    es_push_difference difference;
    if (known->shape != l->series.shape)
        return es_fail(ES_EFORMAT,
                       "%s: its series %.*s has another shape in the database",
                       es_reader_path(j->reader), ES_MAX_NAME, l->series.name);
    known->is_found = true;
    l->number = known->number;
    es_status status =
        es_push_compare(&difference, &l->place, &l->cut, j->pusher->postgres,
                        &j->pushed, known, j->reader, &l->series);
    if (status < 0)
        return status;
    if (difference == ES_PUSH_DIFFERS && j->is_elsewhere)
        return refuse_elsewhere(j);
    if (difference == ES_PUSH_AGREES)
        l->cut = ES_UNKNOWN;
    if (difference == ES_PUSH_ENDS && j->is_elsewhere) {
        l->cut = ES_UNKNOWN;
        l->place = known->place;
    }
    return ES_OK;
}

static es_status plan_lane(es_push_lane *l, es_push_job *j, size_t index)
{
    es_status status = es_reader_series(j->reader, j->run, index, &l->series);
    if (status < 0)
        return status;
    const es_series *s = &l->series;
    if (!es_text_is_utf8(s->name, strlen(s->name)))
        return es_fail(ES_EFORMAT,
                       "%s: the name of its series %.*s is not UTF-8",
                       es_reader_path(j->reader), ES_MAX_NAME, s->name);
    l->cut = ES_UNKNOWN;
    l->place.last = ES_UNKNOWN;
    l->is_new = true;
    l->has_low = s->shape == ES_SHAPE_HEAD && isfinite(j->pushed.low_below) &&
                 es_judge_series_of(s->name) == ES_JUDGE_ENTROPY;
    for (size_t i = 0; i < j->pushed.n_series && l->is_new; i++) {
        es_pushed_series *known = &j->pushed.series[i];
        if (known->phase != s->phase || strcmp(known->name, s->name) != 0)
            continue;
        l->is_new = false;
        if ((status = plan_known(l, j, known)) < 0)
            return status;
    }
    if (l->is_new)
        l->number = ++j->pushed.last_number;
    l->has_more = s->last_step != ES_UNKNOWN && s->last_step > l->place.last;
    l->has_changed = l->is_new || l->cut != ES_UNKNOWN;
    return ES_OK;
}

bool es_push_is_vanished(const es_push_job *j, size_t i)
{
    const es_pushed_series *known = &j->pushed.series[i];
    return !known->is_found && known->place.n && !j->is_elsewhere;
}

/* Plans the push of all series of the run. Returns ES_DONE if there is nothing
 * to push. */
static es_status find_work(es_push_job *j)
{
    bool has_work = !j->pushed.run_id;
    es_status status = es_push_measure_run(&j->about, j);
    j->n_lanes = es_reader_n_series(j->reader, j->run);
    if (status < 0 || (status = es_alloc(&j->lanes, j->n_lanes,
                                         sizeof *j->lanes, "series")) < 0)
        return status;
    for (size_t i = 0; i < j->n_lanes; i++) {
        if ((status = plan_lane(&j->lanes[i], j, i)) < 0)
            return status;
        has_work |= j->lanes[i].has_more || j->lanes[i].has_changed;
    }
    for (size_t i = 0; i < j->pushed.n_series; i++)
        has_work |= es_push_is_vanished(j, i);
    if (has_work)
        return ES_OK;
    if (j->is_elsewhere) /* The run was pushed from another file, of which this
                            file is an equal or older copy, so there is nothing
                            to push. */
        return ES_DONE;
    if ((status = es_push_measure(j->whole, j->begun, &j->pushed, j->reader,
                                  j->run)) < 0)
        return status;
    has_work = j->about != j->pushed.parts[ES_PUSH_RUN].digest;
    for (int k = ES_PUSH_EVENT; k <= ES_PUSH_MAP_EVAL; k++)
        has_work |= j->whole[k].digest != j->pushed.parts[k].digest;
    return has_work ? ES_OK : ES_DONE;
}

static es_status load_pushed(es_push_job *j)
{
    es_pushed *pushed = &j->pushed;
    es_status status =
        es_pushed_load(pushed, j->pusher->postgres, j->info.uuid);
    if (status < 0)
        return status;
    if (!pushed->run_id)
        return ES_OK;
    j->is_elsewhere = strcmp(pushed->source, j->source->path) != 0;
    if (pushed->n_layer == j->info.n_layer && pushed->n_head == j->info.n_head)
        return ES_OK;
    return es_fail(ES_EFORMAT,
                   "%s: the database has run %s with %lld layers of %lld heads",
                   es_reader_path(j->reader), j->info.uuid,
                   (long long)pushed->n_layer, (long long)pushed->n_head);
}

es_status es_push_plan_new(es_push_job *j)
{
    find_month(j->pushed.month, j->info.started_at);
    j->pushed.low_below = j->pusher->low_share * j->ceiling;
    return find_work(j);
}

es_status es_push_plan(es_push_job *j)
{
    es_status status = load_pushed(j);
    if (status < 0)
        return status;
    return j->pushed.run_id ? find_work(j) : es_push_plan_new(j);
}
