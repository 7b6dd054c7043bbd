/* Starts the recorder program as a child of the training process: finds the
 * program, passes descriptors to it, and describes how it ended. */
#include "hooks/recorder/recorder_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "entropy-recorder"

/* Returns the path of the recorder program, or only its name if the program
 * must be searched for in PATH. */
static const char *find_program(char out[PATH_MAX], const char *wanted)
{
    const char *variable = secure_getenv("ENTROPY_RECORDER");
    if (wanted)
        return wanted;
    if (variable && *variable)
        return variable;
    char self[PATH_MAX];
    if (es_process_self(self) && es_process_beside(out, self, "/" NAME))
        return out;
    /* Search for the program next to libentropyrecord, both in an installation
     * and in the build folder. */
    static const char here;
    Dl_info library;
    if (dladdr(&here, &library) && library.dli_fname &&
        (es_process_beside(out, library.dli_fname, "/../bin/" NAME) ||
         es_process_beside(out, library.dli_fname, "/" NAME)))
        return out;
    return NAME;
}

es_status es_recorder_start(es_process *out, const char *program,
                            const char *path,
                            const int fds[ES_FD_END - ES_FD_RING])
{
    char found[PATH_MAX];
    char *argv[] = {(char[]){NAME}, (char[]){"--"}, (char *)path, NULL};
    program = find_program(found, program);
    int error = es_process_start(
        out, &(es_process_options){
                 .program = program,
                 .argv = argv,
                 .streams = {ES_STREAM_NULL, ES_STREAM_NULL, ES_STREAM_INHERIT},
                 .passed = fds,
                 .n_passed = ES_FD_END - ES_FD_RING,
                 .place = ES_PLACE_SESSION});
    if (error) {
        bool is_missing =
            error == ENOENT || error == EACCES || error == ENOEXEC;
        return es_fail(
            ES_EBROKEN, "cannot start %s: %s%s", program, strerror(error),
            is_missing ? ": set ENTROPY_RECORDER to the program " NAME : "");
    }
    return ES_OK;
}

void es_recorder_reap(char *out, size_t size, es_process *process, int64_t ms)
{
    char text[48];
    es_process_end end;
    if (!es_process_wait(&end, process, ms)) {
        snprintf(out, size, "does not answer");
        return;
    }
    es_process_end_text(text, sizeof text, &end);
    snprintf(out, size, "%s %s",
             end.lost     ? "is gone:"
             : end.signal ? "was"
                          : "ended with",
             text);
}
