/* Tests the threads of the CPU back-end. */
#include "hooks/trainer/cpu/team.h"
#include "tests/support/test.h"

#include <time.h>

enum { MAX = 16 };

/* Shared data of a test in which every thread checks the values that the other
 * threads wrote in the previous round. */
typedef struct rounds {
    int round, n_threads;
    int last[MAX][16]; /* only [thread][0] is used; the padding gives each
                          thread a separate cache line */
    int n_wrong[MAX][16];
} rounds;

static void step(void *argument, es_share share)
{
    rounds *r = argument;
    r->n_wrong[share.thread][0] += share.n_threads != r->n_threads;
    r->n_wrong[share.thread][0] += r->last[share.thread][0] != r->round;
}

static void mark(void *argument, es_share share)
{
    rounds *r = argument;
    int neighbour = (share.thread + 1) % share.n_threads;
    r->last[neighbour][0] = r->round;
}

static void check_team(int n_threads, int n_rounds)
{
    static rounds r;
    es_team *team;
    r = (rounds){.n_threads = n_threads};
    es_assert_ok(es_team_new(&team, n_threads));
    for (r.round = 1; r.round <= n_rounds; r.round++) {
        es_team_run(team, mark, &r);
        es_team_run(team, step, &r);
    }
    es_team_free(team);
    for (int t = 0; t < n_threads; t++) {
        assert_int_equal(r.last[t][0], n_rounds);
        assert_int_equal(r.n_wrong[t][0], 0);
    }
}

TEST(every_thread_works_in_every_round)
{
    static const char *const policies[] = {"passive", "active"};
    for (int i = 0; i < 2; i++) {
        setenv("OMP_WAIT_POLICY", policies[i], 1);
        check_team(1, 1000);
        check_team(2, 2000);
        check_team(3, 1000);
        check_team(MAX, 200); /* many more threads than processors */
    }
}

/* Threads that sleep because they had no work must wake up. */
TEST(sleeping_threads_wake_up)
{
    static rounds r;
    es_team *team;
    r = (rounds){.n_threads = 3};
    es_assert_ok(es_team_new(&team, 3));
    for (r.round = 1; r.round <= 5; r.round++) {
        es_team_run(team, mark, &r);
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    }
    for (int t = 0; t < 3; t++)
        assert_int_equal(r.last[t][0], 5);
    es_team_free(team);
}

TEST(an_unused_team_ends)
{
    es_team *team;
    es_assert_ok(es_team_new(&team, 4));
    es_team_free(team);
    es_team_free(NULL);
}
