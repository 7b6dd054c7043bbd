/* Records the sets of runs for which there are golden tables, JSON and CSV. */
#include "tests/support/shown.h"
#include "cli/runs/settings.h"
#include "tests/support/paper.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

static void show_file(es_shown *out, void **state, const char *file)
{
    AUTO(es_reader) reader;
    es_summary_options options;
    es_summary_options_default(&options);
    options.max = out->max;
    es_assert_ok(es_reader_open(&reader, es_folder_file(state, file)));
    for (size_t run = 0; run < es_reader_n_runs(reader); run++) {
        es_run_summary *summary;
        assert_true(out->n < ES_SHOWN_MAX);
        es_assert_ok(es_summary_load(&summary, reader, run, &options));
        es_assert_ok(es_run_settings_read(summary, reader, run));
        /* remove the folder from the path, because it differs on every test
         * run */
        free(summary->path);
        summary->path = strdup(file);
        out->runs[out->n++] = summary;
        out->observed = es_peak_of(out->observed, summary->peak);
    }
}

static void begin(es_shown *out, es_max max)
{
    *out = (es_shown){.max = max, .observed = NAN};
}

static void end(es_shown *out)
{
    for (size_t i = 0; i < out->n; i++)
        es_summary_set_max(out->runs[i], out->observed);
}

void es_shown_free(es_shown *shown)
{
    for (size_t i = 0; i < shown->n; i++)
        es_summary_free(shown->runs[i]);
    shown->n = 0;
}

void es_shown_published(es_shown *out, void **state, es_max max)
{
    static const char *const archs[] = {"SM+LN+G", "SM+LN+R", "SM+G", "SM+R",
                                        "SM"};
    begin(out, max);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        char file[64];
        float x[ES_PAPER_VALUES];
        es_run_info info = es_run_of(ES_PAPER_LAYERS, ES_PAPER_HEADS);
        es_paper_heatmap(x, archs[i]);
        snprintf(file, sizeof file, "%s.db", archs[i]);
        info.name = info.arch = archs[i];
        info.ctx = ES_PAPER_CTX;
        remove(es_folder_file(state, file));
        es_recorded to = es_record(es_folder_file(state, file), &info);
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 32000, x,
                         ES_PAPER_VALUES);
        es_record_end(&to, ES_RUN_FINISHED);
        es_record_close(&to);
        show_file(out, state, file);
    }
    end(out);
}

/* Returns a NaN with unusual bits, such as a training run might produce. */
static float other_nan(void)
{
    const uint32_t bits = UINT32_C(0xffc00001);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Records a run whose name contains a formula, quotes, separators and escape
 * sequences. */
static void write_hostile(const char *path)
{
    const float x[8] = {1.25F,        0.0625F,   NAN,  INFINITY,
                        es_missing(), -INFINITY, 0.5F, NAN};
    const float eval = 2.25F;
    es_run_info info = es_run_of(4, 2);
    info.name = "=1+2,\"x\"\033[31m\n<b>";
    info.arch = "SM(t)+ScFuFFN";
    info.ctx = 128;
    info.config = "{ \"lr\": 1e-3, \"name\": \"\\\"x\\\"\\u001b[31m"
                  "\xc2\x9b\x7f\xce\xb1\" }";
    es_recorded to = es_record(path, &info);
    es_record_sample(&to, "entropy", ES_PHASE_TRAIN, 100, x, 8);
    es_record_value(&to, "loss", 90, 4.5F);
    es_record_value(&to, "loss", 100, other_nan());
    es_record_value(&to, "ce", 100, INFINITY);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 100, &eval, 1);
    es_record_end(&to, ES_RUN_FAILED);
    es_record_close(&to);
}

/* Records a run that has wide letters in its name, no metadata and no end. */
static void write_unknown(const char *path)
{
    es_run_info info = es_run_of(1, 1);
    info.name = "\xe6\xa8\xa1\xe5\x9e\x8b-\xce\xb1";
    es_recorded to = es_record(path, &info);
    es_record_all(&to, "entropy", 7, 0.5F);
    es_record_value(&to, "loss", 7, -INFINITY);
    es_record_close(&to);
}

static void write_two(const char *path)
{
    const float x[6] = {0.1F, 0.1F, 0.01F, 3.5F, 3.5F, 3.5F};
    const float absent[6] = {es_missing(), es_missing(), es_missing(),
                             es_missing(), es_missing(), es_missing()};
    es_run_info info = es_run_of(2, 3);
    info.name = "twin";
    info.arch = "SM";
    /* Flags are evaluated for an imported run even if it is short. */
    info.program = "entropy-scan import 1";
    info.ctx = 128;
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step < 4; step++)
        es_record_sample(&to, "entropy", ES_PHASE_TRAIN, step, x, 6);
    es_record_all(&to, "max_logit", 3, 123.0F);
    es_record_value(&to, "loss", 3, 1.5F);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_run(&to, &info);
    es_record_sample(&to, "entropy", ES_PHASE_EVAL, 2, absent, 6);
    es_record_sample(&to, "loss", ES_PHASE_EVAL, 2, x, 1);
    es_record_end(&to, ES_RUN_STOPPED);
    es_record_close(&to);
}

void es_shown_troubled(es_shown *out, void **state, es_max max)
{
    static const struct {
        const char *file;
        void (*write)(const char *path);
    } files[] = {{"hostile.db", write_hostile},
                 {"unknown.db", write_unknown},
                 {"two.db", write_two}};
    begin(out, max);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = es_folder_file(state, files[i].file);
        remove(path);
        files[i].write(path);
        show_file(out, state, files[i].file);
    }
    end(out);
}
