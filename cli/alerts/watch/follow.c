/* Judges one run as it grows, for a watcher: keeps the state of the judge
 * between two rounds, begins anew when the run is another one, and hands each
 * alert on as a value. */
#include "cli/alerts/watch/follow.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* One reading: what its handler needs. */
typedef struct es_follow_reading {
    es_follow *known;
    const es_follow_options *options;
    es_alert alert;   /* of the run; the alerts' members change */
    es_status status; /* the first failure of the handler */
} reading;

/* --- alerts ---------------------------------------------------------------*/

static void hand_on(reading *r, const es_episode *episode)
{
    es_alert *alert = &r->alert;
    alert->kind = episode->kind;
    alert->severity = episode->severity;
    alert->onset = episode->onset;
    alert->step = es_judging_step(r->known->judging);
    alert->value = episode->value;
    alert->threshold = episode->threshold;
    alert->n_layers = 0;
    for (int l = 0; l < r->known->run.n_layers; l++)
        if (episode->layers[l] && alert->n_layers < ES_ALERT_LAYERS)
            alert->layers[alert->n_layers++] = l;
    r->status = r->options->handler(r->options->user, alert);
}

/* Nothing is counted that was not handed on: it comes again. */
static void receive_flag(void *user, const es_episode *episode)
{
    es_follow *known = user;
    reading *r = known->reading;
    if (r->status != ES_OK)
        return;
    r->alert.title = es_flag_name(episode->kind);
    r->alert.stops = false;
    uint32_t n = 0;
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        for (int k = 0; k <= ES_SEVERITY_CRITICAL; k++)
            n += known->counts[i][k];
    known->counts[episode->kind][episode->severity]++;
    if (n < ES_FOLLOW_MOST)
        hand_on(r, episode);
}

static void receive_rule(void *user, size_t rule_index,
                         const es_episode *episode)
{
    es_follow *known = user;
    reading *r = known->reading;
    if (r->status != ES_OK)
        return;
    const es_rule *rule = &r->options->rules->rules[rule_index];
    r->alert.title = rule->name;
    r->alert.stops = rule->action == ES_RULE_STOP;
    uint32_t n = known->of_rules[rule_index]++;
    if (n < ES_FOLLOW_MOST)
        hand_on(r, episode);
    else if (n == ES_FOLLOW_MOST)
        es_print_note(
            "%s: rule %s: more than %d alerts: they are not reported: "
            "give it an end or a cool_down",
            r->alert.path, rule->name, ES_FOLLOW_MOST);
}

/* --- the run --------------------------------------------------------------*/

/* Only a run without any sample of training is judged by its evaluations: a
   growing one may have none yet. */
static es_status find_phase(es_phase *out, es_reader *reader, size_t run,
                            bool written)
{
    es_series series;
    *out = ES_PHASE_TRAIN;
    for (size_t i = 0; i < es_reader_n_series(reader, run); i++) {
        es_status status = es_reader_series(reader, run, i, &series);
        if (status != ES_OK)
            return status;
        if (series.phase == ES_PHASE_TRAIN &&
            es_judge_series_of(series.name) != ES_JUDGE_OTHER &&
            series.first_step != ES_UNKNOWN)
            return ES_OK;
    }
    *out = written ? ES_PHASE_TRAIN : ES_PHASE_EVAL;
    return ES_OK;
}

static es_status read_judged(es_judge_run *out, es_reader *reader, size_t run,
                             const es_run_info *info)
{
    *out = (es_judge_run){
        .n_layers = (int)info->n_layer,
        .n_heads = (int)info->n_head,
        .ctx = info->ctx < 1 || info->ctx > INT_MAX ? 0 : (int)info->ctx,
    };
    return es_reader_planned_steps(reader, run, &out->planned_steps);
}

static bool same_run(const es_judge_run *a, const es_judge_run *b)
{
    return a->n_layers == b->n_layers && a->n_heads == b->n_heads &&
           a->ctx == b->ctx && a->planned_steps == b->planned_steps;
}

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Of an ended run: whatever another recording of it changes. */
static uint64_t version_of(const es_run_info *info)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)info->last_step;
    hash = mix(hash, es_run_status_name(info->status));
    return mix(hash, info->ended_at);
}

static es_status begin(es_follow *known, const es_follow_options *options,
                       const es_judge_run *run, es_phase phase,
                       const char *uuid)
{
    const es_judging_options judged = {.run = *run,
                                       .phase = phase,
                                       .rules = options->rules,
                                       .flag =
                                           options->flags ? receive_flag : NULL,
                                       .rule = receive_rule,
                                       .user = known,
                                       .growing = true};
    const size_t n = options->rules ? options->rules->n : 0;
    reading *during = known->reading;
    es_follow_end(known);
    known->reading = during;
    known->run = *run;
    known->phase = phase;
    snprintf(known->uuid, sizeof known->uuid, "%s", uuid);
    es_status status =
        es_alloc(&known->of_rules, n, sizeof *known->of_rules, "alerts");
    return status < 0 ? status : es_judging_open(&known->judging, &judged);
}

/* --- a reading ------------------------------------------------------------*/

static es_status read_new(es_follow *known, es_reader *reader, size_t run,
                          const es_judge_run *judged, es_phase phase)
{
    const reading *r = known->reading;
    es_status status = ES_DONE;
    if (known->judging && phase == known->phase &&
        same_run(judged, &known->run))
        status = es_judging_read(known->judging, reader, run);
    if (status != ES_DONE)
        return status;
    status = begin(known, r->options, judged, phase, r->alert.uuid);
    return status == ES_OK ? es_judging_read(known->judging, reader, run)
                           : status;
}

static es_status read_run(es_follow *known, es_reader *reader, size_t run,
                          const es_run_info *info)
{
    const reading *r = known->reading;
    const bool written = r->alert.is_written;
    es_judge_run judged;
    es_phase phase;
    es_status status;
    if ((status = read_judged(&judged, reader, run, info)) < 0 ||
        (status = find_phase(&phase, reader, run, written)) < 0)
        return status;
    status = read_new(known, reader, run, &judged, phase);
    if (status != ES_OK || r->status != ES_OK || written)
        return status;
    /* What only the end of a run shows would be reported too early. */
    es_judging_finish(known->judging);
    es_judging_close(known->judging);
    known->judging = NULL;
    known->over = true;
    known->version = version_of(info);
    return ES_OK;
}

es_status es_follow_read(es_follow *known, es_reader *reader, size_t run,
                         const es_alert *about,
                         const es_follow_options *options)
{
    reading now = {.known = known, .options = options, .alert = *about};
    es_run_info info;
    es_status status = es_reader_run(reader, run, &info);
    if (status != ES_OK)
        return status;
    if (strcmp(known->uuid, about->uuid) != 0)
        es_follow_end(known);
    if (known->over && !about->is_written &&
        known->version == version_of(&info))
        return ES_OK;
    known->reading = &now;
    status = read_run(known, reader, run, &info);
    known->reading = NULL;
    if (status == ES_OK)
        status = now.status;
    if (status != ES_OK)
        es_follow_end(known);
    return status;
}

void es_follow_end(es_follow *known)
{
    es_judging_close(known->judging);
    free(known->of_rules);
    *known = (es_follow){.judging = NULL};
}
