/* Faults on demand, for LD_PRELOAD: one function decides which write, rename, flush or large buffer fails.
 *
 * The package is not changed for it. Writes count on plain files only, allocations from LARGE bytes on. Python calls
 * faults_arm through ctypes: the at-th event of these kinds fails with the system's usual error, or the process is
 * killed there; later ones succeed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE = 1, RENAME = 2, FLUSH = 4, ALLOCATE = 8 };
enum { FAIL, KILL_BEFORE };

#define LARGE (64u << 10)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static volatile int armed_kinds, what_happens;
static volatile long at_event, seen;
static __thread int paused;

void faults_arm(int kinds, long at, int what)
{
    seen = 0;
    at_event = at;
    what_happens = what;
    armed_kinds = kinds;
}

/* Whether allocations of this thread count. */
void faults_pause(int yes)
{
    paused = yes;
}

/* Stops counting; returns how many events there were. */
long faults_disarm(void)
{
    armed_kinds = 0;
    return seen;
}

static int fails(int kind, int error)
{
    if (!(armed_kinds & kind) || __sync_add_and_fetch(&seen, 1) != at_event)
        return 0;
    if (what_happens == KILL_BEFORE)
        kill(getpid(), SIGKILL);
    errno = error;
    return 1;
}

static int is_file(int handle)
{
    struct stat status;
    return armed_kinds && handle > 2 && fstat(handle, &status) == 0 && S_ISREG(status.st_mode);
}

ssize_t write(int handle, const void *bytes, size_t count)
{
    return is_file(handle) && fails(WRITE, ENOSPC) ? -1 : REAL(write)(handle, bytes, count);
}

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream)
{
    return is_file(fileno(stream)) && fails(WRITE, ENOSPC) ? 0 : REAL(fwrite)(bytes, size, count, stream);
}

int ftruncate(int handle, off_t length)
{
    return is_file(handle) && fails(WRITE, EIO) ? -1 : REAL(ftruncate)(handle, length);
}

int rename(const char *from, const char *to)
{
    return fails(RENAME, EACCES) ? -1 : REAL(rename)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return fails(RENAME, EACCES) ? -1 : REAL(renameat)(from_folder, from, to_folder, to);
}

int fsync(int handle)
{
    return fails(FLUSH, EIO) ? -1 : REAL(fsync)(handle);
}

/* libsndfile does not survive all failures of its own buffers, and soxr (in C and C++) none: that is theirs to mend.
 * The runner pauses the thread while soxr works. */
static int large(size_t size, const void *caller)
{
    Dl_info where;
    if (!(armed_kinds & ALLOCATE) || size < LARGE || paused)
        return 0;
    return !dladdr(caller, &where) || !where.dli_fname || !strstr(where.dli_fname, "sndfile");
}

#define FAILS(size) (large((size), __builtin_return_address(0)) && fails(ALLOCATE, ENOMEM))

void *malloc(size_t size)
{
    return FAILS(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    const size_t bytes = size && count > LARGE / size ? LARGE : count * size; /* only whether it is large matters */
    return FAILS(bytes) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return FAILS(size) ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    if (FAILS(size))
        return ENOMEM;
    *place = __libc_memalign(alignment, size);
    return *place ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return FAILS(size) ? NULL : __libc_memalign(alignment, size);
}
