/**
 * Event files of TensorBoard: records of bytes with checksums (TFRecord), in
 * each an Event in the wire format of Protocol Buffers. Only what scalars need:
 *
 *     Event    wall_time 1 double, step 2, file_version 3, summary 5,
 *              session_log 7 (status 1: START is 1)
 *     Summary  value 1: tag 1, simple_value 2 float, tensor 8, metadata 9
 *     Tensor   dtype 1, shape 2 (dim 2: size 1), tensor_content 4,
 *              float_val 5, double_val 6, string_val 8
 *
 * Sources: tensorflow/core/util/event.proto, framework/summary.proto and
 * tensor.proto; lib/io/record_writer.h (checksums: CRC-32C, rotated by 15,
 * plus 0xa282ead8).
 */
#ifndef ES_EVENT_FILE_H
#define ES_EVENT_FILE_H

#include "cli/exchange/lines.h"

/** The tag of the text with which export says what the run is, in the lines of
 *  cli/exchange/about.h. */
#define ES_EVENT_ABOUT_TAG "entropy-scan/run"

/* --- reading ---------------------------------------------------------------*/

#define ES_EVENT_MAX (64 << 20) /* bytes of a record; images are smaller */

/** Zero is a reader at its beginning; es_event_reader_free ends it. */
typedef struct es_event_reader {
    unsigned char *bytes; /* (n) of the record */
    size_t n, capacity;
    size_t number; /* of the record, from 1 */
    size_t
        n_damaged; /* that were left out; bytes between two records are one */
    bool cut;      /* the file ends within a record */
} es_event_reader;

void es_event_reader_free(es_event_reader *reader);

/** The next record that its checksums confirm: what is damaged, or longer than
 *  ES_EVENT_MAX, is left out and counted. ES_OK; ES_DONE, also where the file
 *  ends within one (cut); ES_EIO; ES_ENOMEM. */
es_status es_event_reader_next(es_event_reader *reader,
                               es_line_reader *lines) ES_MUST_USE;

/** Whether these 12 bytes begin a record. */
bool es_event_begins(const unsigned char *bytes);

/** What a record holds. */
typedef struct es_event_handler {
    void *user;
    /** A number; the tag is borrowed. */
    es_status (*scalar)(void *user, int64_t step, const char *tag, float value);
    /** A text, n bytes. */
    es_status (*text)(void *user, const char *tag, const char *text, size_t n);
    /** SessionLog START: what there is at `step` and later is void. */
    es_status (*restart)(void *user, int64_t step);
    bool refused; /* written: one of these failed, and not the record */
} es_event_handler;

/** Calls the handler for what is known of the record, in its order. ES_OK;
 *  ES_EFORMAT (no Event; message without a place); what the handler
 *  returned. */
es_status es_event_each(const es_event_reader *reader,
                        es_event_handler *handler) ES_MUST_USE;

/* --- writing ---------------------------------------------------------------*/

/** An Event that is put together. Zero is empty. */
typedef struct es_event_builder {
    unsigned char *bytes; /* (n) of its summary */
    size_t n, capacity;
    es_status status; /* the first failure: ES_ENOMEM */
} es_event_builder;

void es_event_builder_free(es_event_builder *builder);

void es_event_put_scalar(es_event_builder *builder, const char *tag,
                         float value);
void es_event_put_text(es_event_builder *builder, const char *tag,
                       const char *text);

/** Writes what was put, as one record, and empties it. The caller checks the
 *  stream. ES_OK or ES_ENOMEM. */
es_status es_event_write(es_event_builder *builder, FILE *out, double wall_time,
                         int64_t step) ES_MUST_USE;

/** The record that begins a file. */
es_status es_event_write_version(FILE *out, double wall_time) ES_MUST_USE;

#endif
