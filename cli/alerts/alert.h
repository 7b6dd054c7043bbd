/**
 * One alert as a value. The judge or a recorder's event produces it; it passes
 * through the ledger to the deliveries. It becomes text or JSON only when it is
 * delivered, and in the ledger, which stores the same JSON as is delivered.
 */
#ifndef ES_CLI_ALERT_H
#define ES_CLI_ALERT_H

#include "analyzer/flags/rules.h"
#include "store/layers.h"
#include "store/run.h"

#define ES_ALERT_LAYERS 64 /* most layers that an alert lists */

/** Strings are borrowed and come from run files: they are untrusted. */
typedef struct es_alert {
    const char *path; /* absolute path of the run file */
    const char *uuid, *name, *arch;
    const char *title; /* "collapse", or a rule's name: the two never
                          coincide */
    es_flag_kind kind; /* ES_N_FLAG_KINDS for an alert of a rule */
    bool stops;        /* true if the rule that raised it stops the run */
    es_severity severity;
    int64_t onset, step;     /* step is ES_UNKNOWN if it is not known */
    double value, threshold; /* NaN if not known */
    const char *reason;      /* words for the line; NULL if there are none */
    int layers[ES_ALERT_LAYERS], n_layers;
    const es_layers *described; /* known layers of the run; NULL if unknown */
    bool is_written;  /* true if a live process writes the run, which can then
                         be stopped */
    const char *line; /* stored line of an alert that was read; NULL: composed
                         from the other members */
    void *owner;      /* owner of the strings of an alert that was read */
} es_alert;

/** Receives an alert; any result but ES_OK ends the reading. */
typedef es_status es_alert_handler(void *user, const es_alert *alert);

/**
 * Reads the alert in a recorder's event (hooks/recorder/process/alert.h). The
 * members that describe the run (path, uuid, name, arch, is_written) are copied
 * from `about`.
 *
 * Returns true if the event is an alert, that is, if its key is exactly the key
 * of a known kind. Numbers that the event's data does not give are NaN.
 */
bool es_alert_of_event(es_alert *out, const es_event *event,
                       const es_alert *about);

/**
 * Returns "UUID/alert:TITLE@ONSET:SEVERITY", which the caller frees. Like the
 * next two functions, returns NULL and sets the message if memory is short.
 */
char *es_alert_id(const es_alert *alert);

/**
 * Returns the line for people, safe for a terminal, without a line end; the
 * caller frees it.
 */
char *es_alert_line(const es_alert *alert);

/** Returns one JSON object without a line end; the caller frees it. */
char *es_alert_json(const es_alert *alert);

/**
 * Reads an object that es_alert_json made.
 *
 *   out  released by es_alert_free; the JSON does not contain kind, stops
 *        and is_written
 *
 * ES_OK; ES_EFORMAT: not an alert, or out of memory.
 */
es_status es_alert_read(es_alert *out, const char *json) ES_MUST_USE;

void es_alert_free(es_alert *alert); /* releases what es_alert_read made */

#endif
