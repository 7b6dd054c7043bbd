/**
 * The page of a report as it was built in: d3, and our own script, style and
 * skeleton (the files of this folder). Text, not terminated.
 */
#ifndef ES_REPORT_PAGE_H
#define ES_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct es_page_part {
    const char *text; /* (n) */
    size_t n;
} es_page_part;

/**
 * A part by its name (n bytes): "skeleton", "style", "script", "d3", or
 * "policy", the Content-Security-Policy that lets in nothing but the others.
 * False, and *out untouched, if there is none of that name.
 */
bool es_page_find(es_page_part *out, const char *name, size_t n);

/** Bytes of all parts. */
size_t es_page_size(void);

#endif
