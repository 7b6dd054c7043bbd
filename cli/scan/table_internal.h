/** The table between adding and printing. */
#ifndef ES_TABLE_INTERNAL_H
#define ES_TABLE_INTERNAL_H

#include "cli/scan/table.h"

typedef enum es_column {
    ES_COLUMN_FILE,
    ES_COLUMN_RUN,
    ES_COLUMN_ARCH,
    ES_COLUMN_STATUS,
    ES_COLUMN_STEP,
    ES_COLUMN_PHASE,
    ES_COLUMN_LOSS,
    ES_COLUMN_PPL,
    ES_COLUMN_EVAL,
    ES_COLUMN_BAND, /* and the next three */
    ES_COLUMN_NAN = ES_COLUMN_BAND + ES_N_BANDS,
    ES_COLUMN_MAX,
    ES_COLUMN_FLAGS,
    ES_N_COLUMNS
} es_column;

typedef struct es_row {
    char *cells[ES_N_COLUMNS]; /* owned; safe to print */
    es_severity severity;
    bool judged;
} es_row;

struct es_table {
    es_table_options options;
    es_row *rows;       /* (n_rows) */
    es_grid_row *lines; /* (n_rows) as they are printed; written then */
    size_t n_rows, capacity;
    bool shown[ES_N_COLUMNS];
    bool no_ctx, interrupted; /* some run is */
    bool several;             /* there is more than one file */
    bool untold;              /* some run's name is not its file's */
    es_max_policy policy;     /* of all runs; so is what follows */
    double m;                 /* of the last run */
    char *path;               /* of the first run; owned; NULL: none yet */
    char *series, *unit;      /* owned, safe to print; NULL: no run yet */
};

#endif
