/* Provides the table of details.h as an array, in which other code looks up
 * details by name: the standard series of run files, the colour scales and the
 * recorder. */
#include "analyzer/heads/details.h"

#include <string.h>

const es_detail_line es_details[ES_N_DETAILS] = {
#define ES_DETAIL_LINE(id, name, unit, source, set, amount, title)             \
    {name, unit, title, amount, ES_DETAIL_##source, ES_SERIES_##set},
    ES_HEAD_DETAILS(ES_DETAIL_LINE) ES_LAYER_DETAILS(ES_DETAIL_LINE)
#undef ES_DETAIL_LINE
};

const es_detail_line *es_detail_find(const char *name)
{
    for (int i = 0; i < ES_N_DETAILS; i++)
        if (strcmp(name, es_details[i].name) == 0)
            return &es_details[i];
    return NULL;
}
