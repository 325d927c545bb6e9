/* Reads frames as far_end does and prints them, for tests that have the expected values.
 *
 *   standard input: for each frame its captured length (two bytes, little-endian), and its bytes
 *   standard output: a line each: `none`, or addresses, ports, numbers and lengths
 */
#include "../servers/program.h"
#include "segment.h"

#include <stdio.h>
#include <stdlib.h>

static void print_segment(const struct segment *segment)
{
    unsigned sum = 0; /* touches each byte of the captured length */
    for (size_t i = 0; i < segment->n_captured; i++) {
        sum += segment->data[i];
    }
    printf("%u %u %u %u %u %u %u %u %d %u %u %d %u %u %zu %u\n", segment->from_ip, segment->to_ip,
           segment->from_port, segment->to_port, segment->seq, segment->ack, segment->flags,
           segment->window, segment->has_stamps, segment->stamp, segment->stamp_echo,
           segment->has_scale, segment->scale, segment->n_data, segment->n_captured, sum);
}

int main(void)
{
    uint8_t length[2];
    while (fread(length, 1, sizeof length, stdin) == sizeof length) {
        size_t n_bytes = (size_t)length[0] | (size_t)length[1] << 8;
        /* In a buffer of exactly its length, so that a sanitizer sees a read beyond its end. */
        uint8_t *frame = malloc(n_bytes > 0 ? n_bytes : 1);
        if (frame == NULL || fread(frame, 1, n_bytes, stdin) != n_bytes) {
            fail("a frame of %zu bytes is not whole", n_bytes);
        }
        struct segment segment;
        if (segment_read(frame, n_bytes, &segment)) {
            print_segment(&segment);
        } else {
            printf("none\n");
        }
        free(frame);
    }
    return EXIT_SUCCESS;
}
