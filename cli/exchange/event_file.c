/* Reads and writes the records of TensorBoard event files. Input is untrusted:
   each length is compared with the number of available bytes. */
#include "cli/exchange/event_file.h"

#include "analyzer/base/checked.h"
#include "store/crc32c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 12, FOOT_BYTES = 4, TAG_BYTES = 4096 };

#define STEP_MAX (INT64_MAX - 1)

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

enum data_type { DT_FLOAT = 1, DT_DOUBLE = 2, DT_STRING = 7 };

static uint32_t masked_crc(const void *bytes, size_t n)
{
    uint32_t crc = es_crc32c(0, bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static uint32_t load_32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
           (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint64_t load_64(const unsigned char *bytes)
{
    return load_32(bytes) | (uint64_t)load_32(bytes + 4) << 32;
}

/* --- records ---------------------------------------------------------------*/

void es_event_reader_free(es_event_reader *reader)
{
    free(reader->bytes);
    *reader = (es_event_reader){0};
}

bool es_event_begins(const unsigned char *bytes)
{
    return masked_crc(bytes, 8) == load_32(bytes + 8);
}

/* Reads exactly n bytes; returns ES_DONE if the file ends earlier. */
static es_status read_all(es_event_reader *reader, es_line_reader *lines,
                          void *out, size_t n)
{
    size_t got;
    es_status status = es_line_reader_bytes_read(lines, out, n, &got);
    if (status == ES_OK && got < n) {
        reader->cut = true;
        return ES_DONE;
    }
    return status;
}

/* Reads the body of a record in steps, so that memory grows only with the bytes
   read: a wrong length in the header cannot cause a large allocation. */
static es_status read_body(es_event_reader *reader, es_line_reader *lines,
                           size_t n)
{
    enum { STEP = 1 << 16 };
    es_status status = ES_OK;
    reader->n = 0;
    while (status == ES_OK && reader->n < n) {
        size_t part = n - reader->n < STEP ? n - reader->n : STEP;
        if (reader->capacity < reader->n + part) {
            size_t capacity = 2 * (reader->n + part);
            status = es_grow(&reader->bytes, capacity, 1, "a record");
            if (status < 0)
                return status;
            reader->capacity = capacity;
        }
        status = read_all(reader, lines, reader->bytes + reader->n, part);
        reader->n += part;
    }
    return status;
}

/* Searches byte by byte for the next record header whose checksum matches its
   length. */
static es_status find_head(es_event_reader *reader, es_line_reader *lines,
                           unsigned char head[HEAD_BYTES])
{
    es_status status = ES_OK;
    do {
        memmove(head, head + 1, HEAD_BYTES - 1);
        status = read_all(reader, lines, head + HEAD_BYTES - 1, 1);
    } while (status == ES_OK &&
             (!es_event_begins(head) || load_64(head) > ES_EVENT_MAX));
    if (status == ES_DONE)
        reader->cut = false; /* the bytes at the end were counted as a damaged
                                record, not as a truncated one */
    return status;
}

/* Reads one record. Sets *sound to true if its checksum matches. */
static es_status read_record(es_event_reader *reader, es_line_reader *lines,
                             bool *sound)
{
    unsigned char head[HEAD_BYTES], foot[FOOT_BYTES];
    size_t got;
    es_status status =
        es_line_reader_bytes_read(lines, head, sizeof head, &got);
    if (status < 0)
        return status;
    reader->cut = reader->cut || (got > 0 && got < sizeof head);
    if (got < sizeof head)
        return ES_DONE;
    if (!es_event_begins(head) || load_64(head) > ES_EVENT_MAX) {
        reader->n_damaged++;
        if ((status = find_head(reader, lines, head)) != ES_OK)
            return status;
    }
    if ((status = read_body(reader, lines, (size_t)load_64(head))) != ES_OK ||
        (status = read_all(reader, lines, foot, sizeof foot)) != ES_OK)
        return status;
    *sound = masked_crc(reader->bytes, reader->n) == load_32(foot);
    reader->n_damaged += !*sound;
    return ES_OK;
}

es_status es_event_reader_next(es_event_reader *reader, es_line_reader *lines)
{
    bool sound = false;
    es_status status = ES_OK;
    while (status == ES_OK && !sound) {
        reader->number++;
        status = read_record(reader, lines, &sound);
    }
    return status;
}

/* --- wire format: reading
   --------------------------------------------------- */

typedef struct message {
    const unsigned char *at, *end;
} message;

typedef struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value; /* the number of a field of wire type VARINT or FIXED */
    message bytes;  /* the content of a field of wire type BYTES */
} field;

static es_status fail_event(void)
{
    return es_fail(ES_EFORMAT, "not a TensorBoard Event");
}

static bool take_varint(message *from, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        unsigned char byte = *from->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Reads the next field of a message. Returns ES_OK, ES_DONE at the end of the
   message, or ES_EFORMAT. */
static es_status take_field(message *from, field *out)
{
    uint64_t key, n;
    if (from->at == from->end)
        return ES_DONE;
    if (!take_varint(from, &key))
        return fail_event();
    *out = (field){.number = key >> 3, .wire = (enum wire)(key & 7)};
    size_t left = (size_t)(from->end - from->at);
    switch (out->wire) {
    case VARINT:
        return take_varint(from, &out->value) ? ES_OK : fail_event();
    case FIXED64:
    case FIXED32:
        n = out->wire == FIXED64 ? 8 : 4;
        if (left < n)
            return fail_event();
        out->value = n == 8 ? load_64(from->at) : load_32(from->at);
        break;
    case BYTES:
        if (!take_varint(from, &n) || n > (uint64_t)(from->end - from->at))
            return fail_event();
        out->bytes = (message){from->at, from->at + n};
        break;
    default: /* The wire types for groups (in Protocol Buffers) do not occur in
                an Event. */
        return fail_event();
    }
    from->at += n;
    return ES_OK;
}

static bool is_bytes(const field *f, uint64_t number)
{
    return f->number == number && f->wire == BYTES;
}

static size_t size_of(const message *bytes)
{
    return (size_t)(bytes->end - bytes->at);
}

/* The members of a Summary.Value that import uses. */
typedef struct value {
    char tag[TAG_BYTES];
    bool has_number, has_text;
    float number;
    message text;
    int64_t dtype;
} value;

/* Stores the bits of a float32; a conversion to double could change a NaN. */
static void set_float(value *out, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    memcpy(&out->number, &low, sizeof low);
    out->has_number = true;
}

/* Stores a double as float32. A number beyond the range becomes infinite, as
   when a training run records it. */
static void set_double(value *out, uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    out->number = (float)number;
    out->has_number = true;
}

/* Reads the element of a tensor with one element. The element may be packed,
   unpacked or stored in tensor_content. */
static void take_element(value *out, const field *f)
{
    bool is_double = out->dtype == DT_DOUBLE;
    size_t n = is_double ? 8 : 4;
    if (f->wire == BYTES && size_of(&f->bytes) != n)
        return;
    if (f->wire != BYTES && f->wire != (is_double ? FIXED64 : FIXED32))
        return;
    if (is_double)
        set_double(out, f->wire == BYTES ? load_64(f->bytes.at) : f->value);
    else
        set_float(out, f->wire == BYTES ? load_32(f->bytes.at) : f->value);
}

static es_status take_tensor(value *out, message from)
{
    field f;
    es_status status;
    message first = from;
    while ((status = take_field(&first, &f)) == ES_OK)
        if (f.number == 1 && f.wire == VARINT)
            out->dtype = (int64_t)f.value;
    while (status == ES_DONE && (status = take_field(&from, &f)) == ES_OK) {
        status = ES_DONE;
        bool real = out->dtype == DT_FLOAT || out->dtype == DT_DOUBLE;
        if (real && (f.number == 4 || f.number == 5 || f.number == 6))
            take_element(out, &f);
        if (out->dtype == DT_STRING && is_bytes(&f, 8)) {
            out->text = f.bytes;
            out->has_text = true;
        }
    }
    return status;
}

static es_status take_value(value *out, message from)
{
    field f;
    es_status status;
    *out = (value){.tag = ""};
    while ((status = take_field(&from, &f)) == ES_OK) {
        if (is_bytes(&f, 1)) {
            size_t n = size_of(&f.bytes);
            n = n < TAG_BYTES ? n : TAG_BYTES - 1;
            memcpy(out->tag, f.bytes.at, n);
            out->tag[n] = '\0';
        } else if (f.number == 2 && f.wire == FIXED32) {
            set_float(out, f.value);
        } else if (is_bytes(&f, 8) &&
                   (status = take_tensor(out, f.bytes)) < 0) {
            return status;
        }
    }
    return status;
}

static es_status note_refusal(es_event_handler *handler, es_status status)
{
    handler->refused = status != ES_OK;
    return status;
}

static es_status hand_on(const value *v, int64_t step,
                         es_event_handler *handler)
{
    es_status status = ES_OK;
    if (v->has_text && handler->text)
        status = handler->text(handler->user, v->tag, (const char *)v->text.at,
                               size_of(&v->text));
    else if (!v->has_text && v->has_number && v->tag[0])
        status = handler->scalar(handler->user, step, v->tag, v->number);
    return note_refusal(handler, status);
}

static es_status take_summary(message from, int64_t step,
                              es_event_handler *handler)
{
    field f;
    es_status status;
    value *v;
    if ((status = es_alloc(&v, 1, sizeof *v, "a value")) < 0)
        return status;
    while ((status = take_field(&from, &f)) == ES_OK)
        if (is_bytes(&f, 1)) {
            status = take_value(v, f.bytes);
            if (status != ES_DONE ||
                (status = hand_on(v, step, handler)) != ES_OK)
                break;
        }
    free(v);
    return status;
}

/* Returns true if a SessionLog has the status START. */
static bool is_start(message log)
{
    field f;
    bool start = false;
    while (take_field(&log, &f) == ES_OK)
        start = start || (f.number == 1 && f.wire == VARINT && f.value == 1);
    return start;
}

es_status es_event_each(const es_event_reader *reader,
                        es_event_handler *handler)
{
    message whole, summary = {NULL, NULL}, log = {NULL, NULL};
    int64_t step = 0;
    field f;
    es_status status;
    handler->refused = false;
    if (!reader->n) /* bytes may be NULL if the record is empty */
        return ES_OK;
    whole = (message){reader->bytes, reader->bytes + reader->n};
    while ((status = take_field(&whole, &f)) == ES_OK) {
        if (f.number == 2 && f.wire == VARINT)
            step = (int64_t)f.value;
        else if (is_bytes(&f, 5))
            summary = f.bytes;
        else if (is_bytes(&f, 7))
            log = f.bytes;
    }
    if (status < 0)
        return status;
    if (!summary.at && !log.at)
        return ES_OK;
    if (step < 0 || step > STEP_MAX)
        return es_fail(ES_EFORMAT,
                       "step %lld is out of range: steps begin at 0",
                       (long long)step);
    if (log.at && handler->restart && is_start(log) &&
        (status =
             note_refusal(handler, handler->restart(handler->user, step))) < 0)
        return status;
    if (!summary.at)
        return ES_OK;
    status = take_summary(summary, step, handler);
    return status == ES_DONE ? ES_OK : status;
}

/* --- wire format: writing
   ---------------------------------------------------- */

void es_event_builder_free(es_event_builder *builder)
{
    free(builder->bytes);
    *builder = (es_event_builder){0};
}

static void put_bytes(es_event_builder *b, const void *bytes, size_t n)
{
    if (b->status == ES_OK && b->capacity < b->n + n) {
        size_t capacity = 2 * (b->n + n);
        b->status = es_grow(&b->bytes, capacity, 1, "an event");
        if (b->status == ES_OK)
            b->capacity = capacity;
    }
    if (b->status != ES_OK || !n)
        return;
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

static void put_varint(es_event_builder *b, uint64_t number)
{
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] =
            (unsigned char)((number & 0x7f) | (number > 0x7f ? 0x80u : 0u));
        number >>= 7;
    } while (number);
    put_bytes(b, bytes, n);
}

static void put_key(es_event_builder *b, uint64_t number, enum wire wire)
{
    put_varint(b, number << 3 | (uint64_t)wire);
}

static void put_field(es_event_builder *b, uint64_t number, const void *bytes,
                      size_t n)
{
    put_key(b, number, BYTES);
    put_varint(b, n);
    put_bytes(b, bytes, n);
}

/* Appends a message to `b` as a field with the given number, then frees the
   message. */
static void put_message(es_event_builder *b, uint64_t number,
                        es_event_builder *part)
{
    if (part->status != ES_OK && b->status == ES_OK)
        b->status = part->status;
    put_field(b, number, part->bytes, part->n);
    es_event_builder_free(part);
}

static void put_little_endian(es_event_builder *b, uint64_t number, size_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    put_bytes(b, bytes, n);
}

void es_event_put_scalar(es_event_builder *builder, const char *tag,
                         float number)
{
    es_event_builder v = {0};
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_field(&v, 1, tag, strlen(tag));
    put_key(&v, 2, FIXED32);
    put_little_endian(&v, bits, 4);
    put_message(builder, 1, &v);
}

void es_event_put_text(es_event_builder *builder, const char *tag,
                       const char *text)
{
    es_event_builder v = {0}, tensor = {0}, shape = {0}, size = {0},
                     plugin = {0}, metadata = {0};
    put_key(&size, 1, VARINT);
    put_varint(&size, 1);
    put_message(&shape, 2, &size);
    put_key(&tensor, 1, VARINT);
    put_varint(&tensor, DT_STRING);
    put_message(&tensor, 2, &shape);
    put_field(&tensor, 8, text, strlen(text));
    put_field(&plugin, 1, "text", 4);
    put_message(&metadata, 1, &plugin);
    put_field(&v, 1, tag, strlen(tag));
    put_message(&v, 8, &tensor);
    put_message(&v, 9, &metadata);
    put_message(builder, 1, &v);
}

/* Writes an event as a record with its length and checksums, and frees it. */
static es_status write_record(es_event_builder *event, FILE *out)
{
    es_event_builder head = {0}, foot = {0};
    put_little_endian(&head, event->n, 8);
    if (head.status == ES_OK)
        put_little_endian(&head, masked_crc(head.bytes, 8), 4);
    if (event->status == ES_OK)
        put_little_endian(&foot, masked_crc(event->bytes, event->n), 4);
    es_status status = event->status < 0 ? event->status
                       : head.status < 0 ? head.status
                                         : foot.status;
    if (status == ES_OK) {
        fwrite(head.bytes, 1, head.n, out);
        fwrite(event->bytes, 1, event->n, out);
        fwrite(foot.bytes, 1, foot.n, out);
    }
    es_event_builder_free(&head);
    es_event_builder_free(&foot);
    es_event_builder_free(event);
    return status;
}

static void put_time(es_event_builder *event, double wall_time)
{
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    put_key(event, 1, FIXED64);
    put_little_endian(event, bits, 8);
}

es_status es_event_write(es_event_builder *builder, FILE *out, double wall_time,
                         int64_t step)
{
    es_event_builder event = {0};
    put_time(&event, wall_time);
    put_key(&event, 2, VARINT);
    put_varint(&event, (uint64_t)step);
    put_message(&event, 5, builder);
    return write_record(&event, out);
}

es_status es_event_write_version(FILE *out, double wall_time)
{
    static const char version[] = "brain.Event:2";
    es_event_builder event = {0};
    put_time(&event, wall_time);
    put_field(&event, 3, version, sizeof version - 1);
    return write_record(&event, out);
}
