/* Implements two writers that use a private database. The first loads a
   fragment's records into a private database. The second appends to a fragment;
   its private database contains the fragment's runs, series and events, but no
   samples. */
#include "store/esf_in.h"
#include "store/esf_index.h"
#include "store/writer_internal.h"

#include "analyzer/base/checked.h"

#include <stdlib.h>
#include <unistd.h>

/* --- fragments ------------------------------------------------------------ */

/**
 * Loads the runs, series and events of the existing fragment into the private
 * database, and finds the offset at which its frames end.
 */
static es_status read_past(es_database *database, es_esf_place *place)
{
    int64_t size = 0;
    es_esf *past = NULL;
    es_status status;
    if ((status = es_database_inspect(database, &size)) == ES_OK &&
        (status = es_esf_open(&past, database, size <= 0)) == ES_OK)
        status = es_esf_find_end(past, place);
    es_esf_close(past);
    return status;
}

es_status es_writer_open_fragment(es_writer *writer, const char *path,
                                  es_durability durability)
{
    es_database *database = &writer->database;
    es_esf_place place;
    es_status status;
    writer->log.none = true;
    writer->lock.is_optional = true;
    if ((status = es_database_locate(database, path)) < 0 ||
        (status = es_lock_take(&writer->lock, database->file, path)) < 0 ||
        (status = read_past(database, &place)) < 0 ||
        (status = es_esf_out_open(&writer->out, database, &place,
                                  durability == ES_DURABLE)) < 0)
        return status;
    return es_writer_prepare(writer);
}

void es_writer_beat(es_writer *writer)
{
    if (writer->database.owner == getpid() && !writer->in_transaction)
        es_esf_out_beat(writer->out);
}

int64_t es_writer_beat_ms(const es_writer *writer)
{
    return writer->out ? ES_ESF_BEAT_MS : -1;
}

/* --- attaching to a private database -------------------------------------- */

es_status es_writer_attach(es_writer **out, const es_database *database)
{
    es_status status = es_alloc(out, 1, sizeof **out, "a fragment's tables");
    if (status < 0)
        return status;
    (*out)->database = *database;
    (*out)->log.none = true;
    return es_writer_prepare(*out);
}

void es_writer_detach(es_writer *writer)
{
    if (!writer)
        return;
    es_database_finalise_all(&writer->database, writer->statements, ES_N_SQL);
    free(writer->runs);
    free(writer->series);
    free(writer);
}

es_status es_writer_forget(es_writer *writer)
{
    writer->n_runs = writer->n_series = 0;
    es_esf_index_clear(writer->database.samples);
    return es_database_execute(&writer->database,
                               "DELETE FROM event;"
                               "DELETE FROM series; DELETE FROM run;"
                               "DROP TABLE IF EXISTS attention_map");
}
