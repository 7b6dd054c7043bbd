/* Tests the exchange of data between ranks, with sums in a fixed order, damaged
 * rendezvous files, and connections from programs that are not ranks. The ranks
 * are threads of this test, each with a separate transport. */
#include "hooks/trainer/ranks/address.h"
#include "hooks/trainer/ranks/transport.h"
#include "tests/support/await.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define MOST 4

typedef struct rank rank;
struct rank {
    int number, world;
    es_status (*work)(rank *, es_transport *);
    float total[7], x[7];
    double sums[2];
    int gathered[MOST];
    bool any, reports;
    es_status status;
    char message[ES_MESSAGE_MAX];
};

static void *run_rank(void *argument)
{
    rank *r = argument;
    es_transport *t = NULL;
    const es_transport_options options = {.rank = r->number,
                                          .world = r->world,
                                          .rendezvous = es_scratch_file,
                                          .timeout_s = ES_PATIENCE_S};
    r->status = es_transport_open(&t, &r->reports, &options);
    if (r->status == ES_OK) {
        r->status = r->work(r, t);
        r->reports = es_transport_reports(t);
    }
    snprintf(r->message, sizeof r->message, "%s", es_message());
    es_transport_close(t);
    return NULL;
}

static void run_all(rank *ranks, int world,
                    es_status (*work)(rank *, es_transport *))
{
    pthread_t threads[MOST];
    for (int r = 0; r < world; r++) {
        ranks[r].number = r;
        ranks[r].world = world;
        ranks[r].work = work;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]),
                         0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
}

/* --- sums ---------------------------------------------------------------- */

/* Returns values whose sum depends on the order of addition: (2^24 + 1) + 1
 * loses both ones, whereas 2^24 + (1 + 1) keeps them. */
static float part_of(int number, int i)
{
    return number == 0 ? 16777216.0f : (float)(number + i % 2);
}

static es_status sum_up(rank *r, es_transport *t)
{
    double x[2] = {0.5 + r->number, 1e300};
    es_status status;
    bool mine = r->number == r->world - 1;
    for (int i = 0; i < 7; i++) {
        r->x[i] = part_of(r->number, i);
        r->total[i] = (float)i;
    }
    r->x[6] = r->number == 1 ? NAN : 0;
    r->sums[0] = r->sums[1] = 0;
    if ((status = es_transport_add(t, r->total, r->x, 7)) == ES_OK &&
        (status = es_transport_add_double(t, r->sums, x, 2)) == ES_OK &&
        (status = es_transport_gather(t, r->gathered, &r->number,
                                      sizeof r->number)) == ES_OK &&
        (status = es_transport_any(t, &r->any, mine)) == ES_OK)
        status = es_transport_wait(t);
    return status;
}

TEST(sums_are_in_the_order_of_the_ranks_and_the_same_for_all)
{
    for (int world = 2; world <= MOST; world++) {
        rank ranks[MOST] = {{.number = 0}};
        run_all(ranks, world, sum_up);
        for (int r = 0; r < world; r++) {
            double sum = 0;
            assert_int_equal(ranks[r].status, ES_OK);
            assert_true(ranks[r].any);
            assert_true(ranks[r].reports == (r == 0));
            for (int i = 0; i < 6; i++) {
                float want = (float)i;
                for (int other = 0; other < world; other++)
                    want += part_of(other, i);
                assert_true(ranks[r].total[i] == want);
            }
            assert_true(isnan(ranks[r].total[6]));
            for (int other = 0; other < world; other++) {
                sum += 0.5 + other;
                assert_int_equal(ranks[r].gathered[other], other);
            }
            assert_true(ranks[r].sums[0] == sum);
            assert_true(ranks[r].sums[1] == 1e300 * world);
        }
    }
}

/* exceeds the transport's buffer and is not a multiple of the number of
 * ranks */
#define LONG ((1 << 20) + 5)

static es_status sum_long(rank *r, es_transport *t)
{
    float *x = calloc(2 * (size_t)LONG, sizeof *x), *total = x + LONG;
    assert_non_null(x);
    for (int i = 0; i < LONG; i++)
        x[i] = (float)(i % 1000 + r->number);
    es_status status = es_transport_add(t, total, x, LONG);
    for (int i = 0; i < LONG; i++)
        r->gathered[0] += total[i] != (float)(3 * (i % 1000) + 3);
    free(x);
    return status;
}

TEST(a_sum_of_several_buckets_has_no_gap)
{
    rank ranks[3] = {{.number = 0}};
    run_all(ranks, 3, sum_long);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, ES_OK);
        assert_int_equal(ranks[r].gathered[0], 0);
    }
}

TEST(a_single_process_adds_its_values)
{
    float total[2] = {1, 2}, x[2] = {10, NAN};
    double sums[1] = {0.25}, more[1] = {0.5};
    int n_local;
    bool any = true;
    es_assert_ok(es_transport_add(NULL, total, x, 2));
    assert_true(total[0] == 11 && isnan(total[1]));
    es_assert_ok(es_transport_add_double(NULL, sums, more, 1));
    assert_true(sums[0] == 0.75);
    es_assert_ok(es_transport_any(NULL, &any, false));
    assert_false(any);
    assert_int_equal(es_transport_world(NULL), 1);
    assert_int_equal(es_transport_local_rank(NULL, &n_local), 0);
    assert_int_equal(n_local, 1);
    assert_true(es_transport_reports(NULL));
}

/* --- failures ------------------------------------------------------------ */

static es_status fail_in_one(rank *r, es_transport *t)
{
    if (r->number == 1)
        return es_transport_abort(t, es_fail(ES_EFORMAT, "x.tok: is broken"));
    const es_status status = es_transport_wait(t);
    /* later calls return the first failure */
    assert_int_equal(es_transport_wait(t), status);
    return status;
}

TEST(a_failure_ends_all_ranks_and_the_first_reports_it)
{
    rank ranks[3] = {{.number = 0}};
    run_all(ranks, 3, fail_in_one);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, ES_EFORMAT);
        assert_string_equal(ranks[r].message, "rank 1: x.tok: is broken");
        assert_true(ranks[r].reports == (r == 0));
    }
}

static es_status be_out_of_step(rank *r, es_transport *t)
{
    char all[MOST * 8], own[8] = "";
    return es_transport_gather(t, all, own, r->number == 1 ? 8 : 4);
}

TEST(ranks_out_of_step_are_ended)
{
    rank ranks[2] = {{.number = 0}};
    run_all(ranks, 2, be_out_of_step);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].status, ES_EIO);
        assert_non_null(strstr(ranks[r].message, "is out of step"));
    }
}

static es_status leave_silently(rank *r, es_transport *t)
{
    return r->number == 0 ? ES_OK : es_transport_wait(t);
}

TEST(without_the_first_rank_the_next_one_reports)
{
    rank ranks[3] = {{.number = 0}};
    run_all(ranks, 3, leave_silently);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(ranks[r].status, ES_EIO);
        assert_non_null(strstr(ranks[r].message, "rank 0 (process "));
        assert_true(ranks[r].reports == (r == 1));
    }
}

/* --- the rendezvous ------------------------------------------------------- */

static es_address place;

/* Connects to the ranks without knowing the key, then sends `words` or nothing,
 * and disconnects. */
static void *knock(void *argument)
{
    const char *words = argument;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    es_await(es_address_read(&place, es_scratch_file) == ES_OK);
    at.sin_port = htons((uint16_t)place.port);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char hello[4096];
    memset(hello, words[0], sizeof hello);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    if (words[0])
        assert_true(send(fd, hello, sizeof hello, MSG_NOSIGNAL) > 0);
    close(fd);
    return NULL;
}

TEST(connections_without_the_key_are_refused)
{
    pthread_t first, stranger, other;
    rank ranks[2] = {{.number = 0, .world = 2, .work = sum_up},
                     {.number = 1, .world = 2, .work = sum_up}};
    assert_int_equal(pthread_create(&first, NULL, run_rank, &ranks[0]), 0);
    assert_int_equal(pthread_create(&stranger, NULL, knock, "x"), 0);
    pthread_join(stranger, NULL);
    assert_int_equal(pthread_create(&other, NULL, knock, ""), 0);
    pthread_join(other, NULL);
    run_rank(&ranks[1]);
    pthread_join(first, NULL);
    assert_int_equal(ranks[0].status, ES_OK);
    assert_int_equal(ranks[1].status, ES_OK);
}

TEST(two_ranks_of_one_number_are_refused)
{
    pthread_t threads[3];
    rank ranks[3] = {{.number = 0}, {.number = 1}, {.number = 1}};
    for (int r = 0; r < 3; r++) {
        ranks[r].world = 3;
        ranks[r].work = sum_up;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]),
                         0);
    }
    int n_reports = 0;
    for (int r = 0; r < 3; r++) {
        pthread_join(threads[r], NULL);
        assert_int_equal(ranks[r].status, ES_EUSAGE);
        assert_non_null(strstr(ranks[r].message, "rank 1 was started twice"));
        n_reports += ranks[r].reports;
    }
    assert_int_equal(n_reports, 1);
}

#define KEY "key 0123456789abcdef0123456789abcdef\n"
#define HEAD "entropy-train ranks 1\n"

TEST(a_rendezvous_reads_back)
{
    es_address other;
    const char *text = HEAD KEY "host a\nport 77\naddress 10.1.2.3\n";
    es_scratch_write(text, strlen(text));
    es_assert_ok(es_address_read(&place, es_scratch_file));
    assert_string_equal(place.key, "0123456789abcdef0123456789abcdef");
    assert_string_equal(place.host, "a");
    assert_int_equal(place.port, 77);
    assert_int_equal(place.n_addresses, 1);
    es_assert_ok(es_address_write(&place, es_scratch_file));
    es_assert_ok(es_address_read(&other, es_scratch_file));
    assert_string_equal(other.key, place.key);
    assert_string_equal(other.host, place.host);
    assert_int_equal(other.port, place.port);
    assert_int_equal(other.n_addresses, 1);
    assert_string_equal(other.addresses[0], "10.1.2.3");
    struct stat known;
    assert_int_equal(stat(es_scratch_file, &known), 0);
    assert_int_equal(known.st_mode & 0777, 0600);
}

TEST(a_file_that_is_not_a_rendezvous_is_refused_and_unchanged)
{
    const struct {
        const char *text;
        size_t n;
    } files[] = {
#define FILE_OF(text) {text, sizeof text - 1}
        FILE_OF(""),
        FILE_OF("entropy-train ranks 2\n" KEY "host a\nport 7\n"),
        FILE_OF(HEAD),
        FILE_OF(HEAD "host a\nport 7\n"),
        FILE_OF(HEAD KEY "port 7\n"),
        FILE_OF(HEAD KEY "host a\n"),
        FILE_OF(HEAD "key 0123\nhost a\nport 7\n"),
        FILE_OF(HEAD KEY "host a b\nport 7\n"),
        FILE_OF(HEAD KEY "host a\nport 0\n"),
        FILE_OF(HEAD KEY "host a\nport 65536\n"),
        FILE_OF(HEAD KEY "host a\nport -7\n"),
        FILE_OF(HEAD KEY "host a\nport 7x\n"),
        FILE_OF(HEAD KEY "host a\nport 7\naddress 1.2.3\n"),
        FILE_OF(HEAD KEY "host a\nport 7\naddress 1.2.3.4.5\n"),
        FILE_OF(HEAD KEY "host a\nport 7\nword\n"),
        FILE_OF("SQLite format 3\0" HEAD),
#undef FILE_OF
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        es_transport *t;
        bool reports;
        const es_transport_options options = {.rank = (int)(i % 2),
                                              .world = 2,
                                              .rendezvous = es_scratch_file,
                                              .timeout_s = ES_PATIENCE_S};
        char after[256];
        es_scratch_write(files[i].text, files[i].n);
        es_assert_status(ES_EUSAGE, "not a rendezvous file",
                         es_transport_open(&t, &reports, &options));
        assert_true(reports);
        const int fd = open(es_scratch_file, O_RDONLY);
        assert_int_equal(read(fd, after, sizeof after), (int)files[i].n);
        assert_memory_equal(after, files[i].text, files[i].n);
        close(fd);
    }
}

TEST_EACH(es_scratch_open, es_scratch_close)
