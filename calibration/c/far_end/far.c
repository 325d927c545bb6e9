/* All connections of a client machine: which are open, what has arrived, what is due. */
#include "far.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t read_setting(const char *name, int64_t otherwise)
{
    char path[128];
    char text[32] = "";
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return otherwise; /* a kernel from before it was there */
    }
    char *end = text;
    int64_t value = fgets(text, sizeof text, file) != NULL ? strtoll(text, &end, 10) : 0;
    (void)fclose(file); /* it was only read */
    return end != text && *end == '\n' ? value : otherwise;
}

void far_open(struct far *far, const struct sockaddr_in *server, int64_t n_slots)
{
    far->server_ip = ntohl(server->sin_addr.s_addr);
    far->server_port = ntohs(server->sin_port);
    far->syn_linear = read_setting("tcp_syn_linear_timeouts", 0);
    far->syn_retries = read_setting("tcp_syn_retries", 6);
    peers_prepare(&far->peers, n_slots, far->options->n_sources);
    wheel_prepare(&far->wheel, n_slots, to_ms(far_now_ns()));
    wire_open(&far->wire, far->options->interface, far->server_ip, far->server_port);
}

int32_t far_connect(struct far *far, int64_t *stamped)
{
    int32_t slot = peers_take(&far->peers);
    if (slot != NO_SLOT) {
        tcp_connect(far, slot, stamped);
    }
    return slot;
}

bool far_take_frame(struct far *far)
{
    size_t n_captured = 0;
    struct segment segment;
    const uint8_t *frame = wire_next(&far->wire, &n_captured);
    if (frame == NULL) {
        return false;
    }
    if (segment_read(frame, n_captured, &segment)) {
        tcp_receive(far, &segment);
    }
    wire_done(&far->wire);
    return true;
}

bool far_take_timer(struct far *far, int64_t now_ms)
{
    int32_t slot = wheel_take(&far->wheel, now_ms);
    if (slot == WHEEL_NONE) {
        return false;
    }
    tcp_timer(far, slot);
    return true;
}

void far_abort_all(struct far *far)
{
    for (int64_t slot = 0; slot < far->peers.n_slots; slot++) {
        if (far->peers.slots[slot].state != PEER_FREE) {
            tcp_abort(far, (int32_t)slot);
        }
    }
    far_flush(far);
}

void far_close(struct far *far)
{
    wire_close(&far->wire);
    peers_free(&far->peers);
    free(far->wheel.entries);
}
