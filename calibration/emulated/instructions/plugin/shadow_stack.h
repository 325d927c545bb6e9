/* The stacks of a kernel as far as calls show them: where return addresses are, and whose they are.
 */
#ifndef SHADOW_STACK_H
#define SHADOW_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "call_tree.h"

#define STACK_SHIFT 14 /* THREAD_SIZE and IRQ_STACK_SIZE are 16 KiB, aligned */
#define FRAMES_MAX 400

struct frame {
	uint64_t slot; /* where its return address is */
	uint32_t parent; /* node that called it */
	uint32_t entry; /* node of the function called; 0: not yet begun */
	uint32_t node; /* node now: further, if the function jumped to another */
	bool is_switch; /* KIND_SWITCH */
	bool is_save; /* KIND_INTERRUPT_SAVE */
};

struct stack {
	uint64_t region; /* address >> STACK_SHIFT */
	struct stack *below; /* where to go on when this one is empty: the interrupted task's */
	struct stack *next;
	uint32_t base_entry; /* as in a frame, of what runs on it with no frame */
	uint32_t base_node;
	bool idle; /* the idle task's */
	uint32_t n_frames;
	struct frame frames[FRAMES_MAX];
};

#define STACK_BUCKETS 1024u

struct stacks {
	struct stack *buckets[STACK_BUCKETS]; /* by region */
	uint64_t idle_region;
};

/* The stack that `slot` is on, a new one if nothing is known of it. */
struct stack *stack_of(struct stacks *stacks, uint64_t slot);

struct frame *stack_top(struct stack *stack); /* of one with frames */
void stack_push(struct stack *stack, struct frame frame);

/* The node that executes on it now: of its top frame, or of what runs there without one. */
uint32_t stack_node(struct stack *stack);

/* Put `new_root` in place of the root of all that is on it. */
void stack_graft(struct stack *stack, struct tree *tree, uint32_t new_root);

#endif
