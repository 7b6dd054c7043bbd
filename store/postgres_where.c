/* Implements the parameter where= of a database's URL, whose conditions have
   the form of the option --where. The server evaluates conditions on columns of
   the run; this file evaluates conditions on members of the configuration.
   Strings and numbers are sent to the server as parameters. */
#include "store/postgres_in_internal.h"
#include "store/reader_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/relation.h"
#include "analyzer/base/text.h"
#include "analyzer/base/text_stream.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPUTED                                                               \
    "values computed from samples need --where, not a URL; the columns "       \
    "are run, arch, family, status, layers, heads, d_model, ctx, "             \
    "vocab, batch, seed, last_step, uuid, program, host, started, ended"

/* Columns that conditions may name: the columns that --where knows, and further
 * columns that every run has. */
static const struct {
    const char *name, *column;
    bool is_text;
} columns[] = {
    {"run", "run.name", true},         {"arch", "run.arch", true},
    {"family", "run.family", true},    {"status", "run.status", true},
    {"layers", "run.n_layer", false},  {"heads", "run.n_head", false},
    {"d_model", "run.d_model", false}, {"ctx", "run.ctx", false},
    {"vocab", "run.vocab", false},     {"batch", "run.batch", false},
    {"seed", "run.seed", false},       {"last_step", "run.last_step", false},
    {"uuid", "run.uuid", true},        {"program", "run.program", true},
    {"host", "run.host", true},        {"started", "run.started_at", true},
    {"ended", "run.ended_at", true},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

/**
 * The texts of a condition's name, relation and value. `sign` is NULL if the
 * condition contains no relation.
 */
typedef struct condition {
    char *name, *value;
    const char *sign;
    unsigned relation;
} condition;

static es_status fail_condition(const char *text, const char *why)
{
    return es_fail(ES_EUSAGE, "where=%.60s: %s", text, why);
}

/** Splits the condition in `text` into its parts, which point into `text`
 *  afterwards. */
static es_status take_apart(condition *out, char *text)
{
    const size_t n_name = strcspn(text, ES_RELATION_SIGNS);
    const size_t n_sign = strspn(text + n_name, ES_RELATION_SIGNS);
    out->sign = es_relation_read(&out->relation, text + n_name, n_sign);
    if (!n_name || !out->sign)
        return fail_condition(text, "expected conditions like arch=SM* or "
                                    "seed<3, separated by blanks; "
                                    "relations are =, !=, <, <=, > and >=");
    text[n_name] = '\0';
    out->name = text;
    out->value = text + n_name + n_sign;
    return ES_OK;
}

/* --- by columns ----------------------------------------------------------- */

/** Converts a pattern with * ? [...] to a regular expression of PostgreSQL. */
static es_status make_regex(char **out, const char *pattern)
{
    es_status status = es_alloc(out, 2 * strlen(pattern) + 8, 1, "a pattern");
    if (status < 0)
        return status;
    char *to = stpcpy(*out, "^(?:");
    for (const char *c = pattern; *c; c++) {
        const char *end = *c == '[' ? strchr(c + 1 + (c[1] == '!'), ']') : NULL;
        if (end &&
            end == c + 1 + (c[1] == '!')) /* a ] directly after the [ or [! is
                                             an ordinary character */
            end = strchr(end + 1, ']');
        if (end) {
            *to++ = *c++;
            if (*c == '!') {
                *to++ = '^';
                c++;
            }
            while (c < end) {
                if (*c == '\\')
                    *to++ = '\\';
                *to++ = *c++;
            }
            *to++ = ']';
        } else if (*c == '*') {
            to = stpcpy(to, ".*");
        } else if (*c == '?') {
            *to++ = '.';
        } else {
            if (*c == '\\' && c[1])
                c++;
            if (ispunct((unsigned char)*c))
                *to++ = '\\';
            *to++ = *c;
        }
    }
    strcpy(to, ")$");
    return ES_OK;
}

/**
 * Writes the SQL of a condition on a text column. Times are compared as
 * strings.
 */
static es_status write_text(FILE *sql, char **parameter, const condition *c,
                            const char *column, int n)
{
    const bool is_negated = c->relation & ES_NEITHER;
    if (c->relation == ES_EQUAL || is_negated) {
        fprintf(sql, " AND coalesce(%s, '') COLLATE \"C\" %s $%d", column,
                is_negated ? "!~" : "~", n);
        return make_regex(parameter, c->value);
    }
    if (strcmp(c->name, "started") != 0 && strcmp(c->name, "ended") != 0)
        return fail_condition(c->name,
                              "is a text: compare it with = or !=, with "
                              "* and ? for any characters");
    fprintf(sql, " AND %s COLLATE \"C\" %s $%d", column, c->sign, n);
    return es_copy_text(parameter, c->value);
}

static es_status write_number(FILE *sql, char **parameter, const condition *c,
                              const char *column, int n)
{
    double number;
    if (es_double_parse(&number, c->value) < 0)
        return fail_condition(c->name, "is compared with a number");
    if (c->relation & ES_NEITHER)
        fprintf(sql, " AND %s::float8 IS DISTINCT FROM $%d::float8", column, n);
    else
        fprintf(sql, " AND %s::float8 %s $%d::float8", column, c->sign, n);
    return es_copy_text(parameter, c->value);
}

static es_status add_parameter(es_remote *remote, char *parameter)
{
    es_status status =
        es_grow(&remote->parameters, (size_t)remote->n_parameters + 1,
                sizeof *remote->parameters, "conditions");
    if (status == ES_OK)
        remote->parameters[remote->n_parameters++] = parameter;
    else
        free(parameter);
    return status;
}

/* --- by members of the configuration -------------------------------------- */

static es_status add_member(es_remote *remote, const condition *c)
{
    es_remote_condition *to;
    es_status status = es_grow(&remote->conditions, remote->n_conditions + 1,
                               sizeof *remote->conditions, "conditions");
    if (status < 0)
        return status;
    to = &remote->conditions[remote->n_conditions++];
    *to = (es_remote_condition){.relation = c->relation, .number = NAN};
    const char *key =
        strncmp(c->name, "config.", 7) == 0 ? c->name + 7 : c->name;
    if ((status = es_copy_text(&to->key, key)) < 0 ||
        (status = es_copy_text(&to->text, c->value)) < 0)
        return status;
    if (es_double_parse(&to->number, c->value) < 0)
        to->number = NAN;
    return isnan(to->number) && c->relation != ES_EQUAL &&
                   !(c->relation & ES_NEITHER)
               ? fail_condition(c->name, "is compared with a number")
               : ES_OK;
}

/**
 * The conditions of one run. They are evaluated while the members of the run's
 * configuration are visited.
 */
typedef struct choice {
    es_remote *remote;
    int rank[ES_REMOTE_CONDITIONS]; /* how each condition's name was found: 2 if
                                       it is the full name of a member, 1 if it
                                       is the name inside an object, 0 if it was
                                       not found */
    bool holds[ES_REMOTE_CONDITIONS];
} choice;

static bool holds_for(const es_remote_condition *c,
                      const es_config_member *member)
{
    if (member->kind == ES_CONFIG_NUMBER && !isnan(c->number))
        return c->relation & es_relation_of(member->number, c->number);
    return c->relation &
           (fnmatch(c->text, member->text, 0) == 0 ? ES_EQUAL : ES_NEITHER);
}

static es_status check_member(void *user, const es_config_member *member)
{
    choice *chosen = user;
    for (size_t i = 0; i < chosen->remote->n_conditions; i++) {
        es_remote_condition *c = &chosen->remote->conditions[i];
        const size_t n = strlen(member->key), n_key = strlen(c->key);
        int rank = strcmp(member->key, c->key) == 0 ? 2 : 0;
        if (!rank && n > n_key && member->key[n - n_key - 1] == '.' &&
            strcmp(member->key + n - n_key, c->key) == 0)
            rank = 1;
        if (rank <= chosen->rank[i])
            continue;
        c->seen = true;
        chosen->rank[i] = rank;
        chosen->holds[i] = holds_for(c, member);
    }
    return ES_OK;
}

static es_status is_chosen(bool *out, es_remote *remote, es_reader *reader,
                           size_t run)
{
    choice chosen = {.remote = remote};
    for (size_t i = 0; i < remote->n_conditions; i++)
        chosen.holds[i] = remote->conditions[i].relation & ES_NEITHER;
    es_status status =
        es_reader_config_each(reader, run, check_member, &chosen);
    *out = true;
    for (size_t i = 0; i < remote->n_conditions; i++)
        *out = *out && chosen.holds[i];
    return status;
}

static es_status leave_out(es_remote *remote, size_t run)
{
    char sql[256];
    const long long id = (long long)run + 1;
    snprintf(sql, sizeof sql,
             "DELETE FROM event WHERE run_id = %lld;"
             "DELETE FROM series WHERE run_id = %lld;"
             "DELETE FROM run WHERE run_id = %lld",
             id, id, id);
    remote->runs[run].left_out = true;
    return es_database_execute(remote->database, sql);
}

/* The index of a run in the reader equals its index in `remote`, because no run
 * has been removed before. */
es_status es_remote_leave_out(size_t *n, es_remote *remote, es_reader *reader)
{
    es_status status = ES_OK;
    bool chosen;
    *n = 0;
    for (size_t run = 0; run < remote->n_runs && status == ES_OK; run++) {
        if ((status = is_chosen(&chosen, remote, reader, run)) == ES_OK &&
            !chosen) {
            status = leave_out(remote, run);
            ++*n;
        }
    }
    for (size_t i = 0; i < remote->n_conditions && status == ES_OK; i++)
        if (remote->n_runs && !remote->url.run && !remote->conditions[i].seen)
            return es_fail(ES_EUSAGE,
                           "where=%.40s: no run's configuration has this "
                           "member; " COMPUTED,
                           remote->conditions[i].key);
    return status;
}

/* --- the URL -------------------------------------------------------------- */

static es_status take_condition(es_remote *remote, FILE *sql, char *text)
{
    condition c = {.sign = NULL};
    char *parameter = NULL;
    int i = 0;
    es_status status = take_apart(&c, text);
    if (status < 0)
        return status;
    while (i < N_COLUMNS && strcmp(columns[i].name, c.name) != 0)
        i++;
    if (i == N_COLUMNS)
        return add_member(remote, &c);
    status = (columns[i].is_text ? write_text : write_number)(
        sql, &parameter, &c, columns[i].column, remote->n_parameters + 1);
    if (status < 0) {
        free(parameter);
        return status;
    }
    return add_parameter(remote, parameter);
}

static es_status take_run(es_remote *remote, FILE *sql)
{
    char *uuid;
    es_status status = es_copy_text(&uuid, remote->url.run);
    if (status == ES_OK && (status = add_parameter(remote, uuid)) == ES_OK)
        fprintf(sql, " AND run.uuid = $%d", remote->n_parameters);
    return status;
}

es_status es_remote_where_read(es_remote *remote)
{
    size_t n, n_conditions = 0;
    FILE *sql = es_text_stream(&remote->where, &n);
    if (!sql)
        return es_fail(ES_ENOMEM, "out of memory for conditions");
    es_status status = remote->url.run ? take_run(remote, sql) : ES_OK;
    char *rest = remote->url.where, *one;
    while (status == ES_OK && rest && (one = strsep(&rest, " \t\n")))
        if (*one)
            status = ++n_conditions > ES_REMOTE_CONDITIONS
                         ? es_fail(ES_EUSAGE, "where=: more than %d conditions",
                                   ES_REMOTE_CONDITIONS)
                         : take_condition(remote, sql, one);
    if (fclose(sql) != 0 && status == ES_OK)
        status = es_fail(ES_ENOMEM, "out of memory for conditions");
    return status;
}

void es_remote_where_free(es_remote *remote)
{
    for (int i = 0; i < remote->n_parameters; i++)
        free(remote->parameters[i]);
    for (size_t i = 0; i < remote->n_conditions; i++) {
        free(remote->conditions[i].key);
        free(remote->conditions[i].text);
    }
    free(remote->parameters);
    free(remote->conditions);
    free(remote->where);
}
