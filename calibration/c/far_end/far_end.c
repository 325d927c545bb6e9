/* A load generator without sockets: it replays a trace as `load` does, by packets of its own. */
#include "../load/options.h"
#include "far.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

enum { IDLE_MAX = 1000000 };

static void parse_mac(const char *name, const char *text, uint8_t mac[MAC_BYTES])
{
    char rest = '\0';
    bool has_length = text != NULL && strlen(text) == 3 * MAC_BYTES - 1;
    if (!has_length || sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%c", mac, mac + 1, mac + 2,
                              mac + 3, mac + 4, mac + 5, &rest) != MAC_BYTES) {
        refuse("--%s must be an Ethernet address like 02:00:00:00:00:01, got \"%s\"", name,
               text == NULL ? "" : text);
    }
}

/* The addresses of the clients: a range of a network that nobody else answers for. */
static void parse_sources(struct far_options *far, const char *text, const char *server)
{
    struct in_addr first;
    if (text == NULL || inet_pton(AF_INET, text, &first) != 1) {
        refuse("--source must be a dotted IPv4 address, got \"%s\"", text == NULL ? "" : text);
    }
    far->first_ip = ntohl(first.s_addr);
    uint32_t server_ip = ntohl(parse_address(server, 0).sin_addr.s_addr);
    if (server_ip - far->first_ip < (uint64_t)far->n_sources) {
        refuse("--source must be the first of %lld addresses without the server's, got \"%s\"",
               (long long)far->n_sources, text);
    }
}

int main(int argc, char **argv)
{
    struct load_options options;
    struct option_spec specs[LOAD_OPTIONS_MAX];
    size_t n_common = load_options(&options, specs);
    struct far_options far = {.n_sources = 16};
    const char *mac = NULL;
    const char *server_mac = NULL;
    const char *source = NULL;
    const struct option_spec own[] = {
        {"interface", OPTION_TEXT, &far.interface, 0, 0, "over which it sends and receives"},
        {"mac", OPTION_TEXT, &mac, 0, 0, "the clients' Ethernet address, no kernel's"},
        {"server-mac", OPTION_TEXT, &server_mac, 0, 0, "the server's Ethernet address"},
        {"source", OPTION_TEXT, &source, 0, 0, "first address of the clients, no kernel's"},
        {"sources", OPTION_INTEGER, &far.n_sources, 1, SOURCES_MAX,
         "how many addresses they have (16)"},
        {"idle", OPTION_INTEGER, &far.n_idle, 0, IDLE_MAX,
         "connections opened before the run and held through it (0)"},
    };
    memcpy(specs + n_common, own, sizeof own);
    load_options_parse(&options, "replays a trace by packets of its own, spinning", specs,
                       n_common + sizeof own / sizeof *own, argc, argv);
    if (far.interface == NULL) {
        refuse("--interface must be given");
    }
    parse_mac("mac", mac, far.route.from_mac);
    parse_mac("server-mac", server_mac, far.route.to_mac);
    parse_sources(&far, source, options.address);
    options.has_idle = far.n_idle > 0;
    return load_run(&options, &far);
}
