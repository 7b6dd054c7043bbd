/* Opens any source of runs for readers: a run file (an SQLite database), a
   fragment, or a PostgreSQL database. The form of the name decides which. The
   result is always a connection to a database with the tables of a run file. */
#include "store/esf_in.h"
#include "store/postgres_in.h"
#include "store/postgresql/postgres.h"
#include "store/store_internal.h"

#include <unistd.h>

es_status es_run_file_open(es_database *database, es_run_source *source,
                           const char *path)
{
    int64_t size = 0;
    es_status status;
    if (es_postgres_is_url(path))
        return es_remote_open(&source->remote, database, path);
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_database_inspect(database, &size)) < 0)
        return status;
    if (size < 0) {
        char fragment[PATH_MAX];
        const es_tails tails = database->tails;
        if (es_esf_is_name(path) || !es_esf_beside(fragment, path) ||
            access(fragment, F_OK) != 0)
            return es_fail(ES_EIO, "%s: no such file", path);
        es_database_close(database); /* RUN.db does not exist, but the recording
                                        is in RUN.esf next to it */
        database->tails = tails;
        return es_run_file_open(database, source, fragment);
    }
    return es_esf_is_name(path)
               ? es_esf_open(&source->fragment, database, false)
               : es_database_open(database, false);
}

es_status es_run_file_refresh(es_database *database,
                              const es_run_source *source)
{
    return source->remote     ? es_remote_refresh(source->remote)
           : source->fragment ? es_esf_refresh(source->fragment)
                              : es_schema_check(database);
}

es_status es_run_file_is_written(const es_database *database,
                                 const es_run_source *source, bool *out)
{
    if (source->remote) {
        *out = es_remote_is_written(source->remote);
        return ES_OK;
    }
    return source->fragment
               ? es_esf_is_written(source->fragment, out)
               : es_lock_check(out, database->file, database->path);
}

void es_run_file_close(es_database *database, es_run_source *source)
{
    if (database->owner == getpid()) {
        es_esf_close(source->fragment);
        es_remote_close(source->remote);
    }
    es_database_close(database);
}
