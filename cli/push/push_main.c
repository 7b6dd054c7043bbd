/* Implements the command line of entropy-scan push, which pushes runs into a
 * PostgreSQL database, and prints the results. */
#include "analyzer/base/json_write.h"
#include "cli/output/output.h"
#include "cli/output/print.h"
#include "cli/program/command.h"
#include "cli/push/push.h"
#include "cli/runs/damage.h"
#include "cli/runs/gather.h"
#include "store/postgresql/postgres_schema.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Maximum number of connections if --jobs is not given. */
#define MOST_CONNECTIONS 4

typedef struct arguments {
    es_push_options push;
    char **inputs; /* (n_inputs) */
    size_t n_inputs;
    const char *to;
    es_rules_file rules;
    bool json, schema;
} arguments;

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, inputs, n_inputs)},
    ES_RECURSIVE_OPTION,
    {"to", 0, "URL",
     "the database: postgresql://USER@HOST/NAME, or any connection string of "
     "libpq; passwords are safer in ~/.pgpass, PGPASSWORD or a service file",
     ES_OPT_TEXT(arguments, to)},
    {"follow", 0, NULL,
     "keep running and push new samples as the files grow, until interrupted",
     ES_OPT_FLAG(arguments, push.follow)},
    {"poll", 0, "SECONDS", "with --follow: time between two rounds",
     ES_OPT_REAL(arguments, push.poll, 0.1, 86400),
     .expects = "seconds from 0.1 to 86400", .value = "2"},
    {"keep", 0, "DAYS",
     "delete runs from the database that ended or last changed more than DAYS "
     "ago, and do not push such runs (0: keep all)",
     ES_OPT_REAL(arguments, push.keep, 0, 1e6),
     .expects = "days from 0 to 1000000", .value = "0"},
    {"jobs", 0, "N",
     "number of files that are pushed at the same time, each through its own "
     "connection (one more than processors, but at most 4)",
     ES_OPT_INT(arguments, push.jobs, 1, 64),
     .expects = "a number from 1 to 64"},
    {"rules", 0, "FILE",
     "also find alerts by the thresholds and rules in FILE; its threshold "
     "'collapse head' also decides which heads the column low of the table "
     "sample counts",
     ES_OPT_CALL(arguments, rules, es_command_rules)},
    {"json", 0, NULL, "print the results as a JSON object",
     ES_OPT_FLAG(arguments, json)},
    {"schema", 0, NULL,
     "print the SQL that creates the tables, to be run by an administrator, "
     "and exit",
     ES_OPT_FLAG(arguments, schema)},
    {"quiet", 'q', NULL, "print only errors",
     ES_OPT_FLAG(arguments, push.quiet)},
    ES_SALVAGE_OPTION,
    ES_HELP_OPTION,
};

static int push_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan push runs --to service=runs",
     "Push new and changed runs of a folder, as from a cron job"},
    {NULL, NULL}};

const es_command es_push_command = {
    .name = "entropy-scan push",
    .synopsis = "DIR|RUN.db... --to URL [OPTION...]",
    .examples = examples,
    .summary = "push runs into a PostgreSQL database",
    .details =
        "The database holds each run once, identified by its uuid, with its\n"
        "samples, events, maps and alerts, bit for bit. A run that is still\n"
        "written is pushed up to its last sample; the next push, or\n"
        "--follow, continues from there. If a push is killed or the\n"
        "connection ends, no run is left half-written, and the next push\n"
        "continues. If a training was resumed from an earlier step, its new\n"
        "samples replace the old ones. A file that has the same run with\n"
        "different samples is refused. Trainings do not wait for a push,\n"
        "which only reads their files.\n"
        "\n"
        "The tables are in the schema entropy_scan, which the first push\n"
        "creates: run, series, sample (values as real[], a partition for\n"
        "each month in which runs started), event, alert, attention_map;\n"
        "views run_series, run_event, sample_value, layer_entropy,\n"
        "low_sample. sample.low is the number of heads below 0.05 of the\n"
        "ceiling. A missing value is the NaN 7fc007a2. New alerts are sent\n"
        "to the channel entropy_scan_alert: LISTEN entropy_scan_alert. To\n"
        "delete a run: SELECT entropy_scan.drop_run('UUID').\n"
        "\n"
        "A damaged sample is pushed as missing values, with an event, and\n"
        "the exit code is 3, or 4 if there are several files. A file that\n"
        "cannot be read or is refused is reported, the others are pushed,\n"
        "and the code is 4. A fragment of a rank also counts as failed,\n"
        "unless the database has the run that merge makes of all ranks.\n"
        "Needs the library libpq.so.5 (Debian: libpq5).",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = push_main,
};

static void print_schema(void)
{
    for (const char *const *sql = es_postgres_schema; *sql; sql++)
        fputs(*sql, stdout);
}

static es_status check_arguments(const arguments *given)
{
    if (given->schema)
        return ES_OK;
    if (!given->n_inputs)
        return es_fail(ES_EUSAGE,
                       "no run files to push: see entropy-scan push --help");
    if (!given->to)
        return es_fail(
            ES_EUSAGE,
            "no database to push to: add --to postgresql://HOST/NAME");
    return ES_OK;
}

/* --- results -------------------------------------------------------------- */

static void print_json(const es_push_result *r, const char *to, double seconds)
{
    const es_push_counts *c = &r->counts;
    es_json_writer json = {.stream = stdout};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "to", to);
    es_json_write_integer(&json, "files", (int64_t)r->files);
    es_json_write_integer(&json, "failed", (int64_t)r->failed);
    es_json_write_integer(&json, "new", (int64_t)c->runs);
    es_json_write_integer(&json, "changed", (int64_t)c->changed);
    es_json_write_integer(&json, "same", (int64_t)c->same);
    es_json_write_integer(&json, "old", (int64_t)r->old);
    es_json_write_integer(&json, "deleted", r->deleted);
    es_json_write_integer(&json, "samples", (int64_t)c->samples);
    es_json_write_integer(&json, "replaced", (int64_t)c->cut);
    es_json_write_integer(&json, "events", (int64_t)c->events);
    es_json_write_integer(&json, "maps", (int64_t)c->maps);
    es_json_write_integer(&json, "alerts", (int64_t)c->alerts);
    es_json_write_double(&json, "seconds", seconds);
    es_json_write_end(&json, "}\n");
}

static void print_text(const es_push_result *r, const char *to)
{
    const es_push_counts *c = &r->counts;
    es_print_note("%s: %llu new run%s, %llu continued, %llu unchanged: %llu "
                  "samples, %llu events, %llu alerts",
                  to, (unsigned long long)c->runs, c->runs == 1 ? "" : "s",
                  (unsigned long long)c->changed, (unsigned long long)c->same,
                  (unsigned long long)c->samples, (unsigned long long)c->events,
                  (unsigned long long)c->alerts);
    if (r->old || r->deleted)
        es_print_note(
            "%s: runs not pushed because of --keep: %llu, deleted: %lld", to,
            (unsigned long long)r->old, (long long)r->deleted);
}

static double read_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int push_inputs(arguments *given)
{
    const double begin = read_clock();
    es_postgres_url url = {0};
    es_pusher *pusher = NULL;
    es_push_result result = {.files = 0};
    given->push.inputs = given->inputs;
    given->push.n_inputs = given->n_inputs;
    given->push.rules = &given->rules;
    if (!given->push.jobs)
        given->push.jobs = es_gather_processors() < MOST_CONNECTIONS
                               ? (int)es_gather_processors() + 1
                               : MOST_CONNECTIONS;
    given->push.has_rules = es_rules_file_is_set(&given->rules);
    es_status status = es_postgres_url_read(&url, given->to);
    if (status == ES_OK && (url.where || url.run))
        status = es_fail(
            ES_EUSAGE,
            "--to %s: remove where= and run=, which only select runs to read",
            url.shown);
    if (status == ES_OK)
        status =
            es_pusher_open(&pusher, &url, given->rules.flags.collapse_head);
    if (status == ES_OK)
        status = es_push_files(&result, pusher, &given->push);
    if (pusher && given->json)
        print_json(&result, url.base, read_clock() - begin);
    else if (status == ES_OK && !given->push.quiet)
        print_text(&result, url.base);
    es_pusher_close(pusher);
    es_postgres_url_free(&url);
    if (status != ES_OK)
        return es_command_exit(status);
    return es_damage_exit(!result.failed     ? 0
                          : result.files > 1 ? ES_EXIT_SOME_FAILED
                                             : es_exit_code(ES_EIO),
                          result.files);
}

static int push_main(int argc, char **argv)
{
    arguments given = {.to = NULL};
    int code = 0;
    es_rules_file_default(&given.rules);
    es_status status =
        es_command_parse(&given, NULL, &es_push_command, argc, argv);
    if (status == ES_OK)
        status = check_arguments(&given);
    if (status != ES_OK)
        code = es_command_exit(status);
    else if (given.schema)
        print_schema();
    else
        code = push_inputs(&given);
    es_rules_file_free(&given.rules);
    free(given.inputs);
    return code;
}
