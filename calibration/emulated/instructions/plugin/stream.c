/* Feed the machine of context.h from standard input, one event a line, and print what it makes of
 * it: for tests of the machine without a guest.
 *
 *     block FUNCTION KIND MODE N   a block of kernel (k) or user (u) code of which N instructions
 *                                  are executed; FUNCTION -1: not in the table, KIND as in enum
 *                                  kind; its address is FUNCTION, or N if that is -1
 *     call SLOT | return SLOT      hexadecimal
 *     halt | to_kernel | iret | begin | end
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

#define LINE_BYTES_MAX 200
#define FUNCTIONS_MAX 1000
#define IDLE_STACK UINT64_C(0xffffffff81a00000)

static uint64_t executed;
static struct context context;

/* The machine keeps no block beyond the call, and reads nothing but its fields. */
static int read_block(const char *line)
{
	int function;
	char kind;
	char mode;
	uint64_t n_instructions;

	if (sscanf(line, "block %d %c %c %" SCNu64, &function, &kind, &mode, &n_instructions) != 4 ||
	    function < -1 || function >= FUNCTIONS_MAX)
		return -1;
	struct block block = {
		.address = function < 0 ? n_instructions : (uint64_t)function,
		.function = function < 0 ? FUNCTION_NONE : (uint32_t)function,
		.kind = kind,
		.user = mode == 'u',
	};
	context_block(&context, &block);
	executed += n_instructions;
	return 0;
}

static int read_event(const char *line)
{
	uint64_t slot;

	if (strncmp(line, "block ", 6) == 0)
		return read_block(line);
	if (sscanf(line, "call %" SCNx64, &slot) == 1)
		context_call(&context, slot);
	else if (sscanf(line, "return %" SCNx64, &slot) == 1)
		context_return(&context, slot);
	else if (strcmp(line, "halt\n") == 0)
		context_halt(&context);
	else if (strcmp(line, "to_kernel\n") == 0)
		context_kernel_return(&context);
	else if (strcmp(line, "iret\n") == 0)
		context_iret(&context);
	else if (strcmp(line, "begin\n") == 0)
		context_begin(&context);
	else if (strcmp(line, "end\n") == 0)
		context_end(&context);
	else
		return -1;
	return 0;
}

int main(void)
{
	char line[LINE_BYTES_MAX];

	context_init(&context, &executed, IDLE_STACK);
	while (fgets(line, sizeof(line), stdin) != NULL)
		if (read_event(line) < 0) {
			fprintf(stderr, "stream: not an event: %s", line);
			return EXIT_FAILURE;
		}
	context_write(&context, stdout);
	return EXIT_SUCCESS;
}
