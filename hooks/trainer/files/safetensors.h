/**
 * Reads and writes the safetensors format, which stores named arrays in one
 * file: an 8-byte little-endian length, a JSON object of that length (name:
 * dtype, shape, data_offsets; "__metadata__": strings), then the arrays,
 * little-endian, in C order.
 *
 * A file is untrusted: every offset, shape and length is checked before it is
 * used; arrays may neither overlap nor leave gaps, names are unique, and the
 * header has at most 16 MiB (a hundred thousand arrays). Data are read when
 * they are requested, so memory does not grow with the file; a file that is
 * truncated in the meantime causes an error. Internal to the trainer.
 */
#ifndef ES_SAFETENSORS_H
#define ES_SAFETENSORS_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum es_tensor_type {
    ES_TENSOR_F16,
    ES_TENSOR_BF16,
    ES_TENSOR_F32,
    ES_TENSOR_F64, /* the types up to this one can be read as floating-point
                    * numbers */
    ES_TENSOR_I32,
    ES_TENSOR_I64,
    /* numbers of 8 bits, listed but not read, because their scale factors are
     * stored elsewhere */
    ES_TENSOR_F8_E4M3,
    ES_TENSOR_F8_E5M2,
    ES_TENSOR_OTHER /* I8, BOOL, ...: listed but not read as numbers */
} es_tensor_type;

#define ES_TENSOR_MAX_DIMS 8
#define ES_SAFETENSORS_HEADER_MAX (16u << 20)

typedef struct es_tensor {
    const char *name; /* borrowed from the file */
    es_tensor_type type;
    int n_dims; /* 0 for a scalar */
    int64_t dims[ES_TENSOR_MAX_DIMS];
    size_t n; /* number of elements */
    size_t n_bytes;
    uint64_t offset; /* position of the tensor's first byte in the file */
    /* file that contains the tensor's data; NULL: the same file that lists the
     * tensor */
    const struct es_safetensors *shard;
} es_tensor;

/** An open file; all members are read-only. */
typedef struct es_safetensors {
    char *path;         /* path as given to open */
    es_tensor *tensors; /* array of n tensors in the order of their data */
    size_t n;
    const es_tensor **by_name; /* pointers to the n tensors, sorted by name */
    /* parsed header, which owns names and metadata */
    struct json_t *header;
    int fd;                         /* file descriptor; -1 for an index */
    uint64_t size;                  /* size of the file when it was opened */
    struct es_safetensors **shards; /* the n_shards files of an index, owned */
    size_t n_shards;
} es_safetensors;

/**
 * Opens a regular file read-only and reads its header. Returns ES_OK; ES_EIO;
 * ES_EFORMAT (cut short, damaged, not safetensors; the message names path and
 * tensor); ES_ENOMEM.
 */
es_status es_safetensors_open(es_safetensors **out,
                              const char *path) ES_MUST_USE;

/**
 * Opens all files that an index of Hugging Face's library lists
 * (model.safetensors.index.json: "weight_map" maps tensors to files) as if they
 * were one file without metadata. The files are in the folder of the index;
 * each of their tensors must be listed under its file. Returns the statuses of
 * es_safetensors_open.
 */
es_status es_safetensors_open_index(es_safetensors **out,
                                    const char *path) ES_MUST_USE;

/** Fills by_name from file->tensors (n), whose names must be unique. Returns
 *  ES_OK or ES_ENOMEM. */
es_status es_safetensors_sort(es_safetensors *file) ES_MUST_USE;

void es_safetensors_close(es_safetensors *file); /* `file` may be NULL */

/** Returns the tensor with this name, or NULL. */
const es_tensor *es_safetensors_find(const es_safetensors *file,
                                     const char *name);

/** Returns an entry of "__metadata__", borrowed, or NULL. */
const char *es_safetensors_metadata(const es_safetensors *file,
                                    const char *key);

/**
 * Reads elements first .. first + n - 1 of a tensor as float32. F32 keeps its
 * bits, F16 and BF16 are exact, F64 is rounded. May be called by any thread.
 * Returns ES_OK; ES_EARGUMENT (beyond the tensor); ES_EFORMAT (not
 * floating-point: I32, I64, OTHER); ES_EIO.
 */
es_status es_safetensors_read(const es_safetensors *file,
                              const es_tensor *tensor, float *out, size_t first,
                              size_t n) ES_MUST_USE;

/** Returns ES_OK, or ES_EFORMAT if es_safetensors_read cannot read the tensor's
 *  type; `path` is for messages. */
es_status es_safetensors_check_type(const es_tensor *tensor,
                                    const char *path) ES_MUST_USE;

/** Reads the bytes of a tensor (tensor->n_bytes) unchanged, whatever its type.
 *  May be called by any thread. Returns ES_OK or ES_EIO. */
es_status es_safetensors_read_bytes(const es_safetensors *file,
                                    const es_tensor *tensor,
                                    void *out) ES_MUST_USE;

/** A float32 tensor to be written. */
typedef struct es_tensor_source {
    const char *name;
    int n_dims;
    int64_t dims[ES_TENSOR_MAX_DIMS];
    /** Writes the tensor's n values to `out`. Any return value except ES_OK
     *  aborts the file. */
    es_status (*fill)(void *user, size_t index, float *out, size_t n);
    void *user;
    size_t index; /* argument of fill */
} es_tensor_source;

/** One entry of "__metadata__". */
typedef struct es_tensor_note {
    const char *key, *text;
} es_tensor_note;

/**
 * Writes a file that appears complete or not at all: a temporary file in the
 * same folder is synced and renamed, and the folder is synced. Until then an
 * existing file of that name remains unchanged. The function needs memory for
 * the largest tensor. Returns ES_OK; ES_EARGUMENT (a name is duplicate or not
 * UTF-8, or a tensor has too many dimensions); ES_EIO (no space, no permission;
 * the message names the path); ES_ENOMEM; or the status of a failed call of
 * `fill`.
 */
es_status es_safetensors_write(const char *path,
                               const es_tensor_source *tensors,
                               size_t n_tensors, const es_tensor_note *notes,
                               size_t n_notes) ES_MUST_USE;

#endif
