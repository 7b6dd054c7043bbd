/* The live view: keys, the screen, and the loop that waits for both keys and
   changes of the files (live_files.c). */
#include "cli/terminal/live.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/terminal/tty.h"

#include <stdio.h>
#include <string.h>

enum {
    INTERVAL = 500,  /* milliseconds between two looks at the files */
    LEAST_REST = 20, /* times as long as a look took, if that is more */
    MANY = 10,       /* samples that a page is */
    MODE_BYTES = 512,
};

/* --- keys -----------------------------------------------------------------*/

static const es_watched *first_run(const es_live *live)
{
    return live->runs.n ? &live->runs.list[live->first] : NULL;
}

/* Stops at the sample `by` samples away from the one shown. */
static es_status step_by(es_live *live, int64_t by)
{
    const es_watched *run = first_run(live);
    const es_run_summary *shown = run ? es_watched_shown(run) : NULL;
    return shown ? es_live_move(live, es_watched_step(run, shown->step, by))
                 : ES_OK;
}

static void scroll(es_live *live, bool down)
{
    size_t n = live->n_shown > 0 ? live->n_shown : 1;
    if (down && live->first + n < live->runs.n)
        live->first += n;
    else if (!down)
        live->first -= n < live->first ? n : live->first;
}

/* Does what a key stands for. */
static es_status press(es_live *live, es_key key)
{
    switch (key) {
    case ES_KEY_QUIT:
        live->quit = true;
        return ES_OK;
    case ES_KEY_LEFT:
        return step_by(live, -1);
    case ES_KEY_RIGHT:
        return step_by(live, 1);
    case ES_KEY_PAGE_UP:
        return step_by(live, -MANY);
    case ES_KEY_PAGE_DOWN:
        return step_by(live, MANY);
    case ES_KEY_HOME:
        return es_live_move(live, ES_STEP_FIRST);
    case ES_KEY_END:
        return es_live_move(live, ES_STEP_LAST);
    case ES_KEY_SPACE:
        return live->step == ES_STEP_LAST ? step_by(live, 0)
                                          : es_live_move(live, ES_STEP_LAST);
    case ES_KEY_SERIES:
    case ES_KEY_SERIES_BACK:
        return es_live_switch(live, key == ES_KEY_SERIES_BACK);
    case ES_KEY_UP:
    case ES_KEY_DOWN:
        scroll(live, key == ES_KEY_DOWN);
        return ES_OK;
    case ES_KEY_NONE:
        break;
    }
    return ES_OK;
}

/* --- screen ---------------------------------------------------------------*/

/* Nothing on the screen is as it was drawn. */
static void forget_screen(es_live *live)
{
    for (size_t i = 0; i < live->n_rows; i++)
        free(live->rows[i]);
    free(live->rows);
    live->rows = NULL;
    live->n_rows = 0;
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

static void print_mode(char out[MODE_BYTES], const es_live *live)
{
    const char *problem = problem_of(live);
    snprintf(out, MODE_BYTES, "%s%s%s%.400s",
             live->step == ES_STEP_LAST ? "live" : "stopped",
             es_live_has_ended(live) ? ", all runs have ended" : "",
             problem ? ": " : "", problem ? problem : "");
}

/* A row of a screen as text, to be freed; NULL: out of memory. */
static char *row_text(const es_screen *screen, int y)
{
    char *text = NULL;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    if (!stream)
        return NULL;
    es_screen_print_row(screen, y, stream);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

/* Each row is emptied before it is written: after a row as wide as the
   terminal, some would empty its last cell. */
static es_status print_changes(FILE *out, es_live *live,
                               const es_screen *screen)
{
    const size_t n_rows = (size_t)es_screen_height(screen);
    es_status status = ES_OK;
    if (n_rows > live->n_rows &&
        (status =
             es_grow(&live->rows, n_rows, sizeof *live->rows, "a drawing")) < 0)
        return status;
    for (size_t i = 0; i < n_rows; i++) {
        char *row = row_text(screen, (int)i);
        if (!row)
            return es_fail(ES_ENOMEM, "out of memory for a drawing");
        if (i >= live->n_rows || strcmp(row, live->rows[i]) != 0)
            fprintf(out, "\033[%zu;1H\033[K%s", i + 1, row);
        if (i < live->n_rows)
            free(live->rows[i]);
        else
            live->n_rows++;
        live->rows[i] = row;
    }
    if (live->n_rows > n_rows)
        fprintf(out, "\033[%zu;1H\033[J", n_rows + 1);
    while (live->n_rows > n_rows)
        free(live->rows[--live->n_rows]);
    return ES_OK;
}

/* In one piece: half a drawing is never seen. */
static es_status send_changes(es_live *live, const es_screen *screen)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for a drawing");
    es_status status = print_changes(stream, live, screen);
    if (fclose(stream) != 0 && status == ES_OK)
        status = es_fail(ES_ENOMEM, "out of memory for a drawing");
    if (status == ES_OK)
        status = es_tty_write(text, n);
    free(text);
    return status;
}

static es_status draw(es_live *live)
{
    char mode[MODE_BYTES];
    es_screen *screen = NULL;
    es_tui_state state = {.mode = mode};
    es_tui tui = {.colormap = live->options->colormap,
                  .fits = true,
                  .first = live->first,
                  .state = &state};
    es_terminal_detect(&tui.terminal);
    print_mode(mode, live);
    state.keys = tui.terminal.depth == ES_DEPTH_ASCII
                     ? "q quits, left/right: step, space: live, s: series"
                     : "q quits  ←/→ step  space live  s series";
    es_status status =
        es_watch_list_draw(&screen, &live->n_shown, &live->runs, &tui);
    if (status == ES_OK)
        status = send_changes(live, screen);
    es_screen_free(screen);
    return status;
}

/* --- the loop -------------------------------------------------------------*/

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Waits until `until` for keys, and does what they stand for. */
static es_status take_keys(es_live *live, bool *redraw, int64_t until)
{
    unsigned char bytes[64];
    int64_t rest = until - now();
    int n = es_tty_wait(bytes, sizeof bytes, rest > 0 ? (int)rest : 0);
    es_status status = ES_OK;
    live->quit = live->quit || n < 0;
    for (int i = 0; i < n && status == ES_OK; i++) {
        es_key key = es_keys_take(&live->keys, bytes[i]);
        *redraw = *redraw || key != ES_KEY_NONE;
        status = press(live, key);
    }
    return status;
}

/* True once nothing more can come; a view that is stopped stays. */
static bool is_over(const es_live *live)
{
    return live->quit ||
           (live->step == ES_STEP_LAST && es_live_has_ended(live));
}

static es_status follow(es_live *live)
{
    int64_t next = now() + INTERVAL;
    bool redraw = true;
    es_status status = ES_OK;
    while (status == ES_OK && !is_over(live)) {
        if (es_tty_was_changed()) {
            forget_screen(live);
            status = es_tty_write("\033[2J", strlen("\033[2J"));
            redraw = true;
        }
        if (status == ES_OK && redraw)
            status = draw(live);
        redraw = false;
        if (status == ES_OK)
            status = take_keys(live, &redraw, next);
        int64_t begin = now();
        if (status != ES_OK || begin < next)
            continue;
        bool changed;
        status = es_live_read(&changed, live, false);
        redraw = redraw || changed;
        int64_t took = now() - begin;
        next = now() +
               (took * LEAST_REST > INTERVAL ? took * LEAST_REST : INTERVAL);
    }
    return status;
}

/* What is left on the normal screen: the last drawing, and how runs ended. */
static es_status say_how(const es_live *live)
{
    es_status status =
        es_watch_list_print(&live->runs, live->options->colormap);
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

es_status es_show_live(es_show_result *out, const es_show_options *options)
{
    es_live live = {.options = options};
    es_status status = es_live_open(&live, out);
    if (status == ES_OK && live.step != ES_STEP_LAST)
        status = es_live_move(&live, live.step);
    if (status == ES_OK && live.n_files > 0) {
        if (!is_over(&live)) {
            es_tty_take();
            status = follow(&live);
            es_tty_give_back();
        }
        es_watch_list_judge(out, &live.runs);
        if (status == ES_OK && !live.quit)
            status = say_how(&live);
    }
    es_live_close(&live);
    forget_screen(&live);
    return status;
}
