#include "shadow_stack.h"

#include <stdlib.h>

struct stack *stack_of(struct stacks *stacks, uint64_t slot)
{
	uint64_t region = slot >> STACK_SHIFT;
	struct stack **head = &stacks->buckets[region % STACK_BUCKETS];

	for (struct stack *stack = *head; stack != NULL; stack = stack->next)
		if (stack->region == region)
			return stack;
	struct stack *stack = calloc(1, sizeof(*stack));
	if (stack == NULL)
		abort();
	stack->region = region;
	stack->idle = region == stacks->idle_region;
	/* A stack that first shows up by a return from it is a new task's. */
	stack->base_entry = stack->base_node = ROOT_THREAD;
	stack->next = *head;
	*head = stack;
	return stack;
}

struct frame *stack_top(struct stack *stack)
{
	return &stack->frames[stack->n_frames - 1];
}

void stack_push(struct stack *stack, struct frame frame)
{
	if (stack->n_frames == FRAMES_MAX)
		abort(); /* more than 16 KiB can hold: the pairing is broken */
	stack->frames[stack->n_frames++] = frame;
}

uint32_t stack_node(struct stack *stack)
{
	if (stack->n_frames == 0)
		return stack->base_node;
	struct frame *top = stack_top(stack);
	return top->node != 0 ? top->node : top->parent;
}

void stack_graft(struct stack *stack, struct tree *tree, uint32_t new_root)
{
	stack->base_entry = tree_graft(tree, stack->base_entry, new_root);
	stack->base_node = tree_graft(tree, stack->base_node, new_root);
	for (uint32_t i = 0; i < stack->n_frames; i++) {
		struct frame *frame = &stack->frames[i];

		frame->parent = tree_graft(tree, frame->parent, new_root);
		if (frame->node == 0)
			continue;
		frame->entry = tree_graft(tree, frame->entry, new_root);
		frame->node = tree_graft(tree, frame->node, new_root);
	}
}
