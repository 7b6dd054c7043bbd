/* arc4random_buf for glibc older than 2.36: the portable build (`make
   portable-programs`) targets glibc 2.28, but links Debian's static libraries,
   which call that function. This program does not call it. The file is empty if
   libc has the function. */
#include <features.h>
#include <stddef.h>

#if !__GLIBC_PREREQ(2, 36)
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void *out, size_t n);

/* libexpat seeds its hash tables with this. As in glibc, the program ends if
   the kernel returns no random bytes. */
__attribute__((visibility("default"))) void arc4random_buf(void *out, size_t n)
{
    unsigned char *bytes = out;
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom(bytes + done, n - done, 0);
        if (got < 0)
            abort();
        done += (size_t)got;
    }
}
#endif
