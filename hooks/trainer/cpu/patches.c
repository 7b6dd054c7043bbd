/* Prepares the images of family vit: cuts images into patches, and places the
 * embeddings of the patches after the class token. */
#include "hooks/trainer/cpu/activations.h"

typedef struct job {
    const es_backend *backend;
    const es_image *image;
    es_mem *x;
    const int32_t *pixels;
    const float *first, *wpe;
    float *dfirst, *dwpe;
    int n_batch, n_ctx, width;
} job;

/* Copies patch `index` of an image (C,S,S) to out (C,P,P). */
static void cut_patch(float *out, const es_image *image, const int32_t *pixels,
                      int index)
{
    const int side = image->size / image->patch, p = image->patch;
    const int top = index / side * p, left = index % side * p;
    const float scale = 2 / (float)(image->levels - 1);
    for (int c = 0; c < image->channels; c++)
        for (int y = top; y < top + p; y++)
            for (int x = left; x < left + p; x++)
                *out++ =
                    (float)pixels[(c * image->size + y) * image->size + x] *
                        scale -
                    1;
}

static void cut_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_image *image = j->image;
    const size_t width = (size_t)j->width;
    const int n_pixels = image->channels * image->size * image->size;
    es_slab slab = es_cpu_slab(share, j->n_batch * j->n_ctx, 1);
    for (int row = slab.first; row < slab.first + slab.n; row++) {
        const size_t at = (size_t)row * width;
        float *out = es_cpu_place(j->backend, share, 0, j->x, at);
        if (row % j->n_ctx == 0)
            for (size_t i = 0; i < width; i++)
                out[i] = 0;
        else
            cut_patch(out, image,
                      j->pixels + (ptrdiff_t)(row / j->n_ctx) * n_pixels,
                      row % j->n_ctx - 1);
        es_cpu_close(j->backend, j->x, at, out, width);
    }
}

void es_cpu_cut_patches(es_backend *backend, es_mem *patches,
                        const es_mem *pixels, const es_image *image,
                        int n_batch, int n_ctx)
{
    job j = {.backend = backend,
             .image = image,
             .x = patches,
             .pixels = (const int32_t *)(const void *)pixels,
             .n_batch = n_batch,
             .n_ctx = n_ctx,
             .width = image->channels * image->patch * image->patch};
    es_team_run(backend->team, cut_part, &j);
}

static void place_part(void *argument, es_share share)
{
    const job *j = argument;
    const size_t width = (size_t)j->width;
    es_slab slab = es_cpu_slab(share, j->n_batch * j->n_ctx, 1);
    for (int row = slab.first; row < slab.first + slab.n; row++) {
        const size_t at = (size_t)row * width;
        const int i = row % j->n_ctx;
        const float *position = j->wpe + (size_t)i * width;
        float *x = es_cpu_change(j->backend, share, 0, j->x, at, width);
        j->backend->kernels->combine(x, i == 0 ? j->first : x, position, 1, 1,
                                     width);
        es_cpu_close(j->backend, j->x, at, x, width);
    }
}

void es_cpu_place_patches(es_backend *backend, es_mem *x, const es_mem *first,
                          const es_mem *wpe, int n_batch, int n_ctx, int width)
{
    job j = {.backend = backend,
             .x = x,
             .first = es_cpu_read(first),
             .wpe = es_cpu_read(wpe),
             .n_batch = n_batch,
             .n_ctx = n_ctx,
             .width = width};
    es_team_run(backend->team, place_part, &j);
}

/* Adds the gradients of a range of positions, summed over all images, to the
 * gradients of the position embeddings and of the class token. Sets the row of
 * the class token in dx to 0. */
static void place_backward_part(void *argument, es_share share)
{
    const job *j = argument;
    const es_cpu_kernels *kernels = j->backend->kernels;
    const size_t width = (size_t)j->width;
    es_slab slab = es_cpu_slab(share, j->n_ctx, 1);
    for (int i = slab.first; i < slab.first + slab.n; i++)
        for (int b = 0; b < j->n_batch; b++) {
            const size_t at = (size_t)(b * j->n_ctx + i) * width;
            float *dx = es_cpu_change(j->backend, share, 0, j->x, at, width);
            kernels->add_bias(j->dwpe + (size_t)i * width, dx, 1, j->width);
            if (i > 0)
                continue;
            kernels->add_bias(j->dfirst, dx, 1, j->width);
            for (size_t c = 0; c < width; c++)
                dx[c] = 0;
            es_cpu_close_gradient(j->backend, j->x, at, dx, width);
        }
}

void es_cpu_place_patches_backward(es_backend *backend, es_mem *dx,
                                   es_mem *dfirst, es_mem *dwpe, int n_batch,
                                   int n_ctx, int width)
{
    job j = {.backend = backend,
             .x = dx,
             .dfirst = es_cpu_floats(dfirst),
             .dwpe = es_cpu_floats(dwpe),
             .n_batch = n_batch,
             .n_ctx = n_ctx,
             .width = width};
    es_team_run(backend->team, place_backward_part, &j);
}
