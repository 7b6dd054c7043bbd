/** The tables for many runs in a PostgreSQL database, as text. */
#ifndef ES_POSTGRES_SCHEMA_H
#define ES_POSTGRES_SCHEMA_H

#define ES_POSTGRES_VERSION 1 /* entropy_scan.about.schema */

/**
 * Numbers of advisory locks. ES_POSTGRES_LOCK: held while the schema or a month
 * is created. ES_POSTGRES_KEEP_LOCK: held while runs are deleted (exclusive) or
 * pushed (shared).
 */
#define ES_POSTGRES_LOCK "4995153571386872658"
#define ES_POSTGRES_KEEP_LOCK "4995153571386872659"

/** The whole schema entropy_scan, in order, ending with NULL: to be run in
 *  one transaction if the schema does not exist. Also suitable for psql. */
extern const char *const es_postgres_schema[];

#endif
