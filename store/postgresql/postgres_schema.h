/** The SQL that creates the tables for many runs in a PostgreSQL database. */
#ifndef ES_POSTGRES_SCHEMA_H
#define ES_POSTGRES_SCHEMA_H

#define ES_POSTGRES_VERSION 1 /* value of entropy_scan.about.schema */

/**
 * Numbers of advisory locks. ES_POSTGRES_LOCK is held while the schema or the
 * partition for a month is created. ES_POSTGRES_KEEP_LOCK is held exclusively
 * while runs are deleted, and shared while runs are pushed.
 */
#define ES_POSTGRES_LOCK "4995153571386872658"
#define ES_POSTGRES_KEEP_LOCK "4995153571386872659"

/**
 * The SQL statements that create the whole schema entropy_scan, in order,
 * ending with NULL. They must be run in one transaction, and only if the schema
 * does not exist. psql accepts them, too.
 */
extern const char *const es_postgres_schema[];

#endif
