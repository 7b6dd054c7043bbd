/* A fake NCCL library for processes with emulated devices, whose work is
 * complete when a launch returns. The library adds the ranks' arrays in the
 * order of the ranks, in a file that all ranks map into memory. As with NCCL's
 * watchdog, a call fails if another rank has ended, or if another rank does not
 * make the same call within a minute.
 *
 * The variable FAKE_NCCL requests a fault. With FAKE_NCCL=N, call number N of
 * ncclAllReduce returns an error. With FAKE_NCCL=hangs or FAKE_NCCL=dies, rank
 * 1 hangs or dies when the ranks connect. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ID_BYTES = 128, MAX_RANKS = 8, PIECE = 1 << 16, REMOTE_ERROR = 6 };

typedef struct shared {
    atomic_int n_arrived; /* how often ranks have arrived at barriers so far */
    atomic_int processes[MAX_RANKS];
    struct {
        int type, op;
        size_t n;
        char bytes[PIECE];
    } parts[MAX_RANKS];
} shared;

typedef struct comm {
    shared *all;
    int rank, world, n_barriers;
    long n_calls, fails;
} comm;

typedef struct id {
    char bytes[ID_BYTES];
} id;

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *ncclGetErrorString(int code);
EXPORT int ncclGetUniqueId(id *out);
EXPORT int ncclCommInitRank(comm **out, int world, id known, int rank);
EXPORT int ncclCommGetAsyncError(comm *c, int *code);
EXPORT int ncclAllReduce(const void *in, void *out, size_t n, int type, int op,
                         comm *c, void *stream);
EXPORT int ncclCommDestroy(comm *c);
EXPORT int ncclCommAbort(comm *c);

const char *ncclGetErrorString(int code)
{
    return code == REMOTE_ERROR ? "remote process exited" : "fake error";
}

int ncclGetUniqueId(id *out)
{
    const char *folder = getenv("TMPDIR");
    memset(out, 0, sizeof *out);
    snprintf(out->bytes, sizeof out->bytes, "%s/fake-nccl.XXXXXX",
             folder ? folder : "/tmp");
    const int fd = mkstemp(out->bytes);
    const bool is_made = fd >= 0 && ftruncate(fd, sizeof(shared)) == 0;
    if (fd >= 0)
        close(fd);
    return is_made ? 0 : 2;
}

/* Returns true if the process has ended, even if it still exists as a
 * zombie. */
static bool has_ended(int process)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return state == 'Z' || state == 'X';
}

static bool one_has_ended(const comm *c)
{
    for (int r = 0; r < c->world; r++) {
        const int process = atomic_load(&c->all->processes[r]);
        if (process != 0 && has_ended(process))
            return true;
    }
    return false;
}

static bool all_arrive(comm *c)
{
    const int due = ++c->n_barriers * c->world;
    atomic_fetch_add(&c->all->n_arrived, 1);
    for (int i = 0; i < 600000; i++) {
        /* Find out whether a rank has ended before reading n_arrived, because a
         * rank may arrive and then end. */
        const bool in_vain = i % 100 == 99 && one_has_ended(c);
        if (atomic_load(&c->all->n_arrived) >= due)
            return true;
        if (in_vain)
            return false;
        usleep(100);
    }
    return false;
}

static void go_wrong(const char *how)
{
    if (strcmp(how, "dies") == 0)
        raise(SIGKILL);
    while (strcmp(how, "hangs") == 0)
        pause();
}

int ncclCommInitRank(comm **out, int world, id known, int rank)
{
    const char *fails = getenv("FAKE_NCCL");
    if (fails && rank == 1)
        go_wrong(fails);
    const int fd = open(known.bytes, O_RDWR | O_CLOEXEC);
    comm *c = calloc(1, sizeof *c);
    if (fd < 0 || !c || world > MAX_RANKS)
        return 2;
    c->all =
        mmap(NULL, sizeof *c->all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->all == MAP_FAILED)
        return 2;
    c->rank = rank;
    c->world = world;
    c->fails = fails ? atol(fails) : 0;
    atomic_store(&c->all->processes[rank], getpid());
    *out = c;
    if (!all_arrive(c))
        return REMOTE_ERROR;
    unlink(known.bytes);
    return 0;
}

int ncclCommGetAsyncError(comm *c, int *code)
{
    (void)c;
    *code = 0;
    return 0;
}

static void add_floats(float *out, const float *x, size_t n, int op, bool first)
{
    for (size_t i = 0; i < n; i++)
        out[i] = op == 2 ? (first ? x[i] : fmaxf(out[i], x[i]))
                         : (first ? 0 : out[i]) + x[i];
}

static void add_doubles(double *out, const double *x, size_t n, bool first)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (first ? 0 : out[i]) + x[i];
}

/* Adds up n numbers of `size` bytes over all ranks; n * size is at most
 * PIECE. */
static int reduce_piece(char *out, const char *in, size_t n, size_t size,
                        int type, int op, comm *c)
{
    shared *all = c->all;
    memcpy(all->parts[c->rank].bytes, in, n * size);
    all->parts[c->rank].type = type;
    all->parts[c->rank].op = op;
    all->parts[c->rank].n = n;
    if (!all_arrive(c))
        return REMOTE_ERROR;
    for (int r = 0; r < c->world; r++) {
        const void *x = all->parts[r].bytes;
        if (all->parts[r].type != type || all->parts[r].op != op ||
            all->parts[r].n != n) {
            fprintf(stderr, "fake NCCL: the ranks make different calls\n");
            abort();
        }
        if (type == 8)
            add_doubles((double *)(void *)out, x, n, r == 0);
        else
            add_floats((float *)(void *)out, x, n, op, r == 0);
    }
    return all_arrive(c) ? 0 : REMOTE_ERROR;
}

int ncclAllReduce(const void *in, void *out, size_t n, int type, int op,
                  comm *c, void *stream)
{
    const size_t size = type == 8 ? sizeof(double) : sizeof(float);
    const size_t most = PIECE / size;
    int code = ++c->n_calls == c->fails ? 3 : 0;
    (void)stream;
    for (size_t first = 0, some; code == 0 && first < n; first += some) {
        some = n - first < most ? n - first : most;
        code = reduce_piece((char *)out + first * size,
                            (const char *)in + first * size, some, size, type,
                            op, c);
    }
    return code;
}

int ncclCommDestroy(comm *c)
{
    munmap(c->all, sizeof *c->all);
    free(c);
    return 0;
}

int ncclCommAbort(comm *c)
{
    return ncclCommDestroy(c);
}
