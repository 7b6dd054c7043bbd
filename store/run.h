/** Declares the types that describe a run. Does not depend on SQLite. */
#ifndef ES_RUN_H
#define ES_RUN_H

#include "analyzer/base/severity.h"
#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum es_run_status {
    ES_RUN_RUNNING,
    ES_RUN_FINISHED,
    ES_RUN_FAILED,
    ES_RUN_STOPPED
} es_run_status;

typedef enum es_shape {
    ES_SHAPE_RUN,   /* 1 value per step */
    ES_SHAPE_LAYER, /* L values */
    ES_SHAPE_HEAD   /* L*H values, layer-major */
} es_shape;

typedef enum es_phase { ES_PHASE_TRAIN, ES_PHASE_EVAL } es_phase;

/** The small tables of a run file, whose rows have checksums. */
typedef enum es_row_table {
    ES_ROW_NONE,
    ES_ROW_RUN,
    ES_ROW_SERIES,
    ES_ROW_EVENT
} es_row_table;

/** The file format in which a recording is written. */
typedef enum es_store {
    ES_STORE_AUTO,    /* a fragment if several hosts share the file system,
                         otherwise SQLite */
    ES_STORE_SQLITE,  /* run file (SQLite) with a write-ahead log */
    ES_STORE_FRAGMENT /* append-only fragment, RUN.esf */
} es_store;

#define ES_UNKNOWN INT64_MIN /* an unknown number; NULL in the file */

#define ES_MAX_LAYERS 4096
#define ES_MAX_HEADS 4096
#define ES_MAX_VALUES (1 << 20) /* maximum number of values per sample, L*H */
#define ES_MAX_SERIES 4096      /* maximum number of series per run */
/* Maximum length in bytes of a series' name or unit. */
#define ES_MAX_NAME 255
/* Maximum length in bytes of a string other than a series' name or unit. */
#define ES_MAX_TEXT (1 << 20)
#define ES_MAX_STEP (INT64_MAX - 1) /* steps are 0..ES_MAX_STEP */

/**
 * One run. Strings are borrowed, and NULL means unknown except where noted. A
 * caller of a library function must set `size` to sizeof (es_run_info).
 */
typedef struct es_run_info {
    size_t size;
    const char *uuid;   /* 36 characters; if NULL, a writer creates a new
                           uuid */
    const char *name;   /* UTF-8; never NULL in a run that was read */
    const char *arch;   /* notation of the architecture, in its canonical form
                           if this program knows the architecture */
    const char *family; /* "gpt2", "llama", ... */
    int64_t n_layer, n_head; /* 1..ES_MAX_LAYERS, 1..ES_MAX_HEADS */
    int64_t d_model, ctx, vocab, batch, seed; /* each may be ES_UNKNOWN */
    const char *config;  /* a JSON object; its member "steps" is the planned
                            number of steps */
    const char *program; /* name and version of the recording program */
    const char *host;
    const char *started_at, *ended_at; /* ISO 8601, UTC; set by the writer */
    es_run_status status;
    int64_t last_step; /* ES_UNKNOWN before the first sample */
} es_run_info;

/**
 * An event of a run. Strings may be NULL except where noted. The size of this
 * type must never change, because readers return arrays of events.
 */
typedef struct es_event {
    int64_t step;     /* may be ES_UNKNOWN */
    const char *kind; /* "nan", "dropped", ...; never NULL */
    es_severity severity;
    int64_t layer, head; /* each may be ES_UNKNOWN */
    const char *message;
    const char *data;   /* JSON */
    const char *dedupe; /* unique within the run */
    const char *at;     /* time of the event in ISO 8601, UTC; NULL in a
                           writer's call means now */
} es_event;

#define ES_MAP_MAX 64  /* maximum cells per side of an attention map */
#define ES_MAP_MEAN -1 /* value of `head` for the mean over a layer's heads */

/** Identifies an attention map (store/map.h). */
typedef struct es_map {
    es_phase phase;
    int64_t step;
    int64_t layer, head; /* `head` may be ES_MAP_MEAN */
    int64_t size;        /* S, the number of cells per side: 1..ES_MAP_MAX */
    int64_t n_ctx; /* T, the number of tokens; a cell covers about T / S queries
                      and T / S keys */
} es_map;

ES_API const char *es_run_status_name(es_run_status status); /* "running" */
ES_API const char *es_shape_name(es_shape shape);            /* "head" */
ES_API const char *es_phase_name(es_phase phase);            /* "train" */

/** Returns "run", "series" or "event"; "" for ES_ROW_NONE. */
ES_API const char *es_row_table_name(es_row_table table);

/** Returns the number of values of one sample, which is 1, L or L*H. */
ES_API size_t es_shape_values(es_shape shape, int64_t n_layer, int64_t n_head);

/**
 * Sets the shape and unit of a standard series and returns 1. For any other
 * series, sets the shape ES_SHAPE_RUN and the unit "" and returns 0.
 */
ES_API int es_series_standard(es_shape *shape, const char **unit,
                              const char *name);

/** A standard series. */
typedef struct es_series_line {
    const char *name, *unit;
    const char *title; /* for people */
    es_shape shape;
} es_series_line;

/**
 * Sets *out to the standard series with index i. The statistics of heads have
 * the lowest indices. Returns false if i is too large.
 */
bool es_series_standard_at(es_series_line *out, size_t i);

/**
 * Returns true if the series is one element of a parameter array, such as
 * "t.5". Lists for users omit these series, because there are too many.
 */
bool es_series_is_member(const char *name);

#define ES_UUID_SIZE 37 /* bytes of a uuid with the terminating NUL */

/**
 * Returns true if `text` has the form of a uuid: 36 hexadecimal digits and
 * dashes.
 */
ES_API bool es_uuid_is(const char *text);

/** Creates a new random uuid (RFC 4122, version 4). Returns ES_OK or ES_EIO. */
ES_API es_status es_uuid_make(char out[ES_UUID_SIZE]) ES_MUST_USE;

#define ES_TIME_SIZE 32

/**
 * Writes the current time in the form that run files use:
 * "2025-01-31T23:59:59.123Z".
 */
ES_API void es_time_now(char out[ES_TIME_SIZE]);

#endif
