/* Implements recording in the training process: starts the recorder process,
 * sends the greeting, and ends the run; push.c sends the frames. Recording
 * survives if the host program forks, closes our descriptors or overwrites the
 * ring. */
#include "hooks/recorder/recorder_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/kernel.h"
#include "analyzer/base/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Removes the macro that sets the report's size, so that the function itself
 * can be defined below. */
#undef es_recorder_close

#define DEFAULT_RING_BYTES ((size_t)8 << 20)
#define DEFAULT_WAIT_MS 100
#define DEFAULT_ANSWER_MS 30000
/* Maximum time in milliseconds between the recorder's last message and the end
 * of its process. */
#define REAP_MS 2000
/* Milliseconds between two checks that the recorder process is alive. */
#define SLICE_MS 50

bool es_recorder_is_mine(const es_recorder *recorder)
{
    return recorder->opener ? getpid() == recorder->opener
                            : *recorder->mine != 0;
}

bool es_recorder_hear(es_recorder *recorder, int64_t ms)
{
    if (recorder->replied)
        return true;
    es_reply reply;
    if (!es_ring_hear(&recorder->ring, &reply, sizeof reply, ms))
        return false;
    reply.text[sizeof reply.text - 1] = '\0';
    recorder->reply = reply;
    recorder->replied = true;
    return true;
}

/* Returns true if the recorder has ended. The kernel changes the ring's word
 * `owner` when the recorder dies, and the recorder clears the word after its
 * last message. Any other change is a bug of the training process, and this
 * function restores the value. */
bool es_recorder_is_gone(es_recorder *recorder)
{
    _Atomic uint32_t *owner = &recorder->ring.words->owner;
    uint32_t now = atomic_load(owner);
    if (now == recorder->owner)
        return false;
    if (now == FUTEX_OWNER_DIED ||
        (now == 0 && es_recorder_hear(recorder, 0)) ||
        es_process_has_ended(&recorder->child, 0))
        return true;
    atomic_compare_exchange_strong(owner, &now, recorder->owner);
    return false;
}

/* Waits at most `ms` milliseconds for the recorder to report whether the file
 * is open. */
static es_answer hear_opening(es_recorder *recorder, int64_t ms)
{
    struct pollfd control = {.fd = recorder->control.fd, .events = POLLIN};
    int64_t deadline = es_now_ms() + ms;
    int ready;
    do {
        int64_t left = deadline - es_now_ms();
        ready = poll(&control, 1, left > 0 ? (int)left : 0);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return ES_SILENT;
    es_reply *reply = &recorder->reply;
    ssize_t n = recv(recorder->control.fd, reply, sizeof *reply, MSG_DONTWAIT);
    if (n != (ssize_t)sizeof *reply)
        return ES_HUNG_UP;
    reply->text[sizeof reply->text - 1] = '\0';
    return ES_ANSWERED;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_recorder(es_recorder *recorder)
{
    if (!recorder)
        return;
    es_ring_detach(&recorder->ring);
    if (recorder->mine)
        munmap(recorder->mine, 1);
    es_held_close(&recorder->control);
    es_process_free(&recorder->child);
    for (size_t i = 0; i < recorder->n_declared; i++)
        free(recorder->declared[i].name);
    free(recorder->declared);
    free(recorder->path);
    free(recorder);
}

static es_status fail_without_run(void)
{
    return es_fail(ES_EARGUMENT, "recording needs a path and a run");
}

/* Copies the caller's structs, which may come from another version of the
 * header, into structs of this version. */
static es_status take_options(es_recorder_options *options, es_run_info *run,
                              const es_recorder_options *given)
{
    es_status status;
    if (!given)
        return fail_without_run();
    if ((status = es_sized_take(options, sizeof *options, given,
                                "es_recorder_options")) < 0)
        return status;
    if (!options->path || !options->path[0] || !options->run)
        return fail_without_run();
    status = es_sized_take(run, sizeof *run, options->run, "es_run_info");
    options->run = run;
    return status;
}

static es_status check_options(const es_recorder_options *options)
{
    int64_t layers = options->run->n_layer, heads = options->run->n_head;
    if (options->store < ES_STORE_AUTO || options->store > ES_STORE_FRAGMENT)
        return es_fail(ES_EARGUMENT, "%s: unknown store %d", options->path,
                       options->store);
    if (layers < 1 || layers > ES_MAX_LAYERS || heads < 1 ||
        heads > ES_MAX_HEADS || layers * heads > ES_MAX_VALUES)
        return es_fail(ES_EARGUMENT,
                       "%s: %lld layers of %lld heads: expected at least 1 and "
                       "at most %d layers, %d heads, %d in all",
                       options->path, (long long)layers, (long long)heads,
                       ES_MAX_LAYERS, ES_MAX_HEADS, ES_MAX_VALUES);
    return ES_OK;
}

/* Maps a page that the kernel clears in a forked child. A process that finds
 * the page clear is therefore a child; this check is cheaper than the system
 * call getpid. */
static es_status make_guard(es_recorder *recorder)
{
    void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return es_fail(ES_ENOMEM, "out of memory");
    recorder->mine = page;
    if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0)
        recorder->opener = getpid();
    *recorder->mine = 1;
    return ES_OK;
}

static es_status new_recorder(es_recorder **out,
                              const es_recorder_options *options)
{
    es_recorder *recorder;
    es_status status = es_alloc(out, 1, sizeof **out, "a recorder");
    if (status < 0)
        return status;
    recorder = *out;
    recorder->control.fd = -1;
    recorder->n_layer = options->run->n_layer;
    recorder->n_head = options->run->n_head;
    recorder->wait_ms = options->wait_ms < 0 ? 0
                        : options->wait_ms   ? options->wait_ms
                                             : DEFAULT_WAIT_MS;
    recorder->answer_ms =
        options->answer_ms > 0 ? options->answer_ms : DEFAULT_ANSWER_MS;
    status = es_copy_text(&recorder->path, options->path);
    return status < 0 ? status : make_guard(recorder);
}

/* Returns the size of the ring in bytes. At least four of the largest frames
 * fit, so that the ring is never full before the recorder is woken. */
static size_t ring_bytes(const es_recorder_options *options)
{
    size_t heads = (size_t)(options->run->n_layer * options->run->n_head);
    size_t payload = heads * sizeof(float);
    if (payload < ES_FRAME_MAX)
        payload = ES_FRAME_MAX;
    size_t least = 4 * es_ring_frame_size(payload);
    size_t wanted =
        options->ring_bytes ? options->ring_bytes : DEFAULT_RING_BYTES;
    return wanted > least ? wanted : least;
}

/* Writes the greeting, the first message to the recorder process, to a file in
 * memory, because a long configuration would not fit into a pipe. */
static es_status write_hello(int *fd, const es_recorder_options *options)
{
    es_hello hello = {.path = options->path,
                      .run = *options->run,
                      .resume_step = options->resume_step,
                      .store = options->store,
                      .trainer = getpid()};
    es_pack pack = {.mode = ES_PACK_MEASURE};
    es_pack_hello(&pack, &hello);
    size_t size = pack.at;
    if (size > ES_HELLO_MAX)
        return es_fail(ES_EARGUMENT, "%s: the run's description is too long",
                       options->path);
    int file;
    es_status status = es_memory_file(&file, "entropy-hello", size);
    if (status < 0)
        return status;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
        close(file);
        return es_fail(ES_ENOMEM, "out of memory");
    }
    pack = (es_pack){.mode = ES_PACK_WRITE, .data = data, .size = size};
    es_pack_hello(&pack, &hello);
    munmap(data, size);
    *fd = file;
    return ES_OK;
}

/* Creates the ring, the socket and the file with the greeting (es_hello), and
 * starts the recorder process, which inherits them. */
static es_status start_recorder(es_recorder *recorder,
                                const es_recorder_options *options)
{
    int ring = -1, hello = -1, trainer = -1, sockets[2] = {-1, -1};
    es_status status =
        es_ring_create(&recorder->ring, &ring, ring_bytes(options));
    if (status < 0)
        goto done;
    status = write_hello(&hello, options);
    if (status < 0)
        goto done;
    trainer = es_kernel_pidfd(getpid());
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        status = es_fail(ES_EBROKEN, "cannot prepare recording: %s",
                         strerror(errno));
        goto done;
    }
    recorder->control = es_held_take(sockets[0]);
    const int fds[] = {ring, hello, sockets[1],
                       trainer < 0 ? ES_STREAM_NULL : trainer};
    status = es_recorder_start(&recorder->child, options->program,
                               options->path, fds);
done:
    close_fd(ring);
    close_fd(hello);
    close_fd(trainer);
    close_fd(sockets[1]);
    return status;
}

/* Waits until the recorder reports that the file is open. */
static es_status await_opening(es_recorder *recorder)
{
    char end_text[64];
    es_answer answer = hear_opening(recorder, recorder->answer_ms);
    if (answer == ES_ANSWERED && recorder->reply.code == ES_OK) {
        recorder->owner = atomic_load(&recorder->ring.words->owner);
        return ES_OK;
    }
    if (answer == ES_SILENT)
        es_process_signal(&recorder->child, SIGKILL);
    es_recorder_reap(end_text, sizeof end_text, &recorder->child, REAP_MS);
    if (answer == ES_ANSWERED)
        return es_fail((es_status)recorder->reply.code, "%s",
                       recorder->reply.text);
    if (answer == ES_SILENT)
        return es_fail(ES_EBROKEN,
                       "%s: entropy-recorder did not answer within %lld ms",
                       recorder->path, (long long)recorder->answer_ms);
    return es_fail(ES_EBROKEN,
                   "%s: the recorder program %s before it answered: does "
                   "ENTROPY_RECORDER name another program?",
                   recorder->path, end_text);
}

es_status es_recorder_open(es_recorder **out, const es_recorder_options *given)
{
    es_recorder *recorder = NULL;
    es_recorder_options options;
    es_run_info run;
    *out = NULL;
    es_status status;
    if ((status = take_options(&options, &run, given)) < 0 ||
        (status = check_options(&options)) < 0 ||
        (status = new_recorder(&recorder, &options)) < 0 ||
        (status = start_recorder(recorder, &options)) < 0 ||
        (status = await_opening(recorder)) < 0)
        free_recorder(recorder);
    else
        *out = recorder;
    return status;
}

/* Waits until the recorder has sent its last message or has ended. Gives up if
 * the recorder neither answers nor makes progress for answer_ms
 * milliseconds. */
static es_answer await_end(es_recorder *recorder, es_run_status status)
{
    const es_ring_words *words = recorder->ring.words;
    uint64_t seen = atomic_load(&words->tail);
    int64_t deadline = es_now_ms() + recorder->answer_ms;
    while (!es_recorder_hear(recorder, SLICE_MS)) {
        /* The end is checked before the last message is read, because the
         * recorder writes the message before it ends. */
        bool ended = es_recorder_is_gone(recorder) ||
                     es_process_has_ended(&recorder->child, 0);
        if (ended && !es_recorder_hear(recorder, 0))
            return ES_HUNG_UP;
        uint64_t tail = atomic_load(&words->tail);
        if (tail > seen && tail <= recorder->ring.position) {
            deadline = es_now_ms() + recorder->answer_ms;
            seen = tail;
        }
        if (es_now_ms() >= deadline)
            return ES_SILENT;
        es_ring_close(&recorder->ring, (uint32_t)status);
    }
    return ES_ANSWERED;
}

/* Returns the numbers of frames. The number of committed frames comes from the
 * recorder's last message, which has a checksum. Without this message, it comes
 * from the ring's word `committed`, which has no checksum and is used only if
 * it is plausible. */
static es_recorder_report count_frames(const es_recorder *recorder)
{
    uint64_t pushed = recorder->pushed;
    uint64_t committed = atomic_load(&recorder->ring.words->committed);
    if (recorder->replied)
        committed = recorder->reply.committed;
    if (committed > pushed)
        committed = recorder->replied ? pushed : 0;
    return (es_recorder_report){.pushed = pushed,
                                .committed = committed,
                                .dropped = recorder->dropped,
                                .lost = pushed - committed + recorder->missed};
}

/* Returns the result of a recording after the recorder has reported that the
 * file is closed. Frames that were pushed but not reported as committed count
 * as lost, even if the recorder reports success. */
static es_status judge_recording(const es_recorder *recorder,
                                 const es_recorder_report *report)
{
    const es_reply *reply = &recorder->reply;
    unsigned long long lost = report->lost,
                       all = report->pushed + recorder->missed;
    if (reply->code != ES_OK && lost == 0)
        return es_fail((es_status)reply->code, "%s", reply->text);
    if (reply->code != ES_OK)
        return es_fail((es_status)reply->code,
                       "%s (%llu of %llu frames are lost)", reply->text, lost,
                       all);
    if (lost > 0)
        return es_fail(ES_EBROKEN,
                       "%s: %llu of %llu frames are lost, but entropy-recorder "
                       "reported no error: something in the training process "
                       "overwrites the shared memory",
                       recorder->path, lost, all);
    if (reply->committed > report->pushed)
        return es_fail(ES_EFORMAT,
                       "%s: %llu frames are in the file, but %llu were pushed: "
                       "something in "
                       "the training process overwrites the shared memory",
                       recorder->path, (unsigned long long)reply->committed,
                       all);
    return ES_OK;
}

static es_status end_recording(es_recorder *recorder, es_run_status status,
                               es_recorder_report *report)
{
    /* Store the number of missing frames in the ring again, because a bug may
     * have overwritten it there. The recorder writes it into the file. */
    atomic_store(&recorder->ring.words->dropped,
                 recorder->dropped + recorder->missed);
    es_ring_close(&recorder->ring, (uint32_t)status);
    es_answer answer = await_end(recorder, status);
    char end_text[64];
    es_recorder_reap(end_text, sizeof end_text, &recorder->child,
                     answer == ES_SILENT ? 0 : REAP_MS);
    *report = count_frames(recorder);
    if (answer == ES_ANSWERED)
        return judge_recording(recorder, report);
    return es_fail(
        ES_EBROKEN,
        "%s: entropy-recorder (pid %d) %s: %llu of %llu frames are not "
        "known to be in the file",
        recorder->path, (int)recorder->child.pid, end_text,
        (unsigned long long)report->lost,
        (unsigned long long)(report->pushed + recorder->missed));
}

es_status es_recorder_close(es_recorder *recorder, es_run_status status,
                            es_recorder_report *report)
{
    static const char type[] = "es_recorder_report";
    es_recorder_report counts = {0};
    es_status result = ES_OK;
    /* A report without a size is an error of the caller, but the run is ended
     * nevertheless. */
    es_status taken =
        report ? es_sized_give(report, &counts, sizeof counts, type) : ES_OK;
    if (recorder && es_recorder_is_mine(recorder))
        result = end_recording(recorder, status, &counts);
    else if (recorder)
        result = es_fail(ES_EFORK,
                         "%s: only the process that opened a "
                         "recorder can end the run",
                         recorder->path);
    free_recorder(recorder);
    if (report && taken == ES_OK)
        taken = es_sized_give(report, &counts, sizeof counts, type);
    return result < ES_OK ? result : taken;
}
