/**
 * The reading half of fragment files (esf.h): a private database, which no
 * other connection sees, with the tables of a run file; what is written in the
 * fragment is put into it, call by call, as it was first. The values of samples
 * stay in the fragment, and are read when they are requested: memory grows with
 * the number of samples (16 bytes each, esf_index.h) and not with theirs of
 * values.
 */
#ifndef ES_ESF_IN_H
#define ES_ESF_IN_H

#include "store/esf.h"
#include "store/esf_out.h"
#include "store/store_internal.h"

/**
 * Makes the private database of a database that was located, as its handle, and
 * puts into it what the file has.
 *
 *   is_new  there is no file, or one without a byte: the tables are empty
 *
 * ES_OK; ES_EFORMAT (no fragment, its header or its first frame damaged, a
 * record that no writer made); ES_EVERSION; ES_EIO; ES_ENOMEM.
 */
es_status es_esf_open(es_esf **out, es_database *database,
                      bool is_new) ES_MUST_USE;

/** Puts in what the file has more than before: all of it anew if it is another
 *  file, or shorter, or not what was read. On failure the tables stay as they
 *  were. Returns as es_esf_open. */
es_status es_esf_refresh(es_esf *esf) ES_MUST_USE;

/** Damaged frames that a run's whole ones follow. */
typedef struct es_esf_loss {
    int64_t run_id, step; /* the highest step before them */
    uint64_t n_frames;
} es_esf_loss;

/** (n) by their place in the file; borrowed until the next refresh. */
const es_esf_loss *es_esf_losses(const es_esf *esf, size_t *n);

/** Whether whole frames were left for later, since one before them is not there
 *  and they are younger than ES_ESF_SETTLED_MS. */
bool es_esf_is_behind(const es_esf *esf);

/** Before the database is disconnected, which keeps the tables; samples are
 *  missing from now on. NULL is fine. */
void es_esf_close(es_esf *esf);

/** Where a writer goes on. ES_OK; ES_ELOCKED: a process of another host was
 *  alive less than ES_ESF_SILENT_MS ago. */
es_status es_esf_find_end(const es_esf *esf, es_esf_place *out) ES_MUST_USE;

/**
 * Whether its writer is at work: it has not closed the file, and it holds the
 * lock, if it runs on this machine and the file system is local. Otherwise it
 * holds that, or its last frame is not older than ES_ESF_SILENT_MS by the
 * clocks of both. ES_OK, ES_EIO, ES_ENOMEM.
 */
es_status es_esf_is_written(const es_esf *esf, bool *out) ES_MUST_USE;

#endif
