// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What is due at the server, and when.
 *
 *     quick   answers   a queue: two delays after the server transmitted
 *             later     a heap: pauses, retries
 *             starts    the next row of a play; the next order of a burst
 *     slow    waiting   a queue of time-outs for each kind, usually void when due
 *             time-outs of a play
 *
 * A packet at load costs a check of three heads. The slow sources are behind one bound: nothing of
 * theirs is due before it, so they are checked only when it is reached or about to set the timer
 * (the timer must not fire for a void entry: that would be an interrupt no network makes).
 */
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/ktime.h>
#include <linux/vmalloc.h>

#include "far_end.h"

#define QUEUE_LENGTH_MIN 32768u

struct queue {
	struct due *ring;
	u32 mask;
	u32 first; /* these two run freely, masked at use */
	u32 end;
};

struct agenda {
	struct queue answers;
	struct queue patience[N_PATIENCES];
	struct due *heap;
	u32 n_heap;
	u32 heap_max;
	u32 order;
	u64 slow_ns; /* nothing slow is due before this */
};

static struct agenda *agenda;

/* ---- queues ---- */

static bool queue_open(struct queue *queue, u32 connections_max)
{
	u32 length = roundup_pow_of_two(max(connections_max, QUEUE_LENGTH_MIN));

	queue->mask = length - 1;
	queue->ring = vzalloc(array_size(length, sizeof(*queue->ring)));
	return queue->ring;
}

static void queue_add(struct queue *queue, const struct due *due)
{
	struct due *place = &queue->ring[queue->end & queue->mask];

	if (unlikely(queue->end - queue->first > queue->mask)) {
		far_end.counters.n_lost++;
		return;
	}
	*place = *due;
	queue->end++;
}

static u64 queue_next_ns(const struct queue *queue)
{
	if (queue->first == queue->end)
		return FOREVER;
	return queue->ring[queue->first & queue->mask].at_ns;
}

static void queue_take(struct queue *queue, struct due *due)
{
	*due = queue->ring[queue->first++ & queue->mask];
}

static void queue_drop_void(struct queue *queue)
{
	while (queue->first != queue->end &&
	       client_patience_is_void(&queue->ring[queue->first & queue->mask]))
		queue->first++;
}

/* ---- the heap ---- */

static bool precedes(const struct due *one, const struct due *other)
{
	if (one->at_ns != other->at_ns)
		return one->at_ns < other->at_ns;
	return (s32)(one->order - other->order) < 0;
}

static void heap_take(struct due *due)
{
	struct due *heap = agenda->heap;
	struct due last = heap[--agenda->n_heap];
	u32 n = agenda->n_heap;
	u32 hole = 0;
	u32 child;

	*due = heap[0];
	while ((child = 2 * hole + 1) < n) {
		if (child + 1 < n && precedes(&heap[child + 1], &heap[child]))
			child++;
		if (!precedes(&heap[child], &last))
			break;
		heap[hole] = heap[child];
		hole = child;
	}
	heap[hole] = last;
}

void agenda_later(const struct due *due)
{
	struct due *heap = agenda->heap;
	struct due added = *due;
	u32 hole = agenda->n_heap;

	if (unlikely(hole == agenda->heap_max)) {
		far_end.counters.n_lost++;
		return;
	}
	agenda->n_heap++;
	added.order = agenda->order++;
	while (hole > 0 && precedes(&added, &heap[(hole - 1) / 2])) {
		heap[hole] = heap[(hole - 1) / 2];
		hole = (hole - 1) / 2;
	}
	heap[hole] = added;
	interface_expect(added.at_ns);
}

/* ---- the agenda ---- */

void agenda_answer(const struct due *due)
{
	queue_add(&agenda->answers, due);
	interface_expect(due->at_ns);
}

void agenda_patience(enum patience patience, const struct due *due)
{
	queue_add(&agenda->patience[patience], due);
	agenda_announce(due->at_ns);
}

void agenda_announce(u64 at_ns)
{
	if (at_ns < agenda->slow_ns)
		agenda->slow_ns = at_ns;
	interface_expect(at_ns);
}

static u64 quick_next_ns(void)
{
	u64 next_ns = queue_next_ns(&agenda->answers);

	if (agenda->n_heap > 0 && agenda->heap[0].at_ns < next_ns)
		next_ns = agenda->heap[0].at_ns;
	return min3(next_ns, play_next_ns(), far_end.order_ns);
}

static void slow_look(void)
{
	u64 next_ns = play_timeout_ns();
	int i;

	for (i = 0; i < N_PATIENCES; i++) {
		queue_drop_void(&agenda->patience[i]);
		next_ns = min(next_ns, queue_next_ns(&agenda->patience[i]));
	}
	agenda->slow_ns = next_ns;
}

u64 agenda_next_ns(void)
{
	u64 quick_ns;

	if (!agenda)
		return FOREVER;
	quick_ns = quick_next_ns();
	if (agenda->slow_ns < quick_ns)
		slow_look();
	return min(quick_ns, agenda->slow_ns);
}

static void slow_take(struct due *due)
{
	u64 next_ns = agenda->slow_ns;
	int i;

	/* It is due next, and nothing else may be due so early: look again before the next. */
	for (i = 0; i < N_PATIENCES; i++) {
		if (queue_next_ns(&agenda->patience[i]) == next_ns) {
			queue_take(&agenda->patience[i], due);
			return;
		}
	}
	play_take_timeout(due);
}

bool agenda_take(struct due *due)
{
	/* The clock is read only to find out that nothing is due, or for the first packet. */
	static u64 now_ns;
	u64 next_ns = agenda_next_ns();

	if (next_ns > now_ns) {
		now_ns = ktime_get_ns();
		if (next_ns > now_ns)
			return false;
	}
	if (queue_next_ns(&agenda->answers) == next_ns)
		queue_take(&agenda->answers, due);
	else if (agenda->n_heap > 0 && agenda->heap[0].at_ns == next_ns)
		heap_take(due);
	else if (play_next_ns() == next_ns)
		play_take_start(due);
	else if (far_end.order_ns == next_ns)
		bursts_take(due);
	else
		slow_take(due);
	return true;
}

/* ---- life ---- */

void agenda_free(struct agenda *old)
{
	int i;

	if (!old)
		return;
	vfree(old->answers.ring);
	for (i = 0; i < N_PATIENCES; i++)
		vfree(old->patience[i].ring);
	vfree(old->heap);
	kfree(old);
}

struct agenda *agenda_new(u32 connections_max)
{
	struct agenda *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	bool opened;
	int i;

	if (!fresh)
		return NULL;
	fresh->slow_ns = FOREVER;
	/* Of each connection a pause and a retry, void or not, and what its user does next. */
	fresh->heap_max = 3 * connections_max + 1;
	fresh->heap = vzalloc(array_size(fresh->heap_max, sizeof(*fresh->heap)));
	opened = fresh->heap && queue_open(&fresh->answers, connections_max);
	for (i = 0; i < N_PATIENCES; i++)
		opened = opened && queue_open(&fresh->patience[i], connections_max);
	if (opened)
		return fresh;
	agenda_free(fresh);
	return NULL;
}

struct agenda *agenda_exchange(struct agenda *fresh)
{
	struct agenda *old = agenda;

	agenda = fresh;
	return old;
}
