/* Checks that a training run that is stopped and resumed has the same results
 * as a run without interruption. */
#include "hooks/trainer/start.h"
#include "tests/support/same_run.h"
#include "tests/support/test.h"
#include "tests/support/training.h"

#include <dirent.h>

AUTO_OF(es_checkpoint, es_checkpoint_close)
AUTO_OF(es_checkpoint_folder, es_checkpoint_folder_close)

enum { STOP = 17, STEPS = 31 };

/** Returns a path in the folder of the test. */
static const char *in_folder(const char *name)
{
    static char paths[8][200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", training_folder, name);
    return path;
}

static void remove_folder(const char *name)
{
    const char *path = in_folder(name);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *d; (d = readdir(folder));)
        unlinkat(dirfd(folder), d->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
}

/** Returns settings that record to a new run file NAME.db and write checkpoints
 *  to a new folder NAME. */
static es_settings settings_of(const char *name)
{
    es_settings s = training_small();
    s.train.steps = STEPS;
    s.record_every = 3;
    snprintf(s.out, sizeof s.out, "%s.db", in_folder(name));
    snprintf(s.checkpoint, sizeof s.checkpoint, "%s", in_folder(name));
    unlink(s.out);
    remove_folder(name);
    return s;
}

static int clean(void **state)
{
    for (int i = 0; i < 4; i++)
        settings_of((const char *const[]){"whole", "part", "one", "two"}[i]);
    return 0;
}

static void ignore(void *user, const char *message)
{
    (void)message;
    ++*(int *)user;
}

static es_checkpoint *find(const char *path)
{
    es_checkpoint *found;
    es_assert_ok(es_checkpoint_find(&found, path, NULL, NULL));
    return found;
}

static es_train_result resume(training_seen *out, const es_settings *settings)
{
    es_checkpoint *from = find(settings->checkpoint);
    out->n_steps = (int)from->state.step;
    out->stop_after = 0;
    es_train_result result = training_resume(out, settings, from);
    es_checkpoint_close(from);
    return result;
}

/** Trains for `stop` steps, then resumes and trains to the end. */
static es_train_result stop_and_resume(training_seen *out,
                                       const es_settings *settings, int stop)
{
    out->stop_after = stop;
    es_train_result result = training_run(out, settings);
    assert_int_equal(result.status, ES_RUN_STOPPED);
    assert_int_equal(result.saved, ES_OK);
    return resume(out, settings);
}

static const char *checkpoint_file(const char *name, int step)
{
    char file[100];
    snprintf(file, sizeof file, "%s/%s-%08d.safetensors", name, name, step);
    return in_folder(file);
}

/** Returns the steps of the checkpoints in a folder, as "17 31". */
static const char *steps_in(const char *name)
{
    static char text[256];
    text[0] = 0;
    for (int step = 0; step <= STEPS; step++) {
        size_t n = strlen(text);
        if (access(checkpoint_file(name, step), F_OK) == 0)
            snprintf(text + n, sizeof text - n, n ? " %d" : "%d", step);
    }
    return text;
}

/* --- the same bits ------------------------------------------------------- */

static es_reader *open_same(const char *path)
{
    /* set the speeds to 0, because they differ between runs */
    es_sqlite(path, "UPDATE sample SET value = zeroblob(4) WHERE series_id IN "
                    "(SELECT series_id FROM series WHERE name = "
                    "'tokens_per_s')");
    es_reader *reader = es_open_reader(path);
    assert_int_equal(es_reader_n_runs(reader), 1);
    return reader;
}

static size_t assert_same_samples(const char *a, const char *b)
{
    es_reader *x = open_same(a), *y = open_same(b);
    size_t n = es_assert_same_samples(x, 0, y, 0);
    es_reader_close(x);
    es_reader_close(y);
    return n;
}

static void assert_same_tensors(const char *a, const char *b)
{
    es_safetensors *x, *y;
    es_assert_ok(es_safetensors_open(&x, a));
    es_assert_ok(es_safetensors_open(&y, b));
    assert_true(x->n > 20);
    assert_int_equal(x->n, y->n);
    for (size_t i = 0; i < x->n; i++) {
        float p[4096], q[4096];
        const es_tensor *t = &x->tensors[i], *u = &y->tensors[i];
        assert_string_equal(t->name, u->name);
        assert_true(t->n == u->n && t->n <= 4096);
        es_assert_ok(es_safetensors_read(x, t, p, 0, t->n));
        es_assert_ok(es_safetensors_read(y, u, q, 0, u->n));
        es_assert_bits(p, q, t->n);
    }
    es_safetensors_close(x);
    es_safetensors_close(y);
}

static void assert_same_losses(const es_losses *a, const es_losses *b)
{
    assert_memory_equal(a, b, sizeof *a);
    assert_true(isfinite(a->loss));
}

/* library of matrix products that assert_resumes uses */
static es_products_choice products;

static void assert_resumes(const char *arch, es_family family, int stop)
{
    es_settings whole = settings_of("whole"), part = settings_of("part");
    es_assert_ok(es_arch_parse(&whole.model.arch, arch));
    part.model.arch = whole.model.arch;
    part.model.family = whole.model.family = family;
    part.model.gamma = whole.model.gamma = 0.02;
    part.model.lambda = whole.model.lambda = 1e-3;
    part.threads = whole.threads = 2;
    part.products = whole.products = products;
    part.train.accumulate = whole.train.accumulate = 2;
    part.record = whole.record =
        family >= ES_FAMILY_LLAMA ? ES_SERIES_STANDARD : ES_SERIES_ALL;
    training_seen x = {0}, y = {0};
    es_train_result a = training_run(&x, &whole);
    es_train_result b = stop_and_resume(&y, &part, stop);
    assert_int_equal(b.status, ES_RUN_FINISHED);
    assert_int_equal(b.n_steps, STEPS);
    assert_int_equal(x.n_warnings + y.n_warnings, 0);
    assert_memory_equal(x.loss, y.loss, sizeof x.loss);
    assert_memory_equal(x.norm, y.norm, sizeof x.norm);
    assert_memory_equal(x.eval, y.eval, sizeof x.eval);
    assert_memory_equal(x.eval_step, y.eval_step, sizeof x.eval_step);
    assert_same_losses(&a.last, &b.last);
    assert_same_losses(&a.eval, &b.eval);
    assert_true(assert_same_samples(whole.out, part.out) > 200);
    assert_same_tensors(checkpoint_file("whole", STEPS),
                        checkpoint_file("part", STEPS));
}

TEST(resuming_gives_the_same_bits)
{
    assert_resumes("SM+LN+G", ES_FAMILY_GPT2, STOP);
    assert_resumes("EReg(SM(t)+ScFuFFNi1)", ES_FAMILY_GPT2, STOP);
    assert_resumes("EReg(SM(t)+LN+LR(layer,0.2))", ES_FAMILY_PYTHIA, STOP);
    assert_resumes("PSM(4)+LN+LR(global,0.1)", ES_FAMILY_GPT2, STOP);
    assert_resumes("SM(t,clip 0.02,gate)+LN+G", ES_FAMILY_GPT2, STOP);
    assert_resumes("SM(t)+RN+SwiGLU", ES_FAMILY_LLAMA, STOP);
    assert_resumes("SM+ScFuFFNi1", ES_FAMILY_SAS, STOP);
    assert_resumes("SM+LN[0]+G+ScFFN[1]+SNorm(FFN)[0]+WNorm(QK,FFN)[1]",
                   ES_FAMILY_GPT2, STOP);
    /* this run resumes at a step with an evaluation */
    assert_resumes("SM+WNorm(FFN)+SNorm(QK)", ES_FAMILY_GPT2, 20);
}

static bool has_onednn(void)
{
    return es_products_onednn.open() == ES_OK;
}

/* The preceding test covers only the default library of matrix products. */
TEST(resuming_gives_the_same_bits_with_each_library)
{
    for (products = ES_PRODUCTS_OPENBLAS; products < ES_N_PRODUCTS; products++)
        if (products != ES_PRODUCTS_ONEDNN || has_onednn())
            assert_resumes("SM+LN+G", ES_FAMILY_GPT2, STOP);
    products = ES_PRODUCTS_AUTO;
}

TEST(another_library_of_products_gives_a_warning)
{
    es_settings s = settings_of("part");
    training_seen out = {.stop_after = STOP};
    if (!has_onednn())
        es_skip("no oneDNN");
    s.products = ES_PRODUCTS_ONEDNN;
    training_run(&out, &s);
    s.products = ES_PRODUCTS_OPENBLAS;
    es_train_result result = resume(&out, &s);
    assert_int_equal(result.status, ES_RUN_FINISHED);
    assert_int_equal(out.n_warnings, 1);
    assert_string_equal(
        es_sqlite(s.out, "SELECT count(*) FROM event WHERE message LIKE "
                         "'%; --products was onednn, is now openblas%'"),
        "1");
}

TEST(two_runs_record_the_same_bits)
{
    es_settings one = settings_of("one"), two = settings_of("two");
    two.threads = one.threads = 2;
    training_seen x = {0}, y = {0};
    training_run(&x, &one);
    training_run(&y, &two);
    assert_true(assert_same_samples(one.out, two.out) > 200);
    assert_same_tensors(checkpoint_file("one", STEPS),
                        checkpoint_file("two", STEPS));
}

/* Returns the only event of the given kind. Other events may exist, because the
 * recorder may have written alerts. */
static const es_event *the_event(const es_event *events, size_t n,
                                 const char *kind)
{
    const es_event *only = NULL;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(events[i].kind, kind) != 0)
            continue;
        assert_null(only);
        only = &events[i];
    }
    assert_non_null(only);
    return only;
}

TEST(the_resumed_run_continues_in_its_file)
{
    es_settings s = settings_of("part");
    training_seen out = {0};
    es_run_info before, after;
    const es_event *events;
    size_t n_events;
    out.stop_after = STOP;
    training_run(&out, &s);
    AUTO(es_reader) reader = es_open_reader(s.out);
    es_assert_ok(es_reader_run(reader, 0, &before));
    assert_int_equal(before.status, ES_RUN_STOPPED);
    char uuid[ES_UUID_SIZE];
    snprintf(uuid, sizeof uuid, "%s", before.uuid);
    es_reader_close(reader);
    resume(&out, &s);
    es_assert_ok(es_reader_open(&reader, s.out));
    es_assert_ok(es_reader_run(reader, 0, &after));
    assert_string_equal(after.uuid, uuid);
    assert_int_equal(after.status, ES_RUN_FINISHED);
    es_assert_ok(es_reader_events(reader, 0, &events, &n_events));
    const es_event *resumed = the_event(events, n_events, "resumed");
    assert_int_equal(resumed->step, STOP);
    assert_int_equal(resumed->severity, ES_SEVERITY_INFO);
    assert_non_null(strstr(resumed->message, "part-00000017.safetensors"));
}

TEST(a_later_record_is_replaced)
{
    es_settings whole = settings_of("whole"), part = settings_of("part");
    training_seen x = {0}, y = {0};
    training_run(&x, &whole);
    /* Simulate a kill after which the run file has later steps than the last
     * checkpoint. */
    part.checkpoint_every = STOP;
    training_run(&y, &part);
    assert_string_equal(steps_in("part"), "17 31");
    assert_int_equal(unlink(checkpoint_file("part", STEPS)), 0);
    y.n_evals = 2; /* keep only the evaluations in steps 0 and 10 */
    resume(&y, &part);
    assert_same_samples(whole.out, part.out);
    assert_memory_equal(x.loss, y.loss, sizeof x.loss);
    assert_memory_equal(x.eval, y.eval, sizeof x.eval);
}

TEST(later_samples_are_removed)
{
    es_settings s = settings_of("part");
    training_seen out = {0};
    s.record_every = 1;
    s.checkpoint_every = STOP;
    training_run(&out, &s);
    assert_int_equal(unlink(checkpoint_file("part", STEPS)), 0);
    s.record_every = 1000; /* record the last step only */
    resume(&out, &s);
    assert_string_equal(
        es_sqlite(s.out, "SELECT group_concat(step) FROM (SELECT step FROM "
                         "sample JOIN series USING (series_id) WHERE name = "
                         "'loss' AND phase = 'train' AND step > 13 "
                         "ORDER BY step)"),
        "14,15,16,30");
}

TEST(another_name_starts_another_run)
{
    es_settings s = settings_of("part");
    training_seen out = {0};
    s.checkpoint_every = 10;
    training_run(&out, &s);
    es_checkpoint *from = find(checkpoint_file("part", 20));
    snprintf(s.name, sizeof s.name, "branch");
    out.n_steps = 20;
    training_resume(&out, &s, from);
    es_checkpoint_close(from);
    assert_string_equal(es_sqlite(s.out,
                                  "SELECT group_concat(name) FROM (SELECT"
                                  " name FROM run ORDER BY run_id)"),
                        "part,branch");
    assert_string_equal(es_sqlite(s.out, "SELECT count(DISTINCT uuid), "
                                         "min(last_step) FROM run"),
                        "2|31");
    assert_string_equal(steps_in("part"), "20 30 31");
    assert_int_equal(
        access(in_folder("part/branch-00000031.safetensors"), F_OK), 0);
}

TEST(another_number_of_threads_gives_a_warning)
{
    es_settings s = settings_of("part");
    training_seen out = {.stop_after = STOP};
    training_run(&out, &s);
    s.threads = 2;
    es_train_result result = resume(&out, &s);
    assert_int_equal(result.status, ES_RUN_FINISHED);
    assert_int_equal(out.n_warnings, 1);
}

/* --- which checkpoints are kept ------------------------------------------ */

TEST(the_last_checkpoints_are_kept)
{
    es_settings s = settings_of("part");
    s.checkpoint_every = 8;
    s.keep = 2;
    training_seen out = {0};
    training_run(&out, &s);
    assert_string_equal(steps_in("part"), "24 31");
    s = settings_of("part");
    s.checkpoint_every = 8;
    s.keep = 0;
    out = (training_seen){0};
    training_run(&out, &s);
    assert_string_equal(steps_in("part"), "8 16 24 31");
    s = settings_of("part");
    out = (training_seen){.stop_after = STOP};
    training_run(&out, &s);
    assert_string_equal(steps_in("part"), "17");
}

TEST(no_checkpoint_is_written_after_a_nan)
{
    es_settings s = settings_of("part");
    es_assert_ok(es_arch_parse(&s.model.arch, "SM"));
    s.train.lr = 1e12;
    s.train.clip = 0;
    s.checkpoint_every = 1;
    s.keep = 0;
    training_seen out = {0};
    es_train_result result = training_run(&out, &s);
    assert_int_equal(result.status, ES_RUN_FAILED);
    assert_int_equal(result.saved, ES_OK);
    assert_true(result.nan_step > 0 && result.n_steps > result.nan_step + 1);
    AUTO(es_checkpoint) newest = find(s.checkpoint);
    int64_t step = newest->state.step;
    assert_true(step >= 1 && step <= result.nan_step);
    assert_int_equal(step, result.saved_step);
}

TEST(a_failed_checkpoint_gives_a_warning)
{
    es_settings s = settings_of("part");
    s.checkpoint_every = 10;
    s.keep = 0;
    training_seen with = {0}, without = {0};
    /* A folder already has the name that the checkpoint of step 20 would
     * have. */
    const char *path = checkpoint_file("part", 20);
    assert_int_equal(mkdir(s.checkpoint, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    es_train_result result = training_run(&with, &s);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(result.status, ES_RUN_FINISHED);
    assert_int_equal(result.saved, ES_EIO);
    assert_non_null(strstr(result.unsaved, "00000020.safetensors"));
    assert_int_equal(with.n_warnings, 1);
    assert_string_equal(steps_in("part"), "10 30 31");
    assert_string_equal(es_sqlite(s.out, "SELECT kind, step FROM event "
                                         "WHERE kind = 'checkpoint'"),
                        "checkpoint|20");
    s.checkpoint[0] = s.out[0] = 0;
    training_run(&without, &s);
    assert_memory_equal(with.loss, without.loss, sizeof with.loss);
}

/* --- which checkpoint is resumed ----------------------------------------- */

static void damage(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -5, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -5, SEEK_END), 0);
    fputc(byte ^ 64, file);
    assert_int_equal(fclose(file), 0);
}

TEST(a_damaged_checkpoint_is_skipped_for_the_previous_one)
{
    es_settings s = settings_of("part");
    es_checkpoint *from;
    int n_warnings = 0;
    s.checkpoint_every = 10;
    training_seen out = {0};
    training_run(&out, &s);
    damage(checkpoint_file("part", 31));
    es_assert_ok(es_checkpoint_find(&from, s.checkpoint, ignore, &n_warnings));
    assert_int_equal(n_warnings, 1);
    assert_int_equal(from->state.step, 30);
    assert_string_equal(from->file->path, checkpoint_file("part", 30));
    /* the damaged checkpoint does not prevent the run from resuming, and is
     * replaced */
    out.n_steps = 30;
    training_resume(&out, &s, from);
    es_checkpoint_close(from);
    from = find(s.checkpoint);
    assert_int_equal(from->state.step, 31);
    es_checkpoint_close(from);
    damage(checkpoint_file("part", 31));
    damage(checkpoint_file("part", 30));
    damage(checkpoint_file("part", 20));
    es_assert_status(ES_EFORMAT, "every checkpoint in this folder is damaged",
                     es_checkpoint_find(&from, s.checkpoint, NULL, NULL));
    assert_null(from);
}

TEST(a_folder_must_have_checkpoints_of_one_run)
{
    es_settings s = settings_of("part");
    AUTO(es_checkpoint) from;
    es_assert_status(ES_EIO, "No such file",
                     es_checkpoint_find(&from, s.checkpoint, NULL, NULL));
    assert_int_equal(mkdir(s.checkpoint, 0700), 0);
    es_assert_status(ES_ENOTFOUND, "no checkpoint in this folder",
                     es_checkpoint_find(&from, s.checkpoint, NULL, NULL));
    training_seen out = {.stop_after = 2};
    training_run(&out, &s);
    snprintf(s.name, sizeof s.name, "a/b");
    out = (training_seen){.stop_after = 1};
    training_run(&out, &s);
    assert_int_equal(access(in_folder("part/a_b-00000001.safetensors"), F_OK),
                     0);
    es_assert_status(ES_EUSAGE, "several runs, part and a_b",
                     es_checkpoint_find(&from, s.checkpoint, NULL, NULL));
    from = find(in_folder("part/a_b-00000001.safetensors"));
    assert_string_equal(from->settings.name, "a/b");
}

/* --- refusals ------------------------------------------------------------ */

static void expect_refusal(es_status code, const char *words,
                           const es_settings *settings,
                           const es_checkpoint *from)
{
    es_train_result result;
    es_assert_status(code, words,
                     es_train(&result, settings, from, NULL, NULL));
}

TEST(mixing_runs_is_refused)
{
    es_settings s = settings_of("part");
    s.checkpoint_every = 10;
    training_seen out = {0};
    training_run(&out, &s);
    expect_refusal(ES_EUSAGE, "belongs to another run", &s, NULL);
    es_checkpoint *from = find(checkpoint_file("part", 20));
    expect_refusal(ES_EUSAGE, "is later than step 20", &s, from);
    assert_string_equal(steps_in("part"), "20 30 31");
    es_checkpoint_close(from);
    from = find(s.checkpoint);
    s.train.steps = 30;
    expect_refusal(ES_EUSAGE, "has already trained 31 steps of 30", &s, from);
    s.train.steps = 33;
    training_write_data(1);
    expect_refusal(ES_EUSAGE, "x.tok: the checksum is", &s, from);
    training_write_data(0);
    s.model.ctx = 8;
    expect_refusal(ES_EFORMAT, "wpe does not have the model's shape", &s, from);
    s.model.ctx = 9;
    training_resume(&(training_seen){.n_steps = 31}, &s, from);
    es_checkpoint_close(from);
    unlink(in_folder("part/part-00000033.safetensors"));
}

TEST(only_one_training_writes_to_a_folder)
{
    es_settings s = settings_of("part");
    es_checkpoint_folder *first, *second;
    const char *uuid = "01234567-89ab-4def-8123-456789abcdef";
    es_assert_ok(
        es_checkpoint_folder_open(&first, s.checkpoint, "a", uuid, 0, 1));
    es_assert_status(
        ES_ELOCKED, "another training",
        es_checkpoint_folder_open(&second, s.checkpoint, "b", uuid, 0, 1));
    assert_null(second);
    es_checkpoint_folder_close(first);
    es_assert_ok(
        es_checkpoint_folder_open(&second, s.checkpoint, "b", uuid, 0, 1));
    es_checkpoint_folder_close(second);
    es_checkpoint_folder_close(NULL);
}

TEST(only_leftovers_are_removed)
{
    es_settings s = settings_of("part");
    AUTO(es_checkpoint_folder) folder;
    static const char begun[] = "\x50\0\0\0\0\0\0\0{\"__metadata__\":{";
    static const char picture[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    assert_int_equal(mkdir(s.checkpoint, 0700), 0);
    es_file_write(in_folder("part/.entropy-scan.abcdef"), begun, sizeof begun);
    es_file_write(in_folder("part/.entropy-scan.ghijkl"), picture,
                  sizeof picture);
    es_file_write(in_folder("part/mine.abcdef"), begun, sizeof begun);
    AUTO(FILE) open = fopen(in_folder("part/.entropy-scan.ghijkl"), "r");
    es_assert_ok(es_checkpoint_folder_open(
        &folder, s.checkpoint, "a", "01234567-89ab-4def-8123-456789abcdef", 0,
        1));
    assert_false(es_file_exists(in_folder("part/.entropy-scan.abcdef")));
    assert_true(es_file_exists(in_folder("part/.entropy-scan.ghijkl")));
    assert_true(es_file_exists(in_folder("part/mine.abcdef")));
}

TEST_GROUP(training_set_up, training_tear_down)
TEST_EACH(NULL, clean)
