/** An alert to tell of: what identifies it, its JSON, its line of text. */
#ifndef ES_NOTICE_H
#define ES_NOTICE_H

#include "analyzer/flags/rules.h"
#include "store/run.h"

#define ES_NOTICE_LAYERS 64 /* listed at most */

/**
 * Strings are borrowed and, but for the key and the kind, from a run file:
 * untrusted.
 */
typedef struct es_notice {
    const char *path; /* of the run file, absolute */
    const char *uuid, *name, *arch;
    es_flag_kind kind;   /* ES_N_FLAG_KINDS: a rule's */
    const es_rule *rule; /* NULL: a flag's */
    es_severity severity;
    int64_t onset, step; /* step ES_UNKNOWN: not known */
    double value, threshold;
    int layers[ES_NOTICE_LAYERS], n_layers;
    bool written; /* by a live process: it can be asked to stop */
} es_notice;

/** Anything but ES_OK ends the reading. */
typedef es_status es_notice_handler(void *user, const es_notice *notice);

/**
 * The alert that an event tells of; its run is left for the caller.
 *
 * True if it is one of the recorder's (hooks/recorder/process/alert.h): the
 * key is exactly that of a known kind. Numbers that the event's data does not
 * give are NaN.
 */
bool es_notice_of_event(es_notice *out, const es_event *event);

/** "collapse", or the rule's name, which is none of the flags'. Borrowed; needs
 *  no escaping. */
const char *es_notice_title(const es_notice *notice);

/** It is a rule's that wants its run stopped. */
bool es_notice_stops(const es_notice *notice);

/** "UUID/alert:TITLE@ONSET:SEVERITY", to be freed. NULL: out of memory. */
char *es_notice_id(const es_notice *notice);

/** One JSON object without line end, to be freed; NULL: out of memory.
 *  Members: es_notice_member. */
char *es_notice_json(const es_notice *notice);

/**
 * A string of such an object, to be freed: "text", the line for people, safe
 * for a terminal; "path"; "id". NULL if it is not there, or memory is out.
 */
char *es_notice_member(const char *json, const char *name);

#endif
