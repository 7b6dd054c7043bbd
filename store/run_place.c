/* Finds the path or URL under which one of a reader's runs is stored, and
   whether the run is still being written. All runs of a run file or fragment
   have the same answers; the runs of a PostgreSQL database have separate
   answers. */
#include "store/run_place.h"

#include "analyzer/base/checked.h"
#include "store/postgres_in.h"
#include "store/reader_internal.h"

static const es_stored_run *find(const es_reader *reader, size_t run)
{
    if (run < reader->contents.n_runs)
        return &reader->contents.runs[run];
    es_fail(ES_EARGUMENT, "%s: no run with index %zu: it has %zu",
            reader->database.path, run, reader->contents.n_runs);
    return NULL;
}

es_status es_reader_place(es_run_place *out, const es_reader *reader,
                          size_t run)
{
    const es_stored_run *stored = find(reader, run);
    const bool is_alone = reader->source.remote != NULL;
    *out = (es_run_place){.number = is_alone ? 1 : run + 1,
                          .n_runs = is_alone ? 1 : reader->contents.n_runs};
    if (!stored)
        return ES_EARGUMENT;
    return is_alone ? es_remote_run_url(&out->path, reader->source.remote,
                                        stored->info.uuid)
                    : es_copy_text(&out->path, reader->database.path);
}

es_status es_reader_is_run_written(const es_reader *reader, size_t run,
                                   bool *out)
{
    const es_stored_run *stored = find(reader, run);
    if (!reader->source.remote)
        return es_reader_is_written(reader, out);
    *out =
        stored && es_remote_is_run_written(reader->source.remote, stored->id);
    return stored ? ES_OK : ES_EARGUMENT;
}
