#include "cli/watch/look.h"

#include <limits.h>
#include <stdlib.h>

typedef struct judging {
    es_notice notice; /* of the run; the alerts' members change */
    int64_t step;
    int n_layers;
    es_notice_handler *handler;
    void *user;
    es_status status;
} judging;

static void hand_on(void *user, const es_episode *episode)
{
    judging *to = user;
    es_notice *notice = &to->notice;
    if (to->status != ES_OK)
        return;
    notice->kind = episode->kind;
    notice->severity = episode->severity;
    notice->onset = episode->onset;
    notice->step = to->step;
    notice->value = episode->value;
    notice->threshold = episode->threshold;
    notice->n_layers = 0;
    for (int l = 0; l < to->n_layers; l++)
        if (episode->layers[l] && notice->n_layers < ES_NOTICE_LAYERS)
            notice->layers[notice->n_layers++] = l;
    to->status = to->handler(to->user, notice);
}

static void ignore(void *user, const es_episode *episode)
{
    (void)user;
    (void)episode;
}

/* Only a run without any sample of training is judged by its evaluations. */
static es_phase phase_of(es_reader *reader, size_t run)
{
    es_series series;
    for (size_t i = 0; i < es_reader_n_series(reader, run); i++)
        if (es_reader_series(reader, run, i, &series) == ES_OK &&
            series.phase == ES_PHASE_TRAIN &&
            es_judge_series_of(series.name) != ES_JUDGE_OTHER &&
            series.first_step != ES_UNKNOWN)
            return ES_PHASE_TRAIN;
    return ES_PHASE_EVAL;
}

static es_status push_all(judging *to, es_judge *judge, es_reader *reader,
                          size_t run)
{
    es_cursor *cursor = NULL;
    es_series series;
    const float *values;
    const es_phase phase = phase_of(reader, run);
    es_status status = es_cursor_open_run(&cursor, reader, run);
    while (status == ES_OK && to->status == ES_OK) {
        int64_t step;
        status = es_cursor_next_of_run(cursor, &step, &values, &series);
        if (status != ES_OK || series.phase != phase)
            continue;
        to->step = step;
        es_judge_push(judge, es_judge_series_of(series.name), step, values,
                      series.n_values);
    }
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

es_status es_look_judge(es_reader *reader, size_t run, const es_notice *about,
                        bool ended, es_notice_handler *handler, void *user)
{
    es_run_info info;
    es_flag_rules rules;
    es_status status = es_reader_run(reader, run, &info);
    if (status != ES_OK)
        return status;
    const es_judge_run judged = {
        .n_layers = (int)info.n_layer,
        .n_heads = (int)info.n_head,
        .ctx = info.ctx < 1 || info.ctx > INT_MAX ? 0 : (int)info.ctx,
        .planned_steps = es_reader_planned_steps(reader, run),
    };
    judging to = {.notice = *about,
                  .n_layers = judged.n_layers,
                  .handler = handler,
                  .user = user};
    size_t size = es_judge_size(&judged);
    void *workspace = size ? malloc(size) : NULL;
    if (!workspace)
        return es_fail(ES_ENOMEM, "out of memory for judging a run");
    es_flag_rules_default(&rules);
    es_judge *judge = es_judge_init(workspace, &judged, &rules, ignore, NULL);
    es_judge_announce(judge, hand_on, &to);
    status = push_all(&to, judge, reader, run);
    /* What only the end tells would be told too early of a growing run. */
    if (status == ES_OK && to.status == ES_OK && ended)
        es_judge_finish(judge);
    free(workspace);
    return status == ES_OK ? to.status : status;
}
