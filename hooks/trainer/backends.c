/* Finds a back-end by its name. The CPU back-end is part of the program. The
 * CUDA back-end is a library that is loaded on demand, so that the program
 * still starts on machines without a driver. */
#include "analyzer/base/process.h"
#include "hooks/trainer/cpu/cpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libentropytrain_cuda.so"
#define ENVIRONMENT "ENTROPY_TRAIN_CUDA"

const char *const es_precision_names[ES_N_PRECISIONS] = {[ES_FP32] = "fp32",
                                                         [ES_TF32] = "tf32",
                                                         [ES_BF16] = "bf16",
                                                         [ES_FP16] = "fp16"};

/* Writes the library's path to `path`: the value of ENTROPY_TRAIN_CUDA if it is
 * set, otherwise the path of the library in or near the program's folder if it
 * exists there, otherwise the bare file name, for which the dynamic loader
 * searches. */
static void find_library(char path[PATH_MAX])
{
    static const char *const places[] = {"", "/../lib/entropyscan"};
    const char *given = getenv(ENVIRONMENT);
    char folder[PATH_MAX];
    if (given && *given) {
        snprintf(path, PATH_MAX, "%s", given);
        return;
    }
    es_process_self(folder); /* sets folder to "" if the path is unknown */
    char *slash = strrchr(folder, '/');
    folder[slash ? slash - folder : 0] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int n = snprintf(path, PATH_MAX, "%s%s/" LIBRARY, folder, places[i]);
        if (n < PATH_MAX && access(path, F_OK) == 0)
            return;
    }
    snprintf(path, PATH_MAX, LIBRARY);
}

/* The library is never unloaded, because a process can unload neither the GPU
 * driver nor the threads that the library has started. */
static es_status load_library(es_ops_getter **out, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) { /* the message of dlerror usually begins with the path */
        const char *why = dlerror();
        if (why && strncmp(why, path, strlen(path)) == 0)
            return es_fail(ES_EIO, "%s: back-end cuda is not available", why);
        return es_fail(ES_EIO, "%s: %s: back-end cuda is not available", path,
                       why ? why : "cannot be loaded");
    }
    const unsigned *stamp = dlsym(library, ES_OPS_STAMP_NAME);
    void *symbol = dlsym(library, ES_OPS_GETTER);
    if (stamp && symbol && *stamp == ES_OPS_STAMP) {
        /* POSIX guarantees that an object pointer returned by dlsym can be
         * converted to a function pointer. */
        memcpy(out, &symbol, sizeof symbol);
        return ES_OK;
    }
    return stamp && symbol
               ? es_fail(ES_EVERSION,
                         "%s: belongs to another build of entropy-train: "
                         "install both from the same build",
                         path)
               : es_fail(ES_EIO, "%s: not a back-end of entropy-train", path);
}

es_status es_ops_find(const es_ops **out, const char *name,
                      es_precision precision)
{
    *out = NULL;
    if (strcmp(name, "cuda") == 0) {
        static es_ops_getter *getter;
        char path[PATH_MAX];
        find_library(path);
        es_status status = getter ? ES_OK : load_library(&getter, path);
        *out = status == ES_OK ? getter(precision) : NULL;
        if (status == ES_OK && !*out)
            status = es_fail(ES_EUSAGE, "back-end cuda has no precision %s",
                             es_precision_names[precision]);
        return status;
    }
    if (strcmp(name, es_cpu_ops.name) != 0)
        return es_fail(ES_EUSAGE,
                       "unknown back-end '%s': expected cpu, cuda or auto",
                       name);
    if (precision == ES_FP32)
        *out = &es_cpu_ops;
    else if (precision == ES_BF16)
        *out = &es_cpu_bf16_ops;
    return *out ? ES_OK
                : es_fail(ES_EUSAGE,
                          "back-end cpu has no precision %s: use fp32 or bf16",
                          es_precision_names[precision]);
}

es_status es_ops_choose(const es_ops **out, const char *name,
                        es_precision precision, char *note, size_t size)
{
    es_backend *backend = NULL;
    snprintf(note, size, "%s", "");
    if (strcmp(name, "auto") != 0)
        return es_ops_find(out, name, precision);
    /* The library may be installed although the machine has no device, so try
     * to open one. */
    if (es_ops_find(out, "cuda", precision) == ES_OK &&
        (*out)->open(&backend, 0) == ES_OK) {
        (*out)->close(backend);
        return ES_OK;
    }
    snprintf(note, size, "using the CPU: %s", es_message());
    return es_ops_find(out, es_cpu_ops.name, precision);
}
