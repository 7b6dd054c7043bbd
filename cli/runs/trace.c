/* Stores curves over steps in constant memory, for --tui, the curves of
   cli/figures and the report. An array of slots contains the points. Whenever
   the array is full, groups of JOIN neighbouring slots are merged into one slot
   each. */
#include "cli/runs/trace.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

enum {
    JOIN = 4
}; /* number of neighbouring slots merged into one; at least 3, because a
      merged slot is drawn as up to 3 points */

/* Values of one curve within a slot. */
typedef struct span {
    float low, high; /* smallest and largest finite value, or the missing
                        value if no value is finite; if count is 1, both are
                        the only value, even if it is not finite */
    bool broken;     /* true if some value is NaN or infinite */
} span;

/* The values of one step or, after k merges, of up to JOIN^k consecutive
 * steps. */
typedef struct slot {
    int64_t first, second, last;
    size_t count;
} slot;

struct es_trace {
    size_t n_lines, capacity, n, width; /* `width` is the number of steps in a
                                           full slot */
    slot *slots;                        /* (capacity) */
    span *spans;                        /* (capacity,n_lines) */
};

es_status es_trace_new(es_trace **out, size_t n_lines)
{
    const size_t most = (size_t)ES_TRACE_MOST * 128 / n_lines;
    return es_trace_new_within(out, n_lines,
                               most < ES_TRACE_LEAST  ? ES_TRACE_LEAST
                               : most > ES_TRACE_MOST ? ES_TRACE_MOST
                                                      : most);
}

es_status es_trace_new_within(es_trace **out, size_t n_lines, size_t most)
{
    const size_t capacity = most < 2 * JOIN ? 2 * JOIN : most - most % JOIN;
    es_trace *trace;
    es_status status = es_alloc(&trace, 1, sizeof *trace, "curves");
    if (status < 0)
        return status;
    trace->n_lines = n_lines;
    trace->capacity = capacity;
    trace->width = 1;
    if ((status = es_alloc(&trace->slots, capacity, sizeof *trace->slots,
                           "curves")) < 0 ||
        (status = es_alloc(&trace->spans, capacity,
                           n_lines * sizeof *trace->spans, "curves")) < 0) {
        es_trace_free(trace);
        return status;
    }
    *out = trace;
    return ES_OK;
}

void es_trace_free(es_trace *trace)
{
    if (!trace)
        return;
    free(trace->slots);
    free(trace->spans);
    free(trace);
}

static void add_span(span *to, const span *from)
{
    to->broken = to->broken || from->broken;
    /* compare only finite numbers, because `low` may be NaN */
    if (!isfinite(from->low))
        return;
    if (!isfinite(to->low)) {
        to->low = from->low;
        to->high = from->high;
        return;
    }
    if (from->low < to->low)
        to->low = from->low;
    if (from->high > to->high)
        to->high = from->high;
}

/* Merges every JOIN consecutive slots into one. */
static void join_slots(es_trace *trace)
{
    const size_t n = trace->n_lines;
    for (size_t i = 0; i < trace->n; i++) {
        slot *to = &trace->slots[i / JOIN];
        const slot *from = &trace->slots[i];
        span *spans = trace->spans + i / JOIN * n;
        if (i % JOIN == 0) {
            *to = *from;
            memmove(spans, trace->spans + i * n, n * sizeof *spans);
            continue;
        }
        if (to->count == 1)
            to->second = from->first;
        to->last = from->last;
        to->count += from->count;
        for (size_t line = 0; line < n; line++)
            add_span(&spans[line], &trace->spans[i * n + line]);
    }
    trace->n /= JOIN;
    trace->width *= JOIN;
}

void es_trace_push(es_trace *trace, int64_t step, const float *values)
{
    if (trace->n == trace->capacity &&
        trace->slots[trace->n - 1].count == trace->width)
        join_slots(trace);
    bool open = trace->n && trace->slots[trace->n - 1].count < trace->width;
    size_t at = open ? trace->n - 1 : trace->n++;
    slot *to = &trace->slots[at];
    if (!open)
        *to = (slot){.first = step};
    if (to->count == 1)
        to->second = step;
    to->last = step;
    to->count++;
    for (size_t i = 0; i < trace->n_lines; i++) {
        const span one = {values[i], values[i],
                          !isfinite(values[i]) && !es_is_missing(values[i])};
        if (open)
            add_span(&trace->spans[at * trace->n_lines + i], &one);
        else
            trace->spans[at * trace->n_lines + i] = one;
    }
}

static size_t points_of(const slot *s)
{
    return s->count < 3 ? s->count : 3;
}

size_t es_trace_n_points(const es_trace *trace)
{
    size_t n = 0;
    for (size_t i = 0; i < trace->n; i++)
        n += points_of(&trace->slots[i]);
    return n;
}

void es_trace_steps(const es_trace *trace, int64_t *steps)
{
    for (size_t i = 0; i < trace->n; i++) {
        const slot *s = &trace->slots[i];
        const int64_t all[] = {s->first, s->count == 2 ? s->last : s->second,
                               s->last};
        for (size_t k = 0; k < points_of(s); k++)
            *steps++ = all[k];
    }
}

void es_trace_line(const es_trace *trace, size_t line, float *values)
{
    for (size_t i = 0; i < trace->n; i++) {
        const span *value = &trace->spans[i * trace->n_lines + line];
        size_t n = points_of(&trace->slots[i]);
        *values++ = value->low;
        if (n > 2)
            *values++ = value->high;
        if (n > 1)
            *values++ = value->broken ? NAN : value->high;
    }
}
