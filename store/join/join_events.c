/* Writes the events of a joined run: the fragments' events, each with its rank,
 * and new events that count the missing steps, ranks and values. */
#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "store/join/join_internal.h"
#include "store/writer_internal.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_RANKS 16 /* maximum number of ranks that a message lists */

/**
 * Concatenates prefix and text into a new string, which the caller must free.
 * Omits the prefix if the result would be too long for an event.
 */
static es_status prefixed(char **out, const char *prefix, const char *text)
{
    *out = NULL;
    if (!text)
        return ES_OK;
    const size_t n = strlen(prefix), size = n + strlen(text) + 1;
    if (size > ES_MAX_TEXT)
        return es_copy_text(out, text);
    es_status status = es_alloc(out, size, 1, "an event's text");
    if (status == ES_OK)
        snprintf(*out, size, "%s%s", prefix, text);
    return status;
}

static int64_t moved(int64_t place, int64_t first)
{
    int64_t sum;
    if (place == ES_UNKNOWN || __builtin_add_overflow(place, first, &sum))
        return ES_UNKNOWN;
    return sum;
}

static es_status copy_event(const es_join_state *state,
                            const es_fragment *fragment, const es_event *event)
{
    char rank[48], key[48], *message = NULL, *dedupe = NULL;
    es_event copy = *event;
    snprintf(rank, sizeof rank, "rank %lld: ", (long long)fragment->ranks[0]);
    snprintf(key, sizeof key, "rank%lld/", (long long)fragment->ranks[0]);
    es_status status = prefixed(&message, rank, event->message);
    if (status == ES_OK)
        status = prefixed(&dedupe, key, event->dedupe);
    if (status == ES_OK) {
        copy.message = message;
        copy.dedupe = dedupe;
        copy.layer = moved(event->layer, fragment->first_layer);
        copy.head = moved(event->head, fragment->first_head);
        status = es_writer_event(state->writer, state->run_id, &copy);
    }
    free(message);
    free(dedupe);
    return status;
}

static es_status copy_events(const es_join_state *state,
                             const es_fragment *fragment)
{
    const es_event *events = NULL;
    size_t n = 0;
    es_status status =
        es_reader_events(fragment->reader, fragment->run, &events, &n);
    for (size_t i = 0; i < n && status == ES_OK; i++)
        status = copy_event(state, fragment, &events[i]);
    return status;
}

static es_status report_event(const es_join_state *state, int64_t step,
                              const char *kind, const char *message)
{
    if (state->handler)
        state->handler(state->user, message);
    return es_writer_event(state->writer, state->run_id,
                           &(es_event){
                               .step = step,
                               .kind = kind,
                               .severity = ES_SEVERITY_WARNING,
                               .layer = ES_UNKNOWN,
                               .head = ES_UNKNOWN,
                               .message = message,
                           });
}

static es_status report_gap(const es_join_state *state,
                            const es_join_part *part, int phase)
{
    const es_join_gap *gap = &part->gaps[phase];
    char message[256];
    if (gap->n == 0)
        return ES_OK;
    snprintf(message, sizeof message,
             "rank %lld: lacks %lld of %lld %s steps, from step %lld to step "
             "%lld",
             (long long)part->fragment->ranks[0], (long long)gap->n,
             (long long)state->n_steps[phase],
             phase == ES_PHASE_TRAIN ? "training" : "evaluation",
             (long long)gap->first, (long long)gap->last);
    return report_event(state, gap->first, "gap", message);
}

static es_status report_absent(const es_join_state *state)
{
    char message[512];
    bool *is_there = NULL;
    int64_t n = 0;
    es_text text = es_text_begin(message, sizeof message);
    es_status status = es_alloc(&is_there, (size_t)state->world,
                                sizeof *is_there, "the ranks");
    if (status < 0)
        return status;
    for (size_t i = 0; i < state->n_parts; i++) {
        const es_fragment *fragment = state->parts[i].fragment;
        for (size_t j = 0; j < fragment->n_ranks; j++)
            is_there[fragment->ranks[j]] = true;
    }
    for (int64_t rank = 0; rank < state->world; rank++)
        if (!is_there[rank] && n++ < SHOWN_RANKS)
            es_text_append(&text, n == 1 ? "ranks %lld" : ", %lld",
                           (long long)rank);
    free(is_there);
    if (n == 0)
        return ES_OK;
    if (n > SHOWN_RANKS)
        es_text_append(&text, " and %lld more", (long long)(n - SHOWN_RANKS));
    es_text_append(&text, " of %lld: no fragment was given",
                   (long long)state->world);
    return report_event(state, ES_UNKNOWN, "gap", message);
}

static es_status report_missing(const es_join_state *state,
                                const es_join_series *series)
{
    char message[ES_MAX_NAME + 256];
    if (series->n_missing == 0)
        return ES_OK;
    snprintf(message, sizeof message,
             "%s%s: missing at %lld steps, first at step %lld: %s",
             series->name,
             series->phase == ES_PHASE_EVAL ? " of evaluations" : "",
             (long long)series->n_missing, (long long)series->first_missing,
             series->rule == ES_JOIN_SAME
                 ? "the ranks differ, and no rule combines them"
                 : "a rank has no finite_rows to weigh its means by");
    return report_event(state, series->first_missing, "unjoined", message);
}

es_status es_join_events(es_join_state *state)
{
    es_status status = report_absent(state);
    for (size_t i = 0; i < state->n_parts; i++)
        for (int phase = 0; phase < 2 && status == ES_OK; phase++)
            status = report_gap(state, &state->parts[i], phase);
    for (size_t i = 0; i < state->n_series && status == ES_OK; i++)
        status = report_missing(state, &state->series[i]);
    for (size_t i = 0; i < state->n_parts && status == ES_OK; i++)
        status = copy_events(state, state->parts[i].fragment);
    return status;
}
