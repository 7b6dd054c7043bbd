/* Tests the ledger in which watchers enter alerts and their deliveries: each
   alert is entered once, and only one process makes each delivery. */
#include "store/ledger.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

AUTO_OF(es_ledger, es_ledger_close)

static const char *const actions[] = {"print", "exec"};

static es_ledger *open_ledger(void **state, const char *name)
{
    es_ledger *ledger = NULL;
    es_assert_ok(es_ledger_open(&ledger, es_folder_file(state, name)));
    return ledger;
}

static es_alert alert_of(const char *id)
{
    return (es_alert){.id = id,
                      .text = "/a.db (SM): collapse",
                      .path = "/a.db",
                      .uuid = "u",
                      .arch = "SM",
                      .title = "collapse",
                      .severity = ES_SEVERITY_ERROR,
                      .onset = 130,
                      .step = INT64_C(9007199254740993),
                      .value = 0.75,
                      .threshold = NAN,
                      .layers = {0, 3, 4095},
                      .n_layers = 3};
}

static es_status try_to_add(es_ledger *ledger, const char *id, bool *fresh)
{
    const es_alert alert = alert_of(id);
    return es_ledger_add(ledger, &alert, actions, 2, fresh);
}

static bool add(es_ledger *ledger, const char *id)
{
    bool fresh;
    es_assert_ok(try_to_add(ledger, id, &fresh));
    return fresh;
}

static void assert_counts(es_ledger *ledger, int64_t alerts, int64_t delivered,
                          int64_t owed, int64_t failed)
{
    es_ledger_counts counts;
    es_assert_ok(es_ledger_count(ledger, &counts));
    assert_int_equal(counts.alerts, alerts);
    assert_int_equal(counts.delivered, delivered);
    assert_int_equal(counts.owed, owed);
    assert_int_equal(counts.failed, failed);
}

TEST(an_alert_is_entered_once)
{
    AUTO(es_ledger) ledger = open_ledger(state, "once.db");
    assert_true(add(ledger, "u/alert:nan@3:critical"));
    assert_false(add(ledger, "u/alert:nan@3:critical"));
    assert_true(add(ledger, "u/alert:nan@4:critical"));
    assert_counts(ledger, 2, 0, 4, 0);
    es_ledger_close(ledger);
    ledger = open_ledger(state, "once.db");
    assert_false(add(ledger, "u/alert:nan@4:critical"));
    assert_counts(ledger, 2, 0, 4, 0);
}

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A limit on the size of files stops the writing of the ledger or its journal
   at many different places, also in the middle of a page. */
TEST(a_file_size_limit_is_named)
{
    int n_failed = 0;
    bool fresh;
    const char *path = es_folder_file(state, "limit.db");
    es_ledger_close(open_ledger(state, "limit.db"));
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 512; bytes < 65536; bytes += 512) {
        AUTO(es_ledger) ledger = NULL;
        char id[32];
        snprintf(id, sizeof id, "alert %d", (int)bytes);
        set_file_limit(bytes);
        es_status status = es_ledger_open(&ledger, path);
        if (status == ES_OK)
            status = try_to_add(ledger, id, &fresh);
        set_file_limit(RLIM_INFINITY);
        if (status == ES_OK)
            continue;
        n_failed++;
        assert_int_equal(status, ES_EIO);
        if (!strstr(es_message(), "File too large"))
            fail_msg("%d bytes: %s", (int)bytes, es_message());
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_in_range(n_failed, 20, 100);
}

TEST(deliveries_are_in_order)
{
    AUTO(es_ledger) ledger = open_ledger(state, "order.db");
    es_delivery next;
    int64_t after = 0;
    assert_int_equal(es_ledger_next(ledger, 0, &next), ES_DONE);
    add(ledger, "first");
    add(ledger, "second");
    for (int i = 0; i < 4; i++) {
        es_assert_ok(es_ledger_next(ledger, after, &next));
        assert_string_equal(next.alert.id, i < 2 ? "first" : "second");
        assert_string_equal(next.action, actions[i % 2]);
        assert_int_equal(next.tries, 0);
        assert_int_equal(next.claimant, 0);
        assert_true(next.number > after);
        after = next.number;
    }
    assert_int_equal(es_ledger_next(ledger, after, &next), ES_DONE);
}

TEST(an_alert_is_stored_completely)
{
    AUTO(es_ledger) ledger = open_ledger(state, "whole-alert.db");
    es_delivery next;
    add(ledger, "u/alert:collapse@130:error");
    es_assert_ok(es_ledger_next(ledger, 0, &next));
    assert_string_equal(next.alert.text, "/a.db (SM): collapse");
    assert_string_equal(next.alert.path, "/a.db");
    assert_string_equal(next.alert.uuid, "u");
    assert_null(next.alert.name);
    assert_string_equal(next.alert.arch, "SM");
    assert_string_equal(next.alert.title, "collapse");
    assert_int_equal(next.alert.severity, ES_SEVERITY_ERROR);
    assert_int_equal(next.alert.onset, 130);
    assert_true(next.alert.step == INT64_C(9007199254740993));
    assert_true(next.alert.value == 0.75 && isnan(next.alert.threshold));
    assert_int_equal(next.alert.n_layers, 3);
    assert_int_equal(next.alert.layers[2], 4095);
}

/* Another program may write any values into the columns. */
TEST(impossible_values_of_an_alert_are_refused)
{
    static const char *const changes[] = {
        "severity = 99",
        "severity = -7",
        "layers = x'010203'",
        "layers = zeroblob(9999)",
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char sql[96];
        const char *path = es_folder_file(state, "changed.db");
        unlink(path);
        es_ledger *ledger = open_ledger(state, "changed.db");
        es_delivery next;
        add(ledger, "one");
        es_ledger_close(ledger);
        snprintf(sql, sizeof sql, "UPDATE alert SET %s", changes[i]);
        es_sqlite(path, sql);
        ledger = open_ledger(state, "changed.db");
        es_assert_status(ES_EFORMAT, "impossible values",
                         es_ledger_next(ledger, 0, &next));
        es_ledger_close(ledger);
    }
}

TEST(a_delivery_has_one_claimant)
{
    AUTO(es_ledger) ledger = open_ledger(state, "claim.db");
    AUTO(es_ledger) other = open_ledger(state, "claim.db");
    es_delivery next;
    add(ledger, "one");
    es_assert_ok(es_ledger_next(ledger, 0, &next));
    es_assert_ok(es_ledger_claim(ledger, next.number, 0, 11));
    assert_int_equal(es_ledger_claim(other, next.number, 0, 12), ES_DONE);
    es_assert_ok(es_ledger_next(other, 0, &next));
    assert_int_equal(next.claimant, 11);
    /* Process 11 has exited, so another process can take over its claim, but
     * only one. */
    es_assert_ok(es_ledger_claim(other, next.number, 11, 12));
    assert_int_equal(es_ledger_claim(ledger, next.number, 11, 13), ES_DONE);
    es_assert_ok(es_ledger_settle(other, next.number, ES_OUTCOME_AGAIN,
                                  "connection refused"));
    es_assert_ok(es_ledger_next(ledger, 0, &next));
    assert_int_equal(next.claimant, 0);
    assert_int_equal(next.tries, 1);
    es_assert_ok(es_ledger_claim(ledger, next.number, 0, 11));
    es_assert_ok(
        es_ledger_settle(ledger, next.number, ES_OUTCOME_DELIVERED, NULL));
    assert_counts(ledger, 1, 1, 1, 0);
    assert_int_equal(es_ledger_claim(ledger, next.number, 0, 11), ES_DONE);
    es_assert_ok(es_ledger_next(ledger, 0, &next));
    es_assert_ok(es_ledger_claim(ledger, next.number, 0, 11));
    es_assert_ok(
        es_ledger_settle(ledger, next.number, ES_OUTCOME_FAILED, "gone"));
    assert_counts(ledger, 1, 1, 0, 1);
    assert_int_equal(es_ledger_next(ledger, 0, &next), ES_DONE);
    assert_int_equal(
        es_ledger_settle(ledger, next.number + 1, ES_OUTCOME_DELIVERED, NULL),
        ES_EFORMAT);
    assert_non_null(
        strstr(es_message(), "claim.db: the delivery is no longer"));
}

/* Claims as many deliveries as possible, and writes one byte to the descriptor
   `to` for each of them. */
static void claim_all(const char *path, int to)
{
    es_ledger *ledger = NULL;
    es_delivery next;
    int64_t after = 0;
    if (es_ledger_open(&ledger, path) != ES_OK)
        _exit(1);
    while (es_ledger_next(ledger, after, &next) == ES_OK) {
        after = next.number;
        es_status status = next.claimant
                               ? ES_DONE
                               : es_ledger_claim(ledger, after, 0, getpid());
        if (status < 0 || (status == ES_OK && write(to, "x", 1) != 1))
            _exit(2);
    }
    es_ledger_close(ledger);
    _exit(0);
}

TEST(processes_that_race_share_the_work)
{
    enum { CHILDREN = 4, ALERTS = 20 };
    char id[24], bytes[3 * ALERTS];
    int ends[2], status;
    const char *path = es_folder_file(state, "race.db");
    es_ledger *ledger = open_ledger(state, "race.db");
    for (int i = 0; i < ALERTS; i++) {
        snprintf(id, sizeof id, "alert %d", i);
        add(ledger, id);
    }
    es_ledger_close(ledger);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < CHILDREN; i++)
        if (fork() == 0)
            claim_all(path, ends[1]);
    close(ends[1]);
    for (int i = 0; i < CHILDREN; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    ssize_t n = 0, more;
    while ((more = read(ends[0], bytes + n, sizeof bytes - (size_t)n)) > 0)
        n += more;
    close(ends[0]);
    assert_int_equal(n, 2 * ALERTS);
}

/* Enters alerts until the process is killed. */
static void enter_for_ever(const char *path, int says_the_first)
{
    es_ledger *ledger = NULL;
    bool fresh;
    char id[32];
    if (es_ledger_open(&ledger, path) != ES_OK)
        _exit(1);
    for (int i = 0;; i++) {
        snprintf(id, sizeof id, "alert %d", i);
        if (try_to_add(ledger, id, &fresh) != ES_OK)
            _exit(2);
        if (i == 0 && write(says_the_first, "1", 1) != 1)
            _exit(3);
    }
}

/* Kills a process while it enters alerts. No alert may be entered partly or
 * twice. In every second round the kill may come before the first alert is
 * entered. */
TEST(a_kill_leaves_alerts_whole)
{
    const char *path = es_folder_file(state, "kill.db");
    for (int i = 0; i < 20; i++) {
        int ends[2];
        char first;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0)
            enter_for_ever(path, ends[1]);
        close(ends[1]);
        if (i % 2)
            assert_int_equal(read(ends[0], &first, 1), 1);
        const struct timespec nap = {.tv_nsec = 3000000L * (i + 3)};
        int status;
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(ends[0]);
        assert_true(WIFSIGNALED(status));
        es_ledger *ledger = open_ledger(state, "kill.db");
        es_ledger_counts counts;
        es_assert_ok(es_ledger_count(ledger, &counts));
        assert_int_equal(counts.owed, 2 * counts.alerts);
        es_ledger_close(ledger);
        assert_string_equal(es_sqlite(path, "PRAGMA integrity_check"), "ok");
    }
    assert_true(atoi(es_sqlite(path, "SELECT count(*) FROM alert")) > 0);
}

TEST(files_of_others_are_left_alone)
{
    es_ledger *ledger = NULL;
    size_t n_before, n_after;
    const char *run = es_folder_file(state, "run.db");
    es_write_run(run, "run", 3);
    AUTO_FREE unsigned char *before = es_file_read(run, &n_before);
    es_assert_status(ES_EFORMAT, "not a watcher's state",
                     es_ledger_open(&ledger, run));
    AUTO_FREE unsigned char *after = es_file_read(run, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_after);
    assert_false(es_file_exists_beside(run, "-wal"));
    assert_false(es_file_exists_beside(run, "-shm"));
    const char *text = es_folder_file(state, "text.db");
    es_file_write(text, "twelve bytes", 12);
    assert_true(es_ledger_open(&ledger, text) < 0);
    assert_true(es_ledger_open(&ledger, es_folder_file(state, "no/x.db")) < 0);
    assert_non_null(strstr(es_message(), "no/x.db"));
    ledger = open_ledger(state, "newer.db");
    es_ledger_close(ledger);
    es_sqlite(es_folder_file(state, "newer.db"), "PRAGMA user_version = 9");
    es_assert_status(
        ES_EVERSION, "schema 9",
        es_ledger_open(&ledger, es_folder_file(state, "newer.db")));
    assert_int_equal(symlink("newer.db", es_folder_file(state, "link.db")), 0);
    assert_true(es_ledger_open(&ledger, es_folder_file(state, "link.db")) < 0);
}

TEST(a_forked_child_cannot_use_the_ledger)
{
    AUTO(es_ledger) ledger = open_ledger(state, "fork.db");
    add(ledger, "one");
    pid_t child = fork();
    if (child == 0) {
        bool fresh;
        es_delivery next;
        bool refused = try_to_add(ledger, "two", &fresh) == ES_EFORK &&
                       es_ledger_next(ledger, 0, &next) == ES_EFORK;
        es_ledger_close(ledger);
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_counts(ledger, 1, 0, 2, 0);
}

/* --- crafted files -------------------------------------------------------- */

static void assert_refused(const char *path, es_status code, const char *words)
{
    es_ledger *ledger = NULL;
    alarm(ES_PATIENCE_S); /* fails the test if opening a FIFO blocks */
    es_assert_status(code, words, es_ledger_open(&ledger, path));
    alarm(0);
    assert_null(ledger);
}

static void copy_file(const char *to, const char *from)
{
    size_t n;
    AUTO_FREE unsigned char *bytes = es_file_read(from, &n);
    es_file_write(to, bytes, n);
}

static char *beside(const char *path, const char *suffix)
{
    static char name[4300];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return name;
}

static void run_sql(sqlite3 *handle, const char *sql)
{
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* Creates the file `name` in the state that a kill within a transaction leaves:
   changed pages, and a journal with the earlier contents of these pages. */
static char *make_hot(void **state, const char *name)
{
    sqlite3 *handle = NULL;
    char id[24], *whole = es_folder_file(state, "whole.db");
    char *path = es_folder_file(state, name);
    unlink(whole);
    es_ledger *ledger = open_ledger(state, "whole.db");
    for (int i = 0; i < 60; i++) {
        snprintf(id, sizeof id, "alert %d", i);
        add(ledger, id);
    }
    es_ledger_close(ledger);
    assert_int_equal(sqlite3_open(whole, &handle), SQLITE_OK);
    run_sql(handle, "PRAGMA cache_size = 1; BEGIN IMMEDIATE;"
                    "UPDATE alert SET line = 'half done';"
                    "UPDATE delivery SET note = 'half done'");
    copy_file(path, whole);
    copy_file(beside(path, "-journal"),
              es_folder_file(state, "whole.db-journal"));
    run_sql(handle, "ROLLBACK");
    sqlite3_close(handle);
    return path;
}

static bool holds(const char *path, const char *words)
{
    size_t n;
    unsigned char *bytes = es_file_read(path, &n);
    bool found = memmem(bytes, n, words, strlen(words)) != NULL;
    free(bytes);
    return found;
}

TEST(a_hot_journal_is_rolled_back)
{
    es_delivery next;
    char *path = make_hot(state, "hot.db");
    assert_true(holds(path, "half done"));
    es_ledger *ledger = open_ledger(state, "hot.db");
    assert_false(es_file_exists_beside(path, "-journal"));
    assert_counts(ledger, 60, 0, 120, 0);
    es_assert_ok(es_ledger_next(ledger, 0, &next));
    assert_string_equal(next.alert.text, "/a.db (SM): collapse");
    es_ledger_close(ledger);
    assert_string_equal(es_sqlite(path, "PRAGMA integrity_check"), "ok");
}

static void put_big_endian(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Appends the name of a super-journal to a journal, as SQLite does for a
   transaction over several databases. */
static void name_super_journal(const char *journal, const char *name)
{
    static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9,
                                           0x20, 0xa1, 0x63, 0xd7};
    unsigned char page[4], after[8];
    size_t n = strlen(name);
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (unsigned char)name[i];
    put_big_endian(page, (1u << 30) / 4096 + 1);
    put_big_endian(after, (uint32_t)n);
    put_big_endian(after + 4, sum);
    FILE *file = fopen(journal, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(page, 1, 4, file), 4);
    assert_int_equal(fwrite(name, 1, n, file), n);
    assert_int_equal(fwrite(after, 1, 8, file), 8);
    assert_int_equal(fwrite(magic, 1, 8, file), 8);
    assert_int_equal(fclose(file), 0);
}

TEST(a_journal_that_names_a_file_deletes_none)
{
    char *victim = es_folder_file(state, "victim");
    char *path = make_hot(state, "super.db");
    es_file_write(victim, "precious", 9);
    name_super_journal(beside(path, "-journal"), victim);
    assert_refused(path, ES_EIO, "-journal names another file");
    assert_true(es_file_exists(victim));
    assert_true(es_file_exists_beside(path, "-journal"));
    assert_true(holds(path, "half done"));
}

TEST(another_schema_is_refused)
{
    static const char *const sql[] = {
        "CREATE TRIGGER silence BEFORE INSERT ON alert "
        "BEGIN SELECT raise(IGNORE); END",
        "CREATE TRIGGER endless AFTER INSERT ON alert BEGIN "
        "INSERT INTO alert SELECT NULL, hex(randomblob(9)), '', 1, ''; END",
        "CREATE VIEW further AS SELECT * FROM alert",
        "CREATE TABLE further(x)",
        "CREATE INDEX further ON alert(at)",
        "DROP INDEX owed",
        "DROP TABLE delivery",
    };
    for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
        char *path = es_folder_file(state, "schema.db");
        unlink(path);
        es_ledger_close(open_ledger(state, "schema.db"));
        es_sqlite(path, sql[i]);
        assert_refused(path, ES_EFORMAT, "schema.db: not a watcher's state");
    }
}

TEST(special_files_and_links_are_refused)
{
    char *path = es_folder_file(state, "special.db");
    char *other = es_folder_file(state, "other.db");
    char *journal = es_folder_file(state, "special.db-journal");
    es_ledger_close(open_ledger(state, "other.db"));
    assert_int_equal(link(other, path), 0);
    assert_refused(path, ES_EIO, "special.db: is a hard link");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, ES_EIO, "special.db: is not a regular file");
    unlink(path);
    es_ledger_close(open_ledger(state, "special.db"));
    assert_int_equal(mkfifo(journal, 0600), 0);
    assert_refused(path, ES_EIO, "-journal is not a regular file");
    unlink(journal);
    assert_int_equal(symlink(other, journal), 0);
    assert_refused(path, ES_EIO, "-journal is not a regular file");
    unlink(journal);
    assert_int_equal(link(other, journal), 0);
    assert_refused(path, ES_EIO, "-journal is a hard link");
    unlink(journal);
    es_file_write(beside(path, "-wal"), "", 0);
    assert_refused(path, ES_EIO, "-wal was not made");
    unlink(beside(path, "-wal"));
    es_ledger_close(open_ledger(state, "special.db"));
}

/* Checking the journal when the file is opened is not enough, because SQLite
   opens the journal later. */
TEST(a_journal_that_appears_later_is_refused)
{
    bool fresh;
    char *journal = es_folder_file(state, "later.db-journal");
    es_ledger *ledger = open_ledger(state, "later.db");
    assert_int_equal(mkfifo(journal, 0600), 0);
    alarm(ES_PATIENCE_S);
    es_assert_status(ES_EIO, "-journal is not a regular file",
                     try_to_add(ledger, "x", &fresh));
    alarm(0);
    es_ledger_close(ledger);
    unlink(journal);
}

TEST(files_of_other_users_are_refused)
{
    if (geteuid() != 0)
        es_skip("only root can give a file away");
    char *path = make_hot(state, "owner.db");
    char *journal = beside(path, "-journal");
    assert_int_equal(chown(journal, 1, 1), 0);
    assert_refused(path, ES_EIO, "-journal belongs to another user");
    assert_true(holds(path, "half done"));
    unlink(journal);
    assert_int_equal(chown(path, 1, 1), 0);
    assert_refused(path, ES_EIO, "owner.db: belongs to another user");
}

/* Writes an inner page of a table at page `number`. All children of this page
   are the same page, `child`. The file may grow. */
static void write_inner_page(FILE *file, uint32_t number, uint32_t child)
{
    enum { SIZE = 4096, N = 250, CELLS = SIZE - 5 * N };
    unsigned char page[SIZE] = {0x05, 0, 0, 0, N, CELLS >> 8, CELLS & 255};
    put_big_endian(page + 8, child);
    for (int i = 0; i < N; i++) {
        int at = CELLS + 5 * i;
        page[12 + 2 * i] = (unsigned char)(at >> 8);
        page[13 + 2 * i] = (unsigned char)at;
        put_big_endian(page + at, child);
        page[at + 4] = (unsigned char)(i / 2); /* key of the cell, stored in one
                                                  byte */
    }
    assert_int_equal(fseek(file, (long)(number - 1) * SIZE, SEEK_SET), 0);
    assert_int_equal(fwrite(page, 1, SIZE, file), SIZE);
}

/* The inner pages refer to the same page 251^3 times. Without the limit on
   steps, reading the table would take hours. */
TEST(a_file_of_endless_pages_is_refused)
{
    es_ledger_counts counts;
    char *path = es_folder_file(state, "maze.db");
    AUTO(es_ledger) ledger = open_ledger(state, "maze.db");
    for (char id[2] = "a"; id[0] < 'g'; id[0]++)
        add(ledger, id);
    es_ledger_close(ledger);
    uint32_t root = (uint32_t)atoi(es_sqlite(
        path, "SELECT rootpage FROM sqlite_schema WHERE name = 'delivery'"));
    size_t n;
    AUTO_FREE unsigned char *bytes = es_file_read(path, &n);
    const uint32_t end = (uint32_t)(n / 4096);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)end * 4096, SEEK_SET);
    assert_int_equal(fwrite(bytes + (root - 1) * 4096, 1, 4096, file), 4096);
    write_inner_page(file, end + 2, end + 1);
    write_inner_page(file, end + 3, end + 2);
    write_inner_page(file, root, end + 3);
    put_big_endian(bytes + 28, end + 3); /* number of pages in the file */
    fseek(file, 28, SEEK_SET);
    assert_int_equal(fwrite(bytes + 28, 1, 4, file), 4);
    fclose(file);
    ledger = open_ledger(state, "maze.db");
    es_assert_status(ES_EFORMAT, "maze.db: damaged: interrupted",
                     es_ledger_count(ledger, &counts));
}

TEST_GROUP(es_folder_make, es_folder_remove)
