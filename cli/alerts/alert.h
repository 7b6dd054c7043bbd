/**
 * One alert as a value: from the judge or a recorder's event, through the
 * ledger, to the deliveries. It becomes text or JSON where it is delivered, and
 * in the ledger, which keeps the same JSON that is delivered.
 */
#ifndef ES_CLI_ALERT_H
#define ES_CLI_ALERT_H

#include "analyzer/flags/rules.h"
#include "store/layers.h"
#include "store/run.h"

#define ES_ALERT_LAYERS 64 /* listed at most */

/** Strings are borrowed, and come from run files: untrusted. */
typedef struct es_alert {
    const char *path; /* of the run file, absolute */
    const char *uuid, *name, *arch;
    const char *title; /* "collapse", or the rule's name: never the same */
    es_flag_kind kind; /* ES_N_FLAG_KINDS: a rule's */
    bool stops;        /* a rule's that stops its run */
    es_severity severity;
    int64_t onset, step;     /* step ES_UNKNOWN: not known */
    double value, threshold; /* NaN: not known */
    const char *reason;      /* in words, into the line; NULL: none */
    int layers[ES_ALERT_LAYERS], n_layers;
    const es_layers *described; /* what is known of them; NULL: nothing */
    bool is_written;  /* the run, by a live process: it can be stopped */
    const char *line; /* of one that was read; NULL: made of the rest */
    void *owner;      /* of the strings of one that was read */
} es_alert;

/** Anything but ES_OK ends the reading. */
typedef es_status es_alert_handler(void *user, const es_alert *alert);

/**
 * The alert in a recorder's event (hooks/recorder/process/alert.h); what
 * describes the run, path, uuid, name, arch and is_written, is that of `about`.
 *
 * True if it is one: the key is exactly that of a known kind. Numbers that the
 * event's data does not give are NaN.
 */
bool es_alert_of_event(es_alert *out, const es_event *event,
                       const es_alert *about);

/** "UUID/alert:TITLE@ONSET:SEVERITY", to be freed. NULL: out of memory
 *  (message set), as below. */
char *es_alert_id(const es_alert *alert);

/** The line for people, safe for a terminal, without line end; to be freed. */
char *es_alert_line(const es_alert *alert);

/** One JSON object without line end, to be freed. */
char *es_alert_json(const es_alert *alert);

/**
 * Reads such an object.
 *
 *   out  es_alert_free; kind, stops and is_written are not in it
 *
 * ES_OK; ES_EFORMAT: not an alert, or out of memory.
 */
es_status es_alert_read(es_alert *out, const char *json) ES_MUST_USE;

void es_alert_free(es_alert *alert); /* of es_alert_read */

#endif
