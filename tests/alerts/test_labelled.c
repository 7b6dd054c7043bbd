/**
 * Tests the flags on synthetic runs ("histories") whose faults are known by
 * construction, and on published heatmaps. No fault may be missed, and only
 * few alarms may be false.
 */
#include "cli/alerts/watch/follow.h"
#include "cli/runs/summary.h"
#include "samples/alerts/synthetic.h"
#include "tests/support/judged.h"
#include "tests/support/paper.h"
#include "tests/support/test.h"

#define N_HISTORIES 3000
#define SEED 20

/* The verdict on one history by kind of flag: the highest severity reported
 * during the run or at its end, the highest severity still active at the end,
 * and the step of the first error. */
typedef struct verdict {
    es_severity reported[ES_N_FLAG_KINDS], stands[ES_N_FLAG_KINDS];
    int64_t first[ES_N_FLAG_KINDS]; /* step at which an error was first
                                       reported; -1 if no error was reported */
    int64_t step;                   /* current step */
} verdict;

static void report(verdict *list, es_flag_kind kind, es_severity severity)
{
    if (severity > list->reported[kind])
        list->reported[kind] = severity;
    if (severity >= ES_SEVERITY_ERROR && list->first[kind] < 0)
        list->first[kind] = list->step;
}

static void count_episode(void *user, const es_episode *episode)
{
    report(user, episode->kind, episode->severity);
}

static es_status count_alert(void *user, const es_alert *alert)
{
    int kind = 0;
    while (strcmp(es_flag_name((es_flag_kind)kind), alert->title) != 0)
        kind++;
    ((verdict *)user)->step = alert->step;
    report(user, (es_flag_kind)kind, alert->severity);
    return ES_OK;
}

static void conclude(void *user, const es_episode *episode)
{
    verdict *list = user;
    if (episode->stands && episode->severity > list->stands[episode->kind])
        list->stands[episode->kind] = episode->severity;
}

static void push(es_judge *judge, const es_synthetic *history, size_t i)
{
    size_t n_layers = (size_t)history->run.n_layers;
    size_t n = n_layers * (size_t)history->run.n_heads;
    int64_t step = history->steps[i];
    es_judge_push(judge, ES_JUDGE_ENTROPY, step,
                  history->entropy + i * history->n_entropy,
                  history->n_entropy);
    if (!history->loss)
        return;
    es_judge_push(judge, ES_JUDGE_MAX_LOGIT, step, history->max_logit + i * n,
                  n);
    es_judge_push(judge, ES_JUDGE_NONFINITE_ROWS, step,
                  history->nonfinite_rows + i * n, n);
    es_judge_push(judge, ES_JUDGE_NAN_ACTIVATIONS, step,
                  history->nan_activations + i * n_layers, n_layers);
    es_judge_push(judge, ES_JUDGE_LOSS, step, history->loss + i, 1);
}

static verdict judge(const es_synthetic *history)
{
    verdict out = {.first = {-1, -1, -1, -1, -1}};
    es_flag_rules rules;
    es_flag_rules_default(&rules);
    void *space = malloc(es_judge_size(&history->run));
    assert_non_null(space);
    es_judge *judge =
        es_judge_init(space, &history->run, &rules, conclude, &out);
    es_judge_announce(judge, count_episode, &out);
    for (size_t i = 0; i < history->n_samples; i++) {
        out.step = history->steps[i];
        push(judge, history, i);
    }
    es_judge_finish(judge);
    free(space);
    return out;
}

typedef struct tally {
    const char *kind;
    size_t n, missed, differ, false_alarms, wrong_kinds;
} tally;

static bool is_error(es_severity severity)
{
    return severity >= ES_SEVERITY_ERROR;
}

static void count(tally *list, const es_truth *truth, const verdict *said)
{
    const bool wanted[ES_N_FLAG_KINDS] = {truth->nan, truth->collapse,
                                          truth->overload, truth->logits};
    const bool lasting[ES_N_FLAG_KINDS] = {truth->nan, truth->collapse_stands,
                                           truth->overload, truth->logits};
    /* an alarm is wrong if the history has no fault or a fault of another kind
     */
    bool wrong = false, missed = false, differs = false;
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        bool reported = is_error(said->reported[kind]);
        missed = missed || (wanted[kind] && !reported);
        wrong = wrong || (reported && !wanted[kind]);
        differs = differs || lasting[kind] != is_error(said->stands[kind]);
    }
    /* The loss of every history is noisy but falls, so no spike may be
     * reported. */
    assert_int_equal(said->reported[ES_FLAG_LOSS_SPIKE], ES_SEVERITY_NONE);
    list->n++;
    list->missed += missed;
    list->differ += differs;
    list->false_alarms += wrong && es_truth_is_healthy(truth);
    list->wrong_kinds += wrong && !es_truth_is_healthy(truth);
}

/* Prints how often each kind of history got wrong flags, for debugging. */
static void print_wrong(const tally *tallies)
{
    for (size_t k = 0; k < ES_SYNTHETIC_N_KINDS; k++) {
        const tally *sums = &tallies[k];
        if (sums->missed + sums->differ + sums->false_alarms +
                sums->wrong_kinds >
            0)
            print_message(
                "# %s, %zu histories: %zu missed, %zu wrong at the end, "
                "%zu false alarms, %zu alarms of the wrong kind\n",
                sums->kind, sums->n, sums->missed, sums->differ,
                sums->false_alarms, sums->wrong_kinds);
    }
}

TEST(synthetic_histories_are_judged_correctly)
{
    tally tallies[ES_SYNTHETIC_N_KINDS] = {{0}}, all = {0};
    size_t n_healthy = 0;
    for (size_t i = 0; i < N_HISTORIES; i++) {
        es_synthetic *history = es_synthetic_new(SEED, i);
        assert_non_null(history);
        const verdict said = judge(history);
        n_healthy += es_truth_is_healthy(&history->truth);
        tally *sums = &tallies[i % ES_SYNTHETIC_N_KINDS];
        sums->kind = history->kind;
        count(sums, &history->truth, &said);
        count(&all, &history->truth, &said);
        es_synthetic_free(history);
    }
    print_wrong(tallies);
    assert_true(n_healthy > N_HISTORIES / 3);
    assert_int_equal(all.missed, 0);
    assert_int_equal(all.differ, 0);
    assert_true(all.wrong_kinds <= (N_HISTORIES - n_healthy) / 200);
    assert_true(all.false_alarms <= n_healthy / 200); /* 0.5 % */
}

/* Detects the flags of a run file twice, once as `watch` does and once as the
 * table and --check do. */
static verdict judge_file(es_reader *reader, size_t run)
{
    verdict out = {.first = {-1, -1, -1, -1, -1}};
    es_run_info info;
    es_summary_options options;
    es_run_summary *summary;
    es_assert_ok(es_reader_run(reader, run, &info));
    const es_alert about = {
        .path = es_reader_path(reader), .uuid = info.uuid, .name = info.name};
    es_follow follow = {0};
    const es_follow_options followed = {.handler = count_alert, .user = &out};
    es_assert_ok(es_follow_read(&follow, reader, run, &about, &followed));
    es_follow_end(&follow);
    es_summary_options_default(&options);
    es_assert_ok(es_summary_load(&summary, reader, run, &options));
    for (size_t i = 0; i < summary->n_flags; i++) {
        const es_episode over = {.kind = summary->flags[i].kind,
                                 .severity = summary->flags[i].severity,
                                 .stands = summary->flags[i].stands};
        conclude(&out, &over);
    }
    es_summary_free(summary);
    return out;
}

/* Detecting flags sample by sample must report the same flags at the same steps
 * as reading the finished file. */
TEST(files_are_judged_like_their_samples)
{
    enum { EVERY = 23, N = N_HISTORIES / EVERY };
    char *path = es_folder_file(state, "histories.db");
    verdict said[N];
    es_writer *writer = es_open_writer(path);
    for (size_t i = 0; i < N; i++) {
        es_synthetic *history = es_synthetic_new(SEED, i * EVERY);
        assert_non_null(history);
        said[i] = judge(history);
        es_assert_ok(es_synthetic_write(writer, history, history->kind));
        es_synthetic_free(history);
    }
    es_assert_ok(es_writer_close(writer));
    AUTO(es_reader) reader = es_open_reader(path);
    assert_int_equal(es_reader_n_runs(reader), N);
    for (size_t i = 0; i < N; i++) {
        const verdict of_file = judge_file(reader, i);
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
            assert_int_equal(of_file.reported[kind], said[i].reported[kind]);
            assert_int_equal(of_file.stands[kind], said[i].stands[kind]);
            assert_int_equal(of_file.first[kind], said[i].first[kind]);
        }
    }
}

/* The flags of the published models must agree with their papers. */
TEST(published_heatmaps_are_judged_correctly)
{
    static const struct {
        const char *arch;
        es_truth truth;
    } published[] = {
        {"SM+LN+G", {0}},
        {"SM+LN+R", {0}},
        {"SM+G", {.overload = true}},
        {"SM+R", {0}}, /* mildly overloaded */
        {"SM", {.overload = true, .collapse = true, .collapse_stands = true}}};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        tally sums = {0};
        int64_t step = 32000;
        float x[ES_PAPER_VALUES];
        es_paper_heatmap(x, published[i].arch);
        const es_synthetic history = {
            .run = {.n_layers = ES_PAPER_LAYERS,
                    .n_heads = ES_PAPER_HEADS,
                    .ctx = ES_PAPER_CTX},
            .n_samples = 1,
            .n_entropy = ES_PAPER_VALUES,
            .steps = &step,
            .entropy = x,
        };
        const verdict said = judge(&history);
        count(&sums, &published[i].truth, &said);
        assert_int_equal(sums.missed + sums.differ + sums.false_alarms +
                             sums.wrong_kinds,
                         0);
    }
}

TEST_GROUP(es_folder_make, es_folder_remove)
