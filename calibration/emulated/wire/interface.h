/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What only the maker of packets needs of the interface. */
#ifndef INTERFACE_H
#define INTERFACE_H

#include "far_end.h"

/* An empty packet with room for that many bytes; NULL is counted as lost. Only while polling. */
struct sk_buff *interface_packet(unsigned int bytes);

#endif
