/* Which path the kernel is on: a machine fed with what a CPU executes.
 *
 *     block of instructions, call, return, halt, return from interrupt ──► node of the call tree
 *
 * Calls and returns are paired by the stack slot of the return address, one shadow stack for each
 * region of a stack's size. So it does not matter that tasks are switched in the middle of a call,
 * that a function ends with a jump to another one, or that some assembly returns from elsewhere. A
 * kernel entry from user mode empties its stack, with any entries left by mistake: errors do not
 * outlive a system call.
 *
 * An interrupt has a path of its own. It suspends the path that it interrupts until the iret.
 *
 * Assumed: one CPU, no kernel preemption (a task is switched only by __switch_to_asm, never
 * inside an interrupt of kernel mode), no page-table isolation, no shadow call stacks.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "call_tree.h"
#include "shadow_stack.h"

enum kind { /* of a function, where the machine must know it */
	KIND_PLAIN = '-',
	KIND_CALL_ENTRY = 'E', /* entry_SYSCALL_64 */
	KIND_CALL = 'S', /* __x64_sys_... */
	KIND_CALL_UNDECIDED = 'U', /* a system call that is several operations ... */
	KIND_OPERATION = 'D', /* ... of which it is this one if it gets here */
	KIND_INTERRUPT = 'I', /* the first instruction of an interrupt or exception */
	KIND_VECTORS = 'V', /* a row of entries: each of them is such a first instruction */
	KIND_INTERRUPT_SAVE = 'F', /* error_entry: returns from below the slot it was called with */
	KIND_KERNEL_RETURN = 'R', /* from here an iret leads back into the kernel */
	KIND_SWITCH = 'W', /* __switch_to_asm */
	KIND_IDLE_LOOP = 'L', /* do_idle */
	KIND_IDLE_END = 'N', /* schedule_idle: there is somebody to run */
};

struct block {
	uint64_t address;
	uint32_t function; /* FUNCTION_NONE: not in the table */
	char kind; /* not KIND_PLAIN only where the block begins with the function */
	bool user;
};

#define INTERRUPTS_MAX 16

struct entry_log { /* what waits for the name of its root */
	struct { uint32_t node; uint64_t n_instructions, n_entries; } *items;
	size_t n_items, room;
};

struct context {
	struct tree tree;
	const uint64_t *executed; /* instructions so far */
	uint64_t settled; /* of these, those already charged to a node */
	uint32_t charged; /* the node that executes now */
	bool active; /* counting */
	bool entering; /* from user mode, no stack of a task seen yet */
	bool returning; /* KIND_KERNEL_RETURN was executed */
	bool left_interrupt; /* the iret was executed */
	struct stack *current; /* NULL: user mode, or entering */
	struct stack *task; /* the kernel stack of the process in user mode */
	struct stack *observer; /* that of the process that began the counting */
	uint32_t entry_entry; /* as base_entry, while there is no stack */
	uint32_t entry_node;
	struct { struct stack *stack; uint32_t n_frames; } interrupts[INTERRUPTS_MAX];
	uint32_t n_interrupts;
	uint64_t *discovered; /* addresses of FUNCTION_DISCOVERED + index */
	uint32_t n_discovered, discovered_room;
	struct entry_log calls, idles;
	uint32_t undecided; /* the system call in `calls`, if it has named itself: a node */
	struct stacks stacks;
};

/* `idle_stack`: an address in the idle task's stack. `executed` is read whenever a path changes. */
void context_init(struct context *context, const uint64_t *executed, uint64_t idle_stack);
void context_block(struct context *context, const struct block *block);
void context_call(struct context *context, uint64_t slot);
void context_return(struct context *context, uint64_t slot);
void context_halt(struct context *context);
void context_kernel_return(struct context *context); /* KIND_KERNEL_RETURN was reached */
void context_iret(struct context *context);

/* Count from here on. The process that is in user mode now is the observer. */
void context_begin(struct context *context);
void context_end(struct context *context);

/* The tree, the discovered functions (`function NUMBER ADDRESS`) and `done`. */
void context_write(struct context *context, FILE *file);

#endif
