/* Opens any source of runs for readers: chooses the backend (see source.h) by
   the path. Also defines the backend of run files. */
#include "store/source.h"

#include "store/esf.h"

#include <unistd.h>

/* --- run files ------------------------------------------------------------ */

static bool accept_file(const char *path)
{
    (void)path;
    return true;
}

/* If RUN.db does not exist, the recording may be in RUN.esf next to it. */
static es_status open_file(es_run_source *source, const char *path)
{
    es_database *database = source->database;
    const es_tails tails = database->tails;
    char fragment[PATH_MAX];
    int64_t size = 0;
    es_status status;
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_database_inspect(database, &size)) < 0)
        return status;
    if (size >= 0)
        return es_database_open(database, false);
    if (!es_esf_beside(fragment, path) || access(fragment, F_OK) != 0)
        return es_fail(ES_EIO, "%s: no such file", path);
    es_database_close(database);
    database->tails = tails;
    source->backend = &es_esf_backend;
    return es_esf_backend.open(source, fragment);
}

static es_status refresh_file(const es_run_source *source)
{
    return es_schema_check(source->database);
}

static es_status is_file_written(const es_run_source *source, bool *out)
{
    const es_database *database = source->database;
    return es_lock_check(out, database->file, database->path);
}

static void close_file(es_run_source *source)
{
    (void)source; /* a run file has no state to free */
}

static const es_store_backend run_file_backend = {
    .grows = true,
    .accepts = accept_file,
    .open = open_file,
    .refresh = refresh_file,
    .is_written = is_file_written,
    .close = close_file,
};

/* --- all sources ---------------------------------------------------------- */

const es_store_backend *es_run_source_backend(const char *path)
{
    static const es_store_backend *const backends[] = {
        &es_remote_backend, &es_esf_backend, &run_file_backend};
    size_t i = 0;
    while (!backends[i]->accepts(path)) /* the last backend accepts every
                                           path */
        i++;
    return backends[i];
}

es_status es_run_source_open(es_run_source *source, es_database *database,
                             const char *path)
{
    *source = (es_run_source){.backend = es_run_source_backend(path),
                              .database = database};
    return source->backend->open(source, path);
}

void es_run_source_close(es_run_source *source, es_database *database)
{
    if (source->backend && database->owner == getpid())
        source->backend->close(source);
    es_database_close(database);
}

const es_run_source_loss *es_run_source_losses(const es_run_source *source,
                                               size_t *n)
{
    *n = 0;
    return source->backend->losses ? source->backend->losses(source, n) : NULL;
}

bool es_run_source_is_behind(const es_run_source *source)
{
    return source->backend->is_behind && source->backend->is_behind(source);
}

es_status es_run_source_load_maps(const es_run_source *source, int64_t run_id,
                                  const char *uuid)
{
    return source->backend->load_maps
               ? source->backend->load_maps(source, run_id, uuid)
               : ES_OK;
}

bool es_run_source_reads_config(const es_run_source *source)
{
    return source->backend->reads_config &&
           source->backend->reads_config(source);
}
