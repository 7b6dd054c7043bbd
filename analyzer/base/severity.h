/** The severity of an event in a run. */
#ifndef ES_SEVERITY_H
#define ES_SEVERITY_H

typedef enum es_severity {
    ES_SEVERITY_NONE,
    ES_SEVERITY_INFO,
    ES_SEVERITY_WARNING,
    ES_SEVERITY_ERROR,
    ES_SEVERITY_CRITICAL
} es_severity;

#endif
