/* Lists the runs in the databases that a watcher reads. Each database has a
 * permanent connection and a list of runs; each round reads only the runs that
 * were pushed since the previous round. */
#include "cli/alerts/watch/databases.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"

#include <stdlib.h>
#include <string.h>

static es_status find_database(es_watch_database **out,
                               es_watch_databases *databases, const char *root)
{
    for (size_t i = 0; i < databases->n; i++)
        if (strcmp(databases->list[i].root, root) == 0) {
            *out = &databases->list[i];
            return ES_OK;
        }
    es_remote_watch *watch = NULL;
    es_status status = es_remote_watch_open(&watch, root);
    if (status < 0)
        return status;
    if ((status = es_grow(&databases->list, databases->n + 1,
                          sizeof *databases->list, "databases")) < 0) {
        es_remote_watch_close(watch);
        return status;
    }
    *out = &databases->list[databases->n++];
    **out = (es_watch_database){.root = root, .watch = watch};
    return ES_OK;
}

static es_status take_run(void *user, const char *url, int64_t revision)
{
    es_watch_database *to = user;
    es_status status;
    if ((status = es_grow(&to->revisions, to->urls.n + 1, sizeof *to->revisions,
                          "runs")) < 0 ||
        (status = es_paths_add(&to->urls, url)) < 0)
        return status;
    to->revisions[to->urls.n - 1] = revision;
    return ES_OK;
}

static es_status list_runs(es_watch_database *database)
{
    es_watch_database fresh = *database;
    fresh.urls = (es_paths){0};
    fresh.revisions = NULL;
    es_status status = es_remote_watch_list(database->watch, take_run, &fresh);
    es_watch_database *old = status == ES_OK ? database : &fresh;
    es_paths_free(&old->urls);
    free(old->revisions);
    if (status == ES_OK)
        *database = fresh;
    return status;
}

es_status es_watch_database_read(es_paths *out, es_watch_databases *databases,
                                 const char *root)
{
    es_watch_database *database;
    es_status status = find_database(&database, databases, root);
    if (status < 0)
        return status;
    const bool had_some = database->revisions != NULL;
    status = list_runs(database);
    if (status == ES_ENOMEM || (status < 0 && !had_some))
        return status;
    if (status < 0 && !database->lost)
        es_print_note("%s", es_message());
    if (status == ES_OK && database->lost)
        es_print_note("%s: reachable again", root);
    database->lost = status < 0;
    for (size_t i = 0; i < database->urls.n; i++)
        if ((status = es_paths_add(out, database->urls.paths[i])) < 0)
            return status;
    return ES_OK;
}

static int by_text(const void *key, const void *path)
{
    return strcmp(key, *(char *const *)path);
}

/* Returns the database whose list contains the run `url`, and sets the index of
 * the run; NULL if the run is not listed. */
static const es_watch_database *find_run(const es_watch_databases *databases,
                                         const char *url, size_t *index)
{
    for (size_t i = 0; i < databases->n; i++) {
        const es_watch_database *database = &databases->list[i];
        char **found = database->urls.n
                           ? bsearch(url, database->urls.paths,
                                     database->urls.n, sizeof(char *), by_text)
                           : NULL;
        if (!found)
            continue;
        *index = (size_t)(found - database->urls.paths);
        return database;
    }
    return NULL;
}

es_stamp es_watch_database_stamp(const es_watch_databases *databases,
                                 const char *url)
{
    size_t i;
    const es_watch_database *database = find_run(databases, url, &i);
    return database ? (es_stamp){.size = database->revisions[i] + 1}
                    : (es_stamp){0};
}

bool es_watch_database_is_lost(const es_watch_databases *databases,
                               const char *url)
{
    size_t i;
    const es_watch_database *database = find_run(databases, url, &i);
    return database && database->lost;
}

void es_watch_databases_close(es_watch_databases *databases)
{
    for (size_t i = 0; i < databases->n; i++) {
        es_remote_watch_close(databases->list[i].watch);
        es_paths_free(&databases->list[i].urls);
        free(databases->list[i].revisions);
    }
    free(databases->list);
}
