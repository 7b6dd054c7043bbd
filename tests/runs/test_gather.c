/* Tests reading the runs of many files with one process and with several. */
#include "cli/runs/gather.h"
#include "cli/runs/json.h"
#include "cli/runs/settings.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

#include <signal.h>
#include <string.h>

#define L 3
#define H 2
#define N_FILES 70

static es_rules_file rules;
static es_summary_options options;

static int begin(void **state)
{
    static const char text[] =
        "[rule falls]\nseries=entropy\naggregate=layer_min\n"
        "below=0.5\nseverity=warning\n";
    es_summary_options_default(&options);
    es_assert_ok(es_rules_file_parse(&rules, "r.ini", text, strlen(text)));
    options.rules = &rules;
    return es_folder_make(state);
}

static int end(void **state)
{
    es_rules_file_free(&rules);
    return es_folder_remove(state);
}

/* Writes a run whose head entropies are lower for larger `i`. From step 30 on,
   one head is NaN and one is missing. */
static void write_run(const char *path, int i, const char *name)
{
    es_run_info info = es_run_of(L, H);
    info.name = name;
    info.ctx = 128;
    info.arch = i % 3 ? "SM+LN+G" : NULL;
    info.config = "{\"lr\":0.5,\"a\":{\"b\":\"x\"},\"steps\":40}";
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 40; step += 2) {
        float x[L * H] = {3, 2, 1, 0.01F, 0.02F, 0.5F};
        x[0] -= (float)i * 0.01F;
        if (step >= 30) {
            x[1] = NAN;
            x[2] = es_missing();
        }
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, L * H);
        es_record_value(&to, "loss", step, 3);
    }
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
}

static char *line_of(const es_run_summary *run)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    es_json_line(stream, run);
    fclose(stream);
    return text;
}

/* --- a finding -------------------------------------------------------------*/

static es_run_summary *summary_of(const char *path)
{
    es_run_summary *run = es_loaded(path, 0, &options);
    AUTO(es_reader) reader = es_open_reader(path);
    es_assert_ok(es_run_settings_read(run, reader, 0));
    assert_true(run->n_flags > 1);
    return run;
}

static size_t bytes_of(unsigned char out[1 << 16], es_run_summary *run)
{
    const es_finding finding = {.kind = ES_FINDING_RUN, .run = run};
    FILE *stream = fmemopen(out, 1 << 16, "w");
    es_assert_ok(es_finding_write(stream, &finding));
    const long n = ftell(stream);
    assert_int_equal(fclose(stream), 0);
    return (size_t)n;
}

static es_status read_bytes(es_finding *out, unsigned char *bytes, size_t n)
{
    FILE *stream = fmemopen(bytes, n, "r");
    const es_status status = es_finding_read(out, stream, &rules);
    fclose(stream);
    return status;
}

TEST(a_summary_is_read_back_from_its_finding)
{
    static unsigned char bytes[1 << 16];
    es_finding finding;
    write_run(run_db, 1, "one");
    AUTO(es_run_summary) run = summary_of(run_db);
    const size_t n = bytes_of(bytes, run);
    es_assert_ok(read_bytes(&finding, bytes, n));
    assert_int_equal(finding.kind, ES_FINDING_RUN);
    char *before = line_of(run), *after = line_of(finding.run);
    assert_string_equal(before, after);
    assert_true(strstr(after, "falls") != NULL);
    es_assert_bits(run->values, finding.run->values, L * H);
    assert_true(es_is_missing(finding.run->values[2]));
    assert_true(isnan(finding.run->values[1]) &&
                !es_is_missing(finding.run->values[1]));
    assert_int_equal(run->settings.n, finding.run->settings.n);
    for (size_t i = 0; i < run->settings.n; i++)
        assert_true(es_run_settings_same(&run->settings.list[i],
                                         &finding.run->settings.list[i]));
    free(before);
    free(after);
    es_finding_clear(&finding);
}

TEST(a_truncated_or_changed_finding_is_refused)
{
    static unsigned char bytes[1 << 16];
    es_finding finding;
    write_run(run_db, 1, "one");
    AUTO(es_run_summary) run = summary_of(run_db);
    const size_t n = bytes_of(bytes, run);
    for (size_t cut = 1; cut < n; cut++) {
        assert_int_equal(read_bytes(&finding, bytes, cut), ES_EFORMAT);
        es_finding_clear(&finding);
    }
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0x40;
        assert_int_equal(read_bytes(&finding, bytes, n), ES_EFORMAT);
        es_finding_clear(&finding);
        bytes[i] ^= 0x40;
    }
    es_assert_ok(read_bytes(&finding, bytes, n));
    es_finding_clear(&finding);
}

/* --- many files -----------------------------------------------------------*/

typedef struct journal {
    FILE *stream;
    size_t n_runs, n_failed, n_damaged;
    bool kills; /* if true, the first child process found is killed */
} journal;

static void log_begin(void *user, size_t i)
{
    journal *l = user;
    char path[64];
    int pid = 0;
    fprintf(l->stream, "[%zu\n", i);
    if (!l->kills)
        return;
    l->kills = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    assert_int_equal(fscanf(children, "%d", &pid), 1);
    fclose(children);
    kill(pid, SIGKILL);
}

static es_status log_run(void *user, es_run_summary *run, es_reader *reader,
                         size_t index)
{
    journal *l = user;
    (void)reader, (void)index;
    char *line = line_of(run);
    l->n_runs++;
    fprintf(l->stream, "%s%zu\n", line, run->settings.n);
    free(line);
    es_summary_free(run);
    return ES_OK;
}

static void log_failure(void *user, es_status code)
{
    journal *l = user;
    l->n_failed++;
    fprintf(l->stream, "%d %s\n", code, es_message());
}

static void log_damage(void *user, const char *path, const es_damaged *sample)
{
    journal *l = user;
    l->n_damaged++;
    fprintf(l->stream, "%s %zu %lld %s %d\n", path, sample->run,
            (long long)sample->step, sample->series, sample->phase);
}

static void log_end(void *user)
{
    journal *l = user;
    fputs("]\n", l->stream);
}

/* Reads the files with n_processes processes. Returns a text that lists all
   calls of the sink, which the caller frees. */
static char *gathered(journal *l, char **files, size_t n_processes)
{
    char *text = NULL;
    size_t n = 0;
    l->stream = open_memstream(&text, &n);
    const es_gather_job job = {.inputs = files,
                               .n_inputs = N_FILES,
                               .options = &options,
                               .settings = true,
                               .n_processes = n_processes,
                               .sink = {.user = l,
                                        .begin = log_begin,
                                        .run = log_run,
                                        .failed = log_failure,
                                        .damaged = log_damage,
                                        .end = log_end}};
    es_gather(&job);
    fclose(l->stream);
    return text;
}

/* Writes the files; some are invalid, missing, damaged, or contain two runs. */
static void write_files(void **state, char *files[N_FILES])
{
    for (int i = 0; i < N_FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "run%d.db", i);
        assert_non_null(files[i] = strdup(es_folder_file(state, name)));
        if (i % 11 == 5)
            es_file_write(files[i], "broken", 6);
        else if (i % 11 != 7)
            write_run(files[i], i, name);
        if (i % 11 == 9)
            es_sqlite(files[i], "UPDATE sample SET crc = crc + 1 WHERE step "
                                "BETWEEN 20 AND 24");
    }
}

static void forget(char *files[N_FILES])
{
    for (int i = 0; i < N_FILES; i++)
        free(files[i]);
}

TEST(several_processes_give_the_findings_of_one)
{
    char *files[N_FILES];
    journal one = {.n_runs = 0};
    write_files(state, files);
    char *expected = gathered(&one, files, 1);
    assert_int_equal(one.n_failed, 12);
    assert_int_equal(one.n_runs, N_FILES - 12);
    assert_true(one.n_damaged >= 6 * 3);
    for (size_t n = 2; n <= 80; n = 3 * n + 1) {
        journal several = {.n_runs = 0};
        char *text = gathered(&several, files, n);
        assert_string_equal(expected, text);
        free(text);
    }
    free(expected);
    forget(files);
}

TEST(a_process_that_is_killed_costs_one_file)
{
    char *files[N_FILES];
    /* Makes the summary longer than half of a pipe's capacity. */
    static float values[96 * 96];
    es_run_info info = es_run_of(96, 96);
    es_recorded to = es_record(run_db, &info);
    for (size_t i = 0; i < 96 * 96; i++)
        values[i] = 1 + (float)i;
    es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 3, values, 96 * 96);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    for (int i = 0; i < N_FILES; i++)
        files[i] = run_db;
    journal killed = {.kills = true};
    char *text = gathered(&killed, files, 2);
    assert_int_equal(killed.n_failed, 1);
    assert_int_equal(killed.n_runs, N_FILES - 1);
    assert_non_null(strstr(text, "the process that was reading it was lost "
                                 "(killed by signal 9); try again"));
    free(text);
}

TEST_EACH(begin, end)
