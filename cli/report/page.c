/* The parts of the page as page.S lays them out in the program. */
#include "cli/report/page.h"

#include <stdint.h>
#include <string.h>

/* Laid out by page.S. */
extern const char es_page_skeleton[], es_page_style[], es_page_script[],
    es_page_d3[], es_page_policy[];
extern const uint64_t es_page_skeleton_size, es_page_style_size,
    es_page_script_size, es_page_d3_size, es_page_policy_size;

static const struct {
    const char *name, *text;
    const uint64_t *size;
} parts[] = {
    {"skeleton", es_page_skeleton, &es_page_skeleton_size},
    {"style", es_page_style, &es_page_style_size},
    {"script", es_page_script, &es_page_script_size},
    {"d3", es_page_d3, &es_page_d3_size},
    {"policy", es_page_policy, &es_page_policy_size},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

bool es_page_find(es_page_part *out, const char *name, size_t n)
{
    for (int i = 0; i < N_PARTS; i++)
        if (strlen(parts[i].name) == n && memcmp(parts[i].name, name, n) == 0) {
            *out = (es_page_part){parts[i].text, *parts[i].size};
            return true;
        }
    return false;
}

size_t es_page_size(void)
{
    size_t sum = 0;
    for (int i = 0; i < N_PARTS; i++)
        sum += *parts[i].size;
    return sum;
}
