// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /dev/wire: orders from user space, see wire.h. */
#include <linux/bottom_half.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/tick.h>
#include <linux/ktime.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "far_end.h"

/* Addresses 10.214.0.1 to 10.214.255.255. */
#define N_ENDPOINTS (65535ull * 64512ull)

struct far_end far_end;

static DEFINE_MUTEX(one_order_at_a_time);

static int configure(const struct wire_configure *arguments)
{
	u64 first_endpoint = far_end.first_endpoint + far_end.n_connections;
	struct client *clients;
	struct agenda *agenda;
	struct client *old_clients = far_end.clients;

	if (arguments->delay_ns > WIRE_DELAY_NS_MAX || arguments->port < 1 ||
	    arguments->port > U16_MAX || arguments->connections_max < 1 ||
	    arguments->connections_max > WIRE_CONNECTIONS_MAX || arguments->quick_acks > U16_MAX)
		return -EINVAL;
	if (first_endpoint + arguments->connections_max > N_ENDPOINTS)
		return -ENOSPC;
	clients = vzalloc(array_size(arguments->connections_max, sizeof(*clients)));
	agenda = agenda_new(arguments->connections_max);
	if (!clients || !agenda) {
		vfree(clients);
		agenda_free(agenda);
		return -ENOMEM;
	}
	play_forget();
	local_bh_disable();
	bursts_forget();
	agenda = agenda_exchange(agenda);
	far_end = (struct far_end){
		.configured = true,
		.delay_ns = arguments->delay_ns,
		.order_ns = FOREVER,
		.n_quick_acks = arguments->quick_acks,
		.port = arguments->port,
		.connections_max = arguments->connections_max,
		.first_endpoint = first_endpoint,
		.clients = clients,
	};
	segments_begin();
	local_bh_enable();
	agenda_free(agenda);
	vfree(old_clients);
	return 0;
}

static void take_status(struct wire_status *status)
{
	*status = far_end.counters;
	status->now_ns = ktime_get_ns();
	/* Who sleeps in io_uring_enter has the CPU's idleness called a wait for I/O. */
	status->idle_ns = (get_cpu_idle_time_us(0, NULL) + get_cpu_iowait_time_us(0, NULL)) *
			  NSEC_PER_USEC;
	status->playing = !play_is_over(status->now_ns);
}

union arguments {
	struct wire_configure configure;
	struct wire_play play;
	struct wire_status status;
	struct wire_connect connect;
	struct wire_send send;
	struct wire_reset reset;
};

static int carry_out(unsigned int order, union arguments *arguments)
{
	if (order == WIRE_CONFIGURE)
		return configure(&arguments->configure);
	if (!far_end.configured)
		return -ENXIO;
	if (order == WIRE_STATUS) {
		take_status(&arguments->status);
		return 0;
	}
	if (!interface_is_up())
		return -ENETDOWN;
	switch (order) {
	case WIRE_PLAY:
		return play_begin(&arguments->play);
	case WIRE_CONNECT:
		return burst_connect(&arguments->connect);
	case WIRE_SEND:
		return burst_send(&arguments->send);
	case WIRE_RESET:
		return burst_reset(&arguments->reset);
	default:
		return -ENOTTY;
	}
}

static bool order_is_known(unsigned int order)
{
	return order == WIRE_CONFIGURE || order == WIRE_PLAY || order == WIRE_STATUS ||
	       order == WIRE_CONNECT || order == WIRE_SEND || order == WIRE_RESET;
}

static long take_order(struct file *file, unsigned int order, unsigned long address)
{
	void __user *user = (void __user *)address;
	union arguments arguments;
	int error;

	if (!order_is_known(order))
		return -ENOTTY;
	if ((_IOC_DIR(order) & _IOC_WRITE) && copy_from_user(&arguments, user, _IOC_SIZE(order)))
		return -EFAULT;
	mutex_lock(&one_order_at_a_time);
	error = carry_out(order, &arguments);
	mutex_unlock(&one_order_at_a_time);
	if (!error && (_IOC_DIR(order) & _IOC_READ) &&
	    copy_to_user(user, &arguments, _IOC_SIZE(order)))
		return -EFAULT;
	return error;
}

static ssize_t read_records(struct file *file, char __user *to, size_t n_bytes, loff_t *position)
{
	ssize_t result;

	mutex_lock(&one_order_at_a_time);
	result = play_read(to, n_bytes, position);
	mutex_unlock(&one_order_at_a_time);
	return result;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.read = read_records,
	.llseek = default_llseek,
	.unlocked_ioctl = take_order,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "wire",
	.fops = &operations,
};

static int __init begin(void)
{
	int error;

	play_forget();
	error = interface_open();
	if (error)
		return error;
	error = misc_register(&device);
	if (error)
		interface_close();
	return error;
}

static void __exit finish(void)
{
	misc_deregister(&device);
	interface_close();
	play_forget();
	agenda_free(agenda_exchange(NULL));
	vfree(far_end.clients);
}

module_init(begin);
module_exit(finish);
MODULE_DESCRIPTION("A network with a scripted population of TCP clients");
MODULE_LICENSE("Dual MIT/GPL");
