#include "context.h"

#include <inttypes.h>
#include <stdlib.h>

#define ENTRY_AREA_SHIFT 40 /* the stacks on which interrupts of user mode begin: 0xfffffe... */
#define ENTRY_AREA (UINT64_C(0xfffffe0000000000) >> ENTRY_AREA_SHIFT)
#define SAVED_REGISTERS_BYTES 128

static void *grow(void *items, size_t *room, size_t n_items, size_t item_bytes)
{
	if (n_items < *room)
		return items;
	*room = *room == 0 ? 64 : *room * 2;
	items = realloc(items, *room * item_bytes);
	if (items == NULL)
		abort();
	return items;
}

/* Charging. */

static void charge(struct context *context, uint32_t node, uint64_t n_instructions,
		   uint64_t n_entries)
{
	struct node *target = &context->tree.nodes[node];
	struct entry_log *log = NULL;

	if (!context->active || (n_instructions == 0 && n_entries == 0))
		return;
	if (target->root == ROOT_CALL_UNNAMED)
		log = &context->calls;
	else if (target->root == ROOT_IDLE_UNNAMED)
		log = &context->idles;
	if (log == NULL) {
		target->n_instructions += n_instructions;
		target->n_entries += n_entries;
		return;
	}
	log->items = grow(log->items, &log->room, log->n_items, sizeof(*log->items));
	log->items[log->n_items].node = node;
	log->items[log->n_items].n_instructions = n_instructions;
	log->items[log->n_items++].n_entries = n_entries;
}

static void settle(struct context *context)
{
	uint64_t executed = *context->executed;

	charge(context, context->charged, executed - context->settled, 0);
	context->settled = executed;
}

static void name_root(struct context *context, struct entry_log *log, uint32_t root)
{
	for (size_t i = 0; i < log->n_items; i++) {
		uint32_t node = tree_graft(&context->tree, log->items[i].node, root);

		context->tree.nodes[node].n_instructions += log->items[i].n_instructions;
		context->tree.nodes[node].n_entries += log->items[i].n_entries;
	}
	log->n_items = 0;
}

static uint32_t node_now(struct context *context)
{
	return context->current == NULL ? context->entry_node : stack_node(context->current);
}

/* Where a block of `function` is when `node`, reached from `entry`, executed before it in the same
 * frame: the same, one of those that jumped to it, or a new one if it jumped on. */
static uint32_t follow_jump(struct context *context, uint32_t entry, uint32_t node,
			    uint32_t function)
{
	const struct node *nodes = context->tree.nodes;

	if (nodes[node].function == function && node >= N_ROOTS)
		return node;
	for (uint32_t above = node; above != entry && above >= N_ROOTS;) {
		above = nodes[above].parent;
		if (above >= N_ROOTS && nodes[above].function == function)
			return above;
	}
	uint32_t child = tree_child(&context->tree, node, function);
	charge(context, child, 0, 1);
	return child;
}

/* What blocks mean. */

/* A system call is over that did none of the operations known, or never got to its function. */
static void decide(struct context *context)
{
	name_root(context, &context->calls,
		  context->undecided != 0 ? context->undecided : (uint32_t)ROOT_CALL);
	context->undecided = 0;
}

static void enter(struct context *context, enum root root, uint32_t function)
{
	decide(context);
	context->current = NULL;
	context->entering = true;
	context->n_interrupts = 0;
	context->entry_entry = tree_child(&context->tree, root, function);
	context->entry_node = context->entry_entry;
	context->charged = context->entry_node;
	charge(context, context->charged, 0, 1);
}

static void interrupt(struct context *context, uint32_t function)
{
	struct stack *stack = context->current;

	if (stack == NULL) {
		enter(context, ROOT_INTERRUPT, function);
		return;
	}
	if (context->n_interrupts == INTERRUPTS_MAX)
		abort();
	context->interrupts[context->n_interrupts].stack = stack;
	context->interrupts[context->n_interrupts++].n_frames = stack->n_frames;

	uint32_t root = context->tree.nodes[node_now(context)].root;
	if (root != ROOT_INTERRUPT_IDLE)
		root = stack->idle ? ROOT_INTERRUPT_IDLE : ROOT_INTERRUPT;
	/* Just below the interrupted function's slot: above all that the interrupt returns from. */
	uint64_t above = stack->n_frames > 0 ? stack_top(stack)->slot
					     : (stack->region + 1) << STACK_SHIFT;
	uint32_t node = tree_child(&context->tree, root, function);
	stack_push(stack, (struct frame){ .slot = above - 1, .parent = root, .entry = node, .node = node });
	context->charged = node;
	charge(context, node, 0, 1);
}

static void leave_interrupt(struct context *context)
{
	context->left_interrupt = false;
	if (context->n_interrupts == 0)
		return;
	context->n_interrupts--;
	context->current = context->interrupts[context->n_interrupts].stack;
	context->current->n_frames = context->interrupts[context->n_interrupts].n_frames;
}

static uint32_t discovered(struct context *context, uint64_t address)
{
	for (uint32_t i = context->n_discovered; i-- > 0;)
		if (context->discovered[i] == address)
			return FUNCTION_DISCOVERED + i;
	size_t room = context->discovered_room;
	context->discovered = grow(context->discovered, &room, context->n_discovered,
				   sizeof(*context->discovered));
	context->discovered_room = (uint32_t)room;
	context->discovered[context->n_discovered] = address;
	return FUNCTION_DISCOVERED + context->n_discovered++;
}

static bool is_observer(const struct context *context, const struct stack *stack)
{
	return context->observer != NULL && stack == context->observer;
}

/* The node that stands for the system call or operation *function* of the current process. */
static uint32_t call_node(struct context *context, uint32_t function)
{
	enum root above = is_observer(context, context->current) ? ROOT_OBSERVER : ROOT_CALL;

	return tree_child(&context->tree, above, function);
}

static void name_call(struct context *context, uint32_t function)
{
	uint32_t call = call_node(context, function);

	context->undecided = 0;
	name_root(context, &context->calls, call);
	stack_graft(context->current, &context->tree, call);
}

/* What a path turns out to be when it reaches *block*, called or jumped to. */
static void name_path(struct context *context, const struct block *block)
{
	struct stack *stack = context->current;
	uint32_t root = context->tree.nodes[node_now(context)].root;

	if (root == ROOT_CALL_UNNAMED) {
		if (block->kind == KIND_CALL || block->kind == KIND_OPERATION)
			name_call(context, block->function);
		else if (block->kind == KIND_CALL_UNDECIDED)
			context->undecided = call_node(context, block->function);
	} else if (block->kind == KIND_IDLE_END && root == ROOT_IDLE_UNNAMED) {
		name_root(context, &context->idles, ROOT_IDLE_UP);
		stack_graft(stack, &context->tree, ROOT_IDLE_UP);
	}
}

/* The function that was called begins. */
static void begin(struct context *context, struct frame *frame, const struct block *block)
{
	uint32_t function = block->function;

	if (function == FUNCTION_NONE)
		function = discovered(context, block->address);
	if (block->kind == KIND_IDLE_LOOP)
		frame->parent = ROOT_IDLE_DOWN;
	frame->entry = tree_child(&context->tree, frame->parent, function);
	frame->node = frame->entry;
	frame->is_switch = block->kind == KIND_SWITCH;
	frame->is_save = block->kind == KIND_INTERRUPT_SAVE;
	charge(context, frame->node, 0, 1);
}

void context_block(struct context *context, const struct block *block)
{
	settle(context);
	if (context->left_interrupt)
		leave_interrupt(context);
	if (block->user) {
		decide(context);
		if (context->current != NULL)
			context->task = context->current;
		context->current = NULL;
		context->n_interrupts = 0;
		enum root root = is_observer(context, context->task) ? ROOT_OBSERVER : ROOT_USER;
		context->entry_entry = context->entry_node = root;
		context->charged = tree_child(&context->tree, root, block->function);
		return;
	}
	if (block->kind == KIND_CALL_ENTRY) {
		enter(context, ROOT_CALL_UNNAMED, block->function);
		return;
	}
	if (block->kind == KIND_INTERRUPT || block->kind == KIND_VECTORS) {
		interrupt(context, block->function);
		return;
	}
	struct stack *stack = context->current;
	uint32_t function = block->function;
	if (block->kind != KIND_PLAIN && stack != NULL)
		name_path(context, block);
	if (stack == NULL) {
		if (function != FUNCTION_NONE)
			context->entry_node = follow_jump(context, context->entry_entry,
							  context->entry_node, function);
	} else if (stack->n_frames == 0) {
		if (function != FUNCTION_NONE)
			stack->base_node = follow_jump(context, stack->base_entry, stack->base_node,
						       function);
	} else if (stack_top(stack)->node == 0) {
		begin(context, stack_top(stack), block);
	} else if (function != FUNCTION_NONE) {
		struct frame *frame = stack_top(stack);

		frame->node = follow_jump(context, frame->entry, frame->node, function);
	}
	context->charged = node_now(context);
}

/* What ends a block. */

/* Between __switch_to_asm and the return on the next task's stack, which is not the current one. */
static bool switching(struct context *context)
{
	struct stack *stack = context->current;

	return stack != NULL && stack->n_frames > 0 && stack_top(stack)->is_switch;
}

void context_call(struct context *context, uint64_t slot)
{
	struct stack *stack = stack_of(&context->stacks, slot);
	uint32_t caller = node_now(context);

	if (context->entering) {
		stack->n_frames = 0;
		stack->below = NULL;
		stack->base_entry = context->entry_entry;
		stack->base_node = context->entry_node;
		caller = context->entry_node;
		context->entering = slot >> ENTRY_AREA_SHIFT == ENTRY_AREA;
	} else {
		while (stack->n_frames > 0 && stack_top(stack)->slot <= slot)
			stack->n_frames--;
		if (stack != context->current && stack->n_frames == 0 && !switching(context)) {
			stack->below = context->current;
			stack->base_entry = stack->base_node = caller;
		}
	}
	stack_push(stack, (struct frame){ .slot = slot, .parent = caller });
	context->current = stack;
}

static void resume(struct context *context, struct stack *stack)
{
	if (stack->idle) {
		stack_graft(stack, &context->tree, ROOT_IDLE_DOWN);
		return;
	}
	if (stack->n_frames == 0) { /* a new task, and the switch was a dead one's in the same memory */
		stack->below = NULL;
		stack->base_entry = stack->base_node = ROOT_THREAD;
		context->current = stack;
		return;
	}
	struct frame *frame = stack_top(stack);
	if (frame->node == 0)
		return;
	uint32_t function = context->tree.nodes[frame->node].function;
	uint32_t resumed = tree_child(&context->tree, frame->parent, FUNCTION_RESUMED);
	frame->entry = frame->node = tree_child(&context->tree, resumed, function);
}

void context_return(struct context *context, uint64_t slot)
{
	struct stack *stack = stack_of(&context->stacks, slot);
	bool switched = false;
	bool popped = false;

	while (stack->n_frames > 0 && stack_top(stack)->slot <= slot) {
		switched |= stack_top(stack)->is_switch;
		popped = true;
		stack->n_frames--;
	}
	if (!popped && stack->n_frames > 0 && stack_top(stack)->slot - slot <= SAVED_REGISTERS_BYTES &&
	    stack == context->current && stack_top(stack)->is_save)
		stack->n_frames--;
	context->current = stack->n_frames == 0 && stack->below != NULL ? stack->below : stack;
	if (switched)
		resume(context, stack);
}

void context_halt(struct context *context)
{
	struct stack *stack = context->current;

	settle(context);
	if (stack == NULL || !stack->idle)
		return;
	name_root(context, &context->idles, ROOT_IDLE_AGAIN);
	stack_graft(stack, &context->tree, ROOT_IDLE_UNNAMED);
}

void context_kernel_return(struct context *context)
{
	context->returning = true;
}

void context_iret(struct context *context)
{
	context->left_interrupt = context->returning;
	context->returning = false;
}

void context_begin(struct context *context)
{
	settle(context);
	context->observer = context->task;
	context->active = true;
}

void context_end(struct context *context)
{
	settle(context);
	context->active = false;
}

void context_init(struct context *context, const uint64_t *executed, uint64_t idle_stack)
{
	*context = (struct context){ .executed = executed };
	tree_init(&context->tree);
	context->stacks.idle_region = idle_stack >> STACK_SHIFT;
	context->entry_entry = context->entry_node = context->charged = ROOT_BOOT;
}

void context_write(struct context *context, FILE *file)
{
	settle(context);
	decide(context);
	name_root(context, &context->idles, ROOT_IDLE_AGAIN);
	tree_write(&context->tree, file);
	for (uint32_t i = 0; i < context->n_discovered; i++)
		fprintf(file, "function %u %" PRIx64 "\n", FUNCTION_DISCOVERED + i,
			context->discovered[i]);
	fputs("done\n", file);
}
