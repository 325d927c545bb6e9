#include "symbol_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "call_tree.h"

#define KIND_GAP '.' /* what follows belongs to no function */

int symbol_table_read(struct symbol_table *table, const char *path)
{
	FILE *file = fopen(path, "r");
	uint64_t address;
	char kind;
	size_t room = 0;
	int n_read;

	*table = (struct symbol_table){ 0 };
	if (file == NULL)
		return -1;
	while ((n_read = fscanf(file, "%" SCNx64 " %c\n", &address, &kind)) == 2) {
		if (table->n_symbols == room) {
			room = room == 0 ? 1u << 14 : room * 2;
			table->symbols = realloc(table->symbols, room * sizeof(*table->symbols));
			if (table->symbols == NULL)
				abort();
		}
		uint32_t function = (uint32_t)table->n_symbols;
		if (kind == KIND_GAP)
			function = FUNCTION_NONE;
		table->symbols[table->n_symbols++] = (struct symbol){ address, function, kind };
	}
	fclose(file);
	if (n_read == EOF && table->n_symbols > 0)
		return 0;
	errno = EINVAL;
	return -1;
}

const struct symbol *symbol_table_find(const struct symbol_table *table, uint64_t address)
{
	size_t low = 0;
	size_t high = table->n_symbols;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? NULL : &table->symbols[low - 1];
}
