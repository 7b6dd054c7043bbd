/** The tables of many runs in a PostgreSQL database, as text. */
#ifndef ES_POSTGRES_SCHEMA_H
#define ES_POSTGRES_SCHEMA_H

#define ES_POSTGRES_VERSION 1 /* entropy_scan.about.schema */

/** Numbers of advisory locks: the schema or a month is being made; runs are
 *  being deleted (alone) or pushed (shared). */
#define ES_POSTGRES_LOCK "4995153571386872658"
#define ES_POSTGRES_KEEP_LOCK "4995153571386872659"

/** All of the schema entropy_scan, in order, up to NULL: to be run in one
 *  transaction where it is not there. Fit for psql, too. */
extern const char *const es_postgres_schema[];

#endif
