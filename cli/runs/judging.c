/* Judges a run: opens a cursor on each series that a flag or a rule needs, and
   passes the samples on in the order of their steps. Used for the summary of a
   run, and by `watch`, which reads a growing run repeatedly. A hash of the last
   judged sample reveals if the run was resumed from an earlier step.
 */
#include "cli/runs/judging.h"
#include "cli/runs/damage.h"

#include "analyzer/base/checked.h"
#include "analyzer/heads/heads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples of several series that were appended to a run. */
typedef struct batch {
    const es_growth_sample *samples; /* (n) */
    size_t n, run;
} batch;

/* Reading position in one series, and the current sample. */
typedef struct stream {
    es_cursor *cursor;  /* NULL if the run does not have the series */
    const batch *added; /* source of the samples; NULL if the samples come from
                           the cursor */
    size_t next;        /* index of the next sample in `added` */
    bool live;
    size_t n_values;
    int64_t step;
    const float *values;
} stream;

/* A series that the flag judge or a rule needs. */
typedef struct feed {
    const char *name;
    es_phase phase;
    es_judge_series role; /* role of the series for the flag judge; OTHER if the
                             judge does not need it */
    bool compared; /* true if a rule compares the series with the baseline */
    size_t n;      /* number of values per sample; 0 if the run does not have
                      the series */
    bool begun;    /* true once a sample was judged; `done` is then set */
    int64_t done;  /* step of the newest judged sample */
    uint64_t hash; /* hash of the values at step `done` */
    stream own, baseline;
} feed;

struct es_judging {
    es_judging_options options;
    int64_t step;
    void *judge_space, *rules_space;
    es_judge *judge; /* NULL if flags are not judged */
    es_rules *rules; /* NULL if no rules are given */
    feed *feeds;     /* (n_feeds) */
    size_t n_feeds;
};

static size_t n_rules(const es_judging *j)
{
    return j->options.rules ? j->options.rules->n : 0;
}

/* --- opening --------------------------------------------------------------*/

static void ignore_flag(void *user, const es_episode *episode)
{
    (void)user, (void)episode;
}

static void ignore_rule(void *user, size_t rule, const es_episode *episode)
{
    (void)user, (void)rule, (void)episode;
}

/* Allocates `size` bytes; fails if `size` is 0, which means that computing the
   size overflowed. */
static es_status make_space(void **out, size_t size)
{
    return es_alloc(out, size ? size : SIZE_MAX, 1, "judging a run");
}

/* Creates the flag judge and the rules that the options ask for. */
static es_status make_judges(es_judging *j)
{
    const es_judging_options *o = &j->options;
    const es_rules_file *file = o->rules;
    es_flag_rules flags;
    es_status status;
    es_flag_rules_default(&flags);
    if (o->flag) {
        if ((status = make_space(&j->judge_space, es_judge_size(&o->run))) < 0)
            return status;
        j->judge =
            es_judge_init(j->judge_space, &o->run, file ? &file->flags : &flags,
                          o->growing ? ignore_flag : o->flag, o->user);
        if (o->growing)
            es_judge_announce(j->judge, o->flag, o->user);
    }
    if (n_rules(j)) {
        if ((status =
                 make_space(&j->rules_space,
                            es_rules_size(file->rules, file->n, &o->run))) < 0)
            return status;
        j->rules = es_rules_init(j->rules_space, file->rules, file->n, &o->run,
                                 o->growing ? ignore_rule : o->rule, o->user);
        if (o->growing)
            es_rules_announce(j->rules, o->rule, o->user);
    }
    return ES_OK;
}

static feed *find_feed(const es_judging *j, const char *name, es_phase phase)
{
    for (size_t i = 0; i < j->n_feeds; i++)
        if (j->feeds[i].phase == phase && strcmp(j->feeds[i].name, name) == 0)
            return &j->feeds[i];
    return NULL;
}

/* Returns the entry in the list of series that the judge or a rule needs, for
   this series and phase; adds the entry if none exists. */
static feed *provide_feed(es_judging *j, const char *name, es_phase phase)
{
    feed *found = find_feed(j, name, phase);
    if (found)
        return found;
    feed *wanted = &j->feeds[j->n_feeds++];
    *wanted = (feed){.name = name, .phase = phase, .role = ES_JUDGE_OTHER};
    return wanted;
}

static es_phase phase_of(const es_rule *rule)
{
    return rule->eval ? ES_PHASE_EVAL : ES_PHASE_TRAIN;
}

static es_status make_feeds(es_judging *j)
{
    const char *const names[] = {
        es_head_statistics[ES_HEAD_ENTROPY].name,
        es_head_statistics[ES_HEAD_NONFINITE_ROWS].name, "nan_activations",
        es_head_statistics[ES_HEAD_MAX_LOGIT].name, "loss"};
    enum { N_NAMES = sizeof names / sizeof *names };
    const size_t n = n_rules(j);
    es_status status =
        es_alloc(&j->feeds, N_NAMES + n, sizeof *j->feeds, "judging a run");
    if (status < 0)
        return status;
    for (size_t i = 0; j->judge && i < N_NAMES; i++)
        provide_feed(j, names[i], j->options.phase)->role =
            es_judge_series_of(names[i]);
    for (size_t i = 0; i < n; i++) {
        const es_rule *rule = &j->options.rules->rules[i];
        feed *from = provide_feed(j, rule->series, phase_of(rule));
        from->compared = from->compared || rule->reference == ES_RULE_BASELINE;
    }
    return ES_OK;
}

es_status es_judging_open(es_judging **out, const es_judging_options *options)
{
    es_judging *j;
    es_status status = es_alloc(&j, 1, sizeof *j, "judging a run");
    *out = NULL;
    if (status < 0)
        return status;
    j->options = *options;
    /* Evaluation samples describe a trained model, so the run is judged like a
       completed run. */
    if (options->phase == ES_PHASE_EVAL)
        j->options.run.is_open_ended = false;
    if ((status = make_judges(j)) < 0 || (status = make_feeds(j)) < 0) {
        es_judging_close(j);
        return status;
    }
    *out = j;
    return ES_OK;
}

void es_judging_close(es_judging *j)
{
    if (!j)
        return;
    free(j->feeds);
    free(j->judge_space);
    free(j->rules_space);
    free(j);
}

/* --- series ---------------------------------------------------------------*/

static bool is_of(const es_growth_sample *sample, const feed *from, size_t run)
{
    return sample->run == run && sample->phase == from->phase &&
           strcmp(sample->name, from->name) == 0;
}

static void advance_added(feed *from)
{
    stream *own = &from->own;
    const batch *added = own->added;
    own->live = false;
    while (own->next < added->n && !own->live) {
        const es_growth_sample *sample = &added->samples[own->next++];
        own->live = is_of(sample, from, added->run);
        own->step = sample->step;
        own->values = sample->values;
    }
}

static es_status advance_stream(stream *from)
{
    es_status status = es_cursor_next(from->cursor, &from->step, &from->values);
    from->live = status == ES_OK;
    return status == ES_DONE ? ES_OK : status;
}

static es_status open_stream(stream *out, es_reader *reader, size_t run,
                             const feed *wanted)
{
    const int64_t first = wanted->begun ? wanted->done : ES_STEP_FIRST;
    es_series series;
    es_status status =
        es_reader_find(reader, run, wanted->name, wanted->phase, &series);
    if (status == ES_ENOTFOUND)
        return ES_OK; /* without its series, a flag or a rule is never raised */
    if (status < 0)
        return status;
    out->n_values = series.n_values;
    status = es_cursor_open(&out->cursor, reader, &series, first, ES_STEP_LAST);
    return status < 0 ? status : advance_stream(out);
}

static uint64_t hash_of(const stream *at)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a over words of 32
                                                     bits */
    for (size_t i = 0; i < at->n_values; i++) {
        uint32_t bits;
        memcpy(&bits, &at->values[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static es_status open_compared(feed *from, es_reader *baseline)
{
    es_status status = open_stream(&from->baseline, baseline, 0, from);
    if (status < 0 || !from->baseline.cursor || !from->own.cursor ||
        from->baseline.n_values == from->own.n_values)
        return status;
    return es_fail(ES_EUSAGE,
                   "%s: cannot be the baseline of this run: its %s has %zu "
                   "values per step, not %zu",
                   es_reader_path(baseline), from->name,
                   from->baseline.n_values, from->own.n_values);
}

/* Returns an error for a rule that can never hold. */
static es_status check_rule(es_judging *j, const es_rule *rule)
{
    const stream *own = &provide_feed(j, rule->series, phase_of(rule))->own;
    const size_t n = own->n_values;
    if (own->cursor && !es_rule_fits(rule, &j->options.run, n))
        return es_fail(ES_EUSAGE,
                       "rule %s: aggregate %s does not fit %s, which has %zu "
                       "value%s per step: choose another aggregate",
                       rule->name, es_rule_aggregate_name(rule->aggregate),
                       rule->series, n, n == 1 ? "" : "s");
    return ES_OK;
}

static es_status open_feeds(es_judging *j, es_reader *reader, size_t run,
                            es_reader *baseline)
{
    es_status status;
    feed *const end = j->feeds + j->n_feeds;
    for (feed *from = j->feeds; from < end; from++) {
        if ((status = open_stream(&from->own, reader, run, from)) < 0)
            return status;
        from->n = from->own.n_values;
    }
    for (feed *from = j->feeds; from < end; from++) {
        const stream *own = &from->own;
        if (!from->begun)
            continue;
        /* The last judged sample must still exist unchanged. It is skipped,
           since it was judged before. */
        if (!own->live || own->step != from->done || hash_of(own) != from->hash)
            return ES_DONE;
        if ((status = advance_stream(&from->own)) < 0)
            return status;
    }
    for (size_t i = 0; i < n_rules(j); i++)
        if ((status = check_rule(j, &j->options.rules->rules[i])) < 0)
            return status;
    for (feed *from = j->feeds; from < end; from++)
        if (from->compared && (status = open_compared(from, baseline)) < 0)
            return status;
    return ES_OK;
}

/* --- samples --------------------------------------------------------------*/

static es_status push_sample(es_judging *j, feed *from)
{
    const bool eval = from->phase == ES_PHASE_EVAL;
    stream *own = &from->own, *baseline = &from->baseline;
    es_status status;
    j->step = own->step;
    if (from->role != ES_JUDGE_OTHER)
        es_judge_push(j->judge, from->role, own->step, own->values,
                      own->n_values);
    if (j->rules) { /* The rules must get the baseline's sample of a step before
                       they get the run's sample of that step. */
        while (baseline->live && baseline->step < own->step)
            if ((status = advance_stream(baseline)) < 0)
                return status;
        if (baseline->live && baseline->step == own->step)
            es_rules_push_baseline(j->rules, from->name, eval, own->step,
                                   baseline->values, baseline->n_values);
        es_rules_push(j->rules, from->name, eval, own->step, own->values,
                      own->n_values);
    }
    from->begun = true;
    from->done = own->step;
    from->hash = j->options.growing ? hash_of(own) : 0;
    if (!own->added)
        return advance_stream(own);
    advance_added(from);
    return ES_OK;
}

/* Judges all samples of a step before those of the next step. */
static es_status push_all(es_judging *j)
{
    for (;;) {
        const stream *first = NULL;
        for (size_t i = 0; i < j->n_feeds; i++)
            if (j->feeds[i].own.live &&
                (!first || j->feeds[i].own.step < first->step))
                first = &j->feeds[i].own;
        if (!first)
            return ES_OK;
        int64_t step = first->step;
        for (size_t i = 0; i < j->n_feeds; i++) {
            if (!j->feeds[i].own.live || j->feeds[i].own.step != step)
                continue;
            es_status status = push_sample(j, &j->feeds[i]);
            if (status < 0)
                return status;
        }
    }
}

es_status es_judging_read(es_judging *j, es_reader *reader, size_t run)
{
    es_reader *baseline = NULL;
    const es_rules_file *rules = j->options.rules;
    es_status status;
    if (rules && rules->baseline) {
        if ((status = es_reader_open(&baseline, rules->baseline)) < 0)
            goto done;
        if (es_reader_n_runs(baseline) != 1) {
            status =
                es_fail(ES_EUSAGE, "%s: a baseline must be one run, not %zu",
                        rules->baseline, es_reader_n_runs(baseline));
            goto done;
        }
    }
    if ((status = open_feeds(j, reader, run, baseline)) == ES_OK)
        status = push_all(j);
done:
    for (feed *from = j->feeds; from < j->feeds + j->n_feeds; from++) {
        es_cursor_close(from->own.cursor);
        es_cursor_close(from->baseline.cursor);
        from->own = from->baseline = (stream){.cursor = NULL};
    }
    es_damage_close(baseline);
    return status;
}

/* Returns true if the samples in `added` continue the judged samples of this
   series, with increasing steps and the same shape. */
static bool goes_on(const feed *from, const batch *added)
{
    int64_t last = from->done;
    bool fits = !from->compared;
    for (size_t i = 0; i < added->n && fits; i++) {
        const es_growth_sample *sample = &added->samples[i];
        if (!is_of(sample, from, added->run))
            continue;
        fits = from->begun && sample->step > last && sample->n == from->n;
        last = sample->step;
    }
    return fits;
}

es_status es_judging_add(es_judging *j, size_t run,
                         const es_growth_sample *samples, size_t n)
{
    const batch added = {.samples = samples, .n = n, .run = run};
    feed *const end = j->feeds + j->n_feeds;
    for (feed *from = j->feeds; from < end; from++)
        if (!goes_on(from, &added))
            return ES_DONE;
    for (feed *from = j->feeds; from < end; from++) {
        from->own = (stream){.added = &added, .n_values = from->n};
        advance_added(from);
    }
    const es_status status = push_all(j);
    for (feed *from = j->feeds; from < end; from++)
        from->own = (stream){.cursor = NULL};
    return status;
}

bool es_judging_heard(const es_judging *j, size_t rule)
{
    const es_rule *heard = &j->options.rules->rules[rule];
    const feed *from = find_feed(j, heard->series, phase_of(heard));
    return from && from->begun;
}

uint64_t es_judging_nonfinite(const es_judging *j, size_t rule)
{
    return j->rules ? es_rules_nonfinite(j->rules, rule) : 0;
}

int64_t es_judging_step(const es_judging *j)
{
    return j->step;
}

void es_judging_finish(es_judging *j)
{
    if (j->judge)
        es_judge_finish(j->judge);
    if (j->rules)
        es_rules_finish(j->rules);
}
