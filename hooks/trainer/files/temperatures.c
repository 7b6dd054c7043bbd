/* Converts the temperatures in older files to the logarithms that the model
 * learns; used for checkpoints, weights and reference cases. */
#include "hooks/trainer/files/temperatures.h"

#include "analyzer/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool es_temperatures_name(char *out, size_t size, const char *name)
{
    static const char ending[] = "log_t";
    if (!es_text_ends(name, ".attn.log_t"))
        return false;
    snprintf(out, size, "%.*st", (int)(strlen(name) - strlen(ending)), name);
    return true;
}

void es_temperatures_to_logs(float *values, size_t n, float least)
{
    for (size_t i = 0; i < n; i++)
        values[i] = logf(values[i] < least ? ES_LEAST_TEMPERATURE : values[i]);
}

void es_temperatures_to_log_gradients(float *values, const float *t, size_t n,
                                      int order)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < order; k++)
            values[i] *=
                t[i] < ES_LEAST_TEMPERATURE ? ES_LEAST_TEMPERATURE : t[i];
}
