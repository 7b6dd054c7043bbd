/* Reads weights that are split into several files: opens all files listed in
 * the index, compares their tensors with the index, and presents them as one
 * file. */
#include "hooks/trainer/files/safetensors.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include "hooks/trainer/files/json_file.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS_MAX 1000

static es_status load_index(json_t **out, const char *path)
{
    static const es_infile_limit limit = {ES_SAFETENSORS_HEADER_MAX,
                                          "an index of tensors", ES_EFORMAT};
    es_status status = es_json_load(out, path, &limit, false);
    if (status == ES_OK && !json_is_object(json_object_get(*out, "weight_map")))
        return es_fail(ES_EFORMAT, "%s: the object 'weight_map' is missing",
                       path);
    return status;
}

/* Returns the open file with this name, which is opened on first use; NULL on
 * an error. */
static es_safetensors *shard_of(es_safetensors *file, const char *name,
                                es_status *status)
{
    const char *slash = strrchr(file->path, '/');
    const int n_dir = slash ? (int)(slash - file->path + 1) : 0;
    char path[PATH_MAX];
    *status = ES_EFORMAT;
    if (!name || !es_text_ends(name, ".safetensors") || strchr(name, '/')) {
        es_fail(ES_EFORMAT,
                "%s: weight_map: '%.80s' is not a safetensors file in the same "
                "folder",
                file->path, name ? name : "");
        return NULL;
    }
    if (snprintf(path, sizeof path, "%.*s%s", n_dir, file->path, name) >=
        (int)sizeof path) {
        es_fail(ES_EFORMAT, "%s: a path in the index is too long", file->path);
        return NULL;
    }
    for (size_t i = 0; i < file->n_shards; i++)
        if (strcmp(file->shards[i]->path, path) == 0)
            return file->shards[i];
    if (file->n_shards == SHARDS_MAX) {
        es_fail(ES_EFORMAT, "%s: the index lists more than %d files",
                file->path, SHARDS_MAX);
        return NULL;
    }
    es_safetensors **to = &file->shards[file->n_shards];
    *status = es_safetensors_open(to, path);
    file->n_shards += *status == ES_OK;
    return *status == ES_OK ? *to : NULL;
}

/* Lists every tensor of the index, with its data in the file that the index
 * names. */
static es_status take_map(es_safetensors *file, json_t *map)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        es_status status;
        const es_safetensors *shard =
            shard_of(file, json_string_value(value), &status);
        if (!shard)
            return status;
        const es_tensor *tensor = es_safetensors_find(shard, name);
        if (!tensor)
            return es_fail(ES_EFORMAT, "%s: tensor %s is missing from %s",
                           file->path, name, shard->path);
        file->tensors[file->n] = *tensor;
        file->tensors[file->n].shard = shard;
        file->n++;
    }
    return ES_OK;
}

/* Refuses files with tensors that the index does not list; these tensors would
 * otherwise be ignored silently. */
static es_status check_count(const es_safetensors *file)
{
    for (size_t i = 0; i < file->n_shards; i++) {
        const es_safetensors *shard = file->shards[i];
        for (size_t k = 0; k < shard->n; k++) {
            const es_tensor *listed =
                es_safetensors_find(file, shard->tensors[k].name);
            if (!listed || listed->shard != shard)
                return es_fail(ES_EFORMAT,
                               "%s: tensor %s of %s is missing from weight_map",
                               file->path, shard->tensors[k].name, shard->path);
        }
    }
    return ES_OK;
}

es_status es_safetensors_open_index(es_safetensors **out, const char *path)
{
    es_safetensors *file;
    es_status status = es_alloc(out, 1, sizeof **out, "an index of tensors");
    if (status < 0)
        return status;
    file = *out;
    file->fd = -1;
    if ((status = es_copy_text(&file->path, path)) < 0 ||
        (status = load_index(&file->header, path)) < 0)
        goto done;
    json_t *map = json_object_get(file->header, "weight_map");
    const size_t n = json_object_size(map);
    if ((status = es_alloc(&file->tensors, n, sizeof *file->tensors,
                           "tensors")) < 0 ||
        (status = es_alloc(&file->shards, SHARDS_MAX, sizeof(void *),
                           "files of weights")) < 0 ||
        (status = take_map(file, map)) < 0 ||
        (status = es_safetensors_sort(file)) < 0)
        goto done;
    status = check_count(file);
done:
    if (status < 0) {
        es_safetensors_close(file);
        *out = NULL;
    }
    return status;
}
