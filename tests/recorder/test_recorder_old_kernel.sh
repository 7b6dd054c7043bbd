#!/usr/bin/env bash
# Runs the tests of recording and of processes, including those with kill -9,
# under system call filters that simulate Linux 4.18 and containers which refuse
# unknown system calls.
. tests/support/tap.sh
plan_dir

old=$dir/old_kernel
check 'the filter compiles' gcc -O1 -Wall -Wextra -o "$old" tests/recorder/old_kernel.c
cat >"$dir/calls.c" <<'END'
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int result(long value) { return value < 0 ? errno : 0; }
int main(void)
{
    siginfo_t info;
    void *page = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pidfd = result(syscall(434, getpid(), 0));
    int range = result(syscall(436, 100, 200, 0));
    int memory = result(syscall(SYS_memfd_create, "x", 0));
    int wipe = result(madvise(page, 4096, 18));
    int wait = result(waitid((idtype_t)3, 0, &info, WEXITED));
    printf("%d %d %d %d %d\n", pidfd, range, memory, wipe, wait);
    return 0;
}
END
gcc -o "$dir/calls" "$dir/calls.c"
same_text 'an old kernel lacks pidfds and close_range' '38 38 0 0 22' \
    "$("$old" ENOSYS "$dir/calls")"
same_text 'a strict filter refuses memfd_create, too' '1 1 1 22 22' \
    "$("$old" EPERM memfd wipe "$dir/calls")"

plain=(process ring recorder recorder_process recorder_faults recorder_overwritten)
strict=(process recorder recorder_process recorder_faults) # without memfd no file can be sealed
check 'the tests are built' make -s BUILD="$BUILD" CC="$CC" \
    "${plain[@]/#/$BUILD/tests/test_}" "$BUILD/entropy-recorder"
# Four tests run at the same time, because they mostly wait.
{
    printf '%s ENOSYS\n' "${plain[@]}"
    printf '%s EPERM memfd wipe\n' "${strict[@]}"
} | xargs -P 4 -L 1 bash -c '"$0" "${@:2}" "$BUILD/tests/test_$1" >"$0-$1-$2" 2>&1
    echo "ended with exit code $?" >>"$0-$1-$2"' "$old"
passed() { tail -n 1 "$1" | grep -qx 'ended with exit code 0' || { cat "$1"; return 1; }; }
for name in "${plain[@]}"; do
    check "test_$name passes on an old kernel" passed "$old-$name-ENOSYS"
done
for name in "${strict[@]}"; do
    check "test_$name passes behind a strict filter" passed "$old-$name-EPERM"
done
finish
