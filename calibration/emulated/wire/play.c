// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A play: the rows of a trace file as connections, in an open or a closed loop, and their records.
 *
 *     open    row k starts at begin + at_ns
 *     closed  all users start at begin, each again think_ns after its last connection ended
 *
 * Connections are numbered in the order of their start, so the oldest that is open is the first to
 * time out, and one cursor over them is all the book-keeping time-outs need.
 */
#include <linux/bottom_half.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/ktime.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "far_end.h"

/* As in ../../c/load/replay.c: a user whose connection was refused does not try again at once. */
#define RETRY_NS 1000000ull

/* Users of a former play may still be on the agenda. */
static u32 n_plays;

static struct {
	bool any;
	bool over; /* the records are final */
	bool closed;
	u64 begin_ns;
	u64 end_ns;
	u64 stop_ns;
	u64 timeout_ns;
	u64 next_ns; /* when the next start that is not a user's next is due */
	u32 n_first_starts; /* rows of an open loop, users of a closed one */
	u32 next_start;
	u32 n_rows;
	u32 first;
	u32 connections_max;
	u32 n_started;
	u32 n_open;
	u32 oldest; /* all before it have ended */
	struct wire_row *rows;
	struct wire_record *records;
} play;

/* ---- starts ---- */

static void find_next_start(void)
{
	u64 client_ns = play.begin_ns;

	play.next_ns = FOREVER;
	if (play.next_start == play.n_first_starts)
		return;
	if (!play.closed)
		client_ns += play.rows[play.next_start].at_ns;
	if (client_ns < play.end_ns)
		play.next_ns = client_ns + far_end.delay_ns;
}

u64 play_next_ns(void)
{
	return play.next_ns;
}

void play_take_start(struct due *due)
{
	*due = (struct due){ .at_ns = play.next_ns, .kind = DUE_START, .sequence = n_plays };
	play.next_start++;
	find_next_start();
}

struct sk_buff *play_start(const struct due *due)
{
	u64 client_ns = due->at_ns - far_end.delay_ns;
	u32 number = play.first + play.n_started;
	const struct wire_row *row;
	struct client *client;

	if (!play.any || due->sequence != n_plays ||
	    play.n_started == play.connections_max || client_ns >= play.end_ns)
		return NULL;
	row = &play.rows[play.n_started % play.n_rows];
	client = &far_end.clients[number];
	client->think_ns = row->think_ns;
	client->n_requests_left = row->n_requests;
	client->request_bytes = row->request_bytes;
	client->reply_bytes = row->reply_bytes;
	play.records[play.n_started++] = (struct wire_record){
		.intended_ns = client_ns - play.begin_ns,
		.started_ns = client_ns - play.begin_ns,
		.connected_ns = WIRE_NOT_REACHED,
		.done_ns = WIRE_NOT_REACHED,
		.status = WIRE_STATUS_OPEN,
	};
	far_end.counters.n_started++;
	play.n_open++;
	if (play.n_open > far_end.counters.n_open_max)
		far_end.counters.n_open_max = play.n_open;
	if (play.timeout_ns)
		agenda_announce(due->at_ns + play.timeout_ns);
	return client_connect(number, due->at_ns);
}

/* ---- what becomes of them ---- */

static struct wire_record *record_of(u32 number)
{
	return &play.records[number - play.first];
}

void play_connected(u32 number, u64 client_ns)
{
	record_of(number)->connected_ns = client_ns - play.begin_ns;
}

static void count(int status)
{
	struct wire_status *counters = &far_end.counters;

	counters->n_finished++;
	switch (status) {
	case WIRE_STATUS_REPLIED:
		counters->n_replied++;
		break;
	case WIRE_STATUS_TIMEOUT:
		counters->n_timeout++;
		break;
	case WIRE_STATUS_REFUSED:
		counters->n_refused++;
		break;
	default:
		counters->n_reset++;
	}
}

static void user_goes_on(u32 number, u64 client_ns, int status)
{
	u64 pause_ns = far_end.clients[number].think_ns;
	struct due due = { .kind = DUE_START, .sequence = n_plays };

	if (status == WIRE_STATUS_REFUSED)
		pause_ns = max(pause_ns, RETRY_NS);
	due.at_ns = client_ns + pause_ns + far_end.delay_ns;
	if (client_ns + pause_ns < play.end_ns)
		agenda_later(&due);
}

void play_ended(u32 number, u64 client_ns, int status)
{
	play.n_open--;
	if (play.over || status == WIRE_STATUS_OPEN)
		return;
	record_of(number)->status = status;
	if (status == WIRE_STATUS_REPLIED)
		record_of(number)->done_ns = client_ns - play.begin_ns;
	count(status);
	if (play.closed)
		user_goes_on(number, client_ns, status);
}

/* ---- time-outs ---- */

static u64 give_up_ns(u32 number)
{
	return play.begin_ns + record_of(number)->started_ns + play.timeout_ns;
}

bool play_is_overdue(u32 number, u64 client_ns)
{
	return play.timeout_ns && client_ns > give_up_ns(number);
}

u64 play_timeout_ns(void)
{
	if (!play.any || !play.timeout_ns)
		return FOREVER;
	while (play.oldest < play.n_started &&
	       far_end.clients[play.first + play.oldest].state == CLIENT_CLOSED)
		play.oldest++;
	if (play.oldest == play.n_started)
		return FOREVER;
	return give_up_ns(play.first + play.oldest) + far_end.delay_ns;
}

void play_take_timeout(struct due *due)
{
	*due = (struct due){
		.at_ns = play_timeout_ns(),
		.number = play.first + play.oldest,
		.kind = DUE_TIMEOUT,
	};
}

/* ---- its end ---- */

bool play_is_past(u64 now_ns)
{
	return now_ns >= play.stop_ns;
}

bool play_is_over(u64 now_ns)
{
	bool all_started = now_ns >= play.end_ns + far_end.delay_ns ||
			   play.n_started == play.connections_max ||
			   (!play.closed && play.next_ns == FOREVER);

	if (!play.any || play_is_past(now_ns) || (all_started && play.n_open == 0))
		play.over = true;
	return play.over;
}

ssize_t play_read(char __user *to, size_t n_bytes, loff_t *position)
{
	if (!play.any)
		return -ENODATA;
	if (!play_is_over(ktime_get_ns()))
		return -EBUSY;
	return simple_read_from_buffer(to, n_bytes, position, play.records,
				       play.n_started * sizeof(*play.records));
}

void play_forget(void)
{
	struct wire_row *rows = play.rows;
	struct wire_record *records = play.records;
	u32 i;

	local_bh_disable();
	for (i = 0; i < play.n_started && far_end.clients; i++)
		far_end.clients[play.first + i].state = CLIENT_CLOSED;
	memset(&play, 0, sizeof(play));
	play.next_ns = FOREVER;
	local_bh_enable();
	vfree(rows);
	vfree(records);
}

/* ---- its begin ---- */

static bool arguments_are_good(const struct wire_play *arguments, u64 now_ns)
{
	const struct wire_play *a = arguments;
	bool users_good = a->closed ? a->n_users >= 1 && a->n_users <= WIRE_USERS_MAX &&
					      a->n_users <= a->connections_max
				    : a->n_users == 0;

	return a->closed <= 1 && users_good && a->n_rows >= 1 && a->n_rows <= WIRE_ROWS_MAX &&
	       a->connections_max >= 1 && a->connections_max <= WIRE_CONNECTIONS_MAX &&
	       a->begin_ns > now_ns && a->begin_ns <= WIRE_NS_MAX && a->end_ns > a->begin_ns &&
	       a->end_ns <= WIRE_NS_MAX && a->drain_ns <= WIRE_NS_MAX &&
	       a->timeout_ns <= WIRE_NS_MAX;
}

static bool row_is_good(const struct wire_row *row)
{
	return row->at_ns <= WIRE_NS_MAX && row->n_requests >= 1 &&
	       row->n_requests <= WIRE_REQUESTS_MAX &&
	       row->request_bytes >= WIRE_REQUEST_BYTES_MIN &&
	       row->request_bytes <= WIRE_REQUEST_BYTES_MAX &&
	       row->reply_bytes >= WIRE_REPLY_BYTES_MIN &&
	       row->reply_bytes <= WIRE_REPLY_BYTES_MAX && row->think_ns <= WIRE_NS_MAX;
}

static bool rows_are_good(const struct wire_play *arguments, const struct wire_row *rows)
{
	u64 i;

	for (i = 0; i < arguments->n_rows; i++) {
		if (!row_is_good(&rows[i]))
			return false;
		if (!arguments->closed && i > 0 && rows[i].at_ns < rows[i - 1].at_ns)
			return false;
	}
	return true;
}

static int copy_rows(const struct wire_play *arguments, struct wire_row *rows)
{
	if (copy_from_user(rows, u64_to_user_ptr(arguments->rows),
			   arguments->n_rows * sizeof(*rows)))
		return -EFAULT;
	return rows_are_good(arguments, rows) ? 0 : -EINVAL;
}

/* With softirqs off. */
static void install(struct wire_play *arguments, struct wire_row *rows,
		    struct wire_record *records)
{
	struct wire_status *counters = &far_end.counters;

	counters->n_started = counters->n_finished = counters->n_replied = 0;
	counters->n_timeout = counters->n_refused = counters->n_reset = 0;
	counters->n_replies = counters->n_open_max = 0;
	play.closed = arguments->closed;
	play.begin_ns = arguments->begin_ns;
	play.end_ns = arguments->end_ns;
	play.stop_ns = arguments->end_ns + arguments->drain_ns;
	play.timeout_ns = arguments->timeout_ns;
	play.n_first_starts = arguments->closed ? arguments->n_users : arguments->n_rows;
	play.n_rows = arguments->n_rows;
	play.rows = rows;
	play.records = records;
	play.connections_max = arguments->connections_max;
	play.first = arguments->first = far_end.n_connections;
	far_end.n_connections += arguments->connections_max;
	play.any = true;
	n_plays++;
	find_next_start();
	interface_expect(play.next_ns);
}

int play_begin(struct wire_play *arguments)
{
	struct wire_record *records;
	struct wire_row *rows;
	int error;

	if (play.any && !play_is_over(ktime_get_ns()))
		return -EBUSY;
	if (!arguments_are_good(arguments, ktime_get_ns()))
		return -EINVAL;
	if (arguments->connections_max > far_end.connections_max - far_end.n_connections)
		return -ENOSPC;
	rows = vmalloc(array_size(arguments->n_rows, sizeof(*rows)));
	records = vzalloc(array_size(arguments->connections_max, sizeof(*records)));
	error = rows && records ? copy_rows(arguments, rows) : -ENOMEM;
	if (!error && arguments->begin_ns <= ktime_get_ns())
		error = -EINVAL; /* it has passed while the rows were copied */
	if (error) {
		vfree(rows);
		vfree(records);
		return error;
	}
	play_forget();
	local_bh_disable();
	install(arguments, rows, records);
	local_bh_enable();
	return 0;
}
