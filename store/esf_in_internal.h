/** The reading of fragments, for esf_in.c and esf_replay.c. */
#ifndef ES_ESF_IN_INTERNAL_H
#define ES_ESF_IN_INTERNAL_H

#include "store/esf_in.h"
#include "store/esf_index.h"
#include "store/esf_pieces.h"
#include "store/writer_internal.h"

/** A series of the file, in the private database. */
typedef struct es_esf_known {
    int64_t id;     /* 0: it was in a frame that is damaged */
    uint32_t bytes; /* of a sample */
} es_esf_known;

struct es_esf {
    es_database *database;
    es_writer *writer; /* of the private database; NULL: there is none */
    /* What is done with a frame: es_esf_replay, or what takes its place. */
    es_status (*take)(es_esf *esf, const es_esf_frame *frame, int64_t at,
                      uint64_t n_lost);
    void *user; /* of `take` */
    int fd;     /* -1: no file yet, or it rests */
    dev_t device;
    ino_t inode;
    int64_t size;       /* of the file, when it was opened last */
    int64_t changed;    /* when it was changed last, ms as es_esf_clock has */
    es_esf_place place; /* where the next frame is to be */
    int64_t last;       /* where the last one was */
    es_esf_frame last_frame;
    bool is_behind; /* later frames wait for one that is not there */
    bool stale;     /* the tables are not what `place` says */
    es_tails tails;
    int64_t looked; /* bytes of this reading that were searched */
    es_esf_pieces pieces;
    unsigned char *payload; /* of the frame at hand; the pieces' */
    int64_t *runs;          /* (n_runs) run_id by number - 1; 0: lost */
    size_t n_runs;
    es_esf_known *series; /* (n_series) by number - 1 */
    size_t n_series;
    uint32_t attempt; /* of the last record that was replayed */
    int64_t step;     /* the highest so far: where damage is noted */
    bool has_lost;    /* frames were damaged: what is unknown may be theirs */
    bool has_missed; /* of the frame at hand, records that it takes those for */
    uint64_t n_nobodys; /* lost ones, before any run is known */
    es_esf_loss *losses;
    size_t n_losses;
    char host[256], boot[ES_UUID_SIZE];
    int64_t pid;
};

/* --- esf_in.c ------------------------------------------------------------- */

/** Opens the file anew. `*continued`: it is the file that was read before, and
 *  still has the frame that was read last. ES_OK, ES_EIO. */
es_status es_esf_reopen(es_esf *esf, bool *continued) ES_MUST_USE;

/** Everything from esf->place on; tables are changed within a transaction.
 *  ES_OK; ES_EIO, ES_ENOMEM; what `take` returned. */
es_status es_esf_take_frames(es_esf *esf) ES_MUST_USE;

/** Closes the file, and frees what was read of it, until it is opened anew. */
void es_esf_rest(es_esf *esf);

bool es_esf_is_of_this_machine(const es_esf *esf);

/** Whether its last frame is older than ES_ESF_SILENT_MS. */
bool es_esf_is_silent(const es_esf *esf);

/* --- esf_replay.c --------------------------------------------------------- */

/** The private database with empty tables, and esf->writer. */
es_status es_esf_make_tables(es_esf *esf) ES_MUST_USE;
void es_esf_drop_tables(es_esf *esf);

/** Empties the tables, and everything that esf knows of the file. */
es_status es_esf_forget(es_esf *esf) ES_MUST_USE;

/** Puts the records of a frame into the tables, within a transaction; before
 *  them an event, if frames in front of it are lost. ES_OK; ES_EFORMAT: what no
 *  writer of ours wrote; ES_ENOMEM, ES_EIO. */
es_status es_esf_replay(es_esf *esf, const es_esf_frame *frame, int64_t at,
                        uint64_t n_lost) ES_MUST_USE;

#endif
