/* Prepares the child processes of `serve`, which read run files. */
#include "cli/serve/child.h"

#include "analyzer/base/kernel.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

void es_serve_child_begin(int kept)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        signal(ending[i], SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int fd = STDERR_FILENO + 1; fd < kept; fd++)
        close(fd);
    es_kernel_close_from(kept + 1);
}
