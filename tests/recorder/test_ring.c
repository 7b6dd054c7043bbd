/* Tests the ring buffer in shared memory, with producer and consumer in one
 * process, and the packing of the first message (the greeting) and of frames
 * into bytes. */
#include "hooks/recorder/ring.h"
#include "hooks/recorder/wire.h"
#include "tests/support/await.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { CAPACITY = 4096, BUFFER = 4096 };

struct pair {
    es_ring producer, consumer;
    unsigned char payload[BUFFER];
};

static int setup(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);
    int fd;
    if (!pair || es_ring_create(&pair->producer, &fd, CAPACITY) != ES_OK)
        return -1;
    es_status status = es_ring_attach(&pair->consumer, fd);
    close(fd);
    *state = pair;
    alarm(ES_PATIENCE_S); /* fails the test if a wait never returns */
    return status;
}

static int teardown(void **state)
{
    struct pair *pair = *state;
    alarm(0);
    es_ring_detach(&pair->producer);
    es_ring_detach(&pair->consumer);
    free(pair);
    return 0;
}

/* Writes a frame that contains bytes different from those of all other
 * frames. */
static bool write_frame(es_ring *ring, uint32_t number, size_t bytes)
{
    unsigned char payload[BUFFER];
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (unsigned char)(number * 31 + i);
    es_frame frame = {.bytes = (uint32_t)bytes,
                      .type = 7,
                      .series = number,
                      .step = -(int64_t)number};
    return es_ring_write(ring, &frame, payload);
}

static void expect_frame(struct pair *pair, uint32_t number, size_t bytes)
{
    es_frame frame;
    memset(pair->payload, 0xee, sizeof pair->payload);
    es_assert_ok(es_ring_read(&pair->consumer, &frame, pair->payload,
                              sizeof pair->payload));
    assert_int_equal(frame.series, number);
    assert_int_equal(frame.type, 7);
    assert_int_equal(frame.bytes, bytes);
    assert_int_equal(frame.step, -(int64_t)number);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(pair->payload[i], (unsigned char)(number * 31 + i));
    assert_int_equal(pair->payload[bytes], 0xee);
}

static es_status read_any(struct pair *pair)
{
    es_frame frame;
    return es_ring_read(&pair->consumer, &frame, pair->payload,
                        sizeof pair->payload);
}

TEST(frames_survive_many_laps)
{
    struct pair *pair = *state;
    uint32_t written = 0, read = 0;
    assert_int_equal(read_any(pair), ES_DONE);
    while (read < 3000) {
        while (write_frame(&pair->producer, written, written * 7 % 601))
            written++;
        assert_in_range(written - read, 1, 4096 / 24);
        for (; read < written; read++)
            expect_frame(pair, read, read * 7 % 601);
        assert_int_equal(read_any(pair), ES_DONE);
        es_ring_release(&pair->consumer, read);
    }
    assert_true(pair->producer.position > 100 * CAPACITY);
}

TEST(largest_frame_fits_exactly)
{
    struct pair *pair = *state;
    size_t largest = CAPACITY - sizeof(es_frame);
    assert_false(write_frame(&pair->producer, 1, largest + 1));
    assert_true(write_frame(&pair->producer, 2, largest));
    assert_false(write_frame(&pair->producer, 3, 0));
    expect_frame(pair, 2, largest);
    es_ring_release(&pair->consumer, 1);
    assert_true(write_frame(&pair->producer, 3, 1));
    expect_frame(pair, 3, 1);
}

TEST(only_a_release_returns_space)
{
    struct pair *pair = *state;
    assert_true(write_frame(&pair->producer, 1, 3000));
    expect_frame(pair, 1, 3000);
    assert_false(write_frame(&pair->producer, 2, 3000));
    es_ring_rewind(&pair->consumer);
    expect_frame(pair, 1, 3000);
    es_ring_release(&pair->consumer, 41);
    assert_int_equal(atomic_load(&pair->producer.words->committed), 41);
    assert_true(write_frame(&pair->producer, 2, 3000));
    es_ring_rewind(&pair->consumer);
    expect_frame(pair, 2, 3000);
}

TEST(a_full_ring_waits_no_longer_than_given)
{
    struct pair *pair = *state;
    assert_true(write_frame(&pair->producer, 1, 3000));
    uint32_t bell = es_ring_bell(&pair->consumer);
    assert_false(es_ring_wait_space(&pair->producer, 3000, 30));
    assert_int_equal(es_ring_bell(&pair->consumer), bell + 1);
    assert_int_equal(atomic_load(&pair->producer.words->wants_space), 0);
}

/* Waits until the main thread sleeps. It sleeps only in the call that is being
 * tested. */
static void await_sleep_of_first(void)
{
    es_await(es_is_asleep(getpid(), getpid()));
}

static void *release_later(void *argument)
{
    struct pair *pair = argument;
    es_await(atomic_load(&pair->producer.words->wants_space) == 1);
    await_sleep_of_first();
    expect_frame(pair, 1, 3000);
    es_ring_release(&pair->consumer, 1);
    return NULL;
}

TEST(release_wakes_the_waiting_producer)
{
    struct pair *pair = *state;
    pthread_t thread;
    assert_true(write_frame(&pair->producer, 1, 3000));
    pthread_create(&thread, NULL, release_later, pair);
    assert_true(es_ring_wait_space(&pair->producer, 3000, ES_FOR_EVER_MS));
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&pair->producer.words->wants_space), 0);
}

static void *write_later(void *argument)
{
    struct pair *pair = argument;
    es_await(atomic_load(&pair->consumer.words->wake_at) != UINT64_MAX);
    await_sleep_of_first();
    for (uint32_t i = 0; i < 5; i++)
        write_frame(&pair->producer, i, 100);
    return NULL;
}

TEST(the_consumer_sleeps_until_enough_bytes_arrive)
{
    struct pair *pair = *state;
    size_t five = 5 * es_ring_frame_size(100);
    pthread_t thread;
    uint32_t bell = es_ring_bell(&pair->consumer);
    pthread_create(&thread, NULL, write_later, pair);
    es_ring_wait(&pair->consumer, bell, five, -1);
    assert_int_equal(es_ring_head(&pair->consumer), five);
    pthread_join(thread, NULL);
    /* Writing five frames must wake the reader only once. */
    assert_int_equal(es_ring_bell(&pair->consumer), bell + 1);
    write_frame(&pair->producer, 5, 100);
    assert_int_equal(es_ring_bell(&pair->consumer), bell + 1);
}

TEST(one_wake_up_suffices_for_many_frames)
{
    struct pair *pair = *state;
    uint32_t bell = es_ring_bell(&pair->consumer);
    atomic_store(&pair->consumer.words->wake_at, 1);
    for (uint32_t i = 0; i < 5; i++)
        write_frame(&pair->producer, i, 100);
    assert_int_equal(es_ring_bell(&pair->consumer), bell + 1);
}

TEST(bell_before_the_wait_is_not_missed)
{
    struct pair *pair = *state;
    uint32_t bell = es_ring_bell(&pair->consumer);
    es_ring_close(&pair->producer, 2);
    es_ring_wait(&pair->consumer, bell, 1, -1);
    es_ring_wait(&pair->consumer, bell, SIZE_MAX, -1);
    uint32_t run_status = 0;
    assert_true(es_ring_is_closed(&pair->consumer, &run_status));
    assert_int_equal(run_status, 2);
    bell = es_ring_bell(&pair->consumer);
    es_ring_wait(&pair->consumer, bell, SIZE_MAX, 30); /* without a bell */
    assert_int_equal(es_ring_bell(&pair->consumer), bell);
}

enum { MANY = 100000 };

static void *produce_many(void *argument)
{
    es_ring *ring = argument;
    for (uint32_t i = 0; i < MANY;)
        if (write_frame(ring, i, i % 97))
            i++;
        else
            es_ring_wait_space(ring, i % 97, 1000);
    return NULL;
}

TEST(two_threads_lose_nothing)
{
    struct pair *pair = *state;
    pthread_t thread;
    pthread_create(&thread, NULL, produce_many, &pair->producer);
    for (uint32_t i = 0; i < MANY;) {
        uint32_t bell = es_ring_bell(&pair->consumer);
        uint64_t until = es_ring_head(&pair->consumer);
        for (; pair->consumer.position != until; i++)
            expect_frame(pair, i, i % 97);
        es_ring_release(&pair->consumer, i);
        if (i < MANY)
            es_ring_wait(&pair->consumer, bell, 1 + i % 2000, 5);
    }
    pthread_join(thread, NULL);
    assert_int_equal(read_any(pair), ES_DONE);
}

static struct pair *trapped;
static volatile uint64_t head_at_write;

static void see_write(int signal)
{
    (void)signal;
    head_at_write = es_ring_head(&trapped->consumer);
    mprotect(trapped->producer.data + CAPACITY, CAPACITY,
             PROT_READ | PROT_WRITE);
}

/* The page that receives the payload is write-protected, so that a signal
 * handler runs in the middle of es_ring_write. At that moment the frame must
 * not be visible yet. */
TEST(frames_appear_whole)
{
    struct pair *pair = trapped = *state;
    struct sigaction trap = {.sa_handler = see_write}, before;
    /* The next frame's header lies at the end of the first mapping of the ring,
     * and its payload in the second mapping. */
    size_t first = CAPACITY - 2 * sizeof(es_frame);
    assert_true(write_frame(&pair->producer, 1, first));
    expect_frame(pair, 1, first);
    es_ring_release(&pair->consumer, 1);
    uint64_t head = es_ring_head(&pair->consumer);
    assert_int_equal(head % CAPACITY, CAPACITY - sizeof(es_frame));

    head_at_write = 0;
    sigaction(SIGSEGV, &trap, &before);
    mprotect(pair->producer.data + CAPACITY, CAPACITY, PROT_READ);
    assert_true(write_frame(&pair->producer, 2, 1000));
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(head_at_write, head);
    expect_frame(pair, 2, 1000);
}

/* --- corrupt producer ----------------------------------------------------- */

static es_frame *first_header(struct pair *pair)
{
    assert_true(write_frame(&pair->producer, 1, 100));
    assert_true(write_frame(&pair->producer, 2, 100));
    return (es_frame *)(void *)pair->producer.data;
}

static void expect_corrupt(struct pair *pair)
{
    es_assert_status(ES_EFORMAT, "the ring is corrupt", read_any(pair));
    /* The ring stays corrupt: a wait for further frames returns at once, and
     * the next read fails again. */
    es_ring_wait(&pair->consumer, es_ring_bell(&pair->consumer), 1, -1);
    assert_int_equal(read_any(pair), ES_EFORMAT);
}

TEST(a_length_beyond_the_written_bytes_is_corruption)
{
    struct pair *pair = *state;
    first_header(pair)->bytes = 4000;
    expect_corrupt(pair);
}

TEST(a_length_that_overflows_is_corruption)
{
    struct pair *pair = *state;
    first_header(pair)->bytes = UINT32_MAX;
    expect_corrupt(pair);
}

TEST(a_length_beyond_the_buffer_is_refused)
{
    struct pair *pair = *state;
    es_frame frame;
    first_header(pair);
    assert_int_equal(es_ring_read(&pair->consumer, &frame, pair->payload, 99),
                     ES_EFORMAT);
    es_assert_ok(es_ring_read(&pair->consumer, &frame, pair->payload, 100));
}

TEST(a_stray_mark_is_corruption)
{
    struct pair *pair = *state;
    first_header(pair)->mark ^= 1;
    expect_corrupt(pair);
}

TEST(an_overwritten_second_frame_is_corruption)
{
    struct pair *pair = *state;
    first_header(pair);
    memset(pair->producer.data + es_ring_frame_size(100), 0xff, 200);
    expect_frame(pair, 1, 100);
    expect_corrupt(pair);
}

TEST(impossible_heads_are_corruption)
{
    struct pair *pair = *state;
    first_header(pair);
    _Atomic uint64_t *head = &pair->producer.words->head;
    const uint64_t heads[] = {UINT64_MAX, CAPACITY + 8, 8, 31, 1};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        atomic_store(head, heads[i]);
        expect_corrupt(pair);
    }
    atomic_store(head, es_ring_frame_size(100));
    expect_frame(pair, 1, 100);
    atomic_store(head, 0); /* a write position (head) before the read position
                            */
    expect_corrupt(pair);
}

TEST(garbage_never_reads_outside)
{
    struct pair *pair = *state;
    srand(20240611);
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < 64; i++)
            pair->producer.data[rand() % CAPACITY] = (unsigned char)rand();
        pair->consumer.position = (uint64_t)rand() & ~UINT64_C(7);
        atomic_store(&pair->producer.words->head,
                     pair->consumer.position + (uint64_t)(rand() % 5000));
        es_frame *frame =
            (es_frame *)(void *)(pair->producer.data +
                                 pair->consumer.position % CAPACITY);
        frame->mark = (uint32_t)pair->consumer.position ^ UINT32_C(0x454e5452);
        (void)!read_any(pair);
    }
}

TEST(garbage_from_the_consumer_means_full)
{
    struct pair *pair = *state;
    assert_true(write_frame(&pair->producer, 1, 3000));
    atomic_store(&pair->consumer.words->tail, UINT64_MAX / 3);
    assert_false(write_frame(&pair->producer, 2, 3000));
}

/* --- creation and refusal ------------------------------------------------- */

TEST(sizes_are_rounded_up)
{
    es_ring ring;
    int fd;
    es_assert_ok(es_ring_create(&ring, &fd, 100000));
    assert_int_equal(ring.capacity, 131072);
    es_ring_detach(&ring);
    close(fd);
    assert_int_equal(es_ring_create(&ring, &fd, ES_RING_MAX + 1), ES_EARGUMENT);
}

TEST(the_memory_is_sealed)
{
    es_ring ring;
    int fd;
    es_assert_ok(es_ring_create(&ring, &fd, CAPACITY));
    assert_int_not_equal(ftruncate(fd, 4096), 0);
    assert_int_not_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_not_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    es_ring_detach(&ring);
    close(fd);
}

static void refuse(int fd, const char *why)
{
    es_ring ring = {0};
    es_assert_status(ES_EFORMAT, why, es_ring_attach(&ring, fd));
    assert_null(ring.words);
}

TEST(attach_refuses_other_files)
{
    refuse(-1, "not a ring");
    int fd = open("/dev/null", O_RDWR);
    refuse(fd, "not a ring");
    close(fd);

    es_assert_ok(es_memory_file(&fd, "test", 8192));
    refuse(fd, "not a ring"); /* the file is not sealed, so another process
                                 could shrink it */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    refuse(fd, "the same version"); /* no magic */
    close(fd);

    es_assert_ok(es_memory_file(&fd, "test", 4096 + 6000));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    refuse(fd, "not a ring"); /* the ring's size is not a power of two */
    close(fd);
}

TEST(file_size_limit_is_an_error_not_a_signal)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        es_ring ring;
        int fd;
        const struct rlimit limit = {65536, 65536};
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(es_ring_create(&ring, &fd, 1 << 20) == ES_EBROKEN &&
                      strstr(es_message(), "ulimit -f")
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- records --------------------------------------------------------------*/

static size_t pack_sample_hello(unsigned char *data, size_t size)
{
    es_hello hello = {.path = "a run.db",
                      .resume_step = -3,
                      .trainer = 77,
                      .run = {.name = "n\xc3\xa4me",
                              .config = "{\"steps\":5}",
                              .n_layer = 3,
                              .n_head = 5,
                              .d_model = ES_UNKNOWN,
                              .seed = INT64_MAX,
                              .started_at = ""}};
    es_pack pack = {.mode = data ? ES_PACK_WRITE : ES_PACK_MEASURE,
                    .data = data,
                    .size = size};
    es_pack_hello(&pack, &hello);
    assert_int_equal(pack.failed, data && pack.at != size);
    return pack.at;
}

TEST(a_greeting_is_read_back_unchanged)
{
    size_t size = pack_sample_hello(NULL, 0);
    AUTO_FREE unsigned char *data = malloc(size);
    assert_non_null(data);
    assert_int_equal(pack_sample_hello(data, size), size);
    es_hello hello;
    es_pack pack = {.mode = ES_PACK_READ, .data = data, .size = size};
    es_pack_hello(&pack, &hello);
    assert_false(pack.failed);
    assert_int_equal(pack.at, size);
    assert_string_equal(hello.path, "a run.db");
    assert_int_equal(hello.resume_step, -3);
    assert_int_equal(hello.trainer, 77);
    assert_null(hello.run.uuid);
    assert_null(hello.run.arch);
    assert_string_equal(hello.run.name, "n\xc3\xa4me");
    assert_string_equal(hello.run.config, "{\"steps\":5}");
    assert_string_equal(hello.run.started_at, "");
    assert_int_equal(hello.run.n_layer, 3);
    assert_int_equal(hello.run.n_head, 5);
    assert_true(hello.run.d_model == ES_UNKNOWN);
    assert_true(hello.run.seed == INT64_MAX);
}

TEST(a_truncated_or_damaged_greeting_is_refused)
{
    size_t size = pack_sample_hello(NULL, 0);
    AUTO_FREE unsigned char *data = malloc(size);
    assert_non_null(data);
    pack_sample_hello(data, size);
    for (size_t n = 0; n < size; n++) {
        /* The block has exactly this size, so that a sanitizer detects reads
         * beyond its end. */
        AUTO_FREE unsigned char *part = malloc(n + 1);
        assert_non_null(part);
        memcpy(part, data, n);
        es_hello hello;
        es_pack pack = {.mode = ES_PACK_READ, .data = part, .size = n};
        es_pack_hello(&pack, &hello);
        assert_true(pack.failed);
    }
    srand(7);
    for (int round = 0; round < 20000; round++) {
        es_hello hello;
        es_pack pack = {.mode = ES_PACK_READ, .data = data, .size = size};
        data[(size_t)rand() % size] = (unsigned char)rand();
        es_pack_hello(&pack, &hello);
        if (!pack.failed && hello.run.config)
            assert_true(strlen(hello.run.config) < size);
    }
}

TEST_EACH(setup, teardown)
