/* Reads the member "fragment" of a run's configuration. SQLite parses the JSON;
   this file checks every number, because run files are untrusted. */
#include "store/join/fragment.h"

#include "analyzer/base/checked.h"
#include "store/reader_internal.h"

/* Returns a row of NULLs if the text is not a JSON object or has no member
 * "fragment". */
static const char members_sql[] =
    "SELECT json_extract(c, '$.fragment.world'),"
    " json_extract(c, '$.fragment.layer'), json_extract(c, '$.fragment.head'),"
    " json_array_length(c, '$.fragment.ranks') FROM (SELECT CASE WHEN"
    " json_valid(?1) THEN CASE json_type(?1) WHEN 'object' THEN ?1 END END c)";

static const char ranks_sql[] =
    "SELECT value FROM json_each(?1, '$.fragment.ranks')";

static es_status fail_config(const es_fragment *fragment, const char *problem)
{
    return es_fail(
        ES_EFORMAT, "%s: run %s: \"fragment\" in its configuration: %s",
        es_reader_path(fragment->reader), fragment->info.uuid, problem);
}

/**
 * Reads the members of "fragment" except the list of ranks. Returns ES_DONE if
 * the run is not a fragment.
 */
static es_status take_members(es_fragment *fragment, sqlite3_stmt *s,
                              int64_t *n_ranks)
{
    for (int i = 0; i < 4; i++)
        if (sqlite3_column_type(s, i) != SQLITE_INTEGER)
            return ES_DONE;
    fragment->world = sqlite3_column_int64(s, 0);
    fragment->first_layer = sqlite3_column_int64(s, 1);
    fragment->first_head = sqlite3_column_int64(s, 2);
    *n_ranks = sqlite3_column_int64(s, 3);
    if (fragment->world < 1 || fragment->world > ES_MAX_RANKS)
        return fail_config(fragment, "\"world\" is out of range");
    if (*n_ranks < 1 || *n_ranks > fragment->world)
        return fail_config(fragment,
                           "\"ranks\" is empty, or longer than \"world\"");
    if (fragment->first_layer < 0 || fragment->first_layer >= ES_MAX_LAYERS ||
        fragment->first_head < 0 || fragment->first_head >= ES_MAX_HEADS)
        return fail_config(fragment, "\"layer\" or \"head\" is out of range");
    return ES_OK;
}

static es_status read_members(es_fragment *fragment, int64_t *n_ranks)
{
    const es_database *database = &fragment->reader->database;
    sqlite3_stmt *s = NULL;
    es_status status = es_database_prepare(database, &s, members_sql);
    if (status < 0)
        return status;
    es_bind_text(s, 1, fragment->info.config);
    int rc = sqlite3_step(s);
    status = es_database_status(database, rc);
    if (rc == SQLITE_ROW)
        status = take_members(fragment, s, n_ranks);
    sqlite3_finalize(s);
    return status;
}

static es_status take_rank(es_fragment *fragment, sqlite3_stmt *s)
{
    const int64_t rank = sqlite3_column_int64(s, 0);
    if (sqlite3_column_type(s, 0) != SQLITE_INTEGER || rank < 0 ||
        rank >= fragment->world)
        return fail_config(fragment, "\"ranks\" has an entry out of range");
    if (fragment->n_ranks && fragment->ranks[fragment->n_ranks - 1] >= rank)
        return fail_config(fragment, "\"ranks\" is not in ascending order");
    fragment->ranks[fragment->n_ranks++] = rank;
    return ES_OK;
}

static es_status read_ranks(es_fragment *fragment, int64_t n_ranks)
{
    const es_database *database = &fragment->reader->database;
    sqlite3_stmt *s = NULL;
    int rc = SQLITE_DONE;
    es_status status =
        es_alloc(&fragment->ranks, (size_t)n_ranks, sizeof *fragment->ranks,
                 "the ranks of a fragment");
    if (status == ES_OK)
        status = es_database_prepare(database, &s, ranks_sql);
    if (status < 0)
        return status;
    es_bind_text(s, 1, fragment->info.config);
    while (status == ES_OK && fragment->n_ranks < (size_t)n_ranks &&
           (rc = sqlite3_step(s)) == SQLITE_ROW)
        status = take_rank(fragment, s);
    if (status == ES_OK)
        status = es_database_status(database, rc);
    sqlite3_finalize(s);
    return status;
}

es_status es_fragment_read(es_fragment *out, es_reader *reader, size_t run)
{
    int64_t n_ranks = 0;
    es_status status;
    *out = (es_fragment){.reader = reader, .run = run};
    if ((status = es_reader_run(reader, run, &out->info)) < 0 ||
        (status = es_database_check_owner(&reader->database)) < 0 ||
        (status = read_members(out, &n_ranks)) != ES_OK)
        return status;
    if ((status = read_ranks(out, n_ranks)) < 0)
        es_fragment_free(out);
    return status;
}

void es_fragment_free(es_fragment *fragment)
{
    free(fragment->ranks);
    fragment->ranks = NULL;
    fragment->n_ranks = 0;
}
