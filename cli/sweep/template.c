/* Handles placeholders in the command of a sweep. A command is parsed, checked
 * against the keys of the spec, and filled in twice. The values of a run are
 * filled in when the plan is made; the path of its run file is filled in only
 * when the run starts, because the folder may be moved in between. */
#include "cli/sweep/template.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"
#include "cli/alerts/delivery/words.h"
#include "cli/slurm/query.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool es_sweep_same_key(const char *a, const char *b)
{
    while (*a && (*a == '_' ? '-' : *a) == (*b == '_' ? '-' : *b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

/* --- reading --------------------------------------------------------------*/

/* A part of a word: a placeholder or a single byte. */
typedef struct piece {
    char key[64]; /* key of the placeholder; "" if the part is a single byte */
    char byte;
} piece;

static es_status read_piece(piece *out, const char **at)
{
    const char *text = *at;
    *out = (piece){.byte = *text};
    if ((*text == '{' || *text == '}') && text[1] == *text) {
        *at += 2;
        return ES_OK;
    }
    *at += 1;
    if (*text != '{')
        return ES_OK;
    size_t n = strcspn(*at, "}");
    if (!(*at)[n])
        return es_fail(ES_EUSAGE,
                       "%.60s: a brace is not closed: write {{ for a brace",
                       text);
    if (!n || n >= sizeof out->key)
        return es_fail(ES_EUSAGE, "%.60s: expected a key: write {{ for a brace",
                       text);
    memcpy(out->key, *at, n);
    *at += n + 1;
    return ES_OK;
}

/* --- writing --------------------------------------------------------------*/

/* The quoting state at the current position in a shell script. */
typedef struct script {
    bool is_one;
    char quote;
    bool skips; /* true if the previous byte was a backslash */
} script;

static void track_quotes(script *s, char byte)
{
    if (s->skips || (byte == '\\' && s->quote != '\''))
        s->skips = !s->skips;
    else if (s->quote ? byte == s->quote : byte == '\'' || byte == '"')
        s->quote = s->quote ? 0 : byte;
}

static void put_byte(FILE *out, script *s, char byte, bool later)
{
    if (later && (byte == '{' || byte == '}'))
        putc(byte, out);
    putc(byte, out);
    track_quotes(s, byte);
}

static void put_text(FILE *out, script *s, const char *text, bool later)
{
    for (; *text; text++)
        put_byte(out, s, *text, later);
}

static es_status put_value(FILE *out, script *s, const char *value, bool later)
{
    char *quoted = NULL;
    size_t size = 0;
    if (!s->is_one) {
        put_text(out, s, value, later);
        return ES_OK;
    }
    FILE *text = es_text_stream(&quoted, &size);
    if (!text)
        return es_fail(ES_ENOMEM,
                       "out of memory while filling in a command line");
    if (!s->quote) {
        es_slurm_print_word(text, value);
    } else {
        for (; *value; value++)
            if (s->quote == '\'' && *value == '\'')
                fputs("'\\''", text);
            else
                fprintf(text,
                        s->quote == '"' && strchr("\\\"$`", *value) ? "\\%c"
                                                                    : "%c",
                        *value);
    }
    if (fclose(text) == 0)
        put_text(out, s, quoted, later);
    free(quoted);
    return ES_OK;
}

static const char *value_of(const es_sweep_value *values, size_t n,
                            const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (es_sweep_same_key(values[i].key, key))
            return values[i].value;
    return NULL;
}

static es_status fill_word(FILE *out, const char *word, script *s,
                           const es_sweep_value *values, size_t n, bool later)
{
    es_status status = ES_OK;
    piece next;
    while (*word && (status = read_piece(&next, &word)) == ES_OK) {
        const char *value = value_of(values, n, next.key);
        if (!*next.key)
            put_byte(out, s, next.byte, later);
        else if (value)
            status = put_value(out, s, value, later);
        else if (later && strcmp(next.key, ES_SWEEP_RUN) == 0)
            fputs("{" ES_SWEEP_RUN "}", out);
        else
            status = es_fail(
                ES_EUSAGE,
                "{%s}: unknown placeholder: expected a key of the sweep, "
                "{" ES_SWEEP_RUN "} or {" ES_SWEEP_NAME "}",
                next.key);
        if (status < 0)
            break;
    }
    return status;
}

static bool is_shell(const char *word)
{
    const char *slash = strrchr(word, '/');
    size_t n = strlen(slash ? slash + 1 : word);
    return n >= 2 && n <= 5 && es_text_ends(word, "sh");
}

/* Returns true if word i of a command is a shell script, because it follows "sh
 * -c" or similar words. */
static bool is_script(char *const *words, size_t i)
{
    size_t n = i ? strlen(words[i - 1]) : 0;
    if (n < 2 || words[i - 1][0] != '-' || words[i - 1][n - 1] != 'c' ||
        words[i - 1][1] == '-')
        return false;
    while (i > 0 && words[i - 1][0] == '-')
        i--;
    return i > 0 && is_shell(words[i - 1]);
}

es_status es_sweep_template_fill(char ***out, char *const *words,
                                 const es_sweep_value *values, size_t n,
                                 bool later)
{
    size_t n_words = 0;
    while (words[n_words])
        n_words++;
    es_status status =
        es_alloc(out, n_words + 1, sizeof **out, "a command line");
    for (size_t i = 0; i < n_words && status == ES_OK; i++) {
        script s = {.is_one = is_script(words, i)};
        size_t size = 0;
        FILE *text = es_text_stream(&(*out)[i], &size);
        if (!text)
            return es_fail(ES_ENOMEM,
                           "out of memory while filling in a command line");
        status = fill_word(text, words[i], &s, values, n, later);
        if (fclose(text) != 0 && status == ES_OK)
            status = es_fail(ES_ENOMEM,
                             "out of memory while filling in a command line");
    }
    return status;
}

bool es_sweep_template_has(char *const *words, const char *key)
{
    piece next;
    for (; *words; words++)
        for (const char *at = *words; *at;)
            if (read_piece(&next, &at) == ES_OK &&
                es_sweep_same_key(next.key, key))
                return true;
    return false;
}
