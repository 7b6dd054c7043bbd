/* Sets the defaults of an es_rules_file, and checks whether settings differ
 * from the defaults. */
#include "cli/alerts/rules/rules_file.h"

#include "analyzer/base/checked.h"

#include <stdlib.h>
#include <string.h>

void es_rules_file_default(es_rules_file *out)
{
    *out = (es_rules_file){.rules = NULL};
    es_flag_rules_default(&out->flags);
}

void es_rules_file_free(es_rules_file *file)
{
    free(file->rules);
    free(file->baseline);
    *file = (es_rules_file){.rules = NULL};
}

bool es_rules_file_sets_flags(const es_rules_file *file)
{
    es_flag_rules flags;
    es_flag_rules_default(&flags);
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++) {
        const es_flag_threshold *p = &es_flag_thresholds[i];
        if (es_flag_threshold_get(&flags, p) !=
            es_flag_threshold_get(&file->flags, p))
            return true;
    }
    return false;
}

bool es_rules_file_is_set(const es_rules_file *file)
{
    return file->n > 0 || es_rules_file_sets_flags(file);
}
