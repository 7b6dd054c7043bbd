#include "hooks/trainer/settings/settings.h"

#include "analyzer/base/text.h"
#include "hooks/trainer/settings/settings_internal.h"
#include "store/infile.h"
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

/* --- one value ----------------------------------------------------------- */

static es_status set_flag(void *at, const char *value, const char *where)
{
    bool flag = !value || strcmp(value, "true") == 0;
    if (!flag && strcmp(value, "false") != 0)
        return es_fail(ES_EUSAGE, "%s: '%s' is neither true nor false", where,
                       value);
    memcpy(at, &flag, sizeof flag);
    return ES_OK;
}

static es_status set_whole(void *at, const es_setting *setting,
                           const char *value, const char *where)
{
    int64_t number;
    if (es_int_parse(&number, value, (int64_t)setting->low,
                     (int64_t)setting->high) != ES_OK)
        return es_fail(ES_EUSAGE, "%s: %s", where, es_message());
    if (setting->kind == ES_SETTING_INT) {
        int narrow = (int)number;
        memcpy(at, &narrow, sizeof narrow);
    } else {
        memcpy(at, &number, sizeof number);
    }
    return ES_OK;
}

static es_status set_real(void *at, const es_setting *setting,
                          const char *value, const char *where)
{
    double number;
    if (es_double_parse(&number, value) != ES_OK)
        return es_fail(ES_EUSAGE, "%s: %s", where, es_message());
    if (!(number >= setting->low && number <= setting->high))
        return es_fail(ES_EUSAGE, "%s: %s is not between %.10g and %.10g",
                       where, value, setting->low, setting->high);
    memcpy(at, &number, sizeof number);
    return ES_OK;
}

static es_status set_text(char *at, const es_setting *setting,
                          const char *value, const char *where)
{
    if (!*value || strlen(value) >= setting->size)
        return es_fail(ES_EUSAGE, "%s: must have 1 to %zu bytes", where,
                       setting->size - 1);
    strcpy(at, value);
    return ES_OK;
}

static es_status set_choice(void *at, const es_setting *setting,
                            const char *value, const char *where)
{
    char names[128] = "";
    for (int i = 0; setting->choices[i]; i++) {
        if (strcmp(setting->choices[i], value) == 0) {
            memcpy(at, &i, sizeof i);
            return ES_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, i ? ", %s" : "%s",
                 setting->choices[i]);
    }
    return es_fail(ES_EUSAGE, "%s: '%s' is none of %s", where, value, names);
}

static es_status set_arch(void *at, const char *value, const char *where)
{
    es_arch arch;
    if (es_arch_parse(&arch, value) != ES_OK)
        return es_fail(ES_EUSAGE, "%s: %s", where, es_message());
    memcpy(at, &arch, sizeof arch);
    return ES_OK;
}

es_status es_setting_set(es_settings *settings, const es_setting *setting,
                         const char *value, const char *where)
{
    void *at = (char *)settings + setting->offset;
    settings->given[setting - es_setting_table] = true;
    switch (setting->kind) {
    case ES_SETTING_FLAG:
        return set_flag(at, value, where);
    case ES_SETTING_INT:
    case ES_SETTING_LONG:
        return set_whole(at, setting, value, where);
    case ES_SETTING_REAL:
        return set_real(at, setting, value, where);
    case ES_SETTING_TEXT:
        return set_text(at, setting, value, where);
    case ES_SETTING_CHOICE:
        return set_choice(at, setting, value, where);
    case ES_SETTING_ARCH:
        return set_arch(at, value, where);
    case ES_SETTING_FILE:
        return es_settings_read(settings, value);
    }
    return es_fail(ES_EINTERNAL, "%s: no such kind of setting", where);
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

static const es_setting *find_setting(const char *name)
{
    for (size_t i = 0; i < es_setting_count; i++) {
        const es_setting *setting = &es_setting_table[i];
        if (setting->kind != ES_SETTING_FILE &&
            strcmp(setting->name, name) == 0)
            return setting;
    }
    return NULL;
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
        return es_fail(ES_EUSAGE, "%s:%d: not a line 'name = value'", path,
                       number);
    *equals = 0;
    name = trim(name);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const es_setting *setting = find_setting(name);
    if (!setting)
        return es_fail(ES_EUSAGE, "%s:%d: %s: no such option", path, number,
                       name);
    char where[ES_PATH_SIZE + 64];
    snprintf(where, sizeof where, "%s:%d: %s", path, number, setting->name);
    return es_setting_set(settings, setting, trim(equals + 1), where);
}

/** The text has n bytes, and takes one more. */
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
        status =
            strlen(text) == (size_t)(stop - text)
                ? read_line(settings, text, path, number)
                : es_fail(ES_EUSAGE, "%s:%d: holds a NUL byte", path, number);
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

typedef struct parsing {
    es_settings *settings;
    const es_command *command;
    es_argument_handler *arguments;
    void *user;
} parsing;

static es_status take_option(void *user, int option, const char *value)
{
    parsing *p = user;
    if (option == ES_OPTION_ARGUMENT && !p->arguments)
        return es_fail(ES_EUSAGE, "'%s': %s takes no argument", value,
                       p->command->name);
    if (option == ES_OPTION_ARGUMENT)
        return p->arguments(p->user, value);
    const char *name = p->command->options[option].name;
    for (size_t i = 0; i < es_setting_count; i++) {
        if (strcmp(es_setting_table[i].name, name) != 0)
            continue;
        char where[64];
        snprintf(where, sizeof where, "--%s", name);
        return es_setting_set(p->settings, &es_setting_table[i], value, where);
    }
    return es_fail(ES_EINTERNAL, "--%s: not in the table of settings", name);
}

es_status es_settings_parse(es_settings *settings, es_verb verb, int argc,
                            char **argv, es_argument_handler *arguments,
                            void *user)
{
    parsing p = {settings, es_settings_command(verb), arguments, user};
    return es_options_parse(p.command, argc, argv, take_option, &p);
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
        return es_fail(ES_EUSAGE, "--out and --no-record exclude each other");
    if (!settings->no_record && !settings->out[0] && !settings->dry_run)
        return es_fail(ES_EUSAGE, "no output: give --out FILE or --no-record");
    if (settings->checkpoint_every > 0 && !settings->checkpoint[0])
        return es_fail(ES_EUSAGE, "--checkpoint-every needs --checkpoint DIR, "
                                  "the folder to write to");
    return ES_OK;
}
