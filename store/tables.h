/** The tables of a run file as text, for those who describe them. */
#ifndef ES_TABLES_H
#define ES_TABLES_H

#include <stddef.h>

#define ES_APPLICATION_ID 0x454E5452 /* "ENTR" */
#define ES_SCHEMA_VERSION                                                      \
    2 /* 1 has no checksums; it is read, and gone on                           \
         with, as it is */

/** CREATE TABLE of the newest schema, by number; NULL after the last one. */
const char *es_schema_sql(size_t table);

#endif
