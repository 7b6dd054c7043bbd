/* NCCL's functions out of its library. Nothing here needs a device: the
 * emulation calls the same functions of a fake library. */
#include "hooks/trainer/cuda/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SONAME "libnccl.so.2"
#define ENVIRONMENT "ENTROPY_TRAIN_NCCL"

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library, es_nccl *out)
{
    return find(library, "ncclGetErrorString", &out->error) &&
           find(library, "ncclGetUniqueId", &out->unique_id) &&
           find(library, "ncclCommInitRank", &out->init_rank) &&
           find(library, "ncclCommGetAsyncError", &out->async_error) &&
           find(library, "ncclAllReduce", &out->all_reduce) &&
           find(library, "ncclCommDestroy", &out->destroy) &&
           find(library, "ncclCommAbort", &out->abort);
}

/* It stays loaded, as all that belongs to a device. */
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
    if (!library) { /* dlerror's words begin with the path */
        const char *why = dlerror();
        const bool is_named = why && strncmp(why, path, strlen(path)) == 0;
        return es_fail(ES_EIO, "%s%s%s", is_named ? "" : path,
                       is_named ? "" : ": ", why ? why : "cannot be loaded");
    }
    if (find_all(library, &nccl))
        return ES_OK;
    nccl = {};
    return es_fail(ES_EIO, "%s: is no NCCL 2", path);
}

es_status es_nccl_is_there(void)
{
    const es_nccl *nccl;
    return es_nccl_find(&nccl);
}

es_status es_nccl_make_id(char id[ES_RANK_ID_SIZE])
{
    const es_nccl *nccl;
    es_nccl_id made = {};
    const es_status status = es_nccl_find(&nccl);
    const int code = status == ES_OK ? nccl->unique_id(&made) : 0;
    memcpy(id, made.bytes, sizeof made.bytes);
    return code == 0 ? status
                     : es_fail(ES_EIO, "NCCL: no id for the ranks: %s",
                               nccl->error(code));
}

int es_nccl_reduce(const es_nccl *nccl, es_nccl_comm comm, void *x, size_t n,
                   es_rank_sum how, void *stream)
{
    /* As NCCL numbers them: float32 and float64, sum and max. */
    static const struct {
        int type, op;
    } known[ES_N_RANK_SUMS] = {{7, 0}, {8, 0}, {7, 2}};
    return nccl->all_reduce(x, x, n, known[how].type, known[how].op, comm,
                            stream);
}
