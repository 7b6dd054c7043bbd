/* Judges the training's samples while the recorder writes them, and stores an
 * event for each flag that opens or becomes more severe. The judge's state is
 * copied before each transaction, so that a failed transaction leaves no trace
 * in it. */
#include "hooks/recorder/process/alert.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "store/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MOST 64 /* maximum number of layers that an event lists */

/* --- events --------------------------------------------------------------- */

/* Returns the marked layer if exactly one layer is marked, else ES_UNKNOWN. */
static int64_t single_layer(const unsigned char *marks, int n_layers)
{
    int64_t single = ES_UNKNOWN;
    for (int l = 0; l < n_layers; l++) {
        if (marks[l] && single != ES_UNKNOWN)
            return ES_UNKNOWN;
        if (marks[l])
            single = l;
    }
    return single;
}

/* Formats an event's data,
 * {"onset":130,"value":0.75,"threshold":0.5,"layers":[9,10]}, with the first
 * LAYERS_MOST marked layers. Returns NULL if memory is short. */
static char *print_data(const es_episode *episode, int n_layers)
{
    char *data = NULL;
    size_t size;
    int n_listed = 0;
    es_json_writer json = {.stream = es_text_stream(&data, &size)};
    if (!json.stream)
        return NULL;
    es_json_write_object(&json, NULL);
    es_json_write_integer(&json, "onset", episode->onset);
    es_json_write_double(&json, "value", episode->value);
    es_json_write_double(&json, "threshold", episode->threshold);
    es_json_write_array(&json, "layers");
    for (int l = 0; l < n_layers && n_listed < LAYERS_MOST; l++)
        if (episode->layers[l]) {
            es_json_write_integer(&json, NULL, l);
            n_listed++;
        }
    es_json_write_end(&json, "]}");
    if (fclose(json.stream) == 0)
        return data;
    free(data);
    return NULL;
}

static es_status write_event(es_alerts *alerts, const es_episode *episode)
{
    char message[128], dedupe[96];
    char value[ES_FLOAT_TEXT_MAX], threshold[ES_FLOAT_TEXT_MAX];
    const char *kind = es_flag_name(episode->kind);
    char *data = print_data(episode, alerts->n_layers);
    if (!data)
        return es_fail(ES_ENOMEM, "out of memory for an alert");
    snprintf(message, sizeof message, "%s since step %lld: %s, threshold %s",
             kind, (long long)episode->onset,
             es_number_print(value, episode->value, 4),
             es_number_print(threshold, episode->threshold, 4));
    snprintf(dedupe, sizeof dedupe, "alert:%s@%lld:%s", kind,
             (long long)episode->onset, es_severity_name(episode->severity));
    const es_event event = {.step = alerts->step,
                            .kind = kind,
                            .severity = episode->severity,
                            .layer =
                                single_layer(episode->layers, alerts->n_layers),
                            .head = ES_UNKNOWN,
                            .message = message,
                            .data = data,
                            .dedupe = dedupe};
    es_status status = es_writer_event(alerts->writer, alerts->run_id, &event);
    free(data);
    return status;
}

static void report(void *user, const es_episode *episode)
{
    es_alerts *alerts = user;
    if (alerts->status != ES_OK || alerts->n >= ES_ALERTS_MOST)
        return;
    alerts->n++;
    alerts->status = write_event(alerts, episode);
}

/* Ignores the end of an episode, which is not stored, because readers judge the
 * whole run. */
static void ignore(void *user, const es_episode *episode)
{
    (void)user;
    (void)episode;
}

/* --- judging --------------------------------------------------------------*/

/* Passes the samples of a resumed run before resume_step to the judge. The
 * alerts for these samples are already in the file. */
static es_status catch_up(es_alerts *alerts, es_reader *reader, size_t run,
                          int64_t resume_step)
{
    es_cursor *cursor = NULL;
    es_series series;
    const float *values;
    es_status status = es_cursor_open_run(&cursor, reader, run);
    while (status == ES_OK) {
        int64_t step;
        status = es_cursor_next_of_run(cursor, &step, &values, &series);
        if (status == ES_OK && step >= resume_step)
            break;
        if (status == ES_OK && series.phase == ES_PHASE_TRAIN)
            status = es_alerts_push(alerts, es_judge_series_of(series.name),
                                    step, values, series.n_values);
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

/* Finds the run's index in the file, which differs from its id. No other run in
 * the file has the same UUID. */
static es_status find_run(size_t *index, es_reader *reader, const char *uuid)
{
    for (*index = es_reader_n_runs(reader); (*index)-- > 0;) {
        es_run_info run;
        es_status status = es_reader_run(reader, *index, &run);
        if (status != ES_OK)
            return status;
        /* A run without a UUID has just been created and is the last in the
         * file. */
        if (!uuid || (run.uuid && strcmp(run.uuid, uuid) == 0))
            return ES_OK;
    }
    return es_fail(ES_ENOTFOUND, "%s: the run that was just opened is missing",
                   es_reader_path(reader));
}

static es_status make_judge(es_alerts *alerts, const es_judge_run *run)
{
    es_flag_rules rules;
    es_flag_rules_default(&rules);
    es_status status;
    alerts->size = es_judge_size(run);
    if (!alerts->size)
        return es_fail(ES_ENOMEM, "out of memory for judging the run");
    if ((status = es_alloc(&alerts->now, 1, alerts->size, "the judge")) < 0 ||
        (status = es_alloc(&alerts->before, 1, alerts->size, "the judge")) < 0)
        return status;
    alerts->judge = es_judge_init(alerts->now, run, &rules, ignore, NULL);
    return ES_OK;
}

es_status es_alerts_open(es_alerts *alerts, const char *path, es_writer *writer,
                         int64_t run_id, const es_run_info *run,
                         int64_t resume_step)
{
    es_reader *reader = NULL;
    size_t index = 0;
    *alerts = (es_alerts){
        .writer = writer, .run_id = run_id, .n_layers = (int)run->n_layer};
    es_judge_run judged;
    es_status status;
    if ((status = es_reader_open(&reader, path)) < 0 ||
        (status = find_run(&index, reader, run->uuid)) < 0 ||
        (status = es_reader_layers(&alerts->layers, reader, index)) < 0 ||
        (status = es_reader_judged(&judged, reader, index, alerts->layers)) <
            0 ||
        (status = make_judge(alerts, &judged)) < 0)
        goto done;
    es_judge_announce(alerts->judge, ignore, NULL);
    status = catch_up(alerts, reader, index, resume_step);
done:
    es_reader_close(reader);
    if (status == ES_OK)
        es_judge_announce(alerts->judge, report, alerts);
    else
        es_alerts_close(alerts);
    return status;
}

es_status es_alerts_push(es_alerts *alerts, es_judge_series series,
                         int64_t step, const float *values, size_t n)
{
    if (!alerts->judge || series == ES_JUDGE_OTHER)
        return ES_OK;
    alerts->step = step;
    alerts->status = ES_OK;
    es_judge_push(alerts->judge, series, step, values, n);
    return alerts->status;
}

void es_alerts_keep(es_alerts *alerts)
{
    if (!alerts->judge)
        return;
    memcpy(alerts->before, alerts->now, alerts->size);
    alerts->n_before = alerts->n;
}

void es_alerts_undo(es_alerts *alerts)
{
    if (!alerts->judge)
        return;
    memcpy(alerts->now, alerts->before, alerts->size);
    alerts->n = alerts->n_before;
}

es_status es_alerts_finish(es_alerts *alerts)
{
    if (!alerts->judge)
        return ES_OK;
    alerts->status = ES_OK;
    es_judge_finish(alerts->judge);
    return alerts->status;
}

void es_alerts_close(es_alerts *alerts)
{
    free(alerts->now);
    free(alerts->before);
    es_layers_free(alerts->layers);
    *alerts = (es_alerts){0};
}
