/* A load generator without sockets: it replays a trace as `load` does, with its own packets. */
#include "../load/options.h"
#include "far_options.h"
#include "peers.h"

#include "../servers/program.h"

#include <arpa/inet.h>
#include <string.h>

enum { IDLE_MAX = 1000000 };

int main(int argc, char **argv)
{
    struct load_options options;
    struct option_spec specs[LOAD_OPTIONS_MAX];
    size_t n_common = load_options(&options, specs);
    struct far_options far = {.n_sources = 16};
    struct far_texts texts = {0};
    const struct option_spec own[] = {
        {"interface", OPTION_TEXT, &texts.interface, 0, 0, "interface to the server"},
        {"mac", OPTION_TEXT, &texts.mac, 0, 0, "the clients' Ethernet address, unused by a kernel"},
        {"server-mac", OPTION_TEXT, &texts.server_mac, 0, 0, "the server's Ethernet address"},
        {"source", OPTION_TEXT, &texts.source, 0, 0,
         "first address of the clients, unused by a kernel"},
        {"sources", OPTION_INTEGER, &far.n_sources, 1, SOURCES_MAX,
         "number of their addresses (16)"},
        {"idle", OPTION_INTEGER, &far.n_idle, 0, IDLE_MAX,
         "connections opened before the run and held through it (0)"},
    };
    memcpy(specs + n_common, own, sizeof own);
    load_options_parse(&options, "replays a trace with its own packets, spinning", specs,
                       n_common + sizeof own / sizeof *own, argc, argv);
    struct in_addr server = parse_address(options.address, 0).sin_addr;
    far_options_read(&far, &texts, ntohl(server.s_addr));
    options.has_idle = far.n_idle > 0;
    return load_run(&options, &far);
}
