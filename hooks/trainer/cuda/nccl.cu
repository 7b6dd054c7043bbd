/* Loads NCCL's functions from its library, and uses them to join ranks, to sum
 * over ranks, and to abort. This file needs no device; the emulation runs the
 * same code with a fake library. */
#include "hooks/trainer/cuda/nccl.h"

#include <atomic>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SONAME "libnccl.so.2"
#define ENVIRONMENT "ENTROPY_TRAIN_NCCL"

static bool find_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library, es_nccl *out)
{
    return find_symbol(library, "ncclGetErrorString", &out->error) &&
           find_symbol(library, "ncclGetUniqueId", &out->unique_id) &&
           find_symbol(library, "ncclCommInitRank", &out->init_rank) &&
           find_symbol(library, "ncclCommGetAsyncError", &out->async_error) &&
           find_symbol(library, "ncclAllReduce", &out->all_reduce) &&
           find_symbol(library, "ncclCommDestroy", &out->destroy) &&
           find_symbol(library, "ncclCommAbort", &out->abort);
}

/* Loads the library, which is never unloaded, because it uses the device until
 * the process ends. */
es_status es_nccl_find(const es_nccl **out)
{
    static es_nccl nccl;
    const char *given = getenv(ENVIRONMENT);
    const char *path = given && *given ? given : SONAME;
    *out = &nccl;
    if (nccl.abort)
        return ES_OK;
    (void)setenv("NCCL_ALGO", "Ring", 0);
    (void)setenv("NCCL_PROTO", "Simple", 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) { /* dlerror's message usually begins with the path */
        const char *why = dlerror();
        const bool is_named = why && strncmp(why, path, strlen(path)) == 0;
        return es_fail(ES_EIO, "%s%s%s", is_named ? "" : path,
                       is_named ? "" : ": ", why ? why : "cannot be loaded");
    }
    if (find_all(library, &nccl))
        return ES_OK;
    nccl = {};
    return es_fail(ES_EIO, "%s: not NCCL 2", path);
}

es_status es_nccl_is_there(void)
{
    const es_nccl *nccl;
    return es_nccl_find(&nccl);
}

bool es_nccl_goes_alone(void)
{
    const char *given = getenv(ENVIRONMENT "_ALONE");
    return given && strcmp(given, "1") == 0;
}

es_status es_nccl_make_id(char id[ES_RANK_ID_SIZE])
{
    const es_nccl *nccl;
    es_nccl_id made = {};
    const es_status status = es_nccl_find(&nccl);
    const int code = status == ES_OK ? nccl->unique_id(&made) : 0;
    memcpy(id, made.bytes, sizeof made.bytes);
    return code == 0
               ? status
               : es_fail(ES_EIO, "NCCL: cannot create an id for the ranks: %s",
                         nccl->error(code));
}

double es_nccl_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- joining -------------------------------------------------------------- */

typedef struct joining {
    const es_nccl *nccl;
    es_nccl_id id;
    int rank, world, device;
    const char *(*enter)(int device);
    es_nccl_comm comm;
    const char *why; /* reason for the failure, or NULL on success */
    std::atomic<bool> is_done;
} joining;

static void *init_rank(void *argument)
{
    joining *j = (joining *)argument;
    j->why = j->enter ? j->enter(j->device) : NULL;
    const int code =
        j->why ? 0 : j->nccl->init_rank(&j->comm, j->world, j->id, j->rank);
    if (code != 0)
        j->why = j->nccl->error(code);
    j->is_done = true;
    return NULL;
}

/* Waits until the helper thread has connected this process with the other
 * ranks. Returns ES_OK, or ES_EIO if a rank is lost or the timeout has
 * passed. */
static es_status wait_to_join(const joining *j,
                              const es_rank_patience *patience)
{
    const double begin = es_nccl_now();
    while (!j->is_done) {
        if (patience->is_over(patience->user))
            return es_fail(ES_EIO, "NCCL: another rank has exited or failed");
        if (es_nccl_now() - begin > patience->seconds)
            return es_fail(
                ES_EIO,
                "NCCL: the ranks' devices did not connect within %.9g s "
                "(--rank-timeout): set NCCL_DEBUG=INFO, and NCCL_SOCKET_IFNAME "
                "to a network that all ranks share",
                patience->seconds);
        (void)usleep(500);
    }
    return ES_OK;
}

es_status es_nccl_join(es_nccl_ranks *out, const char id[ES_RANK_ID_SIZE],
                       int rank, int world, const es_rank_patience *patience,
                       const char *(*enter)(int device), int device)
{
    pthread_t thread;
    es_status status = es_nccl_find(&out->nccl);
    if (status != ES_OK)
        return status;
    joining *j = (joining *)calloc(1, sizeof *j);
    if (!j)
        return es_fail(ES_ENOMEM, "out of memory for the ranks' devices");
    j->nccl = out->nccl;
    memcpy(j->id.bytes, id, sizeof j->id.bytes);
    j->rank = rank;
    j->world = world;
    j->enter = enter;
    j->device = device;
    if (pthread_create(&thread, NULL, init_rank, j) != 0) {
        free(j);
        return es_fail(ES_ENOMEM,
                       "cannot start a thread for NCCL: out of memory");
    }
    if ((status = wait_to_join(j, patience)) != ES_OK) {
        (void)pthread_detach(thread); /* `j` is not freed, because the thread
                                       * still uses it */
        return status;
    }
    (void)pthread_join(thread, NULL);
    if (j->why)
        status = es_fail(ES_EIO,
                         "NCCL: %s: give each rank a separate device, or set "
                         "NCCL_DEBUG=WARN",
                         j->why);
    else
        out->comm = j->comm;
    free(j);
    return status;
}

/* Errors are ignored, since the ranks are closing. */
void es_nccl_leave(es_nccl_ranks *ranks)
{
    if (ranks->comm)
        (void)ranks->nccl->destroy(ranks->comm);
    ranks->comm = NULL;
}

/* --- sums ----------------------------------------------------------------- */

int es_nccl_reduce(const es_nccl_ranks *ranks, void *x, size_t n,
                   es_rank_sum how, void *stream)
{
    static const struct {
        int type, op;
    } known[ES_N_RANK_SUMS] = {{ES_NCCL_FLOAT32, ES_NCCL_SUM},
                               {ES_NCCL_FLOAT64, ES_NCCL_SUM},
                               {ES_NCCL_FLOAT32, ES_NCCL_MAX}};
    return ranks->nccl->all_reduce(x, x, n, known[how].type, known[how].op,
                                   ranks->comm, stream);
}

const char *es_nccl_find_end(const es_nccl_ranks *ranks,
                             const es_rank_patience *patience, double waited)
{
    int code = 0;
    if (patience->is_over(patience->user))
        return "another rank has exited or failed";
    if (ranks->nccl->async_error(ranks->comm, &code) != 0 || code != 0)
        return ranks->nccl->error(code);
    return waited > patience->seconds
               ? "a rank has been silent for longer than --rank-timeout"
               : NULL;
}
