/**
 * Reads and writes event files of TensorBoard. These are records with checksums
 * (TFRecord), each of which contains an Event in the Protocol Buffers wire
 * format. Only the fields that scalars need are supported (with field numbers):
 *
 *     Event    wall_time 1 double, step 2, file_version 3, summary 5,
 *              session_log 7 (status 1: START is 1)
 *     Summary  value 1: tag 1, simple_value 2 float, tensor 8, metadata 9
 *     Tensor   dtype 1, shape 2 (dim 2: size 1), tensor_content 4,
 *              float_val 5, double_val 6, string_val 8
 *
 * Sources: tensorflow/core/util/event.proto, framework/summary.proto and
 * tensor.proto; lib/io/record_writer.h (checksums: CRC-32C, rotated by 15, plus
 * 0xa282ead8).
 */
#ifndef ES_EVENT_FILE_H
#define ES_EVENT_FILE_H

#include "cli/exchange/lines.h"

/** Tag of the text event in which export describes the run. The text consists
 *  of "# key: value" lines (cli/exchange/about.h). */
#define ES_EVENT_ABOUT_TAG "entropy-scan/run"

/* --- reading ---------------------------------------------------------------*/

#define ES_EVENT_MAX (64 << 20) /* maximum size of a record in bytes */

/** State of a reader of records. Zero-initialise it before the first record;
 *  free it with es_event_reader_free. */
typedef struct es_event_reader {
    unsigned char *bytes; /* (n) current record */
    size_t n, capacity;
    size_t number;    /* number of the current record, counted from 1 */
    size_t n_damaged; /* number of skipped records; all damaged bytes between
                         two valid records count as one record */
    bool cut;         /* true if the file ends within a record */
} es_event_reader;

void es_event_reader_free(es_event_reader *reader);

/** Reads the next record with correct checksums. Records that are damaged, or
 *  longer than ES_EVENT_MAX, are skipped and counted. Returns ES_OK; ES_DONE,
 *  also if the file ends within a record (cut); ES_EIO; ES_ENOMEM. */
es_status es_event_reader_next(es_event_reader *reader,
                               es_line_reader *lines) ES_MUST_USE;

/** Returns true if the 12 bytes at `bytes` are the header of a record. */
bool es_event_begins(const unsigned char *bytes);

/** Callbacks for the contents of a record. They borrow all pointers that they
 *  receive. */
typedef struct es_event_handler {
    void *user;
    /** Called for each scalar value. */
    es_status (*scalar)(void *user, int64_t step, const char *tag, float value);
    /** Called for each text value, which has n bytes. May be NULL. */
    es_status (*text)(void *user, const char *tag, const char *text, size_t n);
    /** Called when training restarted at `step` (SessionLog START): the earlier
     *  samples at `step` and later are invalid. May be NULL. */
    es_status (*restart)(void *user, int64_t step);
    bool refused; /* true if a callback failed; false if the record is
                     invalid */
} es_event_handler;

/** Calls the handler for each scalar, text and restart in the current record,
 *  in order. Returns ES_OK; ES_EFORMAT (not an Event; the message has no
 *  position); otherwise the status of the callback. */
es_status es_event_each(const es_event_reader *reader,
                        es_event_handler *handler) ES_MUST_USE;

/* --- writing ---------------------------------------------------------------*/

/** An Event under construction. A zero-initialised builder is empty. */
typedef struct es_event_builder {
    unsigned char *bytes; /* (n) the summary encoded so far */
    size_t n, capacity;
    es_status status; /* ES_ENOMEM after the first failed allocation */
} es_event_builder;

void es_event_builder_free(es_event_builder *builder);

void es_event_put_scalar(es_event_builder *builder, const char *tag,
                         float value);
void es_event_put_text(es_event_builder *builder, const char *tag,
                       const char *text);

/** Writes the summary as one record, and empties the builder. The caller checks
 *  `out` for errors. Returns ES_OK or ES_ENOMEM. */
es_status es_event_write(es_event_builder *builder, FILE *out, double wall_time,
                         int64_t step) ES_MUST_USE;

/** Writes the record with the file version, which begins every event file.
 *  Returns ES_OK or ES_ENOMEM. */
es_status es_event_write_version(FILE *out, double wall_time) ES_MUST_USE;

#endif
