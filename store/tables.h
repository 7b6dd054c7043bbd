/** Returns the SQL of a run file's tables, for programs that describe the
 *  format. */
#ifndef ES_TABLES_H
#define ES_TABLES_H

#include <stddef.h>

#define ES_APPLICATION_ID 0x454E5452 /* "ENTR" */
#define ES_SCHEMA_VERSION 2 /* newest version; schema 1 has no checksums */

/** Returns the CREATE TABLE statement of a table in the newest schema; NULL
 *  after the last table. */
const char *es_schema_sql(size_t table);

#endif
