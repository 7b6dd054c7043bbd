/* Packs the greeting (es_hello) and the payloads of frames into bytes and
 * unpacks them. For each message, the same function measures, writes and reads,
 * so that writer and reader cannot differ. */
#include "hooks/recorder/wire.h"

void es_pack_hello(es_pack *pack, es_hello *hello)
{
    es_run_info *run = &hello->run;
    es_pack_string(pack, &hello->path);
    es_pack_integer(pack, &hello->resume_step);
    es_pack_integer(pack, &hello->trainer);
    es_pack_integer(pack, &hello->store);
    es_pack_string(pack, &run->uuid);
    es_pack_string(pack, &run->name);
    es_pack_string(pack, &run->arch);
    es_pack_string(pack, &run->family);
    es_pack_integer(pack, &run->n_layer);
    es_pack_integer(pack, &run->n_head);
    es_pack_integer(pack, &run->d_model);
    es_pack_integer(pack, &run->ctx);
    es_pack_integer(pack, &run->vocab);
    es_pack_integer(pack, &run->batch);
    es_pack_integer(pack, &run->seed);
    es_pack_string(pack, &run->config);
    es_pack_string(pack, &run->program);
    es_pack_string(pack, &run->host);
    es_pack_string(pack, &run->started_at);
}

void es_pack_series(es_pack *pack, es_series_frame *series)
{
    es_pack_string(pack, &series->name);
    es_pack_string(pack, &series->unit);
    es_pack_integer(pack, &series->shape);
    es_pack_integer(pack, &series->phase);
}

void es_pack_event(es_pack *pack, es_event_frame *event)
{
    es_pack_string(pack, &event->kind);
    es_pack_string(pack, &event->message);
    es_pack_integer(pack, &event->severity);
}
