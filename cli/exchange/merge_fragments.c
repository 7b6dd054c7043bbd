/* Fragments for merge: they wait until every input was read, for they may come
   in any order, and their readers stay open as long. */
#include "cli/exchange/merge_fragments.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "store/join/join.h"

#include <string.h>

typedef struct waiting {
    es_fragment fragment;
    bool is_over; /* joined, skipped or failed */
    bool is_joined;
    bool is_complete; /* with all ranks of its run */
} waiting;

struct es_fragments {
    waiting *all; /* (n) */
    size_t n;
    es_reader **readers; /* (n_readers), each once */
    size_t n_readers;
};

typedef struct notes {
    const es_fragment *first;
    bool quiet;
} notes;

es_status es_fragments_make(es_fragments **out)
{
    return es_alloc(out, 1, sizeof **out, "the fragments");
}

es_status es_fragments_add(es_fragments *fragments, es_reader *reader,
                           size_t run)
{
    es_fragment found;
    es_status status = es_fragment_read(&found, reader, run);
    if (status != ES_OK)
        return status;
    status = es_grow(&fragments->all, fragments->n + 1, sizeof *fragments->all,
                     "the fragments");
    if (status == ES_OK)
        fragments->all[fragments->n++] = (waiting){.fragment = found};
    else
        es_fragment_free(&found);
    return status;
}

es_status es_fragments_keep(es_fragments *fragments, es_reader *reader,
                            es_status status)
{
    es_status grown = es_grow(&fragments->readers, fragments->n_readers + 1,
                              sizeof(es_reader *), "the fragments");
    if (grown == ES_OK) {
        fragments->readers[fragments->n_readers++] = reader;
        return status < 0 ? status : ES_OK;
    }
    while (fragments->n &&
           fragments->all[fragments->n - 1].fragment.reader == reader)
        es_fragment_free(&fragments->all[--fragments->n].fragment);
    es_damage_close(reader);
    return grown;
}

static void print_gap(void *user, const char *line)
{
    const notes *about = user;
    if (!about->quiet)
        es_print_note("%s: %s", es_reader_path(about->first->reader), line);
}

/** Takes the fragments of one run: run (n), to be freed. */
static es_status take_run(es_fragments *fragments, const waiting *first,
                          es_fragment **run, size_t *n)
{
    *n = 0;
    es_status status =
        es_alloc(run, fragments->n, sizeof **run, "the fragments of a run");
    for (size_t i = 0; i < fragments->n && status == ES_OK; i++) {
        waiting *other = &fragments->all[i];
        if (strcmp(other->fragment.info.uuid, first->fragment.info.uuid) != 0)
            continue;
        other->is_over = true;
        (*run)[(*n)++] = other->fragment;
    }
    return status;
}

static bool is_complete(const es_fragment *run, size_t n)
{
    size_t n_ranks = 0;
    for (size_t i = 0; i < n; i++)
        n_ranks += run[i].n_ranks;
    return n_ranks == (size_t)run->world;
}

static void mark_joined(es_fragments *fragments, const char *uuid,
                        bool complete)
{
    for (size_t i = 0; i < fragments->n; i++) {
        waiting *one = &fragments->all[i];
        if (strcmp(one->fragment.info.uuid, uuid) == 0) {
            one->is_joined = true;
            one->is_complete = complete;
        }
    }
}

/** The row of the run that was joined last. */
static es_status add_row(es_writer *writer, es_merge_handler *handler)
{
    es_reader *reader = NULL;
    es_status status = es_merge_open(&reader, writer);
    if (status == ES_OK)
        status = handler(writer, reader, es_reader_n_runs(reader) - 1);
    es_reader_close(reader);
    return status;
}

static es_status join_run(es_fragments *fragments, const waiting *first,
                          es_writer *writer, const es_output *output,
                          es_merge_handler *handler, bool quiet,
                          es_merged *merged)
{
    es_fragment *run = NULL;
    size_t n = 0;
    notes about = {.first = &first->fragment, .quiet = quiet};
    es_status status = take_run(fragments, first, &run, &n);
    if (status < 0)
        return status;
    status = es_join(writer, run, n, print_gap, &about);
    if (status == ES_OK) {
        const bool complete = is_complete(run, n);
        merged->n_runs++;
        merged->n_incomplete += !complete;
        mark_joined(fragments, first->fragment.info.uuid, complete);
        status = es_output_status(output, add_row(writer, handler));
    } else if (status == ES_DONE) {
        if (!quiet)
            es_print_note("%s: run %s there already: its fragments are skipped",
                          es_reader_path(first->fragment.reader),
                          first->fragment.info.uuid);
        status = ES_OK;
    } else if (es_output_is_blamed(output)) {
        status = es_output_status(output, status);
    } else {
        es_print_note("%s", es_message());
        merged->n_incomplete++;
        status = ES_OK;
    }
    free(run);
    return status;
}

es_status es_fragments_join(es_fragments *fragments, es_writer *writer,
                            const es_output *output, es_merge_handler *handler,
                            bool quiet, es_merged *merged)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < fragments->n && status == ES_OK; i++)
        if (!fragments->all[i].is_over)
            status = join_run(fragments, &fragments->all[i], writer, output,
                              handler, quiet, merged);
    return status;
}

static bool is_lost(const es_fragments *fragments, const es_fragment *found,
                    const char *uuid)
{
    bool has_ranks_less = false, is_there = false;
    for (size_t i = 0; i < fragments->n; i++) {
        const waiting *one = &fragments->all[i];
        if (!one->is_joined || strcmp(one->fragment.info.uuid, uuid) != 0)
            continue;
        has_ranks_less = !one->is_complete;
        is_there |= found && one->fragment.ranks[0] == found->ranks[0];
    }
    return found ? !is_there : has_ranks_less;
}

es_status es_fragments_check(const es_fragments *fragments, es_reader *reader,
                             size_t run, bool *is_fragment, bool *lost)
{
    es_fragment found;
    es_run_info info;
    es_status status = es_reader_run(reader, run, &info);
    if (status == ES_OK)
        status = es_fragment_read(&found, reader, run);
    if (status < 0)
        return status;
    *is_fragment = status == ES_OK;
    *lost = is_lost(fragments, *is_fragment ? &found : NULL, info.uuid);
    if (*is_fragment)
        es_fragment_free(&found);
    return ES_OK;
}

void es_fragments_free(es_fragments *fragments)
{
    if (!fragments)
        return;
    for (size_t i = 0; i < fragments->n; i++)
        es_fragment_free(&fragments->all[i].fragment);
    for (size_t i = 0; i < fragments->n_readers; i++)
        es_damage_close(fragments->readers[i]);
    free(fragments->all);
    free(fragments->readers);
    free(fragments);
}
