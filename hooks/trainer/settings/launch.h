/** Determines which of several ranks this process is, from its options or from
 *  the launcher that started it. */
#ifndef ES_LAUNCH_H
#define ES_LAUNCH_H

#include "hooks/trainer/settings/settings.h"

es_status es_launch_settle(es_settings *settings, char *note,
                           size_t size) ES_MUST_USE;

#endif
