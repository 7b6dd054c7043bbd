/* Pushes several new runs in one transaction. One INSERT adds their rows, in
 * order of uuid so that two pushers cannot deadlock; then one COPY per table
 * adds their samples, series, events and alerts. Runs that do not fit, and all
 * runs if anything fails, are pushed separately by push_run.c. */
#include "store/push/push_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct group {
    es_pusher *pusher;
    es_push_job *jobs;    /* the n jobs, sorted by uuid */
    es_push_item **items; /* for each of the n jobs, the item from which it was
                             made */
    size_t n;
} group;

/* --- the selection -------------------------------------------------------- */

static es_status print_uuids(char **out, const group *g)
{
    size_t size;
    es_json_writer json = {.stream = es_text_stream(out, &size)};
    if (!json.stream)
        return es_fail(ES_ENOMEM, "out of memory for the names of runs");
    es_json_write_array(&json, NULL);
    for (size_t i = 0; i < g->n; i++)
        es_json_write_text(&json, NULL, g->jobs[i].info.uuid);
    es_json_write_end(&json, "]");
    if (fclose(json.stream) == 0)
        return ES_OK;
    return es_fail(ES_ENOMEM, "out of memory for the names of runs");
}

static void drop_job(group *g, size_t i)
{
    const size_t n = --g->n - i;
    es_push_job_free(&g->jobs[i]);
    memmove(&g->jobs[i], &g->jobs[i + 1], n * sizeof *g->jobs);
    memmove(&g->items[i], &g->items[i + 1], n * sizeof(es_push_item *));
}

/* Removes the runs that the database already has from the group. */
static es_status leave_known(group *g)
{
    char *text = NULL;
    PGresult *result = NULL;
    es_status status = print_uuids(&text, g);
    const char *parameter = text;
    if (status == ES_OK)
        status =
            es_postgres_query(&result, g->pusher->postgres,
                              "SELECT uuid FROM entropy_scan.run WHERE uuid IN"
                              " (SELECT json_array_elements_text($1::json))",
                              1, &parameter);
    for (int k = 0; status == ES_OK && k < es_pq.ntuples(result); k++)
        for (size_t i = g->n; i-- > 0;)
            if (strcmp(g->jobs[i].info.uuid, es_pq.getvalue(result, k, 0)) == 0)
                drop_job(g, i);
    es_pq.clear(result);
    free(text);
    return status;
}

/**
 * Adds the item to the group, unless another item of the group has the same
 * uuid.
 */
static es_status add_job(group *g, es_push_item *item, es_push_counts *counts)
{
    es_push_job job = {.pusher = g->pusher,
                       .reader = item->reader,
                       .run = item->run,
                       .source = item->source,
                       .finder = item->finder,
                       .user = item->user,
                       .counts = counts};
    size_t at = 0;
    es_status status = es_push_prepare(&job);
    while (status == ES_OK && at < g->n &&
           strcmp(g->jobs[at].info.uuid, job.info.uuid) < 0)
        at++;
    if (status < 0 ||
        (at < g->n && strcmp(g->jobs[at].info.uuid, job.info.uuid) == 0)) {
        es_push_job_free(&job);
        return status;
    }
    const size_t n = g->n++ - at;
    memmove(&g->jobs[at + 1], &g->jobs[at], n * sizeof *g->jobs);
    memmove(&g->items[at + 1], &g->items[at], n * sizeof(es_push_item *));
    g->jobs[at] = job;
    g->items[at] = item;
    return ES_OK;
}

static es_status choose_jobs(group *g, es_push_item *items, size_t n,
                             es_push_counts *counts)
{
    es_status status;
    if ((status = es_alloc(&g->jobs, n, sizeof *g->jobs, "runs")) < 0 ||
        (status = es_alloc(&g->items, n, sizeof *g->items, "runs")) < 0)
        return status;
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = add_job(g, &items[i], counts);
    if (status == ES_OK && g->n)
        status = leave_known(g);
    for (size_t i = 0; i < g->n && status == ES_OK; i++)
        status = es_push_plan_new(&g->jobs[i]);
    return status;
}

/* --- the transaction ------------------------------------------------------ */

/* Creates the months' partitions before the runs are inserted, so that a pusher
 * that waits for another pusher to create a month holds no lock on a run. */
static es_status add_months(const group *g)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < g->n && status == ES_OK; i++) {
        char sql[64];
        if (i &&
            strcmp(g->jobs[i].pushed.month, g->jobs[i - 1].pushed.month) == 0)
            continue;
        snprintf(sql, sizeof sql, "SELECT entropy_scan.add_month('%s')",
                 g->jobs[i].pushed.month);
        status = es_postgres_execute(g->pusher->postgres, sql);
    }
    return status;
}

static es_status insert_runs(group *g)
{
    es_status status = es_push_insert_runs(g->jobs, g->n);
    for (size_t i = g->n; status == ES_OK && i-- > 0;)
        if (!g->jobs[i].pushed.run_id)
            drop_job(g, i);
    return status;
}

static es_status copy_samples(group *g)
{
    es_status status = es_push_begin_samples(g->pusher);
    for (size_t i = 0; i < g->n && status == ES_OK; i++) {
        status = es_push_put_samples(&g->jobs[i]);
        if (status == ES_OK)
            return es_fail(
                ES_EARGUMENT,
                "%s: the run is too large to be pushed together with others",
                es_reader_path(g->jobs[i].reader));
        status = status == ES_DONE ? ES_OK : status;
    }
    return status < 0 ? status : es_copy_in_end(&g->pusher->copy);
}

static es_status copy_series(group *g)
{
    es_status status = es_push_begin_series(g->pusher);
    for (size_t i = 0; i < g->n && status == ES_OK; i++)
        es_push_put_series(&g->jobs[i]);
    return status < 0 ? status : es_copy_in_end(&g->pusher->copy);
}

static es_status copy_events(group *g)
{
    es_copy_in *copy = &g->pusher->copy;
    es_status status = es_push_begin_events(copy, g->pusher->postgres);
    for (size_t i = 0; i < g->n && status == ES_OK; i++)
        status = es_push_put_events(copy, g->jobs[i].pushed.run_id, 0,
                                    g->jobs[i].reader, g->jobs[i].run,
                                    &g->jobs[i].added);
    return status < 0 ? status : es_copy_in_end(copy);
}

static es_status copy_maps(group *g)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < g->n && status == ES_OK; i++) {
        es_push_job *j = &g->jobs[i];
        status =
            es_push_measure(j->whole, j->begun, &j->pushed, j->reader, j->run);
        if (status == ES_OK)
            status =
                es_push_maps(&g->pusher->copy, g->pusher->postgres, &j->pushed,
                             j->begun, j->whole, j->reader, j->run, &j->added);
    }
    return status;
}

static es_status copy_alerts(group *g)
{
    es_status status = es_push_begin_alerts(g->pusher);
    for (size_t i = 0; i < g->n && status == ES_OK; i++)
        status = es_push_put_alerts(&g->jobs[i]);
    return status < 0 ? status : es_copy_in_end(&g->pusher->copy);
}

static es_status copy_parts(group *g)
{
    es_copy_in *copy = &g->pusher->copy;
    es_status status = es_copy_in_begin(
        copy, g->pusher->postgres,
        "COPY entropy_scan.part(run_id, name, n, digest) FROM STDIN"
        " (FORMAT binary)");
    if (status < 0)
        return status;
    for (size_t i = 0; i < g->n; i++) {
        es_push_job *j = &g->jobs[i];
        j->whole[ES_PUSH_RUN] = (es_push_part){1, j->about};
        for (int k = ES_PUSH_RUN; k <= ES_PUSH_MAP_EVAL; k++) {
            if (!j->whole[k].n)
                continue;
            es_copy_in_row(copy, 4);
            es_copy_in_bigint(copy, j->pushed.run_id);
            es_copy_in_text(copy, es_push_part_name((es_push_part_kind)k));
            es_copy_in_bigint(copy, j->whole[k].n);
            es_copy_in_bigint(copy, j->whole[k].digest);
        }
    }
    return es_copy_in_end(copy);
}

static es_status write_group(group *g)
{
    es_status status;
    if ((status = es_pusher_begin(g->pusher)) < 0 ||
        (status = add_months(g)) < 0 || (status = insert_runs(g)) < 0 ||
        (status = copy_samples(g)) < 0 || (status = copy_series(g)) < 0 ||
        (status = copy_events(g)) < 0 || (status = copy_maps(g)) < 0 ||
        (status = copy_alerts(g)) < 0 || (status = copy_parts(g)) < 0)
        return status;
    return es_pusher_commit(g->pusher);
}

es_status es_push_group(es_pusher *pusher, es_push_item *items, size_t n,
                        es_push_counts *counts)
{
    group g = {.pusher = pusher};
    es_status status = choose_jobs(&g, items, n, counts);
    if (status == ES_OK && g.n)
        status = write_group(&g);
    if (status < 0)
        es_pusher_rollback(pusher);
    for (size_t i = 0; i < g.n; i++) {
        if (status == ES_OK) {
            g.items[i]->is_pushed = true;
            es_push_counts_add(counts, &g.jobs[i].added);
        }
        es_push_job_free(&g.jobs[i]);
    }
    free(g.jobs);
    free(g.items);
    return status;
}
