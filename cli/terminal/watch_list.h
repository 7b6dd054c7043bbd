/** The runs that the terminal shows: of drawing once and of the live view. */
#ifndef ES_WATCH_LIST_H
#define ES_WATCH_LIST_H

#include "cli/terminal/watched.h"

typedef struct es_show_options {
    char *const *inputs; /* (n_inputs) */
    size_t n_inputs;
    es_summary_options summary;
    es_colormap colormap;
    bool follow; /* redraw as the files grow, until the runs have ended */
} es_show_options;

/** What came of it. */
typedef struct es_show_result {
    size_t n_shown, n_failed; /* runs, or files without one; reported */
    bool alarms;              /* of the runs shown, as es_summary_alarms */
} es_show_result;

typedef struct es_watch_list {
    es_watched *list; /* (n) */
    size_t n;
} es_watch_list;

es_status es_watch_list_add(es_watch_list *to, const char *path,
                            size_t index) ES_MUST_USE;
void es_watch_list_free(es_watch_list *runs);

/** es_tui_draw of the runs; the rest is as in `like`. */
es_status es_watch_list_draw(es_screen **out, size_t *n_shown,
                             const es_watch_list *runs,
                             const es_tui *like) ES_MUST_USE;

/** Draws them on standard output, as high as they want to be. */
es_status es_watch_list_print(const es_watch_list *runs,
                              es_colormap colormap) ES_MUST_USE;

/** Counts the runs shown, and whether one alarms. */
void es_watch_list_judge(es_show_result *out, const es_watch_list *runs);

#endif
