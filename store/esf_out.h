/**
 * Writes fragment files (esf.h) for writer*.c. Functions gather records in
 * memory, and a commit appends them as one frame. All functions accept NULL,
 * which a writer of an SQLite file passes; they then do nothing and return
 * ES_OK.
 */
#ifndef ES_ESF_OUT_H
#define ES_ESF_OUT_H

#include "store/esf.h"
#include "store/store_internal.h"

typedef struct es_esf_out es_esf_out;

/**
 * The place where an earlier writer's frames end and new frames are appended.
 */
typedef struct es_esf_place {
    int64_t end; /* offset; 0 if the file does not exist or is empty */
    uint64_t sequence;
    uint32_t attempt, seed;
} es_esf_place;

/**
 * Opens the file for appending and truncates a torn tail. A new file is created
 * by the first commit.
 *
 *   database  borrowed; its path and file are used
 *   durable   true: the data is on the disk when a commit returns
 *
 * Returns ES_OK, ES_EIO, ES_ENOMEM.
 */
es_status es_esf_out_open(es_esf_out **out, const es_database *database,
                          const es_esf_place *place, bool durable) ES_MUST_USE;

/**
 * Frees the state and closes the descriptor, but writes nothing. `out` may be
 * NULL.
 */
void es_esf_out_free(es_esf_out *out);

/**
 * Add records to the current transaction. A run record begins an attempt to
 * record a run. All following records must belong to this run; records of other
 * runs fail with ES_EARGUMENT.
 *
 *   run     run_id, which is the run's number in the file
 *   resume  same as in es_writer_run; negative if the run is new
 *
 * Returns ES_OK, ES_EARGUMENT (also for a transaction of more than ES_ESF_MOST
 * bytes), ES_ENOMEM.
 */
es_status es_esf_out_run(es_esf_out *out, int64_t run, const es_run_info *info,
                         int64_t resume) ES_MUST_USE;
es_status es_esf_out_series(es_esf_out *out, int64_t run, int64_t series,
                            const char *name, es_shape shape, es_phase phase,
                            const char *unit) ES_MUST_USE;
es_status es_esf_out_sample(es_esf_out *out, int64_t run, int64_t series,
                            int64_t step, int32_t crc, const float *values,
                            size_t n) ES_MUST_USE;
es_status es_esf_out_event(es_esf_out *out, int64_t run,
                           const es_event *event) ES_MUST_USE;
es_status es_esf_out_map(es_esf_out *out, int64_t run, const es_map *map,
                         const float *values) ES_MUST_USE;
es_status es_esf_out_end(es_esf_out *out, int64_t run, es_run_status status,
                         const char *at) ES_MUST_USE;

/**
 * Appends the gathered records, if there are any, as one frame. On failure the
 * records are discarded, and the file logically ends where it ended before the
 * call. Returns ES_OK, ES_EIO.
 */
es_status es_esf_out_commit(es_esf_out *out) ES_MUST_USE;
void es_esf_out_rollback(es_esf_out *out);

/**
 * Appends a heartbeat if the last frame is ES_ESF_BEAT_MS old. If this fails,
 * the next commit fails.
 */
void es_esf_out_beat(es_esf_out *out);

/**
 * Appends a frame that marks the file as closed by its writer. Afterwards the
 * caller must call es_esf_out_free. Returns ES_OK, ES_EIO.
 */
es_status es_esf_out_finish(es_esf_out *out) ES_MUST_USE;

/**
 * Returns true if the path no longer names the file that is being written.
 * Returns false if the file was not created yet.
 */
bool es_esf_out_has_moved(const es_esf_out *out);

/** Copies this machine's boot_id into `out`, or "" if the machine has none. */
void es_esf_boot(char out[ES_UUID_SIZE]);

#endif
