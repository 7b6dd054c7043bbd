/**
 * Loads libmicrohttpd, GNU's HTTP server library, at run time. The program is
 * not linked with it, because the library loads GnuTLS, which no other command
 * needs.
 */
#ifndef ES_SERVE_MICROHTTPD_H
#define ES_SERVE_MICROHTTPD_H

#include "analyzer/base/status.h"
#include <microhttpd.h>

#define ES_MHD_FUNCTIONS(use)                                                  \
    use(start_daemon) use(stop_daemon) use(run) use(get_timeout)               \
        use(get_daemon_info) use(get_connection_info)                          \
            use(set_connection_option) use(suspend_connection)                 \
                use(resume_connection) use(lookup_connection_value)            \
                    use(get_connection_values) use(queue_response)             \
                        use(create_response_from_buffer)                       \
                            use(create_response_from_fd)                       \
                                use(create_response_from_callback)             \
                                    use(add_response_header)                   \
                                        use(destroy_response)
#define ES_MHD_MEMBER(name) __typeof__(MHD_##name) *name;
typedef struct es_mhd_library {
    ES_MHD_FUNCTIONS(ES_MHD_MEMBER)
} es_mhd_library;

/** The functions of the library, set by es_mhd_load. MHD_run, for example, is
 *  es_mhd.run. */
extern es_mhd_library es_mhd;

/** Loads the library. Returns ES_OK, or ES_EIO if it is not installed. */
es_status es_mhd_load(void) ES_MUST_USE;

#endif
