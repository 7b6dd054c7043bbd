/* Descriptors of libentropyrecord and of the processes it starts. A number
   alone proves nothing in a host program, so device and inode are kept with it.
 */
#include "analyzer/base/held.h"

#include <sys/stat.h>
#include <unistd.h>

es_held es_held_take(int fd)
{
    struct stat file = {0};
    if (fd < 0 || fstat(fd, &file) != 0)
        return (es_held){.fd = -1};
    return (es_held){fd, file.st_dev, file.st_ino};
}

bool es_held_is_ours(const es_held *held)
{
    struct stat file;
    return held->fd >= 0 && fstat(held->fd, &file) == 0 &&
           file.st_dev == held->device && file.st_ino == held->inode;
}

void es_held_close(es_held *held)
{
    if (es_held_is_ours(held))
        close(held->fd);
    held->fd = -1;
}
