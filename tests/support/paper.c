/* Reads the published entropies of five models, for tests of flags and bands.
 */
#include "tests/support/paper.h"

#include <stdio.h>
#include <stdlib.h>

bool es_paper_heatmap(float *out, const char *arch)
{
    const char *shared = getenv("ES_SHARED");
    char path[4096];
    int n = 0;
    snprintf(path, sizeof path, "%s/reference/paper_heatmaps/%s.csv",
             shared ? shared : "../shared", arch);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    while (n < ES_PAPER_VALUES && fscanf(file, "%f%*[,]", &out[n]) == 1)
        n++;
    fclose(file);
    return n == ES_PAPER_VALUES;
}
