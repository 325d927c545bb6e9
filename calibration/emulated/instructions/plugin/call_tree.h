/* A calling context tree: how many instructions were executed in a function on each call path to it.
 *
 *     root ── function ── function ── ...     a node is a path; a path has one node
 *
 * Roots are what a path of the kernel can begin with. Functions are numbers: below
 * `n_symbols` lines of the symbol table, from FUNCTION_DISCOVERED on the functions found by being
 * called, in the order of discovery (modules have no line in the table), and the pseudo-functions.
 */
#ifndef CALL_TREE_H
#define CALL_TREE_H

#include <stdint.h>
#include <stdio.h>

#define FUNCTION_DISCOVERED 0x40000000u
#define FUNCTION_RESUMED 0x7ffffffeu /* what follows ran after its task got the CPU back */
#define FUNCTION_NONE 0x7fffffffu

enum root {
	ROOT_BOOT, /* before the first path is known */
	ROOT_USER,
	ROOT_CALL, /* its children are the system calls, below them the path from the entry */
	ROOT_CALL_UNNAMED, /* a system call of which only the entry was executed so far */
	ROOT_INTERRUPT, /* arrives in user or kernel mode */
	ROOT_INTERRUPT_IDLE, /* taken by the idle task */
	ROOT_IDLE_DOWN, /* the idle task on its way to the halt */
	ROOT_IDLE_UP, /* from the halt to the next task */
	ROOT_IDLE_AGAIN, /* from the halt to the next halt: nobody had become runnable */
	ROOT_IDLE_UNNAMED, /* after a halt, one of the two */
	ROOT_THREAD, /* a thread of the kernel */
	ROOT_OBSERVER, /* the process that marks the window: its instructions, its system calls */
	N_ROOTS
};

struct node {
	uint32_t function; /* of a root: its own number */
	uint32_t parent;
	uint32_t first_child; /* 0: none, as node 0 is a root */
	uint32_t next_sibling;
	uint32_t root;
	uint64_t n_instructions;
	uint64_t n_entries; /* calls of the function and jumps into it */
};

struct tree {
	struct node *nodes;
	uint32_t n_nodes;
	uint32_t room;
};

/* Both end the process when there is no memory: half a profile is of no use. */
void tree_init(struct tree *tree);
uint32_t tree_child(struct tree *tree, uint32_t parent, uint32_t function);

/* The node of the path of `node`, with `new_root` in place of its root. `new_root` is any node. */
uint32_t tree_graft(struct tree *tree, uint32_t node, uint32_t new_root);

/* Lines `node PARENT FUNCTION INSTRUCTIONS ENTRIES`, in the order of their numbers. */
void tree_write(const struct tree *tree, FILE *file);

#endif
