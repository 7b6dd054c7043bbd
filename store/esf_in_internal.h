/** Internals of reading fragments, for esf_in.c and esf_replay.c. */
#ifndef ES_ESF_IN_INTERNAL_H
#define ES_ESF_IN_INTERNAL_H

#include "store/esf_in.h"
#include "store/esf_index.h"
#include "store/esf_pieces.h"
#include "store/writer_internal.h"

/** A series of the file, in the private database. */
typedef struct es_esf_known {
    int64_t id;     /* 0: its record was in a damaged frame */
    uint32_t bytes; /* size of a sample */
} es_esf_known;

struct es_esf {
    es_database *database;
    es_writer *writer; /* of the private database; NULL: there is none */
    /* Processes a frame: es_esf_replay, or a caller's replacement. */
    es_status (*take)(es_esf *esf, const es_esf_frame *frame, int64_t at,
                      uint64_t n_lost);
    void *user; /* argument for `take` */
    int fd;     /* -1: no file yet, or closed by es_esf_rest */
    dev_t device;
    ino_t inode;
    int64_t size;    /* of the file when it was last opened */
    int64_t changed; /* time of the file's last change, in ms of es_esf_clock */
    es_esf_place place; /* expected place of the next frame */
    int64_t last;       /* place of the last frame */
    es_esf_frame last_frame;
    bool is_behind; /* later frames wait for a missing one */
    bool stale;     /* the tables do not match `place` */
    es_tails tails;
    int64_t looked; /* bytes searched by this reading */
    es_esf_pieces pieces;
    unsigned char *payload; /* of the current frame; owned by `pieces` */
    int64_t *runs;          /* (n_runs) run_id, by number - 1; 0: lost */
    size_t n_runs;
    es_esf_known *series; /* (n_series) by number - 1 */
    size_t n_series;
    uint32_t attempt; /* attempt of the last replayed record */
    int64_t step;     /* the highest so far: damage is reported at this step */
    bool has_lost;    /* frames were damaged: unknown references may be to their
                         records */
    bool has_missed; /* the current frame has records that refer to lost ones */
    uint64_t n_nobodys; /* number of lost frames before any run is known */
    es_esf_loss *losses;
    size_t n_losses;
    char host[256], boot[ES_UUID_SIZE];
    int64_t pid;
};

/* --- esf_in.c ------------------------------------------------------------- */

/** Opens the file again. Sets `*continued` if it is the file that was read
 *  before and still has the last frame. ES_OK, ES_EIO. */
es_status es_esf_reopen(es_esf *esf, bool *continued) ES_MUST_USE;

/** Processes all frames from esf->place on; tables must be in a transaction.
 *  ES_OK; ES_EIO, ES_ENOMEM; the errors of `take`. */
es_status es_esf_take_frames(es_esf *esf) ES_MUST_USE;

/** Closes the file and frees the buffers until it is opened again. */
void es_esf_rest(es_esf *esf);

bool es_esf_is_of_this_machine(const es_esf *esf);

/** Returns true if its last frame is older than ES_ESF_SILENT_MS. */
bool es_esf_is_silent(const es_esf *esf);

/* --- esf_replay.c --------------------------------------------------------- */

/** Creates the private database with empty tables, and esf->writer. */
es_status es_esf_make_tables(es_esf *esf) ES_MUST_USE;
void es_esf_drop_tables(es_esf *esf);

/** Empties the tables, and forgets everything about the file. */
es_status es_esf_forget(es_esf *esf) ES_MUST_USE;

/**
 * Puts the records of a frame into the tables, within a transaction; first an
 * event if frames before it are lost. ES_OK; ES_EFORMAT: a record is invalid;
 * ES_ENOMEM, ES_EIO.
 */
es_status es_esf_replay(es_esf *esf, const es_esf_frame *frame, int64_t at,
                        uint64_t n_lost) ES_MUST_USE;

#endif
