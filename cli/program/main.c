/*
 * entropy-scan: the verb that the first word names, or a scan of the run files
 * that are named. What each does is in the es_command of its module.
 */
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
        return code; /* and reported already */
    return es_command_exit(
        es_fail(ES_EIO, "standard output: cannot write: %s", strerror(errno)));
}

int main(int argc, char **argv)
{
    es_output_catch_signals();
    es_reader_cap_memory((size_t)64 << 20);
    return check_stdout(es_program_run(&es_scan_program, argc, argv));
}
