#!/usr/bin/env bash
# Tests recordings in which a system call of the recorder fails: the release of a
# lock by SQLite, and every write(2).
. tests/support/tap.sh
. tests/support/corpus.sh
plan_dir
write_source "$dir/src"
"$BUILD/entropy-corpus" -q -o "$dir/x.tok" "$dir/src" || echo 'Bail out! no corpus'

# A library for LD_PRELOAD. After the run file was opened, it makes fcntl fail
# once: at the first release of an exclusive lock on the first read mark in the
# run file's -shm file. It also makes SQLite's pauses between attempts end at
# once.
cat >"$dir/locks.c" <<'END'
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define READ_MARK 124
static int fails(const struct flock *lock)
{
    static int n_released, last_type = F_UNLCK;
    if (lock->l_whence != SEEK_SET || lock->l_start != READ_MARK || lock->l_len != 1)
        return 0;
    int before = last_type;
    last_type = lock->l_type;
    return before == F_WRLCK && last_type == F_UNLCK && ++n_released == 3;
}
int fcntl(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (command == F_SETLK && fails(argument)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
int usleep(useconds_t time) { return 0; }
int nanosleep(const struct timespec *time, struct timespec *left) { return 0; }
END
# Runs a command whose every write(2) fails with ENOSPC.
cat >"$dir/full.c" <<'END'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 3;
    execv(argv[1], argv + 1);
    return 127;
}
END
recorder=$(realpath "$BUILD/entropy-recorder")
compile() {
    gcc -w -shared -fPIC -o "$dir/locks.so" "$dir/locks.c" && gcc -o "$dir/full" "$dir/full.c" &&
        printf '#!/bin/sh\nASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=%s exec %s "$@"\n' \
            "$dir/locks.so" "$recorder" >"$dir/with_locks" &&
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$dir/full" "$recorder" >"$dir/with_full" &&
        chmod +x "$dir/with_locks" "$dir/with_full"
}
check 'the failing calls compile' compile

train_by() { # SCRIPT: records with SCRIPT; `exits` waits for the end of the recorder as well
    ENTROPY_RECORDER=$dir/$1 "$train" --n-layer 2 --n-head 3 --d-model 12 --ctx 16 --batch 4 \
        --threads 1 --eval-batches 1 --data "$dir/x.tok" --steps 40 --record-every 1 \
        --log-every 40 -o "$dir/$1.db"
}
n_samples() { sqlite3 "$dir/$1.db" "SELECT count(DISTINCT step) FROM sample JOIN series USING (series_id)
    WHERE name = 'entropy'"; }

exits 'the file is opened again after a lock could not be released' 0 \
    'with_locks.db: opened again, because SQLite could not release one of its own locks; nothing is lost' \
    train_by with_locks
same_text 'every sample is recorded' 41 "$(n_samples with_locks)"
same_text 'the run has an event about the lock' 1 "$(
    sqlite3 "$dir/with_locks.db" "SELECT count(*) FROM event WHERE message LIKE '%could not release%'")"
exits 'a recorder that cannot write ends, and names the reason' 3 \
    'with_full.db: cannot write: No space left on device' train_by with_full
finish
