/**
 * Tests that no alert is missed if a run is checked while it grows, as a
 * watcher does.
 */
#include "cli/alerts/watch/follow.h"
#include "cli/runs/summary.h"
#include "tests/support/chance.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

#define L 3
#define H 2
#define N_STEPS 60
#define N_ALERTS 4000

static const char uuid[] = "0f0f0f0f-1111-4222-8333-444444444444";

static const char rules_text[] =
    "[collapse]\nhead = 0.2\n"
    "[logits]\nwarning = 20\n"
    "[rule heads]\nseries=entropy\nbelow=0.6 history\nsamples=2\nend=0.9\n"
    "[rule share]\nseries=max_logit\naggregate=share\nabove=2\nshare=0.4\n"
    "[rule mean]\nseries=entropy\naggregate=layer_mean\nat_least=0.5 ceiling\n"
    "cool_down=2\nseverity=critical\naction=stop\n"
    "[rule loss]\nseries=loss\naggregate=run\nabove=1.1 history\n"
    "[rule held-out]\nseries=loss\nphase=eval\naggregate=run\nabove=2.5\n";
static const char baseline_text[] =
    "[rule lower]\nseries=entropy\naggregate=layer_max\nbelow=0.8 baseline\n"
    "[baseline]\nrun=";

/* --- received alerts ------------------------------------------------------ */

typedef struct received {
    char *ids[N_ALERTS]; /* (n) */
    size_t n;
    bool refuses; /* true if the handler refuses some alerts */
} received;

static es_status receive(void *user, const es_alert *alert)
{
    received *list = user;
    assert_true(list->n < N_ALERTS);
    if (list->refuses && chance_below(4) == 0)
        return es_fail(ES_EIO, "no space");
    assert_int_equal(alert->stops, strcmp(alert->title, "mean") == 0);
    assert_non_null(list->ids[list->n++] = strdup(alert->id));
    return ES_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the received ids and removes duplicates; returns the number of
 * duplicates. */
static size_t sort_received(received *list)
{
    size_t n = 0, n_before = list->n;
    qsort(list->ids, list->n, sizeof *list->ids, by_text);
    for (size_t i = 0; i < list->n; i++) {
        if (n && strcmp(list->ids[n - 1], list->ids[i]) == 0)
            free(list->ids[i]);
        else
            list->ids[n++] = list->ids[i];
    }
    list->n = n;
    return n_before - n;
}

static bool is_received(const received *list, const char *id)
{
    return bsearch(&id, list->ids, list->n, sizeof *list->ids, by_text) != NULL;
}

/* --- growing file --------------------------------------------------------- */

typedef struct growing {
    char path[512];
    es_rules_file rules;
    es_recorded list;
    es_follow known;
    es_growth *growth; /* state kept for reading the growing fragment */
    size_t n_added;    /* number of times that appended samples were checked for
                          alerts without reopening the file */
    received received;
} growing;

static es_status look(growing *g, es_follow *known, received *list,
                      bool written)
{
    const es_alert about = {
        .path = g->path, .uuid = uuid, .is_written = written};
    const es_follow_options options = {
        .rules = &g->rules, .handler = receive, .user = list};
    es_growth_news news;
    size_t n;
    if (g->growth && known == &g->known) {
        es_assert_ok(es_growth_look(&news, g->growth));
        const es_growth_sample *samples = es_growth_samples(&n, g->growth);
        es_status status = news == ES_GROWTH_OTHER
                               ? ES_DONE
                               : es_follow_add(known, 0, samples, n, &options);
        g->n_added += status == ES_OK;
        if (status != ES_DONE)
            return status;
    }
    es_reader *reader = es_open_reader(g->path);
    es_status status = es_follow_read(known, reader, 0, &about, &options);
    if (known == &g->known) {
        es_growth_end(g->growth);
        es_assert_ok(es_growth_begin(&g->growth, reader));
    }
    es_reader_close(reader);
    return status;
}

/* Writes samples, each committed separately, so that the run may be read
 * between two samples of the same step. After every `rhythm` samples on
 * average, reads the run and checks it for alerts; never if `rhythm` is 0. */
static void grow(growing *g, int64_t from, int64_t until, uint32_t rhythm)
{
    static const char *const names[] = {"entropy", "max_logit", "loss"};
    static const float levels[] = {0.3F, 1, 1, 1.1F, 2, 30};
    for (int64_t step = from; step < until; step++) {
        for (size_t s = 0; s < 3; s++) {
            float x[L * H];
            for (size_t i = 0; i < L * H; i++) {
                uint32_t kind = chance_below(24);
                x[i] = kind == 0   ? NAN
                       : kind == 1 ? es_missing()
                                   : levels[chance_below(6)];
            }
            es_record_sample(&g->list, names[s], ES_PHASE_TRAIN, step, x,
                             s < 2 ? L * H : 1);
            if (s < 2 && rhythm && chance_below(rhythm) == 0)
                (void)look(g, &g->known, &g->received, true);
        }
        const float held_out = 2 + (float)chance_below(4) / 4;
        if (step % 5 == 0)
            es_record_sample(&g->list, "loss", ES_PHASE_EVAL, step, &held_out,
                             1);
    }
}

static es_run_info run_info(const char *id)
{
    es_run_info info = es_run_of(L, H);
    info.ctx = 8;
    info.uuid = id;
    return info;
}

/* Starts to record the run `name`. Its alerts follow the rules file in
 * `rules` or, if `rules` is NULL, rules_text, which compares the run with a
 * baseline. */
static void begin(growing *g, void **state, const char *name, const char *rules)
{
    char text[2048];
    char *baseline = es_folder_file(state, "baseline.db");
    const es_run_info info = run_info(uuid), other = run_info(NULL);
    *g = (growing){.received.refuses = false};
    if (!es_file_exists(baseline)) {
        es_recorded list = es_record(baseline, &other);
        for (int64_t step = 0; step < N_STEPS; step += 3)
            es_record_all(&list, "entropy", step, 1);
        es_record_end(&list, ES_RUN_FINISHED);
        es_record_close(&list);
    }
    snprintf(text, sizeof text, "%s%s%s\n", rules_text, baseline_text,
             baseline);
    rules = rules ? rules : text;
    es_assert_ok(es_rules_file_parse(&g->rules, "r.ini", rules, strlen(rules)));
    snprintf(g->path, sizeof g->path, "%s", es_folder_file(state, name));
    g->list = es_record(g->path, &info);
}

/* Starts recording a random run; in half of the runs the handler refuses some
 * alerts. If `seed` is odd, the run is a fragment without a baseline, whose
 * samples are read as they are appended. */
static void begin_by_chance(growing *g, void **state, uint64_t seed)
{
    char name[32];
    const bool fragment = seed % 2;
    snprintf(name, sizeof name, "grow%d.%s", (int)seed,
             fragment ? "esf" : "db");
    chance_seed(seed);
    begin(g, state, name, fragment ? rules_text : NULL);
    g->received.refuses = chance_below(2);
}

/* Simulates that training was killed and is resumed from a checkpoint at
 * `step`. */
static void resume(growing *g, int64_t step)
{
    const es_run_info info = run_info(uuid);
    es_record_close(&g->list);
    es_assert_ok(es_writer_open(&g->list.writer, g->path, ES_FAST));
    es_assert_ok(es_writer_run(g->list.writer, &g->list.run, &info, step));
}

static void finish(growing *g)
{
    es_record_end(&g->list, ES_RUN_FINISHED);
    es_record_close(&g->list);
    g->received.refuses = false;
    es_assert_ok(look(g, &g->known, &g->received, false));
    assert_true(g->known.over);
}

/* Checks the complete run for alerts twice, once as `watch` does and once as
 * the table of runs does, and compares the results. */
static size_t assert_same_as_finished(growing *g)
{
    es_follow once = {.judging = NULL};
    received all = {.n = 0};
    es_run_summary *summary;
    es_summary_options options;
    char id[128];
    es_assert_ok(look(g, &once, &all, false));
    assert_int_equal(sort_received(&all), 0);
    for (size_t i = 0; i < all.n; i++)
        assert_true(is_received(&g->received, all.ids[i]));
    es_summary_options_default(&options);
    options.rules = &g->rules;
    es_reader *reader = es_open_reader(g->path);
    es_assert_ok(es_summary_load(&summary, reader, 0, &options));
    for (size_t i = 0; i < summary->n_flags; i++) {
        const es_flag *flag = &summary->flags[i];
        bool found = false;
        for (int s = ES_SEVERITY_INFO; s <= ES_SEVERITY_CRITICAL; s++) {
            snprintf(id, sizeof id, "%s/alert:%s@%lld:%s", uuid,
                     es_flag_title(flag), (long long)flag->onset,
                     es_severity_name((es_severity)s));
            found = found || is_received(&all, id);
        }
        assert_true(found);
    }
    es_summary_free(summary);
    es_reader_close(reader);
    const size_t n = all.n;
    while (all.n)
        free(all.ids[--all.n]);
    es_follow_end(&once);
    return n;
}

static void end(growing *g)
{
    while (g->received.n)
        free(g->received.ids[--g->received.n]);
    es_follow_end(&g->known);
    es_growth_end(g->growth);
    es_rules_file_free(&g->rules);
}

/* Ends the run and checks that the alerts received while it grew include all
 * alerts of the finished run. Returns the number of duplicates. */
static size_t settle(growing *g)
{
    finish(g);
    const size_t n_twice = sort_received(&g->received);
    (void)assert_same_as_finished(g);
    end(g);
    return n_twice;
}

TEST(a_growing_run_is_judged_as_the_whole)
{
    size_t n = 0, n_added = 0;
    for (uint64_t seed = 1; seed < 16; seed++) {
        growing g;
        begin_by_chance(&g, state, seed);
        const bool refuses = g.received.refuses;
        grow(&g, 0, N_STEPS, 1 + chance_below(20));
        finish(&g);
        assert_true(sort_received(&g.received) == 0 || refuses);
        assert_int_equal(g.received.n, assert_same_as_finished(&g));
        n += g.received.n;
        n_added += g.n_added;
        end(&g);
    }
    assert_true(n > 250);
    assert_true(n_added > 15);
}

TEST(a_resumed_run_is_judged_anew)
{
    for (uint64_t seed = 1001; seed < 1009; seed++) {
        growing g;
        begin_by_chance(&g, state, seed);
        int64_t step = 0;
        for (int i = 0; i < 4; i++) {
            const uint32_t rhythm = 1 + chance_below(80);
            const int64_t until = step + 5 + (int64_t)chance_below(15);
            grow(&g, step, until, rhythm);
            step = (int64_t)chance_below((uint32_t)until);
            resume(&g, step);
        }
        grow(&g, step, N_STEPS, 7);
        settle(&g);
    }
}

/* The watcher reads the resumed run only after the new samples have passed the
 * last step before the interruption. */
TEST(a_resumption_between_two_looks_is_judged)
{
    for (uint64_t seed = 2001; seed < 2009; seed++) {
        growing g;
        begin_by_chance(&g, state, seed);
        g.received.refuses = false;
        for (int64_t end = 20, step = 0; end <= N_STEPS; end += 20) {
            grow(&g, step, end, 0);
            es_assert_ok(look(&g, &g.known, &g.received, true));
            step = end / 2;
            resume(&g, step);
        }
        grow(&g, N_STEPS / 2, N_STEPS + 10, 0);
        settle(&g);
    }
}

TEST(an_ended_run_is_read_again_only_if_it_goes_on)
{
    growing g;
    begin_by_chance(&g, state, 7);
    grow(&g, 0, N_STEPS, 1000);
    finish(&g);
    const size_t n = g.received.n;
    assert_true(n > 0);
    es_assert_ok(look(&g, &g.known, &g.received, false));
    assert_int_equal(g.received.n, n);
    assert_null(g.known.judging);
    assert_true(!g.known.path && !g.known.name && !g.known.layers);
    resume(&g, N_STEPS);
    grow(&g, N_STEPS, 2 * N_STEPS, 1000);
    es_assert_ok(look(&g, &g.known, &g.received, true));
    assert_true(g.received.n > n);
    assert_true(settle(&g) >= n);
}

/* The run is so short that a collapse is found only at its end. */
TEST(a_short_run_is_reported_at_its_end)
{
    growing g;
    begin(&g, state, "short.db", NULL);
    es_record_all(&g.list, "entropy", 0, 0.01F);
    es_assert_ok(look(&g, &g.known, &g.received, true));
    const size_t n = g.received.n;
    finish(&g);
    assert_int_equal(g.received.n, n + 1);
    assert_non_null(strstr(g.received.ids[n], "alert:collapse@0:critical"));
    end(&g);
}

TEST(a_noisy_rule_does_not_silence_others)
{
    growing g;
    begin(&g, state, "noisy.db",
          "[rule noisy]\nseries=loss\naggregate=run\nabove=1\nseverity=info\n"
          "[rule last]\nseries=loss\naggregate=run\nabove=8\n");
    es_assert_ok(es_writer_begin(g.list.writer));
    for (int64_t step = 0; step < 2 * ES_FOLLOW_MOST + 100; step++)
        es_record_value(&g.list, "loss", step, step % 2 ? 2 : 0.5F);
    es_record_value(&g.list, "loss", 2 * ES_FOLLOW_MOST + 101, 9);
    es_assert_ok(es_writer_commit(g.list.writer));
    es_assert_ok(look(&g, &g.known, &g.received, true));
    assert_int_equal(g.received.n, ES_FOLLOW_MOST + 1);
    assert_non_null(strstr(g.received.ids[ES_FOLLOW_MOST], "alert:last@"));
    assert_int_equal(g.known.of_rules[0], ES_FOLLOW_MOST + 50);
    es_record_close(&g.list);
    end(&g);
}

TEST_EACH(es_folder_make, es_folder_remove)
