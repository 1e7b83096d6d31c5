/* Preloaded into a server under test: makes calls for some files wait, as those for a file system do that does not
 * answer. A call for a path that contains HOLD_PATH writes a line to the FIFO HOLD_EVENTS and waits for a byte of the
 * FIFO HOLD_GATE, while the file HOLD_SWITCH exists. Other programs that the server starts are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void hold(const char *path)
{
    const char *part = getenv("HOLD_PATH"), *hold_switch = getenv("HOLD_SWITCH");
    if (!path || !part || !hold_switch || !strstr(path, part))
        return;
    if (strcmp(program_invocation_short_name, "highball") != 0 || access(hold_switch, F_OK) != 0)
        return;
    int events = syscall(SYS_openat, AT_FDCWD, getenv("HOLD_EVENTS"), O_WRONLY | O_CLOEXEC);
    dprintf(events, "held\n");
    close(events);
    int gate = syscall(SYS_openat, AT_FDCWD, getenv("HOLD_GATE"), O_RDONLY | O_CLOEXEC);
    char byte;
    while (read(gate, &byte, 1) < 0 && errno == EINTR)
        ;
    close(gate);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    hold(path);
    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    hold(path);
    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *facts)
{
    hold(path);
    return syscall(SYS_statx, folder, path, flags, mask, facts);
}

char *realpath(const char *path, char *resolved)
{
    hold(path);
    char *(*next)(const char *, char *) = dlsym(RTLD_NEXT, "realpath");
    return next(path, resolved);
}
