#include "far_options.h"

#include "../servers/program.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

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

/* The addresses of the clients: a range of a network in which no other machine replies. */
static void parse_sources(struct far_options *far, const char *text, uint32_t server_ip)
{
    struct in_addr first;
    if (text == NULL || inet_pton(AF_INET, text, &first) != 1) {
        refuse("--source must be a dotted IPv4 address, got \"%s\"", text == NULL ? "" : text);
    }
    far->first_ip = ntohl(first.s_addr);
    if (server_ip - far->first_ip < (uint64_t)far->n_sources) {
        refuse("--source must be the first of %lld addresses without the server's, got \"%s\"",
               (long long)far->n_sources, text);
    }
}

void far_options_read(struct far_options *far, const struct far_texts *texts, uint32_t server_ip)
{
    if (texts->interface == NULL) {
        refuse("--interface must be given");
    }
    far->interface = texts->interface;
    parse_mac("mac", texts->mac, far->route.from_mac);
    parse_mac("server-mac", texts->server_mac, far->route.to_mac);
    parse_sources(far, texts->source, server_ip);
}
