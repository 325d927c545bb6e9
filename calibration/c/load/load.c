/* The load generator: it replays a trace over sockets of the kernel. */
#include "options.h"

#include <string.h>

enum {
    KEYS_MAX = 100000000,
    NAME_BYTES_MAX = 1000, /* of a path or a host */
};

/* A name is copied into a line of the request. */
static void check_name(const char *option, const char *name, size_t n_max)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            refuse("%s must be printable characters without blanks", option);
        }
    }
    if (n == 0 || n > n_max) {
        refuse("%s must be 1 to %zu characters, got %zu", option, n_max, n);
    }
}

int main(int argc, char **argv)
{
    struct load_options options;
    struct option_spec specs[LOAD_OPTIONS_MAX];
    size_t n_common = load_options(&options, specs);
    struct protocol_options *asked = &options.protocol_options;
    const struct option_spec protocols[] = {
        {"protocol", OPTION_TEXT, &options.protocol, 0, 0,
         "micro, http/1.0, http/1.1, memcached or resp (micro)"},
        {"path", OPTION_TEXT, &asked->path, 0, 0, "path of http requests (/)"},
        {"host", OPTION_TEXT, &asked->host, 0, 0, "host of http requests (localhost)"},
        {"key-prefix", OPTION_TEXT, &asked->key_prefix, 0, 0,
         "prefix of the keys of memcached and resp (key:)"},
        {"keys", OPTION_INTEGER, &asked->n_keys, 1, KEYS_MAX,
         "number of keys: PREFIX0, PREFIX1, ... (1)"},
    };
    memcpy(specs + n_common, protocols, sizeof protocols);
    load_options_parse(&options, "replays a trace against a server, spinning", specs,
                       n_common + sizeof protocols / sizeof *protocols, argc, argv);
    check_name("--path", asked->path, NAME_BYTES_MAX);
    check_name("--host", asked->host, NAME_BYTES_MAX);
    check_name("--key-prefix", asked->key_prefix, KEY_PREFIX_BYTES_MAX);
    return load_run(&options, NULL);
}
