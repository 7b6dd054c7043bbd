/* Reads the table presets.txt, which is built into the program by presets.S.
 * The fields of a line are separated by '|'. The lines of the first section
 * give options for all presets whose size and architecture match a pattern; the
 * second section lists the presets. A preset gets the options of every matching
 * line, in the order of the table, and finally the options of its own line. */
#include "hooks/trainer/settings/presets.h"

#include "analyzer/base/options.h"
#include "analyzer/base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

/* The contents of presets.txt with a final NUL, included by presets.S. */
extern const char es_presets_text[];

#define TINY "-tiny"
#define BLANKS " \t\r"

/* --- lines --------------------------------------------------------------- */

enum { MAX_FIELDS = 4, MAX_LINE = 512 };

/** One line of a section, split into fields without surrounding blanks. Missing
 *  fields are "". */
typedef struct row {
    char line[MAX_LINE];
    const char *field[MAX_FIELDS];
} row;

static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    size_t n = strlen(text);
    while (n > 0 && strchr(BLANKS, text[n - 1]))
        text[--n] = 0;
    return text;
}

static void split_fields(row *out)
{
    char *rest = out->line;
    for (int i = 0; i < MAX_FIELDS; i++) {
        char *bar = rest ? strchr(rest, '|') : NULL;
        if (bar)
            *bar = 0;
        out->field[i] = rest ? trim(rest) : "";
        rest = bar ? bar + 1 : NULL;
    }
}

/** Returns the start of the section's first line, or "" if there is no such
 *  section. */
static const char *find_section(const char *heading)
{
    const char *found = strstr(es_presets_text, heading);
    return found ? found + strlen(heading) : "";
}

/** Reads the section's next line that has fields; returns false at the end of
 *  the section. */
static bool next_row(row *out, const char **at)
{
    while (**at && **at != '[') {
        const size_t n = strcspn(*at, "\n");
        snprintf(out->line, sizeof out->line, "%.*s", (int)n, *at);
        *at += n + ((*at)[n] == '\n');
        if (out->line[0] != '#' && out->line[strspn(out->line, BLANKS)]) {
            split_fields(out);
            return true;
        }
    }
    return false;
}

/* --- presets -------------------------------------------------------------- */

/** Writes a preset's name. The fields "gpt2-l12-t128", "EReg(SM(t)+ScFuFFN)"
 *  and "gamma=0.3" become gpt2-l12-t128-ereg-sm-t-scfuffn-gamma0.3. */
static void print_name(char *out, size_t size, const char *const field[])
{
    es_text text = es_text_begin(out, size);
    es_text_append(&text, "%s", field[0]);
    bool is_due = true; /* true if a dash must precede the next letter */
    for (const char *c = field[1]; *c; c++) {
        const bool is_part = isalnum((unsigned char)*c) || *c == '.';
        if (is_part)
            es_text_append(&text, "%s%c", is_due ? "-" : "",
                           tolower((unsigned char)*c));
        is_due = !is_part;
    }
    is_due = true;
    for (const char *c = field[3]; *c; c++) {
        const bool is_part = !strchr(BLANKS "=", *c);
        if (is_part)
            es_text_append(&text, "%s%c", is_due ? "-" : "", *c);
        is_due = is_due ? !is_part : strchr(BLANKS, *c) != NULL;
    }
}

static void read_preset(es_preset *out, const row *from)
{
    const char *end = out->is_tiny ? TINY : "";
    char name[ES_PRESET_NAME_SIZE - sizeof TINY];
    print_name(name, sizeof name, from->field);
    snprintf(out->name, sizeof out->name, "%s%s", name, end);
    snprintf(out->size, sizeof out->size, "%.48s%s", from->field[0], end);
    snprintf(out->arch, sizeof out->arch, "%s", from->field[1]);
    snprintf(out->figure, sizeof out->figure, "%s", from->field[2]);
    snprintf(out->options, sizeof out->options, "%s", from->field[3]);
}

bool es_preset_next(es_preset *preset)
{
    row r;
    if (!preset->next)
        preset->next = find_section("\n[presets]\n");
    bool found = next_row(&r, &preset->next);
    if (!found && !preset->is_tiny) {
        preset->is_tiny = true;
        preset->next = find_section("\n[presets]\n");
        found = next_row(&r, &preset->next);
    }
    if (found)
        read_preset(preset, &r);
    return found;
}

static bool find_preset(es_preset *out, const char *name)
{
    *out = (es_preset){.is_tiny = false};
    while (es_preset_next(out))
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}

es_status es_preset_check(const char *name, const char *where)
{
    es_preset preset = {.is_tiny = false};
    char nearest[ES_PRESET_NAME_SIZE] = "";
    /* a suggestion must have a smaller edit distance than this */
    size_t least = 4;
    if (strcmp(name, ES_PRESETS_LIST) == 0)
        return ES_OK;
    while (es_preset_next(&preset)) {
        const size_t n = es_word_distance(name, strlen(name), preset.name);
        if (n == 0)
            return ES_OK;
        if (n < least) {
            least = n;
            snprintf(nearest, sizeof nearest, "%s", preset.name);
        }
    }
    if (nearest[0])
        return es_fail(ES_EUSAGE,
                       "%s '%.80s': no such preset: did you mean %s?", where,
                       name, nearest);
    return es_fail(ES_EUSAGE,
                   "%s '%.80s': no such preset: --preset list prints them",
                   where, name);
}

/* --- options ------------------------------------------------------------- */

/** Passes the options of "NAME=VALUE NAME=VALUE" to `take`, one at a time. */
static es_status take_words(const char *options, es_preset_taker *take,
                            void *user)
{
    es_status status = ES_OK;
    char words[MAX_LINE], *rest = words;
    snprintf(words, sizeof words, "%s", options);
    while (status == ES_OK && *(rest = trim(rest))) {
        char *word = rest, *equals;
        rest += strcspn(rest, BLANKS);
        if (*rest)
            *rest++ = 0;
        if (!(equals = strchr(word, '=')))
            return es_fail(ES_EINTERNAL, "presets: option '%s' has no value",
                           word);
        *equals = 0;
        status = take(user, word, equals + 1);
    }
    return status;
}

es_status es_preset_options(const char *name, es_preset_taker *take, void *user)
{
    es_preset preset;
    es_status status = ES_OK;
    if (!name[0] || !find_preset(&preset, name))
        return ES_OK;
    const char *at = find_section("\n[options]\n");
    for (row r; status == ES_OK && next_row(&r, &at);)
        if (fnmatch(r.field[0], preset.size, 0) == 0 &&
            fnmatch(r.field[1], preset.arch, 0) == 0)
            status = take_words(r.field[2], take, user);
    if (status == ES_OK)
        status = take(user, "arch", preset.arch);
    return status == ES_OK ? take_words(preset.options, take, user) : status;
}

/* --- the list ------------------------------------------------------------- */

void es_presets_print(FILE *out)
{
    es_preset widest = {.is_tiny = false}, preset = widest;
    /* minimum column widths: the lengths of the headings */
    int name = 6, arch = 12;
    while (es_preset_next(&widest)) {
        const int n = (int)strlen(widest.name), m = (int)strlen(widest.arch);
        name = n > name ? n : name;
        arch = m > arch ? m : arch;
    }
    fprintf(out, "%-*s  %-*s  %s\n", name, "preset", arch, "architecture",
            "published, at full size");
    while (es_preset_next(&preset))
        fprintf(out, "%-*s  %-*s  %s\n", name, preset.name, arch, preset.arch,
                preset.figure);
}
