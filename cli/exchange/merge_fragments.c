/* Collects and joins fragments for merge. Fragments are kept, with open
   readers, until all inputs have been read, because the fragments of a run may
   be in any inputs. */
#include "cli/exchange/merge_fragments.h"

#include "analyzer/base/checked.h"
#include "cli/exchange/copies.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "store/join/join.h"

#include <string.h>

typedef struct waiting {
    es_fragment fragment;
    bool is_over; /* true once the fragment has been joined or skipped, or has
                     failed */
    bool is_joined;
    bool is_complete; /* true if all ranks of the fragment's run are present */
} waiting;

struct es_fragments {
    waiting *all; /* (n) */
    size_t n;
    es_reader **readers; /* (n_readers) distinct readers, kept open */
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

/** Collects the fragments that belong to the same run as `first` in the array
 *  *run (n), which the caller frees. */
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

/**
 * Skips the fragments of a run because another input contains the same run
 * already joined. If a fragment has later steps than the joined run, counts the
 * run as incomplete, because these steps are lost; the message recommends
 * omitting the joined run.
 */
static es_status skip_run(const es_fragment *run, size_t n, es_writer *writer,
                          bool quiet, es_merged *merged)
{
    const char *path = es_reader_path(run->reader);
    const es_fragment *beyond = NULL;
    es_reader *reader = NULL;
    es_run_index *index = NULL;
    size_t joined;
    es_status status = es_merge_open(&reader, writer);
    if (status == ES_OK)
        status = es_run_index_make(&index, reader);
    if (status == ES_OK && es_run_index_find(&joined, index, run->info.uuid))
        for (size_t i = 0; i < n && status == ES_OK && !beyond; i++) {
            bool goes_on = false;
            status = es_copy_goes_on(&goes_on, run[i].reader, run[i].run,
                                     reader, joined);
            beyond = goes_on ? &run[i] : NULL;
        }
    es_run_index_free(index);
    es_reader_close(reader);
    if (status == ES_OK && beyond) {
        merged->n_incomplete++;
        es_print_note(
            "%s: has steps after the end of run %s, whose fragments are "
            "already "
            "joined in another input: omit that input and name all fragments",
            es_reader_path(beyond->reader), run->info.uuid);
    } else if (status == ES_OK && !quiet) {
        es_print_note("%s: run %s is already joined: its fragments are skipped",
                      path, run->info.uuid);
    }
    return status;
}

/** Adds the row of the most recently joined run to the summary table. */
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
        status =
            es_output_status(output, skip_run(run, n, writer, quiet, merged));
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

/** Sets *out to true if replacing the output file would lose `found`, a
 *  fragment in this file. The fragment is not lost if a joined fragment of the
 *  same rank and run has at least as many samples. */
static es_status is_fragment_lost(bool *out, const es_fragments *fragments,
                                  const es_fragment *found)
{
    es_status status = ES_OK;
    bool is_there = false;
    for (size_t i = 0; i < fragments->n && status == ES_OK && !is_there; i++) {
        const waiting *one = &fragments->all[i];
        bool has_more = false;
        if (!one->is_joined || one->fragment.ranks[0] != found->ranks[0] ||
            strcmp(one->fragment.info.uuid, found->info.uuid) != 0)
            continue;
        status = es_copy_has_more(&has_more, found->reader, found->run,
                                  one->fragment.reader, one->fragment.run);
        is_there = !has_more;
    }
    *out = !is_there;
    return status;
}

/** Returns true if this merge joined the run again, but without some of its
 *  ranks. */
static bool is_run_lost(const es_fragments *fragments, const char *uuid)
{
    for (size_t i = 0; i < fragments->n; i++) {
        const waiting *one = &fragments->all[i];
        if (one->is_joined && !one->is_complete &&
            strcmp(one->fragment.info.uuid, uuid) == 0)
            return true;
    }
    return false;
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
    *lost = !*is_fragment && is_run_lost(fragments, info.uuid);
    if (!*is_fragment)
        return ES_OK;
    status = is_fragment_lost(lost, fragments, &found);
    es_fragment_free(&found);
    return status;
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
