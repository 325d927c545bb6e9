#include "machine.h"

#include "../../c/servers/program.h"
#include "../wire/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ENTROPY_WORDS = 64,
    PATH_BYTES_MAX = 512,
};

static void mount_all(void)
{
    static const struct {
        const char *type;
        const char *folder;
    } mounts[] = {
        {"proc", "/proc"},
        {"sysfs", "/sys"},
        {"devtmpfs", "/dev"},
        {"tmpfs", "/tmp"},
    };
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        if (mkdir(mounts[i].folder, 0755) != 0 && errno != EEXIST) {
            fail("mkdir %s: %s", mounts[i].folder, strerror(errno));
        }
        if (mount(mounts[i].type, mounts[i].folder, mounts[i].type, 0, NULL) != 0) {
            fail("mount %s: %s", mounts[i].folder, strerror(errno));
        }
    }
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return; /* a small kernel lacks some of the limits */
    }
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0) {
        fail("cannot write \"%s\" to %s: %s", text, path, strerror(errno));
    }
}

/* The same as in ../../testbed.py, so that only the point's own options bind. */
static void set_limits(void)
{
    write_text("/proc/sys/net/ipv4/tcp_syncookies", "0");
    write_text("/proc/sys/net/core/somaxconn", "65535");
    write_text("/proc/sys/net/ipv4/tcp_max_syn_backlog", "65535");
    write_text("/proc/sys/net/ipv4/ip_local_port_range", "28232 65535");
}

/* Without this the pool is never full on a machine that repeats itself exactly, and each number
 * drawn for a connection costs tens of thousands of instructions of a starved generator. */
static void add_entropy(void)
{
    /* struct rand_pool_info: the bits of entropy, the bytes that follow, these. */
    uint32_t entropy[2 + ENTROPY_WORDS] = {32 * ENTROPY_WORDS, 4 * ENTROPY_WORDS};
    for (uint32_t i = 0; i < ENTROPY_WORDS; i++) {
        entropy[2 + i] = 2654435761u * (i + 1);
    }
    int fd = open("/dev/random", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, entropy) != 0 || close(fd) != 0) {
        fail("cannot seed the random numbers: %s", strerror(errno));
    }
}

static int is_module(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".ko") == 0;
}

/* In the order of their names, which the host therefore numbers. */
static void load_modules(void)
{
    struct dirent **entries = NULL;
    int n_entries = scandir("/modules", &entries, is_module, alphasort);
    for (int i = 0; i < n_entries; i++) {
        char path[PATH_BYTES_MAX];
        (void)snprintf(path, sizeof path, "/modules/%s", entries[i]->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0 || close(fd) != 0) {
            fail("cannot load the module %s: %s", entries[i]->d_name, strerror(errno));
        }
        free(entries[i]);
    }
    free(entries);
}

static struct sockaddr address_of(uint32_t address)
{
    struct sockaddr_in internet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    struct sockaddr any;
    memcpy(&any, &internet, sizeof any);
    return any;
}

static void set_up_netdev(int fd, const char *name, uint32_t address, uint32_t mask)
{
    struct ifreq request = {0};
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &request) != 0) {
        return; /* no such device: a job that needs the wire reports it */
    }
    short flags = request.ifr_flags;
    request.ifr_addr = address_of(address);
    if (ioctl(fd, SIOCSIFADDR, &request) != 0) {
        fail("cannot set the address of %s: %s", name, strerror(errno));
    }
    request.ifr_netmask = address_of(mask);
    if (ioctl(fd, SIOCSIFNETMASK, &request) != 0) {
        fail("cannot set the mask of %s: %s", name, strerror(errno));
    }
    request.ifr_flags = (short)(flags | IFF_UP);
    if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) {
        fail("cannot bring %s up: %s", name, strerror(errno));
    }
}

static void set_up_network(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail("socket: %s", strerror(errno));
    }
    set_up_netdev(fd, "lo", INADDR_LOOPBACK, 0xff000000u);
    /* The clients are on the link: no route is needed. */
    set_up_netdev(fd, WIRE_INTERFACE, WIRE_SERVER_ADDRESS, WIRE_NETMASK);
    (void)close(fd);
}

void machine_set_up(void)
{
    mount_all();
    add_entropy();
    set_limits();
    load_modules();
    set_up_network();
}
