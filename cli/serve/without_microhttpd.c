/* Replaces the folder cli/serve/http in a program built with `make
   MICROHTTPD=0`. */
#include "cli/serve/server.h"

es_status es_serve_run(es_serve_options *options)
{
    (void)options;
    return es_fail(ES_EIO, "this program was built without libmicrohttpd: "
                           "install libmicrohttpd-dev and build it again");
}
