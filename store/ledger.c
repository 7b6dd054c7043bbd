/* Stores a watcher's alerts and deliveries in a database. The file is
 * untrusted: it is opened through a guard (guard.c), its schema must equal this
 * program's schema byte by byte, and every call may execute only a limited
 * number of SQLite steps. If a watcher is killed, the next watcher rolls back
 * its journal. */
#include "store/ledger.h"

#include "analyzer/base/checked.h"
#include "store/store_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEDGER_ID 0x454E574C /* "ENWL" */
#define LEDGER_VERSION 2

/* Maximum number of steps of SQLite's virtual machine in one call, which take a
   second or two. A call on millions of alerts needs far fewer steps. The limit
   stops a crafted file whose pages refer to each other many times. */
#define STEPS_MOST 100000000
/* Virtual machine steps between two checks of the limit. */
#define STEPS_EACH 1000

static const char schema[] =
    "CREATE TABLE alert(\n"
    "  alert_id INTEGER PRIMARY KEY,\n"
    "  id TEXT NOT NULL UNIQUE,\n"
    "  line TEXT NOT NULL, -- the alert in words\n"
    "  path TEXT NOT NULL,\n"
    "  uuid TEXT NOT NULL,\n"
    "  name TEXT,\n"
    "  arch TEXT,\n"
    "  title TEXT NOT NULL,\n"
    "  severity INTEGER NOT NULL,\n"
    "  onset INTEGER NOT NULL,\n"
    "  step INTEGER NOT NULL,\n"
    "  value REAL, -- NULL: unknown, as the threshold\n"
    "  threshold REAL,\n"
    "  layers BLOB NOT NULL, -- 16-bit numbers of layers\n"
    "  at TEXT NOT NULL -- ISO 8601, UTC: when it was entered\n"
    ") STRICT;\n"
    "CREATE TABLE delivery(\n"
    "  delivery_id INTEGER PRIMARY KEY,\n"
    "  alert_id INTEGER NOT NULL REFERENCES alert,\n"
    "  action TEXT NOT NULL,\n"
    "  state TEXT NOT NULL DEFAULT 'owed'\n"
    "    CHECK(state IN ('owed', 'claimed', 'delivered', 'failed')),\n"
    "  claimant INTEGER NOT NULL DEFAULT 0, -- pid\n"
    "  tries INTEGER NOT NULL DEFAULT 0,\n"
    "  note TEXT,\n"
    "  settled_at TEXT,\n"
    "  UNIQUE(alert_id, action)\n"
    ") STRICT;\n"
    "CREATE INDEX owed ON delivery(delivery_id)\n"
    "  WHERE state IN ('owed', 'claimed');\n";

enum { SQL_ALERT, SQL_DELIVERY, SQL_NEXT, SQL_CLAIM, SQL_SETTLE, N_SQL };

static const char *const texts[N_SQL] = {
    [SQL_ALERT] = "INSERT OR IGNORE INTO alert(id, line, path, uuid, name, "
                  "arch, title, severity, onset, step, value, threshold, "
                  "layers, at) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
                  "?11, ?12, ?13, ?14)",
    [SQL_DELIVERY] = "INSERT INTO delivery(alert_id, action) VALUES(?1, ?2)",
    [SQL_NEXT] = "SELECT action, id, line, path, uuid, name, arch, title, "
                 "severity, onset, step, value, threshold, layers, "
                 "delivery_id, tries, claimant "
                 "FROM delivery JOIN alert USING(alert_id) "
                 "WHERE delivery_id > ?1 AND state IN ('owed', 'claimed') "
                 "ORDER BY delivery_id LIMIT 1",
    [SQL_CLAIM] = "UPDATE delivery SET state = 'claimed', claimant = ?3 "
                  "WHERE delivery_id = ?1 AND claimant = ?2 "
                  "AND state IN ('owed', 'claimed')",
    [SQL_SETTLE] = "UPDATE delivery SET state = ?2, claimant = 0, "
                   "tries = tries + ?3, note = ?4, settled_at = ?5 "
                   "WHERE delivery_id = ?1",
};

enum {
    N_STRINGS = 8
}; /* number of text columns, which come first in the rows
      of SQL_NEXT */

struct es_ledger {
    es_guard guard;
    es_database database;
    int64_t n_steps; /* number of virtual machine steps in the current call */
    sqlite3_stmt *statements[N_SQL];
    char *strings[N_STRINGS]; /* strings of the last delivery that was
                                 returned */
};

/* --- the file ------------------------------------------------------------- */

static es_status create_tables(es_ledger *ledger)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             "PRAGMA application_id = %d; PRAGMA user_version = %d", LEDGER_ID,
             LEDGER_VERSION);
    es_status status = es_database_execute(&ledger->database, schema);
    return status < 0 ? status : es_database_execute(&ledger->database, sql);
}

/* Copies the text in a column, so that the caller can reset the statement; a
   statement with an open row would block other writers. */
static es_status copy_text(char **out, sqlite3_stmt *s, int column)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    return es_copy_text(out, text ? (const char *)text : "");
}

/* Reads the statements of a database's whole schema, in a fixed order, into one
 * string. */
static es_status read_schema(char **out, const es_database *database)
{
    sqlite3_stmt *s = NULL;
    es_status status = es_database_prepare(
        database, &s,
        "SELECT group_concat(quote(type) || quote(name) || quote(tbl_name) || "
        "quote(sql)) FROM (SELECT * FROM sqlite_schema ORDER BY type, name)");
    if (status != ES_OK)
        return status;
    status = es_database_status(database, sqlite3_step(s));
    if (status == ES_OK)
        status = copy_text(out, s, 0);
    sqlite3_finalize(s);
    return status;
}

static es_status our_schema(char **out)
{
    es_database database = {.path = "memory", .state = true};
    int rc = sqlite3_open(":memory:", &database.handle);
    es_status status;
    if ((status = es_database_status(&database, rc)) < 0 ||
        (status = es_database_execute(&database, schema)) < 0)
        goto done;
    status = read_schema(out, &database);
done:
    sqlite3_close(database.handle);
    return status;
}

static es_status fail_foreign(const es_database *database)
{
    return es_fail(ES_EFORMAT,
                   "%s: not a watcher's state: name another file, or remove it",
                   database->path);
}

/* Checks the application_id and the schema. The schema must match exactly,
   because a trigger could suppress alerts, and another table or index could
   change their meaning. */
static es_status check_schema(es_ledger *ledger, int64_t id, const char *found)
{
    int64_t version;
    char *wanted = NULL;
    const es_database *database = &ledger->database;
    es_status status =
        es_database_integer(database, "PRAGMA user_version", &version);
    if (status != ES_OK)
        return status;
    if (id != LEDGER_ID)
        return fail_foreign(database);
    if (version != LEDGER_VERSION)
        return es_fail(
            ES_EVERSION,
            "%s: schema %lld differs from this program's %d: use the "
            "version of entropy-scan that made it, or remove the file; every "
            "alert is then reported again",
            database->path, (long long)version, LEDGER_VERSION);
    status = our_schema(&wanted);
    if (status == ES_OK && strcmp(found, wanted) != 0)
        status = fail_foreign(database);
    free(wanted);
    return status;
}

/* Creates or checks the schema in one transaction, so that of two processes
   that open a new file at the same time only one creates it. */
static es_status make_or_check(es_ledger *ledger)
{
    int64_t id;
    char *found = NULL;
    const es_database *database = &ledger->database;
    es_status status = es_database_execute(database, "BEGIN IMMEDIATE");
    if (status != ES_OK)
        return status;
    if ((status = es_database_integer(database, "PRAGMA application_id", &id)) <
            0 ||
        (status = read_schema(&found, database)) < 0 ||
        (status = id || found[0] ? check_schema(ledger, id, found)
                                 : create_tables(ledger)) < 0)
        goto done;
    status = es_database_execute(database, "COMMIT");
done:
    free(found);
    return status;
}

/* Refuses a run file. A run file may be in WAL mode, and SQLite would then use
 * its write-ahead log. In WAL mode the bytes at offsets 18 and 19 of an SQLite
 * file are 2. SQLite itself reports a missing file and a file that is not an
 * SQLite database. */
static es_status refuse_wal(const es_database *database)
{
    sqlite3_file *file = NULL;
    unsigned char versions[2];
    sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_FILE_POINTER,
                         &file);
    if (!file || !file->pMethods)
        return es_fail(ES_EINTERNAL, "%s: not open", database->path);
    int rc = file->pMethods->xRead(file, versions, sizeof versions, 18);
    return rc == SQLITE_OK && (versions[0] == 2 || versions[1] == 2)
               ? fail_foreign(database)
               : ES_OK;
}

static int count_steps(void *user)
{
    es_ledger *ledger = user;
    ledger->n_steps += STEPS_EACH;
    return ledger->n_steps > STEPS_MOST;
}

static es_status open_file(es_ledger *ledger, const char *path)
{
    es_database *database = &ledger->database;
    database->state = true;
    database->refusal = ledger->guard.refusal;
    es_status status = es_database_locate(database, path);
    if (status != ES_OK)
        return status;
    int rc = es_guard_open(&ledger->guard, &database->handle, database->file,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                               SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX);
    if (rc != SQLITE_OK)
        return es_database_fail(database, rc);
    sqlite3_progress_handler(database->handle, STEPS_EACH, count_steps, ledger);
    /* With synchronous = FULL, an alert is on the disk before it is
       delivered. */
    if ((status = refuse_wal(database)) < 0 ||
        (status = es_database_harden(database)) < 0 ||
        (status = es_database_execute(database, "PRAGMA synchronous = FULL")) <
            0)
        return status;
    return make_or_check(ledger);
}

es_status es_ledger_open(es_ledger **out, const char *path)
{
    es_ledger *ledger;
    es_status status = es_alloc(&ledger, 1, sizeof *ledger, "a state");
    if (status < 0)
        return status;
    if ((status = open_file(ledger, path)) < 0 ||
        (status = es_database_prepare_all(&ledger->database, ledger->statements,
                                          texts, N_SQL)) < 0)
        es_ledger_close(ledger);
    else
        *out = ledger;
    return status;
}

static void forget_strings(es_ledger *ledger)
{
    for (size_t i = 0; i < sizeof ledger->strings / sizeof(char *); i++) {
        free(ledger->strings[i]);
        ledger->strings[i] = NULL;
    }
}

void es_ledger_close(es_ledger *ledger)
{
    if (!ledger)
        return;
    es_database_finalise_all(&ledger->database, ledger->statements, N_SQL);
    forget_strings(ledger);
    es_database_close(&ledger->database);
    free(ledger);
}

/* --- transactions --------------------------------------------------------- */

/* Must be called first in each public function. Refuses to work in a forked
   child, and resets the number of steps. */
static es_status enter_ledger(es_ledger *ledger)
{
    ledger->n_steps = 0;
    return es_database_check_owner(&ledger->database);
}

static es_status begin_transaction(es_ledger *ledger)
{
    es_status status = enter_ledger(ledger);
    return status < 0
               ? status
               : es_database_execute(&ledger->database, "BEGIN IMMEDIATE");
}

/* Ends a transaction: commits if `status` is ES_OK, else rolls back. After a
 * failure, es_message() is that of the first failure. */
static es_status end_transaction(es_ledger *ledger, es_status status)
{
    if (status == ES_OK)
        status = es_database_execute(&ledger->database, "COMMIT");
    if (status != ES_OK)
        sqlite3_exec(ledger->database.handle, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* Runs a statement that returns no rows. Sets *n_changed to the number of
 * changed rows. */
static es_status run_statement(es_ledger *ledger, int statement,
                               int64_t *n_changed)
{
    sqlite3_stmt *s = ledger->statements[statement];
    es_status status = es_database_status(&ledger->database, sqlite3_step(s));
    if (n_changed)
        *n_changed = sqlite3_changes(ledger->database.handle);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return status;
}

static es_status add_deliveries(es_ledger *ledger, const char *const *actions,
                                size_t n_actions)
{
    int64_t alert = sqlite3_last_insert_rowid(ledger->database.handle);
    es_status status = ES_OK;
    for (size_t i = 0; i < n_actions && status == ES_OK; i++) {
        sqlite3_stmt *s = ledger->statements[SQL_DELIVERY];
        sqlite3_bind_int64(s, 1, alert);
        es_bind_text(s, 2, actions[i]);
        status = run_statement(ledger, SQL_DELIVERY, NULL);
    }
    return status;
}

es_status es_ledger_add(es_ledger *ledger, const es_alert *alert,
                        const char *const *actions, size_t n_actions,
                        bool *fresh)
{
    const char *const strings[] = {alert->id,   alert->text, alert->path,
                                   alert->uuid, alert->name, alert->arch,
                                   alert->title};
    enum { N = sizeof strings / sizeof *strings };
    uint16_t layers[ES_ALERT_LAYERS];
    char now[ES_TIME_SIZE];
    int64_t n_added = 0;
    es_time_now(now);
    es_status status = begin_transaction(ledger);
    if (status != ES_OK)
        return status;
    sqlite3_stmt *s = ledger->statements[SQL_ALERT];
    for (int i = 0; i < N; i++)
        es_bind_text(s, i + 1, strings[i]);
    sqlite3_bind_int(s, N + 1, (int)alert->severity);
    sqlite3_bind_int64(s, N + 2, alert->onset);
    sqlite3_bind_int64(s, N + 3, alert->step);
    sqlite3_bind_double(s, N + 4, alert->value); /* NaN is stored as NULL */
    sqlite3_bind_double(s, N + 5, alert->threshold);
    for (int i = 0; i < alert->n_layers; i++)
        layers[i] = (uint16_t)alert->layers[i];
    sqlite3_bind_blob(s, N + 6, layers, alert->n_layers * (int)sizeof *layers,
                      SQLITE_TRANSIENT);
    es_bind_text(s, N + 7, now);
    status = run_statement(ledger, SQL_ALERT, &n_added);
    if (status == ES_OK && n_added)
        status = add_deliveries(ledger, actions, n_actions);
    status = end_transaction(ledger, status);
    *fresh = status == ES_OK && n_added;
    return status;
}

/* --- deliveries ----------------------------------------------------------- */

/* Copies the layers of an alert and checks the alert, because another program
 * may have changed the file. */
static es_status copy_layers(es_alert *out, const es_ledger *ledger,
                             sqlite3_stmt *s, int column)
{
    uint16_t layers[ES_ALERT_LAYERS];
    const size_t n = (size_t)sqlite3_column_bytes(s, column);
    if (!out->id || !out->text || !out->path || !out->uuid || !out->title ||
        out->severity < ES_SEVERITY_NONE ||
        out->severity > ES_SEVERITY_CRITICAL || n > sizeof layers ||
        n % sizeof *layers)
        return es_fail(ES_EFORMAT,
                       "%s: damaged (an alert has impossible values): remove "
                       "the file; every alert is then reported again",
                       ledger->database.path);
    if (n)
        memcpy(layers, sqlite3_column_blob(s, column), n);
    out->n_layers = (int)(n / sizeof *layers);
    for (int i = 0; i < out->n_layers; i++)
        out->layers[i] = layers[i];
    return ES_OK;
}

static double read_number(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL
               ? (double)NAN
               : sqlite3_column_double(s, column);
}

static es_status copy_row(es_delivery *out, es_ledger *ledger, sqlite3_stmt *s)
{
    char **strings = ledger->strings;
    es_status status = ES_OK;
    forget_strings(ledger);
    for (int i = 0; i < N_STRINGS && status == ES_OK; i++)
        if (sqlite3_column_type(s, i) != SQLITE_NULL)
            status = copy_text(&strings[i], s, i);
    if (status != ES_OK)
        return status;
    *out = (es_delivery){
        .number = sqlite3_column_int64(s, N_STRINGS + 6),
        .action = strings[0],
        .alert = {.id = strings[1],
                  .text = strings[2],
                  .path = strings[3],
                  .uuid = strings[4],
                  .name = strings[5],
                  .arch = strings[6],
                  .title = strings[7],
                  .severity = (es_severity)sqlite3_column_int(s, N_STRINGS),
                  .onset = sqlite3_column_int64(s, N_STRINGS + 1),
                  .step = sqlite3_column_int64(s, N_STRINGS + 2),
                  .value = read_number(s, N_STRINGS + 3),
                  .threshold = read_number(s, N_STRINGS + 4)},
        .tries = sqlite3_column_int64(s, N_STRINGS + 7),
        .claimant = sqlite3_column_int64(s, N_STRINGS + 8),
    };
    return copy_layers(&out->alert, ledger, s, N_STRINGS + 5);
}

es_status es_ledger_next(es_ledger *ledger, int64_t after, es_delivery *out)
{
    sqlite3_stmt *s = ledger->statements[SQL_NEXT];
    es_status status = enter_ledger(ledger);
    if (status != ES_OK)
        return status;
    sqlite3_bind_int64(s, 1, after);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        status = copy_row(out, ledger, s);
    else
        status = es_database_status(&ledger->database, rc);
    sqlite3_reset(s);
    return status == ES_OK && rc != SQLITE_ROW ? ES_DONE : status;
}

es_status es_ledger_claim(es_ledger *ledger, int64_t number, int64_t from,
                          int64_t claimant)
{
    int64_t n_claimed = 0;
    es_status status = begin_transaction(ledger);
    if (status != ES_OK)
        return status;
    sqlite3_stmt *s = ledger->statements[SQL_CLAIM];
    sqlite3_bind_int64(s, 1, number);
    sqlite3_bind_int64(s, 2, from);
    sqlite3_bind_int64(s, 3, claimant);
    status =
        end_transaction(ledger, run_statement(ledger, SQL_CLAIM, &n_claimed));
    return status == ES_OK && !n_claimed ? ES_DONE : status;
}

/* Fails because a delivery is missing. Deliveries are never deleted, so another
   program must have replaced the file. */
static es_status fail_replaced(const es_ledger *ledger)
{
    return es_fail(ES_EFORMAT,
                   "%s: the delivery is no longer in the file: another "
                   "program has replaced the file",
                   ledger->database.path);
}

es_status es_ledger_settle(es_ledger *ledger, int64_t number,
                           es_delivery_outcome outcome, const char *note)
{
    static const char *const states[] = {[ES_OUTCOME_DELIVERED] = "delivered",
                                         [ES_OUTCOME_AGAIN] = "owed",
                                         [ES_OUTCOME_FAILED] = "failed"};
    char now[ES_TIME_SIZE];
    int64_t n_settled = 0;
    es_time_now(now);
    es_status status = begin_transaction(ledger);
    if (status != ES_OK)
        return status;
    sqlite3_stmt *s = ledger->statements[SQL_SETTLE];
    sqlite3_bind_int64(s, 1, number);
    es_bind_text(s, 2, states[outcome]);
    sqlite3_bind_int(s, 3, outcome != ES_OUTCOME_DELIVERED);
    es_bind_text(s, 4, note);
    es_bind_text(s, 5, outcome == ES_OUTCOME_AGAIN ? NULL : now);
    status =
        end_transaction(ledger, run_statement(ledger, SQL_SETTLE, &n_settled));
    return status == ES_OK && !n_settled ? fail_replaced(ledger) : status;
}

es_status es_ledger_count(es_ledger *ledger, es_ledger_counts *out)
{
#define COUNT "SELECT count(*) FROM delivery WHERE state IN "
    const struct {
        int64_t *out;
        const char *sql;
    } counts[] = {
        /* SQLite executes count(*) over a whole table as a single step of its
           virtual machine, however long it takes, and the limit on steps could
           not stop it. count(id) takes a step per row. */
        {&out->alerts, "SELECT count(id) FROM alert"},
        {&out->delivered, COUNT "('delivered')"},
        {&out->owed, COUNT "('owed', 'claimed')"},
        {&out->failed, COUNT "('failed')"},
    };
#undef COUNT
    es_status status = enter_ledger(ledger);
    for (size_t i = 0; status == ES_OK && i < sizeof counts / sizeof *counts;
         i++)
        status = es_database_integer(&ledger->database, counts[i].sql,
                                     counts[i].out);
    return status;
}
