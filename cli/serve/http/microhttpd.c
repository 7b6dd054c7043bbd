/* Loads libmicrohttpd when `serve` starts, unless it is linked statically, as
 * in the program that `make wheel` builds. */
#include "cli/serve/http/microhttpd.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

es_mhd_library es_mhd;

#ifdef ES_MICROHTTPD_IS_LINKED
es_status es_mhd_load(void)
{
#define TAKE(name) es_mhd.name = MHD_##name;
    ES_MHD_FUNCTIONS(TAKE)
    return ES_OK;
}
#else
static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

es_status es_mhd_load(void)
{
    void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libmicrohttpd.so.1", RTLD_NOW | RTLD_LOCAL);
#define FIND(name) &&find_function(library, "MHD_" #name, &es_mhd.name)
    if (library ES_MHD_FUNCTIONS(FIND))
        return ES_OK;
    return es_fail(ES_EIO,
                   "serve needs libmicrohttpd.so.12: install "
                   "libmicrohttpd12: %s",
                   library ? "the installed version lacks functions"
                           : dlerror());
}
#endif
