/*
 * Computes the attention entropy of given queries and keys in C, as the mean
 * over the causal rows of each head, without storing the attention weights.
 *
 *     cc entropy.c -o entropy $(pkg-config --cflags --libs entropyrecord)
 *     ./entropy q.f32 k.f32 BATCH LENGTH HEADS WIDTH
 *
 * The files contain float32 arrays (BATCH,LENGTH,HEADS,WIDTH), as written by
 * numpy.ndarray.tofile. entropyscan.h also describes bfloat16, masks, decoding
 * with a cache and grouped heads.
 */
#include <entropyscan.h>

#include <stdio.h>
#include <stdlib.h>

static float *read_numbers(const char *path, size_t n)
{
    float *numbers = malloc(n * sizeof *numbers);
    FILE *file = fopen(path, "rb");
    if (!numbers || !file || fread(numbers, sizeof *numbers, n, file) != n) {
        fprintf(stderr, "%s: expected %zu float32 numbers\n", path, n);
        exit(3);
    }
    fclose(file);
    return numbers;
}

int main(int argc, char **argv)
{
    int sizes[4] = {0};
    for (int i = 0; i < 4 && argc == 7; i++)
        sizes[i] = atoi(argv[i + 3]);
    const int batch = sizes[0], length = sizes[1], heads = sizes[2];
    const int width = sizes[3];
    if (batch < 1 || length < 1 || heads < 1 || width < 1) {
        fprintf(stderr, "usage: %s Q.f32 K.f32 BATCH LENGTH HEADS WIDTH\n",
                argv[0]);
        return 2;
    }
    const size_t n =
        (size_t)batch * (size_t)heads * (size_t)length * (size_t)width;
    const es_attention_shape shape = {.size = sizeof shape,
                                      .n_batch = batch,
                                      .n_heads = heads,
                                      .n_queries = length,
                                      .n_keys = length,
                                      .head_width = width,
                                      .causal = true};
    const es_strides strides = es_strides_bthd(heads, length, width);
    float *q = read_numbers(argv[1], n), *k = read_numbers(argv[2], n);
    const es_entropy_input queries = {.data = q, .strides = strides};
    const es_entropy_input keys = {.data = k, .strides = strides};
    /* Allocate space for three results per head. Results of single rows are not
       needed. */
    float *values = malloc(3 * (size_t)heads * sizeof *values);
    es_heads means = {.size = sizeof means, .entropy = values};
    means.entropy_min = values + heads;
    means.entropy_max = values + 2 * (size_t)heads;
    if (!values ||
        es_qk_statistics(NULL, &means, &queries, &keys, &shape, 0) < 0) {
        fprintf(stderr, "%s: %s\n", argv[0],
                values ? es_message() : "out of memory");
        return 3;
    }
    for (int h = 0; h < heads; h++)
        printf("head %d: %.4f nats, %.4f to %.4f\n", h, means.entropy[h],
               means.entropy_min[h], means.entropy_max[h]);
    free(values);
    free(k);
    free(q);
    return 0;
}
