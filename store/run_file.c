/* What holds runs, for readers: a run file, which is a SQLite database, or a
   fragment. By its first bytes, whatever it is called; behind this file both
   are a connection with the tables of a run file. */
#include "store/esf_in.h"
#include "store/place.h"
#include "store/store_internal.h"

#include <unistd.h>

es_status es_run_file_open(es_database *database, es_esf **out,
                           const char *path)
{
    int64_t size = 0;
    es_status status;
    *out = NULL;
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_database_inspect(database, &size)) < 0)
        return status;
    if (size < 0) {
        char fragment[PATH_MAX];
        if (es_esf_is_name(path) || !es_place_beside(fragment, path) ||
            access(fragment, F_OK) != 0)
            return es_fail(ES_EIO, "%s: no such file", path);
        es_database_close(database); /* the recording went beside it */
        return es_run_file_open(database, out, fragment);
    }
    return es_esf_is_name(path) ? es_esf_open(out, database, false)
                                : es_database_open(database, false);
}

es_status es_run_file_refresh(es_database *database, es_esf *fragment)
{
    return fragment ? es_esf_refresh(fragment) : es_schema_check(database);
}

es_status es_run_file_is_written(const es_database *database,
                                 const es_esf *fragment, bool *out)
{
    return fragment ? es_esf_is_written(fragment, out)
                    : es_lock_check(out, database->file, database->path);
}

void es_run_file_close(es_database *database, es_esf *fragment)
{
    if (database->owner == getpid())
        es_esf_close(fragment);
    es_database_close(database);
}
