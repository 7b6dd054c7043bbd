/* Reads the published entropies of five models for tests of flags and bands. */
#include "tests/support/paper.h"

#include "tests/support/test.h"

void es_paper_heatmap(float *out, const char *arch)
{
    char path[96];
    int n = 0;
    snprintf(path, sizeof path, "samples/published/%s.csv", arch);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be read", path);
    while (n < ES_PAPER_VALUES && fscanf(file, "%f%*[,]", &out[n]) == 1)
        n++;
    fclose(file);
    assert_int_equal(n, ES_PAPER_VALUES);
}
