/**
 * Sources of runs. Three backends read the three kinds of storage: run files
 * (source.c), fragments (esf_in.c) and PostgreSQL databases (postgres_in.c).
 * Every source is read through a connection to a database with the tables of a
 * run file; only the backend knows where the rows come from.
 */
#ifndef ES_SOURCE_H
#define ES_SOURCE_H

#include "store/store_internal.h"

struct es_reader; /* reader.h */
typedef struct es_store_backend es_store_backend;

/** An open source of runs. */
typedef struct es_run_source {
    const es_store_backend *backend; /* NULL if no backend was opened */
    es_database *database;
    void *state; /* state of the backend: an es_esf, an es_remote, or NULL */
} es_run_source;

/** Damaged frames of a run, before the next complete frame. */
typedef struct es_run_source_loss {
    int64_t run_id, step; /* id of the run; highest step before the damaged
                             frames */
    uint64_t n_frames;
} es_run_source_loss;

/**
 * The operations of a backend. Operations below `close` may be NULL; the
 * functions es_run_source_... below then return the default that their comments
 * give.
 */
struct es_store_backend {
    bool grows; /* true if new samples become visible before the source is
                   refreshed */

    /** Returns true if this backend opens `path`. */
    bool (*accepts)(const char *path);

    /**
     * Opens the source: sets the handle of source->database, and source->state.
     * The caller calls `close` afterwards, even after a failure.
     */
    es_status (*open)(es_run_source *source, const char *path);

    /** Makes data visible that was written after the last refresh. */
    es_status (*refresh)(const es_run_source *source);

    /** Sets *out to true if any run is still being written. */
    es_status (*is_written)(const es_run_source *source, bool *out);

    /** Frees source->state. At the time of the call, the database is still
     *  connected. */
    void (*close)(es_run_source *source);

    /* --- optional --- */

    /** Returns an array of n entries, each of which describes damaged frames.
     *  The array is valid until the next refresh. */
    const es_run_source_loss *(*losses)(const es_run_source *source, size_t *n);

    /** Returns true if the source contains complete data that is not visible
     *  yet. */
    bool (*is_behind)(const es_run_source *source);

    /** Loads the attention maps of a run into the database. */
    es_status (*load_maps)(const es_run_source *source, int64_t run_id,
                           const char *uuid);

    /**
     * Returns true if the path has conditions on members of the configuration.
     * `leave_out` evaluates these conditions.
     */
    bool (*reads_config)(const es_run_source *source);

    /**
     * Deletes the runs that do not meet the path's conditions on members of the
     * configuration. If *n, the number of deleted runs, is not 0, the reader
     * must load its contents again. Returns ES_OK; ES_EUSAGE if a condition
     * names a member that no run has; the errors of es_reader_config_each.
     */
    es_status (*leave_out)(size_t *n, const es_run_source *source,
                           struct es_reader *reader);

    /** Sets *out to the path of one run, which the caller must free. */
    es_status (*locate_run)(char **out, const es_run_source *source,
                            const char *uuid);

    /** Same as `is_written` for one run. */
    bool (*is_run_written)(const es_run_source *source, int64_t run_id);

    /** Implement es_path_hide_password and es_path_state for paths of this
     *  backend. */
    es_status (*hide_password)(char *path);
    int64_t (*state)(const char *path);
};

extern const es_store_backend es_esf_backend, es_remote_backend;

/** Returns the backend that opens `path`; never NULL. */
const es_store_backend *es_run_source_backend(const char *path);

/**
 * Opens a source of runs for reading: a run file; a fragment, which may also be
 * RUN.esf if RUN.db does not exist; or the runs that a PostgreSQL URL names.
 *
 *   source    must be zeroed
 *   database  must be zeroed except for `tails`; must not move
 *
 * The caller must call es_run_source_close, even after a failure. Returns
 * ES_OK; ES_EIO if there is no such file; the errors of es_database_inspect,
 * es_database_open, es_esf_open and es_remote_open.
 */
es_status es_run_source_open(es_run_source *source, es_database *database,
                             const char *path) ES_MUST_USE;

/** Closes the source and its database, whose statements must be finalised. */
void es_run_source_close(es_run_source *source, es_database *database);

/** Returns the result of the backend's operation `losses`. If the backend has
 * no such operation, returns NULL and sets *n to 0. */
const es_run_source_loss *es_run_source_losses(const es_run_source *source,
                                               size_t *n);

/** Returns the result of the backend's operation `is_behind`; false if the
 *  backend has no such operation. */
bool es_run_source_is_behind(const es_run_source *source);

/** Calls the backend's operation `load_maps`. If the backend has no such
 *  operation, does nothing, because the maps are in the database already. */
es_status es_run_source_load_maps(const es_run_source *source, int64_t run_id,
                                  const char *uuid) ES_MUST_USE;

/** Returns the result of the backend's operation `reads_config`; false if the
 *  backend has no such operation. */
bool es_run_source_reads_config(const es_run_source *source);

#endif
