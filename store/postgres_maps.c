/* Loads the attention maps of a run from PostgreSQL on request, because they
 * are large and few readers need them. */
#include "store/postgres_in_internal.h"

#include "store/map.h"

#include <inttypes.h>

static es_status take_map(const es_remote *remote, int64_t run_id,
                          const char *uuid, es_remote_copy *copy)
{
    float values[ES_MAP_MAX * ES_MAP_MAX];
    size_t n;
    const char *phase = es_remote_copy_field(copy, &n);
    es_map map = {.phase = n && *phase == 'e' ? ES_PHASE_EVAL : ES_PHASE_TRAIN};
    map.step = es_remote_copy_integer(copy);
    map.layer = es_remote_copy_integer(copy);
    map.head = es_remote_copy_integer(copy);
    map.size = es_remote_copy_integer(copy);
    map.n_ctx = es_remote_copy_integer(copy);
    const size_t n_values = map.size > 0 && map.size <= ES_MAP_MAX
                                ? (size_t)(map.size * map.size)
                                : 0;
    if (!es_remote_copy_array(copy, (unsigned char *)values, n_values))
        return es_fail(ES_EFORMAT,
                       "%s: damaged: an attention map of step %lld is invalid",
                       copy->postgres->base, (long long)map.step);
    return es_map_insert(remote->database, run_id, uuid, &map, values);
}

es_status es_remote_load_maps(es_remote *remote, int64_t run_id,
                              const char *uuid)
{
    es_remote_copy copy = {.postgres = NULL};
    if (remote->maps_of == run_id)
        return ES_OK;
    remote->maps_of = 0;
    es_status status = es_database_execute(
        remote->database, "DROP TABLE IF EXISTS attention_map");
    if (status < 0)
        return status;
    status = es_remote_copy_begin(
        &copy, remote->postgres,
        "SELECT phase, step, layer, head, size, ctx, value"
        " FROM entropy_scan.attention_map WHERE run_id = %" PRId64,
        remote->runs[run_id - 1].id);
    while (status == ES_OK && (status = es_remote_copy_next(&copy, 7)) == ES_OK)
        status = take_map(remote, run_id, uuid, &copy);
    es_remote_copy_end(&copy);
    if (status == ES_DONE) {
        remote->maps_of = run_id;
        status = ES_OK;
    }
    return status;
}
