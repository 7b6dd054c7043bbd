/* Checks that a dry run accepts and refuses the same options as training. Tests
 * each choice, each flag and numbers at their limits, alone and in pairs, in
 * models of every family. If the dry run accepts the options, a step can be
 * trained; if it refuses them, training fails with the same message. */
#include "hooks/trainer/dry_run.h"
#include "hooks/trainer/files/tokens.h"
#include "hooks/trainer/train.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { MOST_WORDS = 48, N_TOKENS = 600, VOCAB = 10 };

/* A model with one layer of two heads, each of two dimensions. The token file
 * can also be read by vit as images of 16 pixels and a class. */
static char *const tiny[] = {
    "entropy-train", "--data",     es_scratch_file,  "--no-record",
    "--n-layer=1",   "--n-head=2", "--ctx=8",        "--d-model=4",
    "--batch=1",     "--steps=1",  "--eval-every=1", "--eval-batches=1",
    "--threads=1",   NULL};

/* Families and architectures for which the program has different options. */
static char *const models[][8] = {
    {"--arch=SM+LN+G"},
    {"--arch=EReg(SM(t)+ScFuFFN)"},
    {"--arch=PSM(4)+LN+GS", "--inference=polynomial"},
    {"--family=pythia", "--arch=SM+LN+R"},
    {"--family=llama", "--n-kv-head=1"},
    {"--family=sas", "--arch=SM+G"},
    {"--family=roberta", "--arch=SM+LN+G"},
    {"--family=vit", "--arch=SM+LN+G", "--image-size=4", "--patch-size=2",
     "--classes=10", "--ctx=5"},
};

/* Options that the program may accept or refuse, depending on the model. */
static const char *const numbers[] = {
    "--ctx=1",
    "--ctx=500",
    "--vocab=9",
    "--vocab=10",
    "--n-head=3",
    "--n-layer=1025",
    "--batch=65537",
    "--mlp-mult=65",
    "--d-ff=5",
    "--n-kv-head=1",
    "--n-kv-head=3",
    "--d-head=3",
    "--d-head=2",
    "--rope-base=9",
    "--dropout=0.5",
    "--padding=0",
    "--mask-token=0",
    "--mask-token=99",
    "--padding=99",
    "--image-size=4",
    "--patch-size=3",
    "--channels=2",
    "--classes=9",
    "--classes=5",
    "--range-attn=1",
    "--range-act=1",
    "--range-norm=1",
    "--lr-min=1",
    "--accumulate=3",
    "--eval-every=0",
    "--maps=4",
    "--map-count=1",
    "--warm-up=1",
    "--poly-steps=2",
    "--poly-degree=3",
    "--clip=0",
    "--backend=cpu",
    "--backend=auto",
    "--backend=gpu",
    "--threads=2",
    "--arch=SM(gate)",
    "--arch=SM(clip9)",
    "--arch=RA+LN",
    "--arch=SM+RN",
    "--arch=PSM(2,plain)",
    "--arch=SM+WNorm(QK)",
    "--arch=SM+SNorm(FFN)",
    "--arch=SM+LR(layer)",
    "--arch=SM+ScFuFFNi2",
    "--rope-scaling=8,4,1,99",
    "--checkpoint-every=1",
};

static void write_tokens(void)
{
    unsigned char bytes[2 * N_TOKENS];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)((i * i + i / 7) % VOCAB);
    const es_tokens_content content = {VOCAB, 1, N_TOKENS, N_TOKENS,
                                       0,     0, "test",   bytes};
    FILE *file = fopen(es_scratch_file, "w");
    assert_non_null(file);
    es_assert_ok(es_tokens_write(file, &content));
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    /* Name a CUDA library that does not exist, so that the result does not
     * depend on how the program was built. */
    setenv("ENTROPY_TRAIN_CUDA", "/nonexistent.so", 1);
    const int failed = es_scratch_open(state);
    if (!failed)
        write_tokens();
    return failed;
}

static int n_unchecked;

static void count_unchecked(const char *what)
{
    (void)what;
    n_unchecked++;
}

/** Status and message of a dry run, or of training, for one command line. */
typedef struct judgement {
    es_status status;
    char message[ES_MESSAGE_MAX];
} judgement;

static es_status read_words(es_settings *out, char **words)
{
    int n = 0;
    while (words[n])
        n++;
    es_settings_default(out, ES_VERB_TRAIN);
    es_status status = es_settings_parse(out, n, words);
    return status == ES_OK ? es_settings_check(out) : status;
}

static void judge(judgement *out, char **words, bool trains)
{
    es_settings settings;
    es_train_result result;
    out->status = read_words(&settings, words);
    settings.rank = 0;
    if (out->status == ES_OK)
        out->status = trains ? es_train(&result, &settings, NULL, NULL, NULL)
                             : es_dry_run(&settings, NULL, count_unchecked);
    snprintf(out->message, sizeof out->message, "%s",
             out->status == ES_OK ? "" : es_message());
}

static int n_accepted, n_refused;

/** Compares the results of a dry run and of training for one of the models with
 *  one or two additional options. */
static void compare(char *const *model, const char *option, const char *other)
{
    char *words[MOST_WORDS] = {NULL};
    size_t n = 0;
    judgement dry, real;
    for (size_t i = 0; tiny[i]; i++)
        words[n++] = tiny[i];
    for (size_t i = 0; model[i]; i++)
        words[n++] = model[i];
    words[n++] = (char *)(uintptr_t)option;
    words[n++] = (char *)(uintptr_t)other;
    n_unchecked = 0;
    judge(&dry, words, false);
    if (dry.status == ES_OK && n_unchecked > 0)
        return; /* the dry run has reported that it did not check some items */
    judge(&real, words, true);
    if (dry.status != real.status || strcmp(dry.message, real.message) != 0)
        fail_msg("%s %s %s %s: a dry run: '%s' (%d), training: '%s' (%d)",
                 model[0], model[1] ? model[1] : "", option, other ? other : "",
                 dry.message, dry.status, real.message, real.status);
    n_accepted += dry.status == ES_OK;
    n_refused += dry.status != ES_OK;
}

enum { MOST_OPTIONS = 160 };

/** Lists the options that affect training: every value of each choice and every
 *  flag, from the table of options, followed by `numbers`. */
static size_t list_options(char out[MOST_OPTIONS][64])
{
    size_t n = 0;
    for (size_t i = 0; i < ES_N_SETTINGS; i++) {
        const es_option *row = &es_settings_table[i];
        const bool is_flag = row->type == ES_OPTION_FLAG;
        if (!(row->tags & ES_VERB_TRAIN) || !row->name ||
            (is_flag && !(row->tags & ES_SETTING_KEPT)))
            continue;
        for (int k = 0; row->type == ES_OPTION_CHOICE && row->choices[k]; k++)
            snprintf(out[n++], 64, "--%s=%s", row->name, row->choices[k]);
        if (is_flag)
            snprintf(out[n++], 64, "--%s", row->name);
        assert_true(n < MOST_OPTIONS - 8);
    }
    assert_true(n > 40);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_true(n < MOST_OPTIONS);
        snprintf(out[n++], 64, "%s", numbers[i]);
    }
    return n;
}

TEST(accepted_options_train_a_step)
{
    static char options[MOST_OPTIONS][64];
    const size_t n = list_options(options);
    n_accepted = n_refused = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 0; i < n; i++)
            compare(models[m], options[i], NULL);
    assert_true(n_accepted > 300 && n_refused > 200);
}

TEST(pairs_of_options_are_judged_alike)
{
    static const char *const some[] = {
        "--precision=bf16",       "--precision=fp16", "--emulate=fp16",
        "--inference=polynomial", "--maps=4",         "--eval-every=0",
        "--record=all",           "--dropout=0.5",    "--arch=PSM(4)+LN+GS",
        "--family=llama",         "--family=sas",     "--products=onednn",
        "--fixed-order",          "--ctx=500"};
    const size_t n = sizeof some / sizeof *some;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            compare(models[0], some[i], some[k]);
}

TEST(a_precision_of_another_back_end_is_refused)
{
    static char *const of_cpu[] = {"fp32", "tf32", "bf16", "fp16"};
    for (size_t i = 0; i < 4; i++) {
        char *words[] = {"",          "--precision", of_cpu[i], "--no-record",
                         "--dry-run", NULL};
        judgement dry;
        judge(&dry, words, false);
        assert_int_equal(dry.status, i % 2 ? ES_EUSAGE : ES_OK);
        assert_true(i % 2 == 0 || strstr(dry.message, of_cpu[i]));
    }
}

TEST(a_device_on_another_machine_is_reported)
{
    char *words[] = {"",
                     "--backend=cuda",
                     "--precision=fp16",
                     "--data",
                     es_scratch_file,
                     "--ctx=8",
                     "--no-record",
                     NULL};
    judgement dry, real;
    n_unchecked = 0;
    judge(&dry, words, false);
    assert_int_equal(dry.status, ES_OK);
    assert_int_equal(n_unchecked, 1);
    judge(&real, words, true);
    assert_int_equal(real.status, ES_EIO);
}

TEST_GROUP(set_up, es_scratch_close)
