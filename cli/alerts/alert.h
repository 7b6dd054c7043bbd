/**
 * Formats the texts of an alert: the id that identifies it, a line for people,
 * and the JSON object that deliveries contain.
 */
#ifndef ES_CLI_ALERT_H
#define ES_CLI_ALERT_H

#include "analyzer/flags/rules.h"
#include "store/layers.h"
#include "store/ledger.h"

/**
 * Receives an alert. If the result is not ES_OK, no further alerts are passed
 * to the handler until the run is read again.
 */
typedef es_status es_alert_handler(void *user, const es_alert *alert);

/**
 * Returns the alert's id "UUID/alert:TITLE@ONSET:SEVERITY", made from the
 * members uuid, title, onset and severity. The caller frees the id. Like the
 * next two functions, returns NULL and sets the error message if memory is
 * short.
 */
char *es_alert_id(const es_alert *alert);

/**
 * Returns the alert as one line of text without a line end. Control characters
 * are escaped for the terminal. The caller frees the string.
 *
 *   kind       kind of the flag; ES_N_FLAG_KINDS for an alert of a rule
 *   described  descriptions of the run's layers; NULL if unknown
 */
char *es_alert_line(const es_alert *alert, es_flag_kind kind,
                    const es_layers *described);

/**
 * Returns the alert, with its id and text, as a JSON object without a line end;
 * the caller frees it.
 */
char *es_alert_json(const es_alert *alert);

#endif
