// SPDX-License-Identifier: GPL-2.0 OR MIT
/* wire0: packets due reach the server's stack from here, what it transmits ends here.
 *
 *     timer fires ─► NAPI: take all that is due, and becomes due meanwhile ─► timer of the next due
 *
 * No offload but checksums: one packet is one segment, as the clients' acknowledgements assume.
 */
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/netdevice.h>

#include "interface.h"

/* The timer is to be left alone: a poll is under way or will come, and sets it when it is done. */
#define POLL_COMES 0

static struct net_device *device;

struct wire_interface {
	struct napi_struct napi;
	struct hrtimer timer;
	u64 armed_ns; /* when the timer fires, FOREVER or POLL_COMES */
};

static struct wire_interface *interface(void)
{
	return netdev_priv(device);
}

void interface_expect(u64 at_ns)
{
	struct wire_interface *wire = interface();

	if (at_ns >= wire->armed_ns)
		return;
	wire->armed_ns = at_ns;
	hrtimer_start(&wire->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS_PINNED);
}

static enum hrtimer_restart timer_fires(struct hrtimer *timer)
{
	struct wire_interface *wire = container_of(timer, struct wire_interface, timer);

	far_end.counters.n_interrupts++;
	wire->armed_ns = POLL_COMES;
	napi_schedule(&wire->napi);
	return HRTIMER_NORESTART;
}

static int poll(struct napi_struct *napi, int budget)
{
	struct wire_interface *wire = container_of(napi, struct wire_interface, napi);
	int n_packets = 0;
	struct due due;

	far_end.counters.n_polls++;
	while (n_packets < budget && agenda_take(&due)) {
		struct sk_buff *skb = client_act(&due);

		if (!skb)
			continue;
		n_packets++;
		far_end.counters.n_packets_to_server++;
		netif_receive_skb(skb);
	}
	if (n_packets == budget)
		return budget;
	/* Only then may the timer's next firing schedule another poll. */
	if (napi_complete_done(napi, n_packets)) {
		wire->armed_ns = FOREVER;
		interface_expect(agenda_next_ns());
	}
	return n_packets;
}

struct sk_buff *interface_packet(unsigned int bytes)
{
	struct sk_buff *skb = napi_alloc_skb(&interface()->napi, bytes);

	if (unlikely(!skb)) {
		far_end.counters.n_lost++;
		return NULL;
	}
	skb->protocol = htons(ETH_P_IP);
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_reset_mac_header(skb);
	skb_reset_network_header(skb);
	return skb;
}

static netdev_tx_t transmit(struct sk_buff *skb, struct net_device *from)
{
	struct segment segment;
	u32 number;

	if (segment_parse(skb, &number, &segment)) {
		far_end.counters.n_packets_from_server++;
		client_receive(number, &segment, ktime_get_ns());
	}
	/* At once: the server's buffer is free when the packet has left, as with a fast network. */
	consume_skb(skb);
	return NETDEV_TX_OK;
}

static int interface_up(struct net_device *opened)
{
	struct wire_interface *wire = interface();

	napi_enable(&wire->napi);
	wire->armed_ns = FOREVER;
	interface_expect(agenda_next_ns());
	netif_start_queue(opened);
	return 0;
}

static int interface_down(struct net_device *stopped)
{
	struct wire_interface *wire = interface();

	netif_stop_queue(stopped);
	wire->armed_ns = POLL_COMES;
	hrtimer_cancel(&wire->timer);
	napi_disable(&wire->napi);
	return 0;
}

static const struct net_device_ops operations = {
	.ndo_open = interface_up,
	.ndo_stop = interface_down,
	.ndo_start_xmit = transmit,
};

static void set_up(struct net_device *fresh)
{
	fresh->netdev_ops = &operations;
	fresh->type = ARPHRD_NONE;
	fresh->mtu = 1500;
	/* Point to point: one neighbour entry stands for all clients. */
	fresh->flags = IFF_NOARP | IFF_POINTOPOINT;
	fresh->priv_flags |= IFF_NO_QUEUE;
	fresh->features = NETIF_F_HW_CSUM | NETIF_F_SG | NETIF_F_LLTX;
	fresh->needs_free_netdev = false;
	netif_set_tso_max_segs(fresh, 1);
}

bool interface_is_up(void)
{
	return netif_running(device);
}

int interface_open(void)
{
	struct wire_interface *wire;
	int error;

	device = alloc_netdev(sizeof(*wire), WIRE_INTERFACE, NET_NAME_PREDICTABLE, set_up);
	if (!device)
		return -ENOMEM;
	wire = interface();
	wire->armed_ns = POLL_COMES;
	hrtimer_init(&wire->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
	wire->timer.function = timer_fires;
	netif_napi_add(device, &wire->napi, poll);
	error = register_netdev(device);
	if (error)
		free_netdev(device);
	return error;
}

void interface_close(void)
{
	unregister_netdev(device);
	free_netdev(device);
}
