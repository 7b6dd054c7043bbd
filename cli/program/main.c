/* entropy-scan: look at attention entropy. */
#include "cli/output/output.h"
#include "cli/program/command.h"
#include "store/reader.h"

#include <errno.h>
#include <string.h>

/* Help and version go to standard output without further care. */
static int check_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != 0)
        return code; /* and told already */
    return es_command_exit(
        es_fail(ES_EIO, "standard output: cannot write: %s", strerror(errno)));
}

int main(int argc, char **argv)
{
    es_output_catch_signals();
    es_reader_cap_memory((size_t)64 << 20);
    es_verb_main *verb = argc > 1 ? es_verb_find(argv[1]) : NULL;
    if (verb)
        return check_stdout(verb(argc - 1, argv + 1));
    return check_stdout(es_scan_main(argc, argv));
}
