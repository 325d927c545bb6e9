#include "call_tree.h"

#include <inttypes.h>
#include <stdlib.h>

static uint32_t new_node(struct tree *tree, uint32_t parent, uint32_t function)
{
	if (tree->n_nodes == tree->room) {
		tree->room = tree->room == 0 ? 1u << 12 : tree->room * 2;
		tree->nodes = realloc(tree->nodes, tree->room * sizeof(*tree->nodes));
		if (tree->nodes == NULL)
			abort();
	}
	tree->nodes[tree->n_nodes] = (struct node){ .function = function, .parent = parent };
	return tree->n_nodes++;
}

void tree_init(struct tree *tree)
{
	*tree = (struct tree){ 0 };
	for (uint32_t root = 0; root < N_ROOTS; root++) {
		new_node(tree, root, root);
		tree->nodes[root].root = root;
	}
}

uint32_t tree_child(struct tree *tree, uint32_t parent, uint32_t function)
{
	uint32_t *link = &tree->nodes[parent].first_child;

	for (uint32_t child = *link; child != 0; child = *link) {
		struct node *node = &tree->nodes[child];

		if (node->function == function) {
			/* To the front: a path is taken again soon, and some nodes have hundreds. */
			*link = node->next_sibling;
			node->next_sibling = tree->nodes[parent].first_child;
			tree->nodes[parent].first_child = child;
			return child;
		}
		link = &node->next_sibling;
	}
	uint32_t child = new_node(tree, parent, function);
	tree->nodes[child].root = tree->nodes[parent].root;
	tree->nodes[child].next_sibling = tree->nodes[parent].first_child;
	tree->nodes[parent].first_child = child;
	return child;
}

uint32_t tree_graft(struct tree *tree, uint32_t node, uint32_t new_root)
{
	if (node < N_ROOTS)
		return new_root;
	uint32_t parent = tree_graft(tree, tree->nodes[node].parent, new_root);
	return tree_child(tree, parent, tree->nodes[node].function);
}

void tree_write(const struct tree *tree, FILE *file)
{
	for (uint32_t i = 0; i < tree->n_nodes; i++) {
		const struct node *node = &tree->nodes[i];

		fprintf(file, "node %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", node->parent,
			node->function, node->n_instructions, node->n_entries);
	}
}
