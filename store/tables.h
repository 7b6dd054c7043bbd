/** Returns the SQL of a run file's tables, for programs that describe the
 *  format. */
#ifndef ES_TABLES_H
#define ES_TABLES_H

#include <stddef.h>

#define ES_APPLICATION_ID 0x454E5452 /* "ENTR" */
/* Newest version of the schema; version 1 has no checksums. */
#define ES_SCHEMA_VERSION 2

/**
 * Returns the CREATE TABLE statement of the table with index `table` in the
 * newest schema. Returns NULL if the index is too large.
 */
const char *es_schema_sql(size_t table);

#endif
