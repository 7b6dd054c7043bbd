/* Reads and writes the comment lines of a text file that describe its run, and
   writes the same properties as JSON. All functions here use the same table of
   properties. Escapes preserve every byte of a name. */
#include "cli/exchange/about.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

typedef enum member_kind { TEXT, UUID, WHOLE, STATUS } member_kind;

/* A property of a run that the comment lines describe; an entry of the table of
 * properties. */
typedef struct member {
    const char *key;
    member_kind kind;
    size_t offset; /* offset of the property in es_run_info */
    int64_t low, high;
} member;

#define ANY INT64_MIN + 1, INT64_MAX

static const member members[] = {
    {"uuid", UUID, offsetof(es_run_info, uuid), ANY},
    {"name", TEXT, offsetof(es_run_info, name), ANY},
    {"arch", TEXT, offsetof(es_run_info, arch), ANY},
    {"family", TEXT, offsetof(es_run_info, family), ANY},
    {"status", STATUS, offsetof(es_run_info, status), ANY},
    {"n_layer", WHOLE, offsetof(es_run_info, n_layer), 1, ES_MAX_LAYERS},
    {"n_head", WHOLE, offsetof(es_run_info, n_head), 1, ES_MAX_HEADS},
    {"d_model", WHOLE, offsetof(es_run_info, d_model), ANY},
    {"ctx", WHOLE, offsetof(es_run_info, ctx), ANY},
    {"vocab", WHOLE, offsetof(es_run_info, vocab), ANY},
    {"batch", WHOLE, offsetof(es_run_info, batch), ANY},
    {"seed", WHOLE, offsetof(es_run_info, seed), ANY},
    {"config", TEXT, offsetof(es_run_info, config), ANY},
    {"program", TEXT, offsetof(es_run_info, program), ANY},
    {"host", TEXT, offsetof(es_run_info, host), ANY},
    {"started_at", TEXT, offsetof(es_run_info, started_at), ANY},
};
enum { N_MEMBERS = sizeof members / sizeof members[0] };

static const char **text_of(const es_run_info *info, const member *m)
{
    return (const char **)((uintptr_t)info + m->offset);
}

static int64_t *whole_of(const es_run_info *info, const member *m)
{
    return (int64_t *)((uintptr_t)info + m->offset);
}

void es_about_init(es_about *about)
{
    *about = (es_about){.info.status = ES_RUN_FINISHED};
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (members[i].kind == WHOLE)
            *whole_of(&about->info, &members[i]) = ES_UNKNOWN;
}

void es_about_free(es_about *about)
{
    for (size_t i = 0; i < about->n_owned; i++)
        free(about->owned[i]);
    for (size_t i = 0; i < about->n_series; i++) {
        free(about->series[i].name);
        free(about->series[i].unit);
    }
    free(about->owned);
    free(about->series);
    *about = (es_about){0};
}

static es_status set_text(es_about *about, const member *m, const char *text)
{
    /* Files are untrusted: limit the memory that repeated keys consume. */
    if (about->n_owned == 4 * N_MEMBERS)
        return es_fail(ES_EFORMAT, "key '%s' occurs too often", m->key);
    char *copy;
    es_status status;
    if ((status = es_grow(&about->owned, about->n_owned + 1,
                          sizeof *about->owned, m->key)) < 0 ||
        (status = es_copy_text(&copy, text)) < 0)
        return status;
    about->owned[about->n_owned++] = copy;
    *text_of(&about->info, m) = copy;
    return ES_OK;
}

/* --- escapes --------------------------------------------------------------*/

/* Returns the length in bytes of the UTF-8 character at `text`, or 0 if the
   character needs an escape. */
static size_t plain_length(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (*c < 0x20 || *c == 0x7f || *c == '\\')
        return 0;
    if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
        return 0; /* C1 control characters */
    size_t left = strnlen(text, 4);
    for (size_t n = 1; n <= left; n++)
        if (es_text_is_utf8(text, n))
            return n;
    return 0;
}

/* Writes `text` and escapes invalid UTF-8, control characters, backslashes, a
   blank at either end, and each character in `also`. */
static void put_escaped(FILE *out, const char *text, const char *also,
                        bool double_quotes)
{
    for (const char *c = text; *c;) {
        size_t n = plain_length(c);
        bool blank_end = *c == ' ' && (c == text || !c[1]);
        if (!n || blank_end || strchr(also, *c)) {
            fprintf(out, "\\x%02x", (unsigned char)*c++);
            continue;
        }
        if (double_quotes && *c == '"')
            fputc('"', out);
        fwrite(c, 1, n, out);
        c += n;
    }
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* Decodes \xNN escapes in place; leaves \x00 and other backslashes
   unchanged. */
static void unescape(char *text)
{
    char *out = text;
    for (char *from = text; *from;) {
        int high = -1, low = -1;
        if (from[0] == '\\' && from[1] == 'x') {
            high = hex_digit(from[2]);
            low = high < 0 ? -1 : hex_digit(from[3]);
        }
        if (low >= 0 && (high || low)) {
            *out++ = (char)(high * 16 + low);
            from += 4;
        } else {
            *out++ = *from++;
        }
    }
    *out = 0;
}

/* --- columns --------------------------------------------------------------*/

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

void es_column_print(FILE *out, const char *name, es_phase phase)
{
    bool quote = strpbrk(name, ",;\"") != NULL;
    /* Spreadsheets treat a cell that begins with =, +, - or @ as a formula, so
       a name that begins with one of these gets the prefix "train:". */
    bool explain = !*name || strchr("=+-@'", *name) || starts(name, "eval:") ||
                   starts(name, "train:");
    if (quote)
        fputc('"', out);
    if (phase == ES_PHASE_EVAL)
        fputs("eval:", out);
    else if (explain)
        fputs("train:", out);
    put_escaped(out, name, "", true);
    if (quote)
        fputc('"', out);
}

/* If the name differs from that of a standard series only in case ("Entropy"),
   changes it to the standard spelling ("entropy"). */
static void spell_as_standard(char *name)
{
    es_series_line line;
    for (size_t i = 0; es_series_standard_at(&line, i); i++)
        if (strcasecmp(name, line.name) == 0)
            memcpy(name, line.name, strlen(line.name));
}

es_status es_column_parse(char **name, es_phase *phase, const char *text)
{
    bool eval = starts(text, "eval:");
    if (eval || starts(text, "train:")) {
        *phase = eval ? ES_PHASE_EVAL : ES_PHASE_TRAIN;
        text = strchr(text, ':') + 1;
    }
    if (!*text)
        return es_fail(ES_EFORMAT, "a column has no name");
    es_status status = es_copy_text(name, text);
    if (status == ES_OK) {
        unescape(*name);
        spell_as_standard(*name);
    }
    return status;
}

/* --- reading --------------------------------------------------------------*/

static es_status set_status(es_about *about, const char *text)
{
    for (int i = ES_RUN_RUNNING; i <= ES_RUN_STOPPED; i++)
        if (strcmp(text, es_run_status_name((es_run_status)i)) == 0) {
            about->info.status = (es_run_status)i;
            return ES_OK;
        }
    return es_fail(
        ES_EFORMAT,
        "unknown status '%.40s': expected running, finished, failed or stopped",
        text);
}

static es_status set_member(es_about *about, const member *m, const char *value)
{
    if (m->kind == STATUS)
        return set_status(about, value);
    if (m->kind == WHOLE)
        return es_int_parse(whole_of(&about->info, m), value, m->low, m->high);
    if (m->kind == UUID && !es_uuid_is(value))
        return es_fail(ES_EFORMAT, "not a UUID: '%.40s'", value);
    return set_text(about, m, value);
}

static es_status parse_shape(es_shape *out, const char *text)
{
    for (int i = ES_SHAPE_RUN; i <= ES_SHAPE_HEAD; i++)
        if (strcmp(text, es_shape_name((es_shape)i)) == 0) {
            *out = (es_shape)i;
            return ES_OK;
        }
    return es_fail(ES_EFORMAT,
                   "unknown shape '%.40s': expected run, layer or head", text);
}

/* Reads "SHAPE UNIT COLUMN"; the unit "-" means no unit. */
static es_status add_series(es_about *about, char *value)
{
    char *rest = NULL;
    const char *shape = strtok_r(value, " ", &rest);
    char *unit = strtok_r(NULL, " ", &rest);
    if (!unit || !*rest)
        return es_fail(ES_EFORMAT,
                       "a series must be described as 'SHAPE UNIT NAME'");
    if (about->n_series == ES_MAX_TEXT_SERIES)
        return es_fail(ES_EFORMAT, "more than %d series", ES_MAX_TEXT_SERIES);
    es_text_series series = {0};
    es_status status;
    if (strcmp(unit, "-") == 0)
        *unit = '\0';
    unescape(unit);
    if ((status = es_grow(&about->series, about->n_series + 1,
                          sizeof *about->series, "a series")) < 0 ||
        (status = parse_shape(&series.shape, shape)) < 0 ||
        (status = es_copy_text(&series.unit, unit)) < 0)
        return status;
    if ((status = es_column_parse(&series.name, &series.phase, rest)) < 0)
        free(series.unit);
    else
        about->series[about->n_series++] = series;
    return status;
}

es_status es_about_set(es_about *about, const char *key, const char *value)
{
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (strcmp(key, members[i].key) == 0)
            return set_member(about, &members[i], value);
    return ES_OK;
}

es_status es_about_read(es_about *about, const char *line)
{
    line += strspn(line, "# \t");
    const char *colon = strchr(line, ':');
    if (!colon)
        return ES_OK;
    char *key;
    es_status status = es_copy_text(&key, line);
    if (status < 0)
        return status;
    char *value = key + (colon - line);
    *value++ = '\0';
    value += strspn(value, " \t");
    if (strcmp(key, "series") == 0) {
        status = add_series(about, value);
    } else {
        unescape(value);
        status = es_about_set(about, key, value);
    }
    free(key);
    return status;
}

es_status es_about_override(es_about *about, const es_run_info *given)
{
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < N_MEMBERS; i++) {
        const member *m = &members[i];
        if (m->kind == WHOLE && *whole_of(given, m) != ES_UNKNOWN)
            *whole_of(&about->info, m) = *whole_of(given, m);
        else if (m->kind == TEXT && *text_of(given, m))
            status = set_text(about, m, *text_of(given, m));
    }
    return status;
}

/* --- printing -------------------------------------------------------------*/

void es_about_print(FILE *out, const es_run_info *info)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const member *m = &members[i];
        if (m->kind == STATUS)
            fprintf(out, "# status: %s\n", es_run_status_name(info->status));
        else if (m->kind == WHOLE && *whole_of(info, m) != ES_UNKNOWN)
            fprintf(out, "# %s: %lld\n", m->key, (long long)*whole_of(info, m));
        else if (m->kind != WHOLE && *text_of(info, m)) {
            fprintf(out, "# %s: ", m->key);
            put_escaped(out, *text_of(info, m), "", false);
            fputc('\n', out);
        }
    }
}

void es_about_print_series(FILE *out, const es_series *series)
{
    fprintf(out, "# series: %s ", es_shape_name(series->shape));
    if (series->unit && *series->unit)
        put_escaped(out, series->unit,
                    strcmp(series->unit, "-") == 0 ? "-" : " ", false);
    else
        fputc('-', out);
    fputc(' ', out);
    if (series->phase == ES_PHASE_EVAL)
        fputs("eval:", out);
    else
        fputs("train:", out);
    put_escaped(out, series->name, "", false);
    fputc('\n', out);
}

void es_about_put(es_json_writer *json, const es_run_info *info)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const member *m = &members[i];
        if (m->kind == STATUS)
            es_json_write_text(json, m->key, es_run_status_name(info->status));
        else if (m->kind == WHOLE && *whole_of(info, m) != ES_UNKNOWN)
            es_json_write_integer(json, m->key, *whole_of(info, m));
        else if (m->kind != WHOLE && *text_of(info, m))
            es_json_write_text(json, m->key, *text_of(info, m));
    }
}
