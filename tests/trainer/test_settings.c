/* Tests the options of the trainer: command line, configuration file, JSON. */
#include "hooks/trainer/settings/settings.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <jansson.h>

AUTO_OF(json_t, json_decref)

static es_status parse(es_settings *out, char **words)
{
    int n = 0;
    while (words[n])
        n++;
    es_settings_default(out, ES_VERB_TRAIN);
    return es_settings_parse(out, n, words);
}
#define PARSE(out, ...)                                                        \
    parse(out, (char *[]){"entropy-train", __VA_ARGS__, NULL})

static void config(const char *text)
{
    es_scratch_write(text, strlen(text));
}

/** Fails the test unless the error message is a single line that contains both
 * strings. */
static void assert_said(const char *one, const char *other)
{
    if (!strstr(es_message(), one) || !strstr(es_message(), other))
        fail_msg("'%s' and '%s' are not both in: %s", one, other, es_message());
}

TEST(every_kind_of_option_is_read)
{
    es_settings s;
    es_assert_ok(PARSE(&s, "--arch", "SM + R", "--n-layer=3", "--lr", "2e-4",
                       "--seed", "9007199254740991", "--bias", "none", "--data",
                       "a file", "-o", "run.db", "--slope-decay", "-q"));
    char arch[ES_ARCH_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &s.model.arch);
    assert_string_equal(arch, "SM+R");
    assert_int_equal(s.model.n_layer, 3);
    assert_true(s.train.lr == 2e-4);
    assert_true(s.model.seed == UINT64_C(9007199254740991));
    assert_int_equal(s.model.bias, ES_BIAS_NONE);
    assert_string_equal(s.data, "a file");
    assert_string_equal(s.out, "run.db");
    assert_true(s.train.slope_decay && s.quiet && !s.no_record);
}

TEST(wrong_values_name_the_option)
{
    static char *const cases[][3] = {
        {"--n-layer", "0", "0"},        {"--n-layer", "3.5", "3.5"},
        {"--lr", "-1", "-1"},           {"--lr", "nan", "nan"},
        {"--beta2", "1", "between"},    {"--bias", "some", "all, qk, none"},
        {"--arch", "SM+XX", "XX"},      {"--arch", "PSM(3)", "3"},
        {"--data", "", "bytes"},        {"file", "x", "no argument"},
        {"--n-layr", "3", "--n-layer"},
    };
    es_settings s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE(&s, cases[i][0], cases[i][1]), ES_EUSAGE);
        assert_said(cases[i][0], cases[i][2]);
    }
}

TEST(a_text_that_is_too_long_is_refused)
{
    es_settings s;
    char name[ES_RUN_NAME_SIZE + 1];
    memset(name, 'n', sizeof name);
    name[ES_RUN_NAME_SIZE] = 0;
    assert_int_equal(PARSE(&s, "--name", name), ES_EUSAGE);
    name[ES_RUN_NAME_SIZE - 1] = 0;
    es_assert_ok(PARSE(&s, "--name", name));
    assert_string_equal(s.name, name);
}

TEST(later_options_override)
{
    es_settings s;
    config("# a comment\n\n n-layer = 5   # of course\nd_model=60\r\n"
           "name = two words \nslope-decay = true\nlr=1e-2");
    es_assert_ok(PARSE(&s, "--d-model", "24", "--config", es_scratch_file,
                       "--n-layer", "7"));
    assert_int_equal(s.model.n_layer, 7);
    assert_int_equal(s.model.d_model, 60);
    assert_string_equal(s.name, "two words");
    assert_true(s.train.slope_decay);
    assert_true(s.train.lr == 1e-2);
}

/** Lines are read unchanged: they are not joined, shortened or ended early, in
 *  contrast to other programs' configuration files. */
TEST(a_line_is_read_verbatim)
{
    char text[512], path[301] = "";
    es_settings s;
    memset(path, 'p', sizeof path - 1);
    snprintf(text, sizeof text,
             "n-layer = 5\n  n-head = 3\nname = a ;b\n"
             "data = %s\n",
             path);
    config(text);
    es_assert_ok(PARSE(&s, "--config", es_scratch_file));
    assert_int_equal(s.model.n_layer, 5);
    assert_int_equal(s.model.n_head, 3);
    assert_string_equal(s.name, "a ;b");
    assert_string_equal(s.data, path);
    config("lr: 3\n");
    assert_int_equal(PARSE(&s, "--config", es_scratch_file), ES_EUSAGE);
}

TEST(a_wrong_line_is_named)
{
    const struct {
        const char *text, *line, *what;
    } cases[] = {{"lr = 1\n\nn-layer = x\n", ":3:", "n-layer"},
                 {"lr = 1\nn-layr = 3", ":2:", "n-layr"},
                 {"lr\n", ":1:", "name = value"},
                 {"= 3\n", ":1:", "no such option"},
                 {"config = other.conf\n", ":1:", "config"},
                 {"quiet = yes\n", ":1:", "true nor false"},
                 {"arch = SM+LN+\n", ":1:", "arch"},
                 {"data =\n", ":1:", "data"}};
    es_settings s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config(cases[i].text);
        assert_int_equal(PARSE(&s, "--config", es_scratch_file), ES_EUSAGE);
        assert_said(es_scratch_file, cases[i].line);
        assert_said(es_scratch_file, cases[i].what);
    }
    es_scratch_write("lr = 1\nseed\0 = 2\n", 17);
    assert_int_equal(PARSE(&s, "--config", es_scratch_file), ES_EUSAGE);
    assert_said(":2:", "NUL");
    assert_int_equal(PARSE(&s, "--config", "/nonexistent.conf"), ES_EIO);
    assert_int_equal(PARSE(&s, "--config", "/"), ES_EIO);
}

TEST(missing_options_of_train_are_reported)
{
    static const struct {
        char *words[6];
        /* strings that the message must contain; NULL: the command line is
         * accepted */
        const char *one, *other;
    } cases[] = {
        {{"", "-o", "run.db"}, "--data", "entropy-corpus"},
        {{"", "--data", "x.tok"}, "--out", "--no-record"},
        {{"", "--data", "x", "--no-record", "-oy"}, "--no-record", "exclusive"},
        {{"", "--data", "x.tok", "--no-record"}, NULL, NULL},
        {{"", "--dry-run"}, NULL, NULL},
        {{"", "--dry-run", "--no-record", "-oy"}, "--no-record", "exclusive"},
    };
    es_settings s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_assert_ok(parse(&s, (char **)cases[i].words));
        assert_int_equal(es_settings_check(&s),
                         cases[i].one ? ES_EUSAGE : ES_OK);
        if (cases[i].one)
            assert_said(cases[i].one, cases[i].other);
    }
}

TEST(json_contains_the_resolved_settings)
{
    es_settings s;
    es_assert_ok(PARSE(&s, "--arch", "SM + G + LN", "--steps", "123", "--lr",
                       "3e-3", "--data", "a\"b\\\n", "--bias", "all",
                       "--slope-decay"));
    AUTO_FREE char *text = es_settings_json(&s, UINT64_C(0x0123456789abcdef));
    assert_non_null(text);
    AUTO(json_t) json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "arch")),
                        "SM+LN+G");
    assert_int_equal(json_integer_value(json_object_get(json, "steps")), 123);
    assert_true(json_number_value(json_object_get(json, "lr")) == 3e-3);
    assert_string_equal(json_string_value(json_object_get(json, "data")),
                        "a\"b\\\n");
    assert_string_equal(json_string_value(json_object_get(json, "bias")),
                        "all");
    assert_true(json_is_true(json_object_get(json, "slope_decay")));
    assert_string_equal(
        json_string_value(json_object_get(json, "tokens_checksum")),
        "0123456789abcdef");
    assert_null(json_object_get(json, "quiet"));
    assert_null(json_object_get(json, "help"));
}

static void assert_slurm_job(const es_settings *settings, const char *want)
{
    AUTO_FREE char *text = es_settings_json_of_run(settings, 7, NULL);
    AUTO(json_t) json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *job = json_string_value(json_object_get(json, "slurm_job"));
    if (want)
        assert_string_equal(job, want);
    else
        assert_null(job);
}

TEST(json_of_a_run_names_the_job_of_slurm)
{
    es_settings s;
    es_assert_ok(PARSE(&s, "--arch", "SM"));
    unsetenv("SLURM_ARRAY_JOB_ID");
    unsetenv("SLURM_ARRAY_TASK_ID");
    unsetenv("SLURM_JOB_ID");
    assert_slurm_job(&s, NULL);
    setenv("SLURM_JOB_ID", "4712", 1);
    assert_slurm_job(&s, "4712");
    setenv("SLURM_ARRAY_JOB_ID", "4711", 1);
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    assert_slurm_job(&s, "4711_3");
    setenv("SLURM_ARRAY_TASK_ID", "3\",\"seed\":\"4", 1);
    assert_slurm_job(&s, "4712");
    setenv("SLURM_JOB_ID", "", 1);
    assert_slurm_job(&s, NULL);
    AUTO_FREE char *text = es_settings_json(&s, 7);
    assert_null(strstr(text, "slurm"));
}

TEST(json_reads_back_as_a_configuration)
{
    es_settings s, again;
    es_assert_ok(PARSE(&s, "--arch", "SM+LR(0.05)", "--lr", "0.1", "--data",
                       "x", "--warm-up", "0.0625"));
    AUTO_FREE char *text = es_settings_json(&s, 7);
    AUTO(json_t) json = json_loads(text, 0, NULL);
    json_object_del(json, "tokens_checksum");
    FILE *file = fopen(es_scratch_file, "w");
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value)
    {
        AUTO_FREE char *printed = json_dumps(value, JSON_ENCODE_ANY);
        if (json_is_string(value))
            fprintf(file, "%s = %s\n", key, json_string_value(value));
        else
            fprintf(file, "%s = %s\n", key, printed);
    }
    fclose(file);
    es_assert_ok(PARSE(&again, "--config", es_scratch_file));
    AUTO_FREE char *twice = es_settings_json(&again, 7);
    assert_string_equal(text, twice);
}

/* A checkpoint stores the option that selects the library for matrix products.
 * Older checkpoints lack this option, because training then always used
 * OpenBLAS. A run file contains the names of the libraries instead. */
TEST(a_checkpoint_keeps_the_choice_of_products)
{
    es_settings s, again;
    uint64_t checksum;
    es_assert_ok(PARSE(&s, "--products", "onednn"));
    AUTO_FREE char *text = es_settings_json(&s, 7);
    es_settings_default(&again, ES_VERB_TRAIN);
    es_assert_ok(es_settings_read_json(&again, &checksum, text, "x"));
    assert_int_equal(again.products, ES_PRODUCTS_ONEDNN);

    AUTO(json_t) json = json_loads(text, 0, NULL);
    assert_int_equal(json_object_del(json, "products"), 0);
    AUTO_FREE char *older = json_dumps(json, 0);
    es_settings_default(&again, ES_VERB_TRAIN);
    assert_int_equal(again.products, ES_PRODUCTS_AUTO);
    es_assert_ok(es_settings_read_json(&again, &checksum, older, "x"));
    assert_int_equal(again.products, ES_PRODUCTS_OPENBLAS);

    const es_cpu_engine engine = {.products = "A 1 B", .kernels = "plain"};
    AUTO_FREE char *run = es_settings_json_of_run(&s, 7, &engine);
    assert_non_null(strstr(run, "\"products\":\"A 1 B\",\"kernels\""));
    assert_null(strstr(run, "onednn"));
    AUTO_FREE char *of_device = es_settings_json_of_run(&s, 7, NULL);
    assert_null(strstr(of_device, "products"));
}

TEST(written_settings_read_back)
{
    es_settings s, again;
    es_assert_ok(PARSE(&s, "--arch", "SM+LR(layer,0.25)", "--lr", "0.1",
                       "--family", "pythia", "--slope-decay", "--seed",
                       "9007199254740991", "--clip", "0"));
    FILE *file = fopen(es_scratch_file, "w");
    es_settings_write(file, &s);
    fclose(file);
    es_assert_ok(PARSE(&again, "--config", es_scratch_file));
    char *text = es_settings_json(&s, 7), *twice = es_settings_json(&again, 7);
    assert_string_equal(text, twice);
    free(twice);
    free(text);
}

TEST_GROUP(es_scratch_open, es_scratch_close)
