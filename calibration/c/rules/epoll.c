/* epoll. Members are connections 0, 1, 2 ... in the order in which they were added. */
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEMBERS = 6, PAGE = 4096, HERD = 4, WOKEN_MS = 150 };

static int set_open(void)
{
    return sure(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
}

static int control(int set, int operation, int fd, uint32_t events, int member)
{
    struct epoll_event wanted = {.events = events, .data.u32 = (uint32_t)member};
    return epoll_ctl(set, operation, fd, &wanted);
}

static void add(int set, int fd, uint32_t events, int member)
{
    sure(control(set, EPOLL_CTL_ADD, fd, events, member), "EPOLL_CTL_ADD");
}

static void modify(int set, int fd, uint32_t events, int member)
{
    sure(control(set, EPOLL_CTL_MOD, fd, events, member), "EPOLL_CTL_MOD");
}

/* A set of members, each for reading in this way. */
static int members_open(struct pair *pairs, int n, uint32_t how)
{
    int set = set_open();
    pairs_open(pairs, n);
    for (int i = 0; i < n; i++) {
        add(set, pairs[i].server, EPOLLIN | how, i);
    }
    return set;
}

static int n_events(int set)
{
    struct epoll_event events[MEMBERS];
    return sure(epoll_wait(set, events, MEMBERS, 0), "epoll_wait");
}

/* Print the members that one wait returns, in its order: a list within the list. */
static void say_wait(int set, int n_max)
{
    struct epoll_event events[MEMBERS];
    int n = sure(epoll_wait(set, events, n_max, 0), "epoll_wait");
    char text[64] = "[";
    size_t used = 1;
    for (int i = 0; i < n; i++) {
        text[used++] = (char)('0' + events[i].data.u32);
        text[used++] = ',';
    }
    text[n > 0 ? used - 1 : used] = ']';
    text[n > 0 ? used : used + 1] = '\0';
    say_next("%s", text);
}

static void send_to(const struct pair *pairs, const char *members)
{
    for (const char *member = members; *member != '\0'; member++) {
        send_byte(pairs[*member - '0'].client);
    }
}

static void level_order(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "312");
    say_wait(set, MEMBERS);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void level_drained(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "012");
    say_wait(set, MEMBERS);
    drain(pairs[1].server);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void level_full_batch(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "0123");
    for (int i = 0; i < 3; i++) {
        say_wait(set, 2);
    }
    say_list_end();
}

static void level_after_full_batch(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "012");
    say_wait(set, 2);
    send_to(pairs, "3");
    say_wait(set, 2);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void modify_listed(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "012");
    modify(set, pairs[0].server, EPOLLIN, 0);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void modify_to_ready(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    (void)fill(pairs[0].server);
    modify(set, pairs[0].server, EPOLLOUT, 0);
    send_to(pairs, "012");
    say_wait(set, MEMBERS);
    modify(set, pairs[0].server, EPOLLIN, 0);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void add_ready(void)
{
    struct pair pairs[MEMBERS];
    int set = set_open();
    pairs_open(pairs, 3);
    send_to(pairs, "012");
    add(set, pairs[2].server, EPOLLIN, 2);
    add(set, pairs[0].server, EPOLLIN, 0);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void delete_listed(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "012");
    sure(control(set, EPOLL_CTL_DEL, pairs[1].server, 0, 1), "EPOLL_CTL_DEL");
    say_wait(set, MEMBERS);
    say_list_end();
}

static void close_listed(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, MEMBERS, 0);
    send_to(pairs, "012");
    sure(close(pairs[1].server), "close");
    say_wait(set, MEMBERS);
    say_list_end();
}

static void close_of_two(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, 0);
    sure(dup(pairs[0].server), "dup");
    sure(close(pairs[0].server), "close");
    send_to(pairs, "0");
    say("%d", n_events(set));
}

static void oneshot(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, EPOLLONESHOT);
    send_to(pairs, "0");
    say_next("%d", n_events(set));
    send_to(pairs, "0");
    say_next("%d", n_events(set));
    modify(set, pairs[0].server, EPOLLIN | EPOLLONESHOT, 0);
    say_next("%d", n_events(set));
    say_list_end();
}

static void oneshot_rearmed(void)
{
    struct pair pairs[MEMBERS];
    int set = members_open(pairs, 3, EPOLLONESHOT);
    send_to(pairs, "012");
    say_wait(set, 1);
    modify(set, pairs[0].server, EPOLLIN | EPOLLONESHOT, 0);
    say_wait(set, MEMBERS);
    say_list_end();
}

static void oneshot_reset(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, EPOLLONESHOT);
    send_to(pairs, "0");
    (void)n_events(set);
    reset(pairs[0].client);
    say_next("%d", n_events(set));
    modify(set, pairs[0].server, EPOLLIN | EPOLLONESHOT, 0);
    say_next("%d", n_events(set));
    say_list_end();
}

static void edge_once(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, EPOLLET);
    send_to(pairs, "0");
    say_next("%d", n_events(set));
    say_next("%d", n_events(set));
    send_to(pairs, "0"); /* the byte before is still there */
    say_next("%d", n_events(set));
    say_list_end();
}

static void edge_two_arrivals(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, EPOLLET);
    send_to(pairs, "00");
    say_next("%d", n_events(set));
    say_next("%d", n_events(set));
    say_list_end();
}

static void edge_part_read(void)
{
    struct pair pairs[1];
    char byte;
    int set = members_open(pairs, 1, EPOLLET);
    send_bytes(pairs[0].client, 2);
    say_next("%d", n_events(set));
    sure(recv(pairs[0].server, &byte, 1, 0), "recv");
    say_next("%d", n_events(set));
    say_list_end();
}

/* The entry of a connection that was read empty is still ready for the other direction. */
static void edge_drained(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, EPOLLOUT | EPOLLET);
    (void)n_events(set);
    send_to(pairs, "0");
    drain(pairs[0].server);
    say("%d", n_events(set));
}

static void say_directions(const struct epoll_event *event)
{
    say_next("%s", as_bool((event->events & EPOLLIN) != 0));
    say_next("%s", as_bool((event->events & EPOLLOUT) != 0));
    say_list_end();
}

static void edge_both(void)
{
    struct epoll_event event;
    struct pair pair = pair_open();
    int set = set_open();
    add(set, pair.server, EPOLLIN | EPOLLOUT | EPOLLET, 0);
    sure(epoll_wait(set, &event, 1, 0), "epoll_wait");
    send_byte(pair.client);
    if (sure(epoll_wait(set, &event, 1, 0), "epoll_wait") == 0) {
        event.events = 0;
    }
    say_directions(&event);
}

static void edge_modified(void)
{
    struct pair pairs[1];
    int set = members_open(pairs, 1, EPOLLET);
    send_to(pairs, "0");
    say_next("%d", n_events(set));
    modify(set, pairs[0].server, EPOLLIN | EPOLLET, 0);
    say_next("%d", n_events(set));
    say_list_end();
}

/* A set that waits to read, and one that waits to write while the send buffer is full. */
static void say_reader_and_writer(void (*ends)(int client))
{
    struct pair pair = pair_open();
    int reads = set_open(), writes = set_open();
    (void)fill(pair.server);
    add(reads, pair.server, EPOLLIN, 0);
    add(writes, pair.server, EPOLLOUT, 0);
    ends(pair.client);
    say_next("%s", as_bool(n_events(reads) > 0));
    say_next("%s", as_bool(n_events(writes) > 0));
    say_list_end();
}

static void send_fin(int client)
{
    sure(shutdown(client, SHUT_WR), "shutdown");
    settle();
}

static void after_fin(void)
{
    say_reader_and_writer(send_fin);
}

static void after_reset(void)
{
    say_reader_and_writer(reset);
}

/* The sets that have a listener, and a set of these sets: they enter its list when notified. */
static void herd_open(int *listener, int *sets, int *outer, uint32_t how)
{
    *listener = listener_open(8);
    *outer = set_open();
    for (int i = 0; i < HERD; i++) {
        sets[i] = set_open();
        add(sets[i], *listener, EPOLLIN | how, 0);
        add(*outer, sets[i], EPOLLIN, i);
    }
}

static void herd_order(void)
{
    int listener, sets[HERD], outer;
    herd_open(&listener, sets, &outer, 0);
    (void)connect_to(listener);
    settle();
    say_wait(outer, MEMBERS);
    say_list_end();
}

static void exclusive_nobody_waits(void)
{
    int listener, sets[HERD], outer;
    herd_open(&listener, sets, &outer, EPOLLEXCLUSIVE);
    (void)close(outer);
    (void)connect_to(listener);
    settle();
    for (int i = 0; i < HERD; i++) {
        say_next("%d", n_events(sets[i]));
    }
    say_list_end();
}

static bool wait_on_own_set(int number, void *context)
{
    struct epoll_event event;
    const int *sets = context;
    return epoll_wait(sets[number], &event, 1, -1) == 1;
}

/* Threads wait, each on its own set; a connection comes: print which wake, in which order. */
static void say_herd(uint32_t how)
{
    int listener, sets[HERD], outer;
    herd_open(&listener, sets, &outer, how);
    (void)close(outer);
    struct waiters threads = {.n = HERD, .wait = wait_on_own_set, .context = sets};
    waiters_begin(&threads);
    (void)connect_to(listener);
    waiters_await(&threads, 1);
    rest_ms(WOKEN_MS); /* for the others, if they wake */
    say("%d", waiters_woken(&threads));
}

static void herd_wakes(void)
{
    say_herd(0);
}

static void exclusive_wakes(void)
{
    say_herd(EPOLLEXCLUSIVE);
}

/* ---- during a scan: the buffer of epoll_wait is a page that is not there yet ---- */

static struct {
    int set;
    struct epoll_event *events;
    int n;
} stopped;

static void *wait_into_missing_page(void *context)
{
    (void)context;
    stopped.n = epoll_wait(stopped.set, stopped.events, MEMBERS, 0);
    return NULL;
}

static int faults_open(void *page)
{
    int faults = sure(syscall(SYS_userfaultfd, O_CLOEXEC), "userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register wanted = {
        .range = {.start = (uint64_t)(uintptr_t)page, .len = PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    sure(ioctl(faults, UFFDIO_API, &api), "UFFDIO_API");
    sure(ioctl(faults, UFFDIO_REGISTER, &wanted), "UFFDIO_REGISTER");
    return faults;
}

static void ready_during_scan(void)
{
    struct pair pairs[MEMBERS];
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        not_asked("mmap: %s", strerror(errno));
    }
    int faults = faults_open(page);
    stopped.set = members_open(pairs, MEMBERS, 0);
    stopped.events = page;
    send_to(pairs, "01");
    pthread_t thread;
    struct uffd_msg fault;
    if (pthread_create(&thread, NULL, wait_into_missing_page, NULL) != 0) {
        not_asked("pthread_create failed");
    }
    /* It stands in the middle of its scan now, with the lock of the set. */
    sure(read(faults, &fault, sizeof fault), "read of a userfaultfd");
    send_to(pairs, "32");
    struct uffdio_zeropage zero = {.range = {.start = (uint64_t)(uintptr_t)page, .len = PAGE}};
    sure(ioctl(faults, UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE");
    if (pthread_join(thread, NULL) != 0) {
        not_asked("pthread_join failed");
    }
    say_next("%d", stopped.n);
    say_wait(stopped.set, MEMBERS);
    say_list_end();
}

const struct rule epoll_rules[] = {
    {"epoll_level_order", level_order, 0, 0},
    {"epoll_level_drained", level_drained, 0, 0},
    {"epoll_full_batch", level_full_batch, 0, 0},
    {"epoll_ready_after_full_batch", level_after_full_batch, 0, 0},
    {"epoll_ready_during_scan", ready_during_scan, 0, 0},
    {"epoll_mod_listed", modify_listed, 0, 0},
    {"epoll_mod_to_ready", modify_to_ready, 0, 0},
    {"epoll_add_ready", add_ready, 0, 0},
    {"epoll_del_listed", delete_listed, 0, 0},
    {"epoll_close_listed", close_listed, 0, 0},
    {"epoll_close_of_two", close_of_two, 0, 0},
    {"epoll_oneshot", oneshot, 0, 0},
    {"epoll_oneshot_rearmed", oneshot_rearmed, 0, 0},
    {"epoll_oneshot_reset", oneshot_reset, 0, 0},
    {"epoll_edge_once", edge_once, 0, 0},
    {"epoll_edge_two_arrivals", edge_two_arrivals, 0, 0},
    {"epoll_edge_part_read", edge_part_read, 0, 0},
    {"epoll_edge_drained", edge_drained, 0, 0},
    {"epoll_edge_both", edge_both, 0, 0},
    {"epoll_edge_mod", edge_modified, 0, 0},
    {"epoll_after_fin", after_fin, 0, 0},
    {"epoll_after_reset", after_reset, 0, 0},
    {"epoll_herd_order", herd_order, 0, 0},
    {"epoll_herd_wakes", herd_wakes, 0, 0},
    {"epoll_exclusive_wakes", exclusive_wakes, 0, 0},
    {"epoll_exclusive_nobody_waits", exclusive_nobody_waits, 0, 0},
    {0},
};
