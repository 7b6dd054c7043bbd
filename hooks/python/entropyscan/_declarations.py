"""Declarations of the structs and functions of entropyscan.h that the package uses,
for cffi's ABI mode. Structs are complete and list their members in the header's
order; `_c_library` makes the calls."""

from ._series import HEAD_COUNTS, HEAD_FLOATS

COMMON = """
const char *es_message(void);
const char *es_version(void);
"""

STATISTICS = """
typedef struct es_attention_shape {
    size_t size;
    int n_batch, n_heads, n_queries, n_keys, head_width;
    bool causal;
    int n_kv_heads, query_offset;
    const unsigned char *key_mask;
    const unsigned char *query_mask;
    const int32_t *key_lengths, *query_offsets, *query_starts, *key_starts;
    int window;
    double scale, softcap;
    const float *temperature, *sink_logits;
    double time_limit;
} es_attention_shape;
typedef struct es_strides { ptrdiff_t batch, head, row; } es_strides;
typedef struct es_entropy_input {
    const void *data;
    int type;
    es_strides strides;
} es_entropy_input;
typedef struct es_heads {
    size_t size;
    float *%s;
    int64_t *%s;
} es_heads;
int es_qk_statistics(const void *rows, const es_heads *heads,
                     const es_entropy_input *q, const es_entropy_input *k,
                     const es_attention_shape *shape, int n_threads);
""" % (", *".join(HEAD_FLOATS), ", *".join(HEAD_COUNTS))

RECORDING = """
typedef struct es_run_info {
    size_t size;
    const char *uuid, *name, *arch, *family;
    int64_t n_layer, n_head, d_model, ctx, vocab, batch, seed;
    const char *config, *program, *host, *started_at, *ended_at;
    int status;
    int64_t last_step;
} es_run_info;
typedef struct es_recorder_options {
    size_t size;
    const char *path;
    const es_run_info *run;
    int64_t resume_step;
    const char *program;
    size_t ring_bytes;
    int wait_ms, answer_ms, store;
} es_recorder_options;
typedef struct es_recorder_report {
    size_t size;
    uint64_t pushed, committed, dropped, lost;
} es_recorder_report;
typedef struct es_recorder es_recorder;
int es_recorder_open(es_recorder **out, const es_recorder_options *options);
int es_recorder_series(es_recorder *recorder, int *series, const char *name,
                       int shape, int phase, const char *unit);
int es_recorder_push(es_recorder *recorder, int series, int64_t step,
                     const float *values, size_t n);
int es_recorder_map(es_recorder *recorder, int phase, int64_t step,
                    int64_t layer, int64_t head, const float *values,
                    int64_t size, int64_t n_ctx);
int es_recorder_event(es_recorder *recorder, int64_t step, const char *kind,
                      int severity, const char *message);
bool es_recorder_stop_requested(const es_recorder *recorder);
int es_recorder_close(es_recorder *recorder, int status,
                      es_recorder_report *report);
int es_series_standard(int *shape, const char **unit, const char *name);
"""

READING = """
typedef struct es_reader es_reader;
typedef struct es_cursor es_cursor;
typedef struct es_series {
    size_t size;
    int64_t id;
    const char *name, *unit;
    int shape, phase;
    size_t n_values;
    uint32_t crc;
    int64_t first_step, last_step;
} es_series;
typedef struct es_event {
    int64_t step;
    const char *kind;
    int severity;
    int64_t layer, head;
    const char *message, *data, *dedupe, *at;
} es_event;
int es_reader_open(es_reader **out, const char *path);
void es_reader_close(es_reader *reader);
int es_reader_refresh(es_reader *reader);
size_t es_reader_n_runs(const es_reader *reader);
int es_reader_run(es_reader *reader, size_t index, es_run_info *out);
int es_reader_config(es_reader *reader, size_t run, char **out);
size_t es_reader_n_series(const es_reader *reader, size_t run);
int es_reader_series(es_reader *reader, size_t run, size_t index,
                     es_series *out);
int es_reader_find(es_reader *reader, size_t run, const char *name, int phase,
                   es_series *out);
int es_reader_events(es_reader *reader, size_t run, const es_event **events,
                     size_t *n);
int es_cursor_open(es_cursor **out, es_reader *reader, const es_series *series,
                   int64_t from, int64_t to);
int es_cursor_next(es_cursor *cursor, int64_t *step, const float **values);
void es_cursor_close(es_cursor *cursor);
void free(void *memory);
"""

ALL = COMMON + STATISTICS + RECORDING + READING
