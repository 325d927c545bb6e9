/* The two threads: where they run, how they wait for each other. */
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A rendezvous that takes this long has failed. */
static const uint64_t patience_ns = 10000000000u;

const char *steering(const struct options *options)
{
    if (options->far != NULL) {
        return "far_end";
    }
    return options->server_netns != NULL ? "namespaces" : "loopback";
}

void pin_to_cpu(long cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= CPU_SETSIZE) {
        fail("there is no CPU %ld", cpu);
    }
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        fail_errno("cannot run on CPU %ld", cpu);
    }
}

void enter_namespace(const char *path)
{
    if (path == NULL) {
        return;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fail_errno("network namespace %s", path);
    }
    if (setns(fd, CLONE_NEWNET) != 0) {
        if (errno == EPERM) {
            fail("network namespace %s: only root may enter it", path);
        }
        fail_errno("network namespace %s", path);
    }
    close_fd(fd);
}

static void need_descriptors(const struct options *options, long n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fail_errno("getrlimit");
    }
    rlim_t needed = (rlim_t)n;
    if (limit.rlim_cur >= needed) {
        return;
    }
    struct rlimit wider = {.rlim_cur = needed,
                           .rlim_max = limit.rlim_max > needed ? limit.rlim_max : needed};
    if (setrlimit(RLIMIT_NOFILE, &wider) != 0) {
        fail("%s --n %ld needs %ld descriptors, the limit is %llu: raise it with ulimit -n",
             options->bench->name, options->n, n, (unsigned long long)limit.rlim_max);
    }
}

static void set_state(struct pair *pair, int state)
{
    (void)pthread_mutex_lock(&pair->lock);
    pair->state = (unsigned)state;
    (void)pthread_cond_broadcast(&pair->changed);
    (void)pthread_mutex_unlock(&pair->lock);
}

static void pass_time(const struct pair *pair, enum side side)
{
    if (side == PEER) {
        (void)clients_attend(pair);
    } else {
        relax();
    }
}

/* Sleep until the state is not `state`, or spin if that will be soon; return the new one. */
static int await_change(struct pair *pair, int state)
{
    while (atomic_load(&pair->attentive) && (int)atomic_load(&pair->state) == state) {
        pass_time(pair, state == PEER_RESTING ? PEER : SERVER);
    }
    (void)pthread_mutex_lock(&pair->lock);
    while ((int)pair->state == state) {
        (void)pthread_cond_wait(&pair->changed, &pair->lock);
    }
    int changed = (int)pair->state;
    (void)pthread_mutex_unlock(&pair->lock);
    return changed;
}

struct beginning {
    struct pair *pair;
    long n_clients;
};

static void begin_clients(void *context)
{
    const struct beginning *beginning = context;
    clients_begin(beginning->pair, beginning->n_clients);
}

static void *peer_main(void *context)
{
    struct pair *pair = context;
    pin_to_cpu(pair->options->peer_cpu);
    if (unshare(CLONE_FILES) != 0) {
        fail_errno("a descriptor table of the peer's own");
    }
    enter_namespace(pair->options->peer_netns);
    set_state(pair, PEER_RESTING);
    while (await_change(pair, PEER_RESTING) == PEER_WORKING) {
        pair->task(pair->task_context);
        atomic_store(&pair->task_over, true);
        set_state(pair, PEER_RESTING);
    }
    clients_end(pair);
    return NULL;
}

void pair_open(struct pair *pair, const struct options *options, long n_descriptors)
{
    *pair = (struct pair){
        .options = options, .listener = -1, .state = PEER_STARTING, .clients = &socket_clients};
    need_descriptors(options, n_descriptors);
    int error = pthread_mutex_init(&pair->lock, NULL);
    if (error == 0) {
        error = pthread_cond_init(&pair->changed, NULL);
    }
    if (error == 0) {
        error = pthread_create(&pair->thread, NULL, peer_main, pair);
    }
    if (error != 0) {
        fail("cannot start the peer: %s", strerror(error));
    }
    (void)await_change(pair, PEER_STARTING);
    pin_to_cpu(options->server_cpu);
    enter_namespace(options->server_netns);
    pair->listener = listener_open(&pair->address, options->server_address);
    struct beginning beginning = {pair, n_descriptors};
    peer_start(pair, begin_clients, &beginning);
    peer_finish(pair);
}

void pair_close(struct pair *pair)
{
    set_state(pair, PEER_ENDING);
    int error = pthread_join(pair->thread, NULL);
    if (error != 0) {
        fail("cannot join the peer: %s", strerror(error));
    }
    close_fd(pair->listener);
    (void)pthread_cond_destroy(&pair->changed);
    (void)pthread_mutex_destroy(&pair->lock);
}

void peer_start(struct pair *pair, peer_task task, void *context)
{
    pair->task = task;
    pair->task_context = context;
    atomic_store(&pair->task_over, false);
    atomic_store(&pair->stop, false);
    set_state(pair, PEER_WORKING);
}

void peer_finish(struct pair *pair)
{
    (void)await_change(pair, PEER_WORKING);
}

static void meet_while(struct pair *pair, enum side side, enum side passing)
{
    enum side other = side == SERVER ? PEER : SERVER;
    unsigned mine = atomic_fetch_add(&pair->met[side], 1) + 1;
    uint64_t first = ticks_now();
    uint64_t patience = ns_to_ticks((double)patience_ns);
    /* The difference, not the order: the counters may wrap. */
    while ((int)(atomic_load_explicit(&pair->met[other], memory_order_acquire) - mine) < 0) {
        pass_time(pair, passing);
        if (ticks_now() - first > patience) {
            fail("%s: the other thread did not come to the rendezvous", pair->options->bench->name);
        }
    }
}

void meet(struct pair *pair, enum side side)
{
    meet_while(pair, side, side);
}

void meet_unattending(struct pair *pair)
{
    meet_while(pair, PEER, SERVER);
}

bool meet_again(struct pair *pair, enum side side, uint64_t deadline_ns)
{
    if (side == SERVER) {
        atomic_store(&pair->stop, now_ns() >= deadline_ns);
    }
    meet(pair, side);
    return !atomic_load(&pair->stop);
}
