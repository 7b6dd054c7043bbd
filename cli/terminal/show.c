/* Implements --tui: draws the runs once, or runs the live view. The live view
   handles keys, updates the screen, and waits for keys and for file changes
   (live.c). */
#include "cli/terminal/show.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/kernel.h"
#include "analyzer/base/text_stream.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/terminal/browse.h"
#include "cli/terminal/figure.h"
#include "cli/terminal/live.h"
#include "cli/terminal/tui.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    INTERVAL = 500, /* milliseconds between two checks of the files */
    /* Minimum pause after a check of the files, as a multiple of the duration
     * of the check. */
    LEAST_REST = 20,
    MANY = 10, /* number of samples by which Page Up and Page Down move the step
                  shown */
};

/* The state of the parser for key sequences. It accepts ESC [ LETTER, ESC O
   LETTER and ESC [ NUMBER ~, which xterm, rxvt and the Linux console send. */
typedef struct keys {
    enum { PLAIN, AFTER_ESCAPE, IN_SEQUENCE } state;
    int number; /* first parameter, such as 5 in ESC [ 5 ~ */
    /* True if `number` is complete. Further parameters, which report keys such
     * as Shift, are ignored. */
    bool is_closed;
} keys;

typedef struct view {
    es_live live;
    es_colormap colormap;
    bool quit;
    /* True if the user has opened a run of the list. This run is then shown
     * instead of the list. */
    bool opened;
    es_browse browse; /* the list of many runs, with the selected run and the
                         sort order */
    es_shown_figure figure; /* the figure that is shown instead of the runs */
    keys keys;
    char **rows; /* (n_rows) rows of the screen as text; owned */
    size_t n_rows;
} view;

/* --- drawing --------------------------------------------------------------*/

/* Prints the runs on standard output at their natural height. Many runs are
 * printed as a list with one line per run. */
static es_status print_runs(const es_watch_list *runs, es_colormap colormap)
{
    es_tui tui = {.runs = runs->list, .n_runs = runs->n, .colormap = colormap};
    es_browse lines = {
        .runs = runs->list, .n_runs = runs->n, .colormap = colormap};
    es_screen *screen = NULL;
    if (runs->n == 0)
        return ES_OK;
    es_terminal_detect(&tui.terminal);
    lines.terminal = tui.terminal;
    es_status status = runs->n > ES_BROWSE_LEAST
                           ? es_browse_draw(&screen, &lines)
                           : es_tui_draw(&screen, NULL, &tui);
    if (status == ES_OK) {
        es_screen_print(screen, stdout);
        if (fflush(stdout) != 0)
            status = es_fail(ES_EIO, "standard output: cannot write: %s",
                             strerror(errno));
    }
    es_screen_free(screen);
    return status;
}

static void judge_runs(es_show_result *out, const es_watch_list *runs)
{
    out->n_shown = 0;
    for (size_t i = 0; i < runs->n; i++) {
        const es_run_summary *judged = runs->list[i].judged;
        if (!judged)
            continue;
        out->n_shown++;
        if (es_summary_severity(judged) > out->highest)
            out->highest = es_summary_severity(judged);
    }
}

/* --- drawing once ---------------------------------------------------------*/

static void report_failure(es_show_result *result)
{
    es_print_note("%s", es_message());
    result->n_failed++;
}

/* Adds all runs of a file to the list. Runs that cannot be read are reported,
 * counted and left out. */
static es_status add_file(es_watch_list *to, es_show_result *result,
                          const char *path, const es_summary_options *options)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, path);
    size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    if (status == ES_OK && n == 0)
        status = es_fail(ES_ENOTFOUND, "%s: contains no runs", path);
    if (status < 0)
        report_failure(result);
    for (size_t run = 0; run < n; run++) {
        if ((status = es_watch_list_add(to, path, run)) < 0)
            break;
        if (es_watched_read(&to->list[to->n - 1], reader, options) < 0) {
            report_failure(result);
            es_watched_forget(&to->list[--to->n]);
        }
    }
    es_damage_close(reader);
    return status == ES_ENOMEM ? status : ES_OK;
}

static es_status show_once(es_show_result *out, const es_show_options *options)
{
    es_watch_list runs = {0};
    es_status status = ES_OK;
    for (size_t i = 0; i < options->n_inputs; i++)
        if ((status = add_file(&runs, out, options->inputs[i],
                               &options->summary)) < 0)
            goto done;
    es_watched_set_max(runs.list, runs.n);
    judge_runs(out, &runs);
    status = print_runs(&runs, options->colormap);
done:
    es_watch_list_free(&runs);
    return status;
}

/* --- keys -----------------------------------------------------------------*/

typedef struct binding {
    char form; /* form of the bytes that the key sends: 0 for the byte `code`;
                  '[' for ESC [ or ESC O, followed by the letter `code`; '~' for
                  ESC [, followed by the number `code` and ~ */
    unsigned char code;
    enum { QUIT, STEP, JUMP, PAUSE, SERIES, SCROLL, OPEN, SORT, FIGURE } action;
    /* The number of samples to move for the action STEP, the step to show for
     * JUMP, and the direction for SERIES, SCROLL and FIGURE. */
    int64_t argument;
} binding;

static const binding bindings[] = {
    {0, 'q', QUIT, 0},
    {0, 'Q', QUIT, 0},
    {0, ' ', PAUSE, 0},
    {0, 's', SERIES, 0},
    {0, 'S', SERIES, 1},
    {0, '\r', OPEN, 0},
    {0, '\n', OPEN, 0},
    {0, 'o', SORT, 0},
    {0, 'f', FIGURE, 0},
    {0, 'F', FIGURE, 1},
    {'[', 'A', SCROLL, 0},
    {'[', 'B', SCROLL, 1},
    {'[', 'C', STEP, 1},
    {'[', 'D', STEP, -1},
    {'[', 'H', JUMP, ES_STEP_FIRST},
    {'[', 'F', JUMP, ES_STEP_LAST},
    {'~', 1, JUMP, ES_STEP_FIRST},
    {'~', 7, JUMP, ES_STEP_FIRST},
    {'~', 4, JUMP, ES_STEP_LAST},
    {'~', 8, JUMP, ES_STEP_LAST},
    {'~', 5, STEP, -MANY},
    {'~', 6, STEP, MANY},
};

static const binding *find_binding(char form, int code)
{
    for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++)
        if (bindings[i].form == form && bindings[i].code == code)
            return &bindings[i];
    return NULL;
}

/* Returns the binding of the key that `byte` completes; NULL if the key is not
 * complete or has no binding. */
static const binding *take_byte(keys *k, unsigned char byte)
{
    if (byte == 0x1b) {
        *k = (keys){.state = AFTER_ESCAPE};
    } else if (k->state == AFTER_ESCAPE && (byte == '[' || byte == 'O')) {
        *k = (keys){.state = IN_SEQUENCE};
    } else if (k->state != IN_SEQUENCE) {
        k->state = PLAIN;
        return find_binding(0, byte);
    } else if (byte >= 0x40 && byte <= 0x7e) {
        k->state = PLAIN;
        return byte == '~' ? find_binding('~', k->number)
                           : find_binding('[', byte);
    } else {
        k->is_closed = k->is_closed || byte < '0' || byte > '9';
        if (!k->is_closed && k->number < 100)
            k->number = k->number * 10 + byte - '0';
    }
    return NULL;
}

/* Moves the live view by `by` samples from the sample shown, and pauses it
 * there. */
static es_status step_by(es_live *live, int64_t by)
{
    const es_watched *run = live->runs.n ? &live->runs.list[live->first] : NULL;
    const es_run_summary *shown = run ? es_watched_shown(run) : NULL;
    return shown ? es_live_move(live, es_watched_step(run, shown->step, by))
                 : ES_OK;
}

/* Returns true if there are so many runs that they are shown as a list. */
static bool is_list(const view *v)
{
    return v->live.runs.n > ES_BROWSE_LEAST;
}

/* Updates the list to the current runs, which may have changed since the last
 * drawing. */
static es_browse *lines_of(view *v)
{
    es_browse *lines = &v->browse;
    lines->runs = v->live.runs.list;
    lines->n_runs = v->live.runs.n;
    lines->colormap = v->colormap;
    if (lines->chosen >= lines->n_runs)
        lines->chosen = 0;
    return lines;
}

/* Handles a key in the list of runs, or in a run that was opened from the list.
 * Sets *done to true if the key was handled. */
static es_status press_list(bool *done, view *v, const binding *key)
{
    es_browse *lines = lines_of(v);
    int64_t by = key->argument;
    *done = true;
    switch (key->action) {
    case OPEN:
        v->opened = !v->opened;
        return ES_OK;
    case SORT:
        lines->order = (lines->order + 1) % ES_N_BROWSE_ORDERS;
        return ES_OK;
    case SCROLL:
        return es_browse_move(lines, key->argument ? 1 : -1);
    case STEP:
        if (v->opened || by == 1 || by == -1)
            break;
        return es_browse_move(lines, by);
    case JUMP:
        if (v->opened)
            break;
        return es_browse_move(lines, by == ES_STEP_FIRST
                                         ? -(int64_t)lines->n_runs
                                         : (int64_t)lines->n_runs);
    default:
        break;
    }
    *done = false;
    return ES_OK;
}

/* Handles a key that concerns the figure: opens or closes the figure, selects
 * another figure, or scrolls. Returns true if the key was handled. Every other
 * key may change the runs that the figure shows. */
static bool press_figure(view *v, const binding *key)
{
    es_shown_figure *figure = &v->figure;
    const int64_t by = key->argument;
    if (key->action == FIGURE)
        es_shown_figure_turn(figure, by);
    else if (figure->open && key->action == OPEN)
        es_shown_figure_close(figure);
    else if (figure->open && key->action == STEP && (by == MANY || by == -MANY))
        figure->top += (int)by;
    else if (figure->open && key->action == SCROLL && !is_list(v))
        figure->top += by ? 1 : -1;
    else {
        figure->stale = true;
        return false;
    }
    return true;
}

/* Handles a key. */
static es_status press_key(view *v, const binding *key)
{
    es_live *live = &v->live;
    const size_t n = live->n_shown > 0 ? live->n_shown : 1;
    bool done = false;
    if (press_figure(v, key))
        return ES_OK;
    es_status status = is_list(v) ? press_list(&done, v, key) : ES_OK;
    if (status < 0 || done)
        return status;
    if (is_list(v))
        live->first = v->browse.chosen;
    switch (key->action) {
    case OPEN:
    case SORT:
    case FIGURE:
        break;
    case QUIT:
        v->quit = true;
        break;
    case STEP:
        return step_by(live, key->argument);
    case JUMP:
        return es_live_move(live, key->argument);
    case PAUSE:
        return live->step == ES_STEP_LAST ? step_by(live, 0)
                                          : es_live_move(live, ES_STEP_LAST);
    case SERIES:
        return es_live_switch(live, key->argument);
    case SCROLL:
        if (key->argument && live->first + n < live->runs.n)
            live->first += n;
        else if (!key->argument)
            live->first -= n < live->first ? n : live->first;
        break;
    }
    return ES_OK;
}

/* --- screen ---------------------------------------------------------------*/

/* Discards the stored rows of the screen, so that the next drawing prints all
 * rows. */
static void forget_screen(view *v)
{
    for (size_t i = 0; i < v->n_rows; i++)
        free(v->rows[i]);
    free(v->rows);
    v->rows = NULL;
    v->n_rows = 0;
}

static const char *problem_of(const es_live *live)
{
    for (size_t i = 0; i < live->n_files; i++)
        if (live->files[i].problem)
            return live->files[i].problem;
    for (size_t i = 0; i < live->runs.n; i++)
        if (es_watched_shown(&live->runs.list[i]) && live->runs.list[i].problem)
            return live->runs.list[i].problem;
    return NULL;
}

/* Returns row y of a screen as text, which the caller frees; NULL if memory
 * runs out. */
static char *row_text(const es_screen *screen, int y)
{
    char *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return NULL;
    es_screen_print_row(screen, y, stream);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

/* Prints the rows that have changed. A row is cleared before it is written,
   because clearing after a full row would erase its last cell on some
   terminals. */
static es_status print_changes(FILE *out, view *v, const es_screen *screen)
{
    const size_t n_rows = (size_t)screen->height;
    es_status status;
    if (n_rows > v->n_rows &&
        (status = es_grow(&v->rows, n_rows, sizeof *v->rows, "a drawing")) < 0)
        return status;
    for (size_t i = 0; i < n_rows; i++) {
        char *row = row_text(screen, (int)i);
        if (!row)
            return es_fail(ES_ENOMEM, "out of memory for a drawing");
        if (i >= v->n_rows || strcmp(row, v->rows[i]) != 0)
            fprintf(out, "\033[%zu;1H\033[K%s", i + 1, row);
        if (i < v->n_rows)
            free(v->rows[i]);
        else
            v->n_rows++;
        v->rows[i] = row;
    }
    if (v->n_rows > n_rows)
        fprintf(out, "\033[%zu;1H\033[J", n_rows + 1);
    while (v->n_rows > n_rows)
        free(v->rows[--v->n_rows]);
    return ES_OK;
}

/* Writes all changed rows in a single write, so that no partial drawing is
 * visible. */
static es_status send_changes(view *v, const es_screen *screen)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for a drawing");
    es_status status = print_changes(stream, v, screen);
    if (fclose(stream) != 0 && status == ES_OK)
        status = es_fail(ES_ENOMEM, "out of memory for a drawing");
    if (status == ES_OK)
        status = es_tty_write(text, n);
    free(text);
    return status;
}

/* Draws the list of many runs; `tui` contains the texts for the state and the
 * keys. */
static es_status draw_lines(es_screen **out, view *v, const es_tui *tui)
{
    es_browse *lines = lines_of(v);
    lines->terminal = tui->terminal;
    lines->mode = tui->mode;
    lines->keys = tui->terminal.depth == ES_DEPTH_ASCII
                      ? "q: quit, up/down: choose, enter: open, f: figures, "
                        "o: order"
                      : "q quit  ↑/↓ choose  enter open  f figures  o order";
    return es_browse_draw(out, lines);
}

/* Draws the figure that the user has selected. `tui` contains the texts of the
 * status line and of the line that lists the keys. */
static es_status draw_figure(es_screen **out, view *v, const es_tui *tui)
{
    const es_figure_source source = {.runs = tui->runs,
                                     .n_runs = tui->n_runs,
                                     .summary = &v->live.summary,
                                     .colormap = v->colormap,
                                     .terminal = tui->terminal};
    return es_shown_figure_draw(
        out, &v->figure, &source, tui->mode,
        tui->terminal.depth == ES_DEPTH_ASCII
            ? "q: quit, f/F: next/previous figure, enter: back, left/right: "
              "step, s: series, page up/down: scroll"
            : "q quit  f/F next/previous figure  enter back  ←/→ step  s "
              "series  page ↑/↓ scroll");
}

static es_status draw_view(view *v)
{
    es_live *live = &v->live;
    char mode[512];
    const char *problem = problem_of(live);
    es_screen *screen = NULL;
    es_tui tui = {.runs = live->runs.list,
                  .n_runs = live->runs.n,
                  .colormap = v->colormap,
                  .first = live->first,
                  .mode = mode};
    es_terminal_detect(&tui.terminal);
    if (is_list(v)) { /* show only the run that the user has opened */
        tui.runs += lines_of(v)->chosen;
        tui.n_runs = 1;
        tui.first = 0;
    }
    snprintf(mode, sizeof mode, "%s%s%s%.400s",
             live->step == ES_STEP_LAST ? "live" : "stopped",
             es_live_has_ended(live) ? ", all runs have ended" : "",
             problem ? ": " : "", problem ? problem : "");
    tui.keys = tui.terminal.depth == ES_DEPTH_ASCII
                   ? "q: quit, left/right: step, space: live, s: series, "
                     "f: figures"
                   : "q quit  ←/→ step  space live  s series  f figures";
    if (is_list(v) && tui.terminal.depth == ES_DEPTH_ASCII)
        tui.keys = "q: quit, enter: all runs, up/down: next run, s: series, "
                   "f: figures";
    else if (is_list(v))
        tui.keys = "q quit  enter all runs  ↑/↓ next run  ←/→ step  s series  "
                   "f figures";
    es_status status = v->figure.open ? draw_figure(&screen, v, &tui)
                       : is_list(v) && !v->opened
                           ? draw_lines(&screen, v, &tui)
                           : es_tui_draw(&screen, &live->n_shown, &tui);
    if (status == ES_OK)
        status = send_changes(v, screen);
    es_screen_free(screen);
    return status;
}

/* --- the loop -------------------------------------------------------------*/

/* Waits for keys until the time `until`, and handles them as they arrive. */
static es_status take_keys(view *v, bool *redraw, int64_t until)
{
    unsigned char bytes[64];
    int64_t rest = until - es_now_ms();
    int n = es_tty_wait(bytes, sizeof bytes, rest > 0 ? (int)rest : 0);
    es_status status = ES_OK;
    v->quit = v->quit || n < 0;
    for (int i = 0; i < n && status == ES_OK; i++) {
        const binding *key = take_byte(&v->keys, bytes[i]);
        *redraw = *redraw || key;
        status = key ? press_key(v, key) : ES_OK;
    }
    return status;
}

/* Returns true if the live view should end, because the user quit or all runs
 * have ended. A paused view, a figure and a list of many runs stay open until
 * the user quits. */
static bool is_over(const view *v)
{
    return v->quit ||
           (!is_list(v) && !v->figure.open && v->live.step == ES_STEP_LAST &&
            es_live_has_ended(&v->live));
}

static es_status follow_runs(view *v)
{
    int64_t next = es_now_ms() + INTERVAL;
    bool redraw = true, changed;
    es_status status;
    while (!is_over(v)) {
        if (v->figure.open && v->figure.behind && es_now_ms() >= v->figure.next)
            redraw = v->figure.stale = true;
        if (es_tty_was_changed()) {
            forget_screen(v);
            if ((status = es_tty_write("\033[2J", strlen("\033[2J"))) < 0)
                return status;
            redraw = true;
        }
        if (redraw && (status = draw_view(v)) < 0)
            return status;
        redraw = false;
        if ((status = take_keys(v, &redraw, next)) < 0)
            return status;
        int64_t begin = es_now_ms();
        if (begin < next)
            continue;
        if ((status = es_live_read(&changed, &v->live, false)) < 0)
            return status;
        v->figure.behind = v->figure.behind || changed;
        redraw = redraw || (changed && !v->figure.open);
        int64_t rest = (es_now_ms() - begin) * LEAST_REST;
        next = es_now_ms() + (rest > INTERVAL ? rest : INTERVAL);
    }
    return ES_OK;
}

/* After the live view, prints its last drawing on the normal screen, and a line
 * for each run that reports how the run ended. */
static es_status say_how(const view *v)
{
    const es_live *live = &v->live;
    es_status status = print_runs(&live->runs, v->colormap);
    for (size_t i = 0; i < live->n_files && status == ES_OK; i++)
        if (live->files[i].problem)
            es_print_note("%s", live->files[i].problem);
    for (size_t i = 0; i < live->runs.n && status == ES_OK; i++) {
        const es_watched *run = &live->runs.list[i];
        if (run->judged)
            es_print_note("%s: %s: %s at step %lld", run->path, run->name,
                          run->judged->status,
                          (long long)run->judged->last_step);
        else
            es_print_note("%s", run->problem ? run->problem : run->path);
    }
    return status;
}

static es_status show_live(es_show_result *out, const es_show_options *options)
{
    view v = {.colormap = options->colormap, .figure.kind = ES_FIGURE_CURVES};
    es_status status = es_live_open(&v.live, &out->n_failed, options->inputs,
                                    options->n_inputs, &options->summary);
    if (status == ES_OK && v.live.step != ES_STEP_LAST)
        status = es_live_move(&v.live, v.live.step);
    if (status == ES_OK && v.live.n_files > 0) {
        if (!is_over(&v)) {
            es_tty_take();
            status = follow_runs(&v);
            es_tty_give_back();
        }
        judge_runs(out, &v.live.runs);
        if (status == ES_OK && !v.quit)
            status = say_how(&v);
    }
    es_live_close(&v.live);
    es_shown_figure_close(&v.figure);
    forget_screen(&v);
    return status;
}

/* Counts the runs in all readable files. */
static size_t count_runs(const es_show_options *options)
{
    size_t n = 0;
    for (size_t i = 0; i < options->n_inputs && n <= ES_BROWSE_LEAST; i++) {
        es_reader *reader = NULL;
        if (es_reader_open(&reader, options->inputs[i]) == ES_OK)
            n += es_reader_n_runs(reader);
        es_reader_close(reader);
    }
    return n;
}

/* Returns true if there are so many runs that they are shown as a list, and the
 * user can select a run by keys. */
static bool is_browsed(const es_show_options *options)
{
    return isatty(STDIN_FILENO) && es_terminal_has_cursor() &&
           count_runs(options) > ES_BROWSE_LEAST;
}

es_status es_show(es_show_result *out, const es_show_options *options)
{
    *out = (es_show_result){0};
    if (!isatty(STDOUT_FILENO))
        return es_fail(ES_EUSAGE, "--tui needs a terminal, but standard "
                                  "output is not one: try --heatmap=FILE");
    if (options->follow && !es_terminal_has_cursor())
        return es_fail(ES_EUSAGE, "--follow needs a terminal with cursor "
                                  "control, but TERM is unset or dumb");
    return options->follow || is_browsed(options) ? show_live(out, options)
                                                  : show_once(out, options);
}
