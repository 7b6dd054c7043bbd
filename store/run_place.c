/* Finds the path or URL under which one of a reader's runs is stored, and
   whether the run is still being written. Both are the same for all runs of a
   file, but differ between the runs of a PostgreSQL database. */
#include "store/run_place.h"

#include "analyzer/base/checked.h"
#include "store/reader_internal.h"

static const es_stored_run *find_run(const es_reader *reader, size_t run)
{
    if (run < reader->contents.n_runs)
        return &reader->contents.runs[run];
    es_fail(ES_EARGUMENT, "%s: no run with index %zu: it has %zu runs",
            reader->database.path, run, reader->contents.n_runs);
    return NULL;
}

es_status es_reader_place(es_run_place *out, const es_reader *reader,
                          size_t run)
{
    const es_stored_run *stored = find_run(reader, run);
    const es_run_source *source = &reader->source;
    const bool is_alone = source->backend->locate_run != NULL;
    *out = (es_run_place){.number = is_alone ? 1 : run + 1,
                          .n_runs = is_alone ? 1 : reader->contents.n_runs};
    if (!stored)
        return ES_EARGUMENT;
    return is_alone ? source->backend->locate_run(&out->path, source,
                                                  stored->info.uuid)
                    : es_copy_text(&out->path, reader->database.path);
}

es_status es_reader_is_run_written(const es_reader *reader, size_t run,
                                   bool *out)
{
    const es_stored_run *stored = find_run(reader, run);
    const es_run_source *source = &reader->source;
    if (!source->backend->is_run_written)
        return es_reader_is_written(reader, out);
    *out = stored && source->backend->is_run_written(source, stored->id);
    return stored ? ES_OK : ES_EARGUMENT;
}

bool es_path_is_url(const char *path)
{
    return es_run_source_backend(path)->locate_run != NULL;
}

es_status es_path_hide_password(char *path)
{
    const es_store_backend *backend = es_run_source_backend(path);
    return backend->hide_password ? backend->hide_password(path) : ES_OK;
}

int64_t es_path_state(const char *path)
{
    const es_store_backend *backend = es_run_source_backend(path);
    return backend->state ? backend->state(path) : 0;
}
