/* Chooses whether a recording is stored in a run file or in a fragment, by the
   type of the file system and the existing files. Copies a finished fragment on
   a local disk into its run file. */
#include "store/place.h"

#include "store/esf.h"
#include "store/merge.h"
#include "store/store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/**
 * Fails if a fragment is about to be created for a run that the run file
 * already contains, because a run must be stored either in its fragment or in
 * its run file, never in both.
 */
static es_status check_run_file(const es_place *place, const char *path,
                                const char *uuid)
{
    es_reader *reader = NULL;
    es_status status = ES_OK;
    if (!uuid || !exists(path) || exists(place->path))
        return ES_OK;
    if ((status = es_reader_open(&reader, path)) < 0)
        return status;
    const size_t n = es_reader_n_runs(reader);
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        es_run_info info;
        status = es_reader_run(reader, i, &info);
        if (status == ES_OK && strcmp(info.uuid, uuid) == 0)
            status = es_fail(
                ES_EIO,
                "%s: already contains the run, which a fragment%s%s cannot "
                "continue: record into another file, or use --store "
                "sqlite if no other host reads the file",
                path, place->type[0] ? " on " : "", place->type);
    }
    es_reader_close(reader);
    return status;
}

es_status es_place_choose(es_place *out, const char *path, es_store store,
                          const char *uuid)
{
    char fragment[PATH_MAX];
    *out = (es_place){.folds = false};
    if ((unsigned)store > ES_STORE_FRAGMENT)
        return es_fail(ES_EARGUMENT, "%s: unknown store: %d", path, (int)store);
    if (snprintf(out->path, PATH_MAX, "%s", path) >= PATH_MAX ||
        !es_esf_beside(fragment, path))
        return es_fail(ES_EARGUMENT, "%s: %s", path, strerror(ENAMETOOLONG));
    if (es_esf_is_name(path) || store == ES_STORE_SQLITE)
        return ES_OK;
    es_mount_of_file(out->type, path);
    if (store == ES_STORE_AUTO && !out->type[0] &&
        (exists(path) || !exists(fragment)))
        return ES_OK;
    out->folds = !out->type[0];
    memcpy(out->path, fragment, sizeof fragment);
    return check_run_file(out, path, uuid);
}

/**
 * Copies the fragment's runs into the run file and removes the fragment. The
 * caller must hold the fragment's lock.
 */
static es_status move_runs(const char *fragment, const char *run_file)
{
    es_reader *reader = NULL;
    es_writer *writer = NULL;
    size_t copied = 0, skipped = 0;
    es_status status;
    if ((status = es_reader_open(&reader, fragment)) < 0 ||
        (status = es_writer_open(&writer, run_file, ES_DURABLE)) < 0 ||
        (status = es_merge(writer, reader, &copied, &skipped, NULL)) < 0)
        goto done;
    status = es_writer_close(writer);
    writer = NULL;
    if (status == ES_OK &&
        (skipped || es_reader_n_damaged(reader) || es_merge_is_behind(reader)))
        status =
            es_fail(ES_EFORMAT,
                    "%s: kept next to %s: some of its runs are damaged, or "
                    "already in that file",
                    fragment, run_file);
    if (status == ES_OK && unlink(fragment) != 0)
        status =
            es_fail(ES_EIO, "%s: cannot remove: %s", fragment, strerror(errno));
done:
    es_writer_abandon(writer);
    es_reader_close(reader);
    return status;
}

es_status es_place_fold(const char *fragment, const char *run_file)
{
    es_database place = {0};
    es_lock lock = {.is_optional = true};
    es_status status = es_database_locate(&place, fragment);
    if (status == ES_OK)
        status = es_lock_take(&lock, place.file, fragment);
    if (status == ES_OK)
        status = move_runs(fragment, run_file);
    es_lock_release(&lock, true);
    es_database_close(&place);
    return status;
}
