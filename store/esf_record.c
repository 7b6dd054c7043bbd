/* Packs the records of a fragment into bytes and unpacks them. For each record,
   the same function measures, writes and reads, so that writer and reader
   cannot differ. */
#include "store/esf_record.h"

void es_esf_pack_writer(es_pack *pack, void *writer)
{
    es_esf_writer *who = writer;
    es_pack_string(pack, &who->host);
    es_pack_string(pack, &who->boot);
    es_pack_integer(pack, &who->pid);
}

void es_esf_pack_run(es_pack *pack, void *run)
{
    es_esf_run *record = run;
    es_run_info *info = &record->info;
    es_pack_integer(pack, &record->resumed);
    es_pack_string(pack, &info->uuid);
    es_pack_string(pack, &info->name);
    es_pack_string(pack, &info->arch);
    es_pack_string(pack, &info->family);
    es_pack_integer(pack, &info->n_layer);
    es_pack_integer(pack, &info->n_head);
    es_pack_integer(pack, &info->d_model);
    es_pack_integer(pack, &info->ctx);
    es_pack_integer(pack, &info->vocab);
    es_pack_integer(pack, &info->batch);
    es_pack_integer(pack, &info->seed);
    es_pack_string(pack, &info->config);
    es_pack_string(pack, &info->program);
    es_pack_string(pack, &info->host);
    es_pack_string(pack, &info->started_at);
}

void es_esf_pack_series(es_pack *pack, void *series)
{
    es_esf_series *record = series;
    es_pack_integer(pack, &record->number);
    es_pack_string(pack, &record->name);
    es_pack_string(pack, &record->unit);
    es_pack_integer(pack, &record->shape);
    es_pack_integer(pack, &record->phase);
}

/**
 * Packs or unpacks a value as an int64_t, for struct members that have a
 * different integer type, and returns the value.
 */
static int64_t pack_as(es_pack *pack, int64_t value)
{
    es_pack_integer(pack, &value);
    return value;
}

void es_esf_pack_event(es_pack *pack, void *event)
{
    es_event *record = event;
    es_pack_integer(pack, &record->step);
    es_pack_string(pack, &record->kind);
    const int64_t severity = pack_as(pack, (int64_t)record->severity);
    if (severity < ES_SEVERITY_NONE || severity > ES_SEVERITY_CRITICAL)
        pack->failed = true;
    else
        record->severity = (es_severity)severity;
    es_pack_integer(pack, &record->layer);
    es_pack_integer(pack, &record->head);
    es_pack_string(pack, &record->message);
    es_pack_string(pack, &record->data);
    es_pack_string(pack, &record->dedupe);
    es_pack_string(pack, &record->at);
}

void es_esf_pack_map(es_pack *pack, void *map)
{
    es_map *record = map;
    const int64_t phase = pack_as(pack, (int64_t)record->phase);
    if (phase < ES_PHASE_TRAIN || phase > ES_PHASE_EVAL)
        pack->failed = true;
    else
        record->phase = (es_phase)phase;
    es_pack_integer(pack, &record->step);
    es_pack_integer(pack, &record->layer);
    es_pack_integer(pack, &record->head);
    es_pack_integer(pack, &record->size);
    es_pack_integer(pack, &record->n_ctx);
}

void es_esf_pack_end(es_pack *pack, void *end)
{
    es_esf_end *record = end;
    es_pack_integer(pack, &record->status);
    es_pack_string(pack, &record->at);
}
