/* Preloaded into QEMU: the main loop takes its time, and a guest falling asleep waits for it.
 *
 *     main loop   ppoll ──► awake, late ──────────► acts ──► ppoll
 *     guest            … runs … halts ┄ waits ┄┄┄┄┄┄┄┄┄┄┄┄►│ counts what it ran
 *
 * What a busy host does to one run in many is done to each: with `late_us` a race that is there is
 * lost all the time. Nothing is delayed that could not be delayed as long by the host's scheduler,
 * so a determinism that depends on luck does not survive this, and another one does.
 *
 * LATE_US: how long the main loop dawdles after it woke, in microseconds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAP_NS = 2000, NS_PER_US = 1000, PATIENCE_NS = 1000000 };

static atomic_bool awake; /* the main loop is between two calls of ppoll */

static int64_t late_ns(void)
{
    static int64_t ns = -1;
    const char *text = getenv("LATE_US");
    if (ns < 0) {
        ns = text == NULL ? 0 : strtoll(text, NULL, 10) * NS_PER_US;
    }
    return ns;
}

static void nap(int64_t ns)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void *original(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        abort();
    }
    return found;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *signals)
{
    static int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    if (real == NULL) {
        *(void **)&real = original("ppoll");
    }
    if (syscall(SYS_gettid) != getpid()) {
        return real(fds, n, timeout, signals);
    }
    atomic_store(&awake, false);
    int result = real(fds, n, timeout, signals);
    int error = errno;
    atomic_store(&awake, true);
    nap(late_ns());
    errno = error;
    return result;
}

/* The emulator leaves the guest's code by a long jump. Only if the main loop is awake anyway, and
 * not for ever: whoever jumps may hold the lock that the main loop wants. */
static void wait_for_main_loop(void)
{
    for (int64_t waited_ns = 0; atomic_load(&awake) && waited_ns < PATIENCE_NS;) {
        nap(NAP_NS);
        waited_ns += NAP_NS;
    }
}

#define JUMP(name)                                                                           \
    __attribute__((noreturn)) void name(sigjmp_buf to, int value);                           \
    __attribute__((noreturn)) void name(sigjmp_buf to, int value)                            \
    {                                                                                        \
        static __attribute__((noreturn)) void (*real)(sigjmp_buf, int);                      \
        if (real == NULL) {                                                                  \
            *(void **)&real = original(#name);                                               \
        }                                                                                    \
        wait_for_main_loop();                                                                \
        real(to, value);                                                                     \
    }

JUMP(__longjmp_chk) /* what siglongjmp is in a program built with _FORTIFY_SOURCE */
JUMP(siglongjmp)
