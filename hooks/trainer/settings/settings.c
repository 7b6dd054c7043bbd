/* The settings of entropy-train: their defaults, access by name, configuration
 * files and the command line.
 *
 * inih is not used for configuration files: Debian's build joins a line that
 * begins with a blank to the previous one, ends values at " ;", accepts "name:
 * value", and cuts lines at 200 bytes, which is shorter than a path may be. */
#include "hooks/trainer/settings/settings.h"
#include "analyzer/base/infile.h"
#include "analyzer/base/text.h"
#include <stdlib.h>
#include <string.h>

void es_settings_default(es_settings *out, es_verb verb)
{
    *out = (es_settings){.backend = "cpu",
                         .record_every = 10,
                         .eval_every = 100,
                         .eval_batches = 8,
                         .after_nan = 200,
                         .keep = 3,
                         .pairs = 200,
                         .map_count = 9,
                         .polynomial = {.error = 1e-3, .margin = 1.5},
                         .poly_batches = 8,
                         .world = 1,
                         .rank = -1,
                         .rank_timeout = 1800,
                         .verb = verb};
    es_model_config_default(&out->model);
    es_train_config_default(&out->train);
    out->model.vocab = 0;
    if (verb != ES_VERB_BENCH)
        return;
    out->model.n_layer = 6;
    out->model.n_head = 8;
    out->model.d_model = 256;
    out->model.ctx = 128;
    out->model.batch = 8;
    out->model.vocab = 256;
}

const void *es_settings_defaults(const es_command *command)
{
    static es_settings defaults;
    es_settings_default(&defaults, (es_verb)command->takes);
    return &defaults;
}

/* --- rows ---------------------------------------------------------------- */

const es_option *es_setting_find(const char *name)
{
    for (size_t i = 0; i < ES_N_SETTINGS; i++)
        if (es_settings_table[i].name &&
            strcmp(es_settings_table[i].name, name) == 0)
            return &es_settings_table[i];
    return NULL;
}

bool es_setting_is_of_model(const es_option *setting)
{
    return setting->name && setting->offset < offsetof(es_settings, train);
}

bool es_setting_is_kept(const es_option *setting, const es_settings *settings)
{
    const unsigned tags = setting->tags;
    if (!(tags & ES_SETTING_KEPT))
        return false;
    return settings->verb == ES_VERB_PROBE
               ? es_setting_is_of_model(setting) || (tags & ES_VERB_PROBE)
               : tags & ES_VERB_TRAIN;
}

es_status es_setting_set(es_settings *settings, const es_option *setting,
                         const char *value, const char *where)
{
    settings->given[setting - es_settings_table] = true;
    return es_option_set(settings, setting, value, where);
}

/* --- configuration files ------------------------------------------------- */

static char *trim(char *text)
{
    static const char blanks[] = " \t\r\n\f\v";
    text += strspn(text, blanks);
    size_t n = strlen(text);
    while (n > 0 && strchr(blanks, text[n - 1]))
        text[--n] = 0;
    return text;
}

static es_status read_line(es_settings *settings, char *line, const char *path,
                           int number)
{
    line[strcspn(line, "#")] = 0;
    char *name = trim(line);
    if (!*name)
        return ES_OK;
    char *equals = strchr(name, '=');
    if (!equals)
        return es_fail(ES_EUSAGE, "%s:%d: expected 'name = value'", path,
                       number);
    *equals = 0;
    name = trim(name);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const es_option *setting = es_setting_find(name);
    if (!setting || strcmp(name, "config") == 0)
        return es_fail(ES_EUSAGE, "%s:%d: %s: no such option", path, number,
                       name);
    char where[ES_PATH_SIZE + 64];
    snprintf(where, sizeof where, "%s:%d: %s", path, number, setting->name);
    return es_setting_set(settings, setting, trim(equals + 1), where);
}

/** Reads all lines of the text. `text` has n bytes and space for one more. */
static es_status read_lines(es_settings *settings, char *text, size_t n,
                            const char *path)
{
    char *const end = text + n;
    es_status status = ES_OK;
    *end = 0;
    for (int number = 1; status == ES_OK && text < end; number++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        *stop = 0;
        status = strlen(text) == (size_t)(stop - text)
                     ? read_line(settings, text, path, number)
                     : es_fail(ES_EUSAGE, "%s:%d: the line contains a NUL byte",
                               path, number);
        text = stop + 1;
    }
    return status;
}

es_status es_settings_read(es_settings *settings, const char *path)
{
    static const es_infile_limit limit = {ES_SETTINGS_FILE_MAX, "settings",
                                          ES_EUSAGE};
    size_t n;
    char *text;
    es_status status = es_infile_load(&text, &n, path, &limit);
    if (status == ES_OK)
        status = read_lines(settings, text, n, path);
    free(text);
    return status;
}

/* --- the command line ---------------------------------------------------- */

static bool was_given(const es_settings *settings, const char *name)
{
    return settings->given[es_setting_find(name) - es_settings_table];
}

/** Settings, together with the set of options that a preset must not change. */
typedef struct under {
    es_settings *settings;
    bool given[ES_N_SETTINGS];
} under;

static es_status set_under(void *user, const char *name, const char *value)
{
    under *u = user;
    char where[2 * ES_PRESET_NAME_SIZE];
    const es_option *setting = es_setting_find(name);
    snprintf(where, sizeof where, "preset %s: %s", u->settings->preset, name);
    if (!setting)
        return es_fail(ES_EINTERNAL, "%s: no such option", where);
    return u->given[setting - es_settings_table]
               ? ES_OK
               : es_setting_set(u->settings, setting, value, where);
}

/** Sets the options of the preset that neither the command line nor a
 *  configuration file has set. */
static es_status apply_preset(es_settings *settings)
{
    under u = {.settings = settings};
    memcpy(u.given, settings->given, sizeof u.given);
    return es_preset_options(settings->preset, set_under, &u);
}

/* Sets the defaults of the model's family if --family was given. */
static void settle_family(es_settings *settings)
{
    es_model_config *model = &settings->model;
    if (!was_given(settings, "family"))
        return;
    if (es_families[model->family].has_images && !was_given(settings, "ctx") &&
        es_model_config_n_patches(&model->image) > 0)
        model->ctx = es_model_config_n_patches(&model->image);
    if (!was_given(settings, "bias"))
        model->bias = es_families[model->family].bias;
    if (model->family == ES_FAMILY_LLAMA && !was_given(settings, "arch"))
        model->arch = (es_arch){.rms_norm = true, .activation = ES_ACT_SWIGLU};
}

es_status es_settings_parse(es_settings *settings, int argc, char **argv)
{
    const char *name = settings->verb == ES_VERB_TRAIN ? "entropy-train"
                       : settings->verb == ES_VERB_VERIFY
                           ? "entropy-train verify"
                       : settings->verb == ES_VERB_BENCH ? "entropy-train bench"
                       : settings->verb == ES_VERB_FUSE  ? "entropy-train fuse"
                                                        : "entropy-train probe";
    const es_command command = {.name = name,
                                ES_SETTINGS_OPTIONS(settings->verb)};
    es_status status =
        es_options_parse(settings, settings->given, &command, argc, argv);
    if (status != ES_OK || settings->resume[0])
        return status; /* the checkpoint provides all settings */
    status = apply_preset(settings);
    settle_family(settings);
    return status;
}

void es_settings_run_name(char out[ES_RUN_NAME_SIZE],
                          const es_settings *settings)
{
    const char *slash = strrchr(settings->out, '/');
    const char *file = slash ? slash + 1 : settings->out;
    size_t n = strlen(file);
    if (n > 3 && strcmp(file + n - 3, ".db") == 0)
        n -= 3;
    if (settings->name[0])
        snprintf(out, ES_RUN_NAME_SIZE, "%s", settings->name);
    else if (n > 0)
        snprintf(out, ES_RUN_NAME_SIZE, "%.*s", (int)n, file);
    else
        snprintf(out, ES_RUN_NAME_SIZE, "run");
}

es_status es_settings_check(const es_settings *settings)
{
    if (!settings->data[0] && !settings->dry_run)
        return es_fail(ES_EUSAGE, "no data: give --data FILE, a token file "
                                  "made by entropy-corpus");
    if (settings->no_record && settings->out[0])
        return es_fail(ES_EUSAGE,
                       "--out and --no-record are mutually exclusive");
    if (!settings->no_record && !settings->out[0] && !settings->dry_run)
        return es_fail(ES_EUSAGE, "no output: give --out FILE or --no-record");
    if (settings->checkpoint_every > 0 && !settings->checkpoint[0])
        return es_fail(ES_EUSAGE, "--checkpoint-every needs --checkpoint DIR, "
                                  "the folder to write to");
    return ES_OK;
}
