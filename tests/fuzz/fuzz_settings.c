/* Fuzzes the configuration file and the command line of the trainer. */
#include "hooks/trainer/settings/settings.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Options for parsing JSON without a limit on integers: JSON does not limit
 * their size, but jansson does. */
#define READ_JSON (JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL)

#define ARGUMENTS 32

/* Checks that the settings print as valid JSON, because the store refuses a run
 * whose configuration is not JSON. */
static void check_json(const es_settings *settings)
{
    char *text = es_settings_json(settings, 1);
    json_error_t error;
    fuzz_require(text);
    json_t *json = json_loads(text, READ_JSON, &error);
    fuzz_require(json && json_is_object(json));
    json_decref(json);
    free(text);
}

static void check_values(const es_settings *settings)
{
    const es_model_config *model = &settings->model;
    fuzz_require(memchr(settings->data, 0, sizeof settings->data));
    fuzz_require(memchr(settings->out, 0, sizeof settings->out));
    fuzz_require(memchr(settings->init, 0, sizeof settings->init));
    fuzz_require(memchr(settings->name, 0, sizeof settings->name));
    fuzz_require(memchr(settings->backend, 0, sizeof settings->backend));
    fuzz_require(model->n_layer >= 1 && model->ctx >= 1 && model->batch >= 1);
    fuzz_require(isfinite(settings->train.lr) && settings->train.lr >= 0);
    fuzz_require(settings->record_every >= 1 && settings->train.steps >= 1);
    check_json(settings);
    fuzz_succeeded(es_settings_check(settings));
    if (fuzz_succeeded(es_model_config_check(model)))
        fuzz_require(model->d_model % model->n_head == 0);
    fuzz_succeeded(es_train_config_check(&settings->train));
}

static void check_file(es_settings *settings, const uint8_t *bytes, size_t n)
{
    const char *path = fuzz_file(bytes, n);
    if (fuzz_succeeded(es_settings_read(settings, path)))
        check_values(settings);
}

/* Reads the configuration of a checkpoint. Printing and reading it again must
 * not change it. */
static void check_kept(es_settings *settings, const char *text)
{
    uint64_t checksum = 0, again = 0;
    if (!fuzz_succeeded(
            es_settings_read_json(settings, &checksum, text, "a file")))
        return;
    check_values(settings);
    es_settings copy = *settings;
    char *written = es_settings_json(settings, checksum);
    fuzz_require(written);
    fuzz_require(es_settings_read_json(&copy, &again, written, "x") == ES_OK);
    char *twice = es_settings_json(&copy, again);
    fuzz_require(twice && strcmp(written, twice) == 0);
    free(written);
    free(twice);
}

/* Parses the text as arguments, one per line. "--config" is excluded, because
 * it would read any file. */
static void check_words(es_settings *settings, char *text)
{
    char *argv[ARGUMENTS + 2] = {(char[]){"entropy-train"}};
    int argc = 1;
    for (char *at = text; at && argc <= ARGUMENTS;) {
        char *end = strchr(at, '\n');
        if (end)
            *end++ = '\0';
        if (strncmp(at, "--co", 4) != 0)
            argv[argc++] = at;
        at = end;
    }
    if (fuzz_succeeded(es_settings_parse(settings, argc, argv)))
        check_values(settings);
    fuzz_require(settings->n_cases < (size_t)argc);
    free(settings->cases);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const es_verb verbs[] = {ES_VERB_TRAIN, ES_VERB_VERIFY,
                                    ES_VERB_BENCH, ES_VERB_PROBE, ES_VERB_FUSE};
    es_settings settings;
    if (n == 0)
        return 0;
    es_verb verb = verbs[bytes[0] / 2 % (sizeof verbs / sizeof *verbs)];
    es_settings_default(&settings, verb);
    /* The configuration of a checkpoint always begins with a brace. */
    bool kept = bytes[0] == '{';
    char *text = kept ? fuzz_string(bytes, n) : fuzz_string(bytes + 1, n - 1);
    if (kept)
        check_kept(&settings, text);
    else if (bytes[0] & 1)
        check_file(&settings, bytes + 1, n - 1);
    else
        check_words(&settings, text);
    free(text);
    return 0;
}
