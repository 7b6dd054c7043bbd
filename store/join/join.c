/* Joins the fragments of a distributed training run: checks that they fit
 * together, computes the size of the whole run, and streams their samples in
 * order of step. */
#include "store/join/join.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"
#include "store/join/join_internal.h"
#include "store/writer_internal.h"

#include <string.h>

/* --- checks --------------------------------------------------------------- */

static const char *path_of(const es_fragment *fragment)
{
    return es_reader_path(fragment->reader);
}

static int by_rank(const void *a, const void *b)
{
    const int64_t x = ((const es_join_part *)a)->fragment->ranks[0];
    const int64_t y = ((const es_join_part *)b)->fragment->ranks[0];
    return (x > y) - (x < y);
}

static es_status check_same_run(const es_fragment *a, const es_fragment *b)
{
    if (strcmp(a->info.uuid, b->info.uuid) != 0)
        return es_fail(ES_EFORMAT,
                       "%s: a fragment of run %s, but %s belongs to run %s",
                       path_of(b), b->info.uuid, path_of(a), a->info.uuid);
    if (a->world != b->world)
        return es_fail(
            ES_EFORMAT,
            "%s: a fragment of a run with %lld ranks, but %s has %lld "
            "ranks for the same run %s",
            path_of(b), (long long)b->world, path_of(a), (long long)a->world,
            a->info.uuid);
    return ES_OK;
}

/**
 * Enters the fragment into `owners`, an array with one element per rank that
 * points to the rank's fragment. Fails if one of the fragment's ranks already
 * belongs to another fragment.
 */
static es_status check_ranks(const es_fragment **owners,
                             const es_fragment *fragment)
{
    for (size_t i = 0; i < fragment->n_ranks; i++) {
        const es_fragment **owner = &owners[fragment->ranks[i]];
        if (*owner)
            return es_fail(ES_EFORMAT,
                           "%s: rank %lld of run %s is also in %s: name "
                           "only one of them",
                           path_of(fragment), (long long)fragment->ranks[i],
                           fragment->info.uuid, path_of(*owner));
        *owner = fragment;
    }
    return ES_OK;
}

static bool is_apart(int64_t a, int64_t n_a, int64_t b, int64_t n_b)
{
    return a + n_a <= b || b + n_b <= a;
}

/**
 * Checks that two fragments contain either the same heads or disjoint sets of
 * heads. If the heads are the same, sets has_replica of both.
 */
static es_status check_heads(es_join_part *a, es_join_part *b)
{
    const es_fragment *x = a->fragment, *y = b->fragment;
    if (is_apart(x->first_layer, x->info.n_layer, y->first_layer,
                 y->info.n_layer) ||
        is_apart(x->first_head, x->info.n_head, y->first_head, y->info.n_head))
        return ES_OK;
    if (x->first_layer == y->first_layer && x->first_head == y->first_head &&
        x->info.n_layer == y->info.n_layer &&
        x->info.n_head == y->info.n_head) {
        a->has_replica = b->has_replica = true;
        return ES_OK;
    }
    return es_fail(
        ES_EFORMAT,
        "%s: layers %lld to %lld, heads %lld to %lld overlap those of %s, "
        "layers %lld to %lld, heads %lld to %lld: fragments must hold the same "
        "heads, or disjoint ones",
        path_of(y), (long long)y->first_layer,
        (long long)(y->first_layer + y->info.n_layer - 1),
        (long long)y->first_head,
        (long long)(y->first_head + y->info.n_head - 1), path_of(x),
        (long long)x->first_layer,
        (long long)(x->first_layer + x->info.n_layer - 1),
        (long long)x->first_head,
        (long long)(x->first_head + x->info.n_head - 1));
}

es_status es_join_fit(es_join_state *state)
{
    es_join_part *parts = state->parts;
    const es_fragment **owners = NULL;
    qsort(parts, state->n_parts, sizeof *parts, by_rank);
    state->world = parts[0].fragment->world;
    es_status status =
        es_alloc(&owners, (size_t)state->world, sizeof *owners, "the ranks");
    for (size_t i = 0; i < state->n_parts && status == ES_OK; i++) {
        const es_fragment *fragment = parts[i].fragment;
        status = check_same_run(parts[0].fragment, fragment);
        if (status == ES_OK)
            status = check_ranks(owners, fragment);
        for (size_t j = 0; j < i && status == ES_OK; j++)
            status = check_heads(&parts[j], &parts[i]);
        const int64_t n_layer = fragment->first_layer + fragment->info.n_layer;
        const int64_t n_head = fragment->first_head + fragment->info.n_head;
        if (n_layer > state->n_layer)
            state->n_layer = n_layer;
        if (n_head > state->n_head)
            state->n_head = n_head;
    }
    free(owners);
    return status;
}

/* --- the run and its series ----------------------------------------------- */

/**
 * Returns the status of the joined run: the first status, in the order running,
 * failed, stopped, finished, that any fragment has.
 */
static es_run_status status_of(const es_join_state *state)
{
    static const es_run_status order[] = {ES_RUN_RUNNING, ES_RUN_FAILED,
                                          ES_RUN_STOPPED};
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < state->n_parts; j++)
            if (state->parts[j].fragment->info.status == order[i])
                return order[i];
    return ES_RUN_FINISHED;
}

/**
 * Returns the number of sequences per step, summed over all fragments that
 * contain the same heads as the first fragment.
 */
static int64_t batch_of(const es_join_state *state)
{
    const es_fragment *first = state->parts[0].fragment;
    int64_t batch = 0;
    for (size_t i = 0; i < state->n_parts; i++) {
        const es_fragment *other = state->parts[i].fragment;
        if (other->first_layer != first->first_layer ||
            other->first_head != first->first_head)
            continue;
        if (other->info.batch < 0 ||
            __builtin_add_overflow(batch, other->info.batch, &batch))
            return ES_UNKNOWN;
    }
    return batch;
}

static es_run_info info_of(const es_join_state *state)
{
    es_run_info info = state->parts[0].fragment->info;
    info.n_layer = state->n_layer;
    info.n_head = state->n_head;
    info.batch = batch_of(state);
    info.status = status_of(state);
    for (size_t i = 1; i < state->n_parts; i++) {
        const es_run_info *other = &state->parts[i].fragment->info;
        if (other->started_at &&
            (!info.started_at ||
             strcmp(other->started_at, info.started_at) < 0))
            info.started_at = other->started_at;
        if (other->ended_at &&
            (!info.ended_at || strcmp(other->ended_at, info.ended_at) > 0))
            info.ended_at = other->ended_at;
    }
    if (info.status == ES_RUN_RUNNING)
        info.ended_at = NULL;
    return info;
}

/**
 * Adds the joined run. Its configuration is that of the first fragment without
 * the member "fragment".
 */
static es_status add_run(es_join_state *state)
{
    const es_database *database = &state->writer->database;
    es_run_info info = info_of(state);
    sqlite3_stmt *s = NULL;
    es_status status = es_database_prepare(
        database, &s, "SELECT json_remove(?1, '$.fragment')");
    if (status < 0)
        return status;
    es_bind_text(s, 1, info.config);
    status = es_database_status(database, sqlite3_step(s));
    if (status == ES_OK) {
        info.config = (const char *)sqlite3_column_text(s, 0);
        status = es_writer_add_run(state->writer, &state->run_id, &info);
    }
    sqlite3_finalize(s);
    return status;
}

static es_join_series *find_series(const es_join_state *state,
                                   const es_series *series)
{
    for (size_t i = 0; i < state->n_series; i++) {
        es_join_series *found = &state->series[i];
        if (found->phase == series->phase &&
            strcmp(found->name, series->name) == 0)
            return found;
    }
    return NULL;
}

static es_status add_series(es_join_state *state, const es_fragment *fragment,
                            const es_series *series)
{
    const es_join_series *there = find_series(state, series);
    if (there && there->shape != series->shape)
        return es_fail(ES_EFORMAT,
                       "%s: series %s has the shape %s, but in another "
                       "fragment of run %s the shape %s",
                       path_of(fragment), series->name,
                       es_shape_name(series->shape), fragment->info.uuid,
                       es_shape_name(there->shape));
    if (there)
        return ES_OK;
    es_status status =
        es_reserve_next(&state->series, state->n_series, sizeof *state->series);
    if (status < 0)
        return status;
    es_join_series *made = &state->series[state->n_series];
    *made = (es_join_series){
        .name = series->name,
        .phase = series->phase,
        .shape = series->shape,
        .rule = es_join_rule_of(series->name, series->shape),
    };
    status =
        es_writer_series(state->writer, &made->id, state->run_id, series->name,
                         series->shape, series->phase, series->unit);
    state->n_series += status == ES_OK;
    return status;
}

static es_status add_all_series(es_join_state *state)
{
    es_series series;
    for (size_t i = 0; i < state->n_parts; i++) {
        const es_fragment *fragment = state->parts[i].fragment;
        const size_t n = es_reader_n_series(fragment->reader, fragment->run);
        for (size_t j = 0; j < n; j++) {
            es_status status;
            if ((status = es_reader_series(fragment->reader, fragment->run, j,
                                           &series)) < 0 ||
                (status = add_series(state, fragment, &series)) < 0)
                return status;
        }
    }
    return ES_OK;
}

/* --- samples -------------------------------------------------------------- */

static es_status advance_part(es_join_part *part)
{
    es_status status = es_cursor_next_of_run(part->cursor, &part->step,
                                             &part->values, &part->series);
    part->is_over = status == ES_DONE;
    return part->is_over ? ES_OK : status;
}

/**
 * Compares the next samples of two parts in the order in which a run's cursor
 * returns samples: by step, then name, then phase, with training before
 * evaluation.
 */
static int compare_parts(const es_join_part *a, const es_join_part *b)
{
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    const int names = strcmp(a->series.name, b->series.name);
    return names ? names : (int)a->series.phase - (int)b->series.phase;
}

static const es_join_part *find_next(const es_join_state *state)
{
    const es_join_part *next = NULL;
    for (size_t i = 0; i < state->n_parts; i++) {
        const es_join_part *part = &state->parts[i];
        if (!part->is_over && (!next || compare_parts(part, next) < 0))
            next = part;
    }
    return next;
}

/**
 * Loads the values that the series finite_rows of a fragment has at the
 * fragment's current step.
 */
static es_status load_rows(es_join_part *part, es_join_rows *rows)
{
    const es_fragment *fragment = part->fragment;
    es_series series;
    int64_t step;
    es_status status;
    if (rows->step == part->step)
        return ES_OK;
    rows->step = part->step;
    rows->is_there = false;
    status = es_reader_find(fragment->reader, fragment->run, "finite_rows",
                            part->series.phase, &series);
    if (status == ES_OK && series.shape != ES_SHAPE_HEAD)
        return ES_OK;
    if (status == ES_OK && !rows->values)
        status = es_alloc(&rows->values, series.n_values, sizeof *rows->values,
                          "the rows of heads");
    if (status == ES_OK)
        status = es_reader_sample(fragment->reader, &series, part->step,
                                  rows->values, series.n_values, &step);
    rows->is_there = status == ES_OK;
    return status == ES_ENOTFOUND ? ES_OK : status;
}

/**
 * Converts the index of a value in a fragment's series to its index in the
 * series of the whole run.
 */
static size_t place_of(const es_join_state *state, const es_fragment *fragment,
                       es_shape shape, size_t i)
{
    const size_t n_head = (size_t)fragment->info.n_head;
    const size_t layer = (size_t)fragment->first_layer;
    switch (shape) {
    case ES_SHAPE_RUN:
        return 0;
    case ES_SHAPE_LAYER:
        return layer + i;
    case ES_SHAPE_HEAD:
        return (layer + i / n_head) * (size_t)state->n_head +
               (size_t)fragment->first_head + i % n_head;
    }
    return 0;
}

static double rows_at(const es_join_rows *rows, size_t i)
{
    if (!rows || !rows->is_there || es_is_missing(rows->values[i]))
        return -1;
    return (double)rows->values[i];
}

static es_status add_values(es_join_state *state, es_join_part *part,
                            es_join_rule rule)
{
    const es_join_rows *rows = NULL;
    if (rule == ES_JOIN_MEAN_OF_ROWS && part->has_replica) {
        es_status status = load_rows(part, &part->rows[part->series.phase]);
        if (status < 0)
            return status;
        rows = &part->rows[part->series.phase];
    }
    for (size_t i = 0; i < part->series.n_values; i++)
        es_join_add(&state->cells[place_of(state, part->fragment,
                                           part->series.shape, i)],
                    rule, part->values[i], rows_at(rows, i));
    if (part->series.shape == ES_SHAPE_HEAD)
        part->gaps[part->series.phase].has_attention = true;
    return ES_OK;
}

static es_status write_values(es_join_state *state, es_join_series *series,
                              int64_t step)
{
    const size_t n =
        es_shape_values(series->shape, state->n_layer, state->n_head);
    bool has_no_rule = false;
    for (size_t i = 0; i < n; i++)
        state->values[i] =
            es_join_value(&state->cells[i], series->rule, &has_no_rule);
    if (has_no_rule && series->n_missing++ == 0)
        series->first_missing = step;
    return es_writer_sample(state->writer, series->id, step, state->values, n);
}

/** Writes the next sample of the run, combined from all fragments that have a
 * sample of this series and step. */
static es_status join_sample(es_join_state *state, const es_join_part *next)
{
    const es_join_part key = {.step = next->step, .series = next->series};
    es_join_series *series = find_series(state, &key.series);
    if (!series)
        return es_fail(ES_EFORMAT,
                       "%s: series %s was added while the file was read",
                       path_of(next->fragment), key.series.name);
    memset(state->cells, 0,
           es_shape_values(series->shape, state->n_layer, state->n_head) *
               sizeof *state->cells);
    for (size_t i = 0; i < state->n_parts; i++) {
        es_join_part *part = &state->parts[i];
        if (part->is_over || compare_parts(part, &key) != 0)
            continue;
        es_status status = add_values(state, part, series->rule);
        if (status == ES_OK)
            status = advance_part(part);
        if (status < 0)
            return status;
    }
    return write_values(state, series, key.step);
}

/**
 * Called after the last sample of a step. For each phase, counts the step as
 * missing in each fragment that has no attention data at this step while
 * another fragment has some.
 */
static void count_gaps(es_join_state *state, int64_t step)
{
    for (int phase = 0; phase < 2; phase++) {
        size_t n = 0;
        for (size_t i = 0; i < state->n_parts; i++)
            n += state->parts[i].gaps[phase].has_attention;
        state->n_steps[phase] += n > 0;
        for (size_t i = 0; i < state->n_parts; i++) {
            es_join_gap *gap = &state->parts[i].gaps[phase];
            if (n > 0 && !gap->has_attention) {
                gap->last = step;
                if (gap->n++ == 0)
                    gap->first = step;
            }
            gap->has_attention = false;
        }
    }
}

es_status es_join_samples(es_join_state *state)
{
    es_status status = ES_OK;
    for (size_t i = 0; i < state->n_parts && status == ES_OK; i++) {
        es_join_part *part = &state->parts[i];
        status = es_cursor_open_run(&part->cursor, part->fragment->reader,
                                    part->fragment->run);
        if (status == ES_OK)
            status = advance_part(part);
    }
    const es_join_part *next = status == ES_OK ? find_next(state) : NULL;
    while (next && status == ES_OK) {
        const int64_t step = next->step;
        status = join_sample(state, next);
        next = find_next(state);
        if (!next || next->step != step)
            count_gaps(state, step);
    }
    return status;
}

/* --- the whole run -------------------------------------------------------- */

static es_status write_run(es_join_state *state)
{
    es_status status;
    const size_t n = (size_t)(state->n_layer * state->n_head);
    if ((status = add_run(state)) < 0 || /* checks L and H */
        (status = es_alloc(&state->cells, n, sizeof *state->cells,
                           "the heads of a run")) < 0 ||
        (status = es_alloc(&state->values, n, sizeof *state->values,
                           "the heads of a run")) < 0 ||
        (status = add_all_series(state)) < 0 ||
        (status = es_join_samples(state)) < 0)
        return status;
    return es_join_events(state);
}

static es_status write_transaction(es_join_state *state)
{
    es_status status = es_writer_begin(state->writer);
    if (status < 0)
        return status;
    int64_t there = 0, n_layer, n_head;
    status = es_writer_find_run(state->writer, &there, &n_layer, &n_head,
                                state->parts[0].fragment->info.uuid);
    if (status == ES_OK)
        status = there ? ES_DONE : write_run(state);
    if (status == ES_OK)
        return es_writer_commit(state->writer);
    es_writer_rollback(state->writer);
    return status;
}

static void free_state(es_join_state *state)
{
    for (size_t i = 0; state->parts && i < state->n_parts; i++) {
        es_cursor_close(state->parts[i].cursor);
        free(state->parts[i].rows[0].values);
        free(state->parts[i].rows[1].values);
    }
    free(state->parts);
    free(state->series);
    free(state->cells);
    free(state->values);
}

es_status es_join(es_writer *writer, const es_fragment *fragments, size_t n,
                  es_join_handler *handler, void *user)
{
    es_join_state state = {
        .writer = writer, .n_parts = n, .handler = handler, .user = user};
    if (n == 0)
        return es_fail(ES_EARGUMENT, "no fragments to join");
    es_status status =
        es_alloc(&state.parts, n, sizeof *state.parts, "the fragments");
    for (size_t i = 0; i < n && status == ES_OK; i++)
        state.parts[i] = (es_join_part){.fragment = &fragments[i],
                                        .rows = {{.step = -1}, {.step = -1}}};
    if (status == ES_OK)
        status = es_join_fit(&state);
    if (status == ES_OK)
        status = write_transaction(&state);
    free_state(&state);
    return status;
}
