/* What a watcher has told: each alert once, each delivery by one process. */
#include "store/ledger.h"
#include "tests/cmocka_all.h"
#include "tests/run_files.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const actions[] = {"print", "exec"};

static es_ledger *open_ledger(void **state, const char *name)
{
    es_ledger *ledger = NULL;
    es_assert_ok(es_ledger_open(&ledger, es_folder_file(state, name)));
    return ledger;
}

static bool add(es_ledger *ledger, const char *id)
{
    bool fresh;
    es_assert_ok(es_ledger_add(ledger, id, "{\"a\":1}", ES_SEVERITY_ERROR,
                               actions, 2, &fresh));
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

static void test_ledger__an_alert_is_entered_once(void **state)
{
    es_ledger *ledger = open_ledger(state, "once.db");
    assert_true(add(ledger, "u/alert:nan@3:critical"));
    assert_false(add(ledger, "u/alert:nan@3:critical"));
    assert_true(add(ledger, "u/alert:nan@4:critical"));
    assert_counts(ledger, 2, 0, 4, 0);
    es_ledger_close(ledger);
    ledger = open_ledger(state, "once.db");
    assert_false(add(ledger, "u/alert:nan@4:critical"));
    assert_counts(ledger, 2, 0, 4, 0);
    es_ledger_close(ledger);
}

static void test_ledger__deliveries_come_in_order(void **state)
{
    es_ledger *ledger = open_ledger(state, "order.db");
    es_delivery next;
    int64_t after = 0;
    assert_int_equal(es_ledger_next(ledger, 0, &next), ES_DONE);
    add(ledger, "first");
    add(ledger, "second");
    for (int i = 0; i < 4; i++) {
        es_assert_ok(es_ledger_next(ledger, after, &next));
        assert_string_equal(next.id, i < 2 ? "first" : "second");
        assert_string_equal(next.action, actions[i % 2]);
        assert_string_equal(next.json, "{\"a\":1}");
        assert_int_equal(next.severity, ES_SEVERITY_ERROR);
        assert_int_equal(next.tries, 0);
        assert_int_equal(next.claimant, 0);
        assert_true(next.number > after);
        after = next.number;
    }
    assert_int_equal(es_ledger_next(ledger, after, &next), ES_DONE);
    es_ledger_close(ledger);
}

static void test_ledger__a_delivery_has_one_claimant(void **state)
{
    es_ledger *ledger = open_ledger(state, "claim.db");
    es_ledger *other = open_ledger(state, "claim.db");
    es_delivery next;
    add(ledger, "one");
    es_assert_ok(es_ledger_next(ledger, 0, &next));
    es_assert_ok(es_ledger_claim(ledger, next.number, 0, 11));
    assert_int_equal(es_ledger_claim(other, next.number, 0, 12), ES_DONE);
    es_assert_ok(es_ledger_next(other, 0, &next));
    assert_int_equal(next.claimant, 11);
    /* 11 is found to be gone: one successor. */
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
    es_ledger_close(ledger);
    es_ledger_close(other);
}

/* Claims what it can get, and writes a byte for each. */
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

static void test_ledger__processes_that_race_share_the_work(void **state)
{
    enum { CHILDREN = 4, ALERTS = 20 };
    char id[16], bytes[3 * ALERTS];
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

/* Killed anywhere: nothing half-entered, nothing twice. */
static void enter_for_ever(const char *path)
{
    es_ledger *ledger = NULL;
    bool fresh;
    char id[32];
    if (es_ledger_open(&ledger, path) != ES_OK)
        _exit(1);
    for (int i = 0;; i++) {
        snprintf(id, sizeof id, "alert %d", i);
        if (es_ledger_add(ledger, id, "{}", ES_SEVERITY_ERROR, actions, 2,
                          &fresh) != ES_OK)
            _exit(2);
    }
}

static void test_ledger__a_kill_leaves_alerts_whole(void **state)
{
    const char *path = es_folder_file(state, "kill.db");
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            enter_for_ever(path);
        const struct timespec nap = {.tv_nsec = 3000000L * (i + 3)};
        int status;
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
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

static void test_ledger__files_of_others_are_left_alone(void **state)
{
    es_ledger *ledger = NULL;
    size_t n_before, n_after;
    const char *run = es_folder_file(state, "run.db");
    es_write_run(run, "run", 3);
    unsigned char *before = es_file_read(run, &n_before);
    es_assert_status(ES_EFORMAT, "not a watcher's state",
                     es_ledger_open(&ledger, run));
    unsigned char *after = es_file_read(run, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_after);
    free(before);
    free(after);
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

static void test_ledger__a_child_opens_its_own(void **state)
{
    es_ledger *ledger = open_ledger(state, "fork.db");
    add(ledger, "one");
    pid_t child = fork();
    if (child == 0) {
        bool fresh;
        es_delivery next;
        bool refused = es_ledger_add(ledger, "two", "{}", ES_SEVERITY_ERROR,
                                     actions, 1, &fresh) == ES_EFORK &&
                       es_ledger_next(ledger, 0, &next) == ES_EFORK;
        es_ledger_close(ledger);
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_counts(ledger, 1, 0, 2, 0);
    es_ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger__an_alert_is_entered_once),
        cmocka_unit_test(test_ledger__deliveries_come_in_order),
        cmocka_unit_test(test_ledger__a_delivery_has_one_claimant),
        cmocka_unit_test(test_ledger__processes_that_race_share_the_work),
        cmocka_unit_test(test_ledger__a_kill_leaves_alerts_whole),
        cmocka_unit_test(test_ledger__files_of_others_are_left_alone),
        cmocka_unit_test(test_ledger__a_child_opens_its_own),
    };
    return cmocka_run_group_tests(tests, es_folder_make, es_folder_remove);
}
