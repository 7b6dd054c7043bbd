/**
 * An alert about one run. An alert comes from the judge or from an event of the
 * recorder, and passes through the ledger to the deliveries. It is formatted as
 * text or JSON only on delivery and in the ledger, which stores the same JSON.
 */
#ifndef ES_CLI_ALERT_H
#define ES_CLI_ALERT_H

#include "analyzer/flags/rules.h"
#include "store/layers.h"
#include "store/run.h"

#define ES_ALERT_LAYERS 64 /* maximum number of layers that an alert lists */

/**
 * The members of an alert. Strings are borrowed and untrusted, because they
 * come from run files.
 */
typedef struct es_alert {
    const char *path; /* absolute path of the run file */
    const char *uuid, *name, *arch;
    const char *title; /* name of the flag, such as "collapse", or of the
                          rule; no rule has the name of a flag */
    es_flag_kind kind; /* kind of the flag; ES_N_FLAG_KINDS for an alert of a
                          rule */
    bool stops;        /* true if the rule that raised the alert stops the
                          run */
    es_severity severity;
    int64_t onset, step;     /* steps at which the episode began and the
                                alert was raised; step may be ES_UNKNOWN */
    double value, threshold; /* value that crossed the threshold; both NaN if
                                unknown */
    int layers[ES_ALERT_LAYERS], n_layers;
    const es_layers *described; /* descriptions of the run's layers; NULL if
                                   unknown */
    bool is_written;  /* true if a live process is writing the run; only then
                         can the run be stopped */
    const char *line; /* text stored with an alert that was read; if NULL,
                         the text is composed from the other members */
    void *owner;      /* memory that owns the strings of an alert that was
                         read */
} es_alert;

/** Receives an alert; any result other than ES_OK ends the reading. */
typedef es_status es_alert_handler(void *user, const es_alert *alert);

/**
 * Converts an event of the recorder (hooks/recorder/process/alert.h) to an
 * alert. The members that describe the run (path, uuid, name, arch, is_written)
 * are copied from `about`.
 *
 * Returns true if the event is an alert, that is, if its key is exactly the key
 * of a known kind. Numbers that are missing in the event's data become NaN.
 */
bool es_alert_of_event(es_alert *out, const es_event *event,
                       const es_alert *about);

/**
 * Returns the alert's id "UUID/alert:TITLE@ONSET:SEVERITY", which the caller
 * frees. Like the next two functions, returns NULL and sets the message if
 * memory is short.
 */
char *es_alert_id(const es_alert *alert);

/**
 * Returns the alert as one line of text without a line end. Control characters
 * are escaped for the terminal. The caller frees the string.
 */
char *es_alert_line(const es_alert *alert);

/**
 * Returns the alert as a JSON object without a line end; the caller frees it.
 */
char *es_alert_json(const es_alert *alert);

/**
 * Parses the JSON of an alert that es_alert_json returned.
 *
 *   out  the alert, to be released by es_alert_free; its kind, stops and
 *        is_written are not in the JSON and are not restored
 *
 * Returns ES_OK; ES_EFORMAT: not an alert, or out of memory.
 */
es_status es_alert_read(es_alert *out, const char *json) ES_MUST_USE;

void es_alert_free(es_alert *alert); /* releases an alert that es_alert_read
                                        returned */

#endif
