/** Internals shared by esf_in.c and esf_replay.c, which read fragments. */
#ifndef ES_ESF_IN_INTERNAL_H
#define ES_ESF_IN_INTERNAL_H

#include "store/esf_in.h"
#include "store/esf_index.h"
#include "store/esf_pieces.h"
#include "store/writer_internal.h"

/**
 * A series of the file: its key in the temporary private database and the
 * size of its samples.
 */
typedef struct es_esf_known {
    int64_t id; /* series_id; 0 if the series' record was in a damaged frame */
    uint32_t bytes; /* size of a sample's values in bytes */
} es_esf_known;

struct es_esf {
    es_database *database;
    es_writer *writer; /* writer of the temporary private database; NULL if
                          frames are read without filling tables */
    /* Processes a frame: es_esf_replay or a caller's function. */
    es_status (*take)(es_esf *esf, const es_esf_frame *frame, int64_t at,
                      uint64_t n_lost);
    void *user; /* argument for `take` */
    int fd;     /* descriptor of the file, or -1 if it does not exist yet or was
                   closed by es_esf_rest */
    dev_t device;
    ino_t inode;
    int64_t size;    /* size in bytes that the file had when it was last
                        opened */
    int64_t changed; /* time of the file's last change, in ms, comparable with
                        es_esf_clock */
    es_esf_place place; /* where the next frame is expected */
    int64_t last;       /* offset of the last frame */
    es_esf_frame last_frame;
    bool is_behind; /* true if complete frames are not read yet because an
                       earlier frame is missing */
    bool stale;     /* true if the private database does not match the file up
                       to `place` */
    es_tails tails;
    int64_t looked; /* number of bytes that the current read has searched for
                       the beginning of a frame */
    es_esf_pieces pieces;
    unsigned char *payload; /* payload of the current frame; the memory belongs
                               to `pieces` */
    int64_t *runs; /* ids of n_runs runs; the run with number i is at index i -
                      1; 0 if the run's record is lost */
    size_t n_runs;
    es_esf_known *series; /* array of n_series series; the series with number i
                             is at index i - 1 */
    size_t n_series;
    uint32_t attempt; /* es_esf_frame.attempt of the frame that contained the
                         last replayed record */
    int64_t step;     /* highest step so far; used as the step of events that
                         report damage */
    bool has_lost;    /* true if frames were damaged, so that a reference to an
                         unknown record is not an error */
    bool has_missed;  /* true if records of the current frame refer to a lost
                         record */
    uint64_t n_nobodys; /* number of frames that were lost before the first
                           run's record */
    es_run_source_loss *losses;
    size_t n_losses;
    char host[256], boot[ES_UUID_SIZE];
    int64_t pid;
};

/* --- esf_in.c ------------------------------------------------------------- */

/**
 * Opens the file again. Sets `*continued` to true if it is the file that was
 * read before and still contains the frame that was read last. Returns ES_OK,
 * ES_EIO.
 */
es_status es_esf_reopen(es_esf *esf, bool *continued) ES_MUST_USE;

/**
 * Processes all frames, starting at esf->place. If the private database has
 * tables, the caller must have begun a transaction. Returns ES_OK, ES_EIO,
 * ES_ENOMEM or an error of `take`.
 */
es_status es_esf_take_frames(es_esf *esf) ES_MUST_USE;

/** Closes the file and frees the buffers; es_esf_reopen opens the file again.
 */
void es_esf_rest(es_esf *esf);

bool es_esf_is_of_this_machine(const es_esf *esf);

/** Returns true if the file's last frame is older than ES_ESF_SILENT_MS. */
bool es_esf_is_silent(const es_esf *esf);

/* --- esf_replay.c --------------------------------------------------------- */

/** Creates the temporary private database with empty tables, and sets
 *  esf->writer. */
es_status es_esf_make_tables(es_esf *esf) ES_MUST_USE;
void es_esf_drop_tables(es_esf *esf);

/** Empties the tables and discards everything known about the file. */
es_status es_esf_forget(es_esf *esf) ES_MUST_USE;

/**
 * Adds the records of a frame to the tables, within a transaction. If frames
 * before this frame are lost, first adds an event. Returns ES_OK, ES_ENOMEM,
 * ES_EIO, or ES_EFORMAT if a record is invalid.
 */
es_status es_esf_replay(es_esf *esf, const es_esf_frame *frame, int64_t at,
                        uint64_t n_lost) ES_MUST_USE;

#endif
