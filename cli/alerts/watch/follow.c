/* Evaluates the flags and rules of one run as it grows, for a watcher. Keeps
 * the state of the evaluation between rounds, starts again if the run was
 * replaced, and passes each alert to the handler. */
#include "cli/alerts/watch/follow.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "store/crc32c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State of one call of es_follow_read, which the callbacks of the evaluation
 * use. */
typedef struct es_follow_reading {
    es_follow *known;
    const es_follow_options *options;
    es_alert alert;   /* members that describe the run stay the same; the others
                         are set anew for each alert */
    es_status status; /* first failure that the handler returned */
} reading;

/* --- alerts ---------------------------------------------------------------*/

/* Passes an alert to the handler. `n` is the number of earlier alerts of the
 * same origin (the flags or one rule); alerts above the limit are dropped. If
 * the handler refuses the alert, the run is evaluated again later and the alert
 * is repeated. */
static void hand_on(reading *r, const char *title, bool stops,
                    const es_episode *episode, uint32_t n)
{
    if (n >= ES_FOLLOW_MOST)
        return;
    es_alert *alert = &r->alert;
    alert->title = title;
    alert->stops = stops;
    alert->severity = episode->severity;
    alert->onset = episode->onset;
    alert->step = es_judging_step(r->known->judging);
    alert->value = episode->value;
    alert->threshold = episode->threshold;
    alert->n_layers = 0;
    for (int l = 0; l < r->known->run.n_layers; l++)
        if (episode->layers[l] && alert->n_layers < ES_ALERT_LAYERS)
            alert->layers[alert->n_layers++] = l;
    char *id = es_alert_id(alert);
    char *text = es_alert_line(alert, episode->kind, r->known->layers);
    alert->id = id;
    alert->text = text;
    r->status =
        id && text ? r->options->handler(r->options->user, alert) : ES_ENOMEM;
    free(id);
    free(text);
}

static void receive_flag(void *user, const es_episode *episode)
{
    es_follow *known = user;
    if (known->reading->status != ES_OK)
        return;
    uint32_t n = 0;
    for (int i = 0; i < ES_N_FLAG_KINDS; i++)
        for (int k = 0; k <= ES_SEVERITY_CRITICAL; k++)
            n += known->counts[i][k];
    known->counts[episode->kind][episode->severity]++;
    hand_on(known->reading, es_flag_name(episode->kind), false, episode, n);
}

static void receive_rule(void *user, size_t rule_index,
                         const es_episode *episode)
{
    es_follow *known = user;
    reading *r = known->reading;
    if (r->status != ES_OK)
        return;
    const es_rule *rule = &r->options->rules->rules[rule_index];
    uint32_t n = known->of_rules[rule_index]++;
    hand_on(r, rule->name, rule->action == ES_RULE_STOP, episode, n);
    if (n == ES_FOLLOW_MOST)
        es_print_note("%s: rule %s: more than %d alerts, so further alerts are "
                      "not reported; give the rule an end or a cool_down",
                      r->alert.path, rule->name, ES_FOLLOW_MOST);
}

/* --- the run --------------------------------------------------------------*/

/* Chooses the phase whose samples are evaluated: the training phase, or the
 * evaluation phase if the run has ended without any training sample. A run that
 * is still being written may get its first training sample later. */
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

/* Returns a checksum of an ended run. The checksum changes if the run is
 * recorded again. */
static uint32_t version_of(const es_run_info *info)
{
    char text[128];
    snprintf(text, sizeof text, "%lld %s %s", (long long)info->last_step,
             es_run_status_name(info->status),
             info->ended_at ? info->ended_at : "");
    return es_crc32c(0, text, strlen(text));
}

/* Starts the evaluation of a run's flags and rules. Takes ownership of the
 * layers, also on failure. */
static es_status begin_run(es_follow *known, const es_follow_options *options,
                           const es_judge_run *run, es_layers *layers,
                           es_phase phase, const char *uuid)
{
    const es_rules_file *rules = options->rules;
    const es_judging_options judged = {.run = *run,
                                       .phase = phase,
                                       .rules = rules,
                                       .flag = receive_flag,
                                       .rule = receive_rule,
                                       .user = known,
                                       .growing = true};
    const size_t n = rules ? rules->n : 0;
    reading *during = known->reading;
    es_follow_end(known);
    known->reading = during;
    known->run = *run;
    known->layers = layers;
    known->phase = phase;
    snprintf(known->uuid, sizeof known->uuid, "%s", uuid);
    es_status status =
        es_alloc(&known->of_rules, n, sizeof *known->of_rules, "alerts");
    return status < 0 ? status : es_judging_open(&known->judging, &judged);
}

/* --- a reading ------------------------------------------------------------*/

/* Returns true if all members except the layers are equal. */
static bool is_same(const es_judge_run *a, const es_judge_run *b)
{
    return a->n_layers == b->n_layers && a->n_heads == b->n_heads &&
           a->ctx == b->ctx && a->planned_steps == b->planned_steps &&
           a->is_open_ended == b->is_open_ended &&
           (a->ceiling == b->ceiling ||
            (isnan(a->ceiling) && isnan(b->ceiling)));
}

static es_status read_run(es_follow *known, es_reader *reader, size_t run,
                          const es_run_info *info)
{
    const reading *r = known->reading;
    const bool written = r->alert.is_written;
    const es_judge_run *last = &known->run;
    es_layers *layers = NULL;
    es_judge_run judged;
    es_phase phase;
    es_status status;
    if ((status = es_reader_layers(&layers, reader, run)) < 0 ||
        (status = es_reader_judged(&judged, reader, run, layers)) < 0 ||
        (status = find_phase(&phase, reader, run, written)) < 0)
        goto done;
    status = ES_DONE; /* ES_DONE: the evaluation must start again, because the
                         run was replaced */
    if (known->judging && phase == known->phase && is_same(&judged, last) &&
        es_layers_equal(layers, known->layers))
        status = es_judging_read(known->judging, reader, run);
    if (status == ES_DONE) {
        status =
            begin_run(known, r->options, &judged, layers, phase, r->alert.uuid);
        layers = NULL;
        if (status == ES_OK)
            status = es_judging_read(known->judging, reader, run);
    }
done:
    es_layers_free(layers);
    if (status != ES_OK || r->status != ES_OK || written)
        return status;
    /* Some rules can only be evaluated at the end of the run. */
    es_judging_finish(known->judging);
    es_judging_close(known->judging);
    known->judging = NULL;
    known->over = true;
    known->version = version_of(info);
    return ES_OK;
}

/* Copies the description of the run for alerts about samples that es_follow_add
 * receives later. */
static es_status copy_description(es_follow *known, const es_alert *about)
{
    es_status status;
    free(known->path);
    free(known->name);
    free(known->arch);
    known->path = known->name = known->arch = NULL;
    if (known->over) { /* an ended run gets no more samples and therefore no
                          more alerts that need this description */
        es_layers_free(known->layers);
        known->layers = NULL;
        return ES_OK;
    }
    if ((status = es_copy_text(&known->path, about->path)) < 0 ||
        (status = es_copy_text(&known->name, about->name)) < 0)
        return status;
    return es_copy_text(&known->arch, about->arch);
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
    if (status == ES_OK)
        status = copy_description(known, about);
    if (status != ES_OK)
        es_follow_end(known);
    return status;
}

es_status es_follow_add(es_follow *known, size_t run,
                        const es_growth_sample *samples, size_t n,
                        const es_follow_options *options)
{
    reading now = {.known = known,
                   .options = options,
                   .alert = {.path = known->path,
                             .uuid = known->uuid,
                             .name = known->name,
                             .arch = known->arch,
                             .is_written = true}};
    if (!known->judging)
        return ES_DONE;
    known->reading = &now;
    es_status status = es_judging_add(known->judging, run, samples, n);
    known->reading = NULL;
    if (status == ES_OK)
        status = now.status;
    if (status < 0)
        es_follow_end(known);
    return status;
}

void es_follow_end(es_follow *known)
{
    es_judging_close(known->judging);
    es_layers_free(known->layers);
    free(known->of_rules);
    free(known->path);
    free(known->name);
    free(known->arch);
    *known = (es_follow){.judging = NULL};
}
