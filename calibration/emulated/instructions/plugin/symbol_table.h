/* The functions of the kernel and of the server program, by address.
 *
 * A file of lines `ADDRESS KIND` in ascending order (hexadecimal; a kind of context.h). The number
 * of a function is that of its line; its name stays with who wrote the file.
 */
#ifndef SYMBOL_TABLE_H
#define SYMBOL_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct symbol {
	uint64_t address;
	uint32_t function; /* FUNCTION_NONE: no function from here on */
	char kind;
};

struct symbol_table {
	struct symbol *symbols;
	size_t n_symbols;
};

/* 0, or -1 with errno set (EINVAL: not such a file). */
int symbol_table_read(struct symbol_table *table, const char *path);

/* The symbol at or next below `address`; NULL: none. */
const struct symbol *symbol_table_find(const struct symbol_table *table, uint64_t address);

#endif
