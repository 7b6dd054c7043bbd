/* Loads libpq when the first database is opened. libpq is not linked, because
 * it loads OpenSSL and Kerberos, which programs that only read run files do not
 * need. Once loaded, libpq stays loaded. */
#include "store/postgresql/libpq.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

es_libpq es_pq;

static struct {
    pthread_mutex_t mutex;
    bool is_there;
} loaded = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static es_status load_library(void)
{
    void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return es_fail(ES_EIO,
                       "a PostgreSQL database needs libpq.so.5: install "
                       "libpq5: %s",
                       dlerror());
#define FIND(returned, name, parameters)                                       \
    &&find_function(library, "PQ" #name, &es_pq.name)
    loaded.is_there = true ES_LIBPQ(FIND);
    return loaded.is_there ? ES_OK
                           : es_fail(ES_EIO, "libpq.so.5: functions are "
                                             "missing: install libpq5 of "
                                             "PostgreSQL 10 or later");
}

es_status es_libpq_load(void)
{
    pthread_mutex_lock(&loaded.mutex);
    const es_status status = loaded.is_there ? ES_OK : load_library();
    pthread_mutex_unlock(&loaded.mutex);
    return status;
}
