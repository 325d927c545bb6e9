/* A QEMU TCG plugin: the instructions of each call path of the guest's kernel, in a window.
 *
 *     qemu-system-x86_64 ... -plugin libprofiler.so,symbols=FILE,output=FILE,idle_stack=ADDRESS
 *
 * The window is all between two no-operations that the guest's first process executes (guest/marker.h).
 * An instruction is counted where it is executed, not where its block is translated: blocks are
 * left early, and a block's length would be charged each time.
 *
 * Source: QEMU 7.2, docs/devel/tcg-plugins.rst.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../guest/marker.h"
#include "context.h"
#include "qemu_api.h"
#include "symbol_table.h"

#define EXPORTED __attribute__((visibility("default")))
#define KERNEL_HALF (UINT64_C(1) << 63)
#define N_BUCKETS (1u << 16)

EXPORTED int qemu_plugin_version = QEMU_PLUGIN_VERSION;
EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				 char **argv);

static uint64_t executed; /* instructions; on the one CPU that there is */
static struct context context;
static struct symbol_table symbols;
static FILE *output;

/* Blocks by address, kept: QEMU translates a block many times and wants the same data for each. */
static struct known_block {
	struct block block;
	struct known_block *next;
} *known_blocks[N_BUCKETS];

static struct block *block_at(uint64_t address)
{
	struct known_block **head = &known_blocks[(address ^ (address >> 16)) % N_BUCKETS];

	for (struct known_block *known = *head; known != NULL; known = known->next)
		if (known->block.address == address)
			return &known->block;
	struct known_block *known = calloc(1, sizeof(*known));
	if (known == NULL)
		abort();
	const struct symbol *symbol = symbol_table_find(&symbols, address);
	known->block.address = address;
	known->block.user = (address & KERNEL_HALF) == 0;
	known->block.function = symbol == NULL ? FUNCTION_NONE : symbol->function;
	known->block.kind = KIND_PLAIN;
	if (symbol != NULL && (symbol->address == address || symbol->kind == KIND_VECTORS))
		known->block.kind = symbol->kind;
	known->next = *head;
	*head = known;
	return &known->block;
}

static void on_block(unsigned int cpu, void *block)
{
	(void)cpu;
	context_block(&context, block);
}

/* QEMU 7.2 leaves the memory callbacks of a block's last instruction in force for what helper
 * functions access later, an iret for example. So an access counts only if its call or return
 * was executed just before. */
static struct access {
	uint64_t begun; /* counted by the instruction itself */
	uint64_t seen;
} calls, returns;

static bool is_due(struct access *access)
{
	bool due = access->begun != access->seen;

	access->seen = access->begun;
	return due;
}

static void on_call(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t slot, void *unused)
{
	(void)cpu, (void)unused;
	if ((info >> MEMINFO_RW_SHIFT & QEMU_PLUGIN_MEM_W) != 0 && is_due(&calls))
		context_call(&context, slot);
}

static void on_return(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t slot, void *unused)
{
	(void)cpu, (void)info, (void)unused;
	if (is_due(&returns))
		context_return(&context, slot);
}

/* Both directions are asked for: QEMU 7.2 never reports a read to who wants reads only. */
static void watch_access(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
			 struct access *access)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &access->begun,
						   1);
	qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_R | QEMU_PLUGIN_MEM_W, NULL);
}

static void on_halt(unsigned int cpu, void *unused)
{
	(void)cpu, (void)unused;
	context_halt(&context);
}

static void on_kernel_return(unsigned int cpu, void *unused)
{
	(void)cpu, (void)unused;
	context_kernel_return(&context);
}

static void on_iret(unsigned int cpu, void *unused)
{
	(void)cpu, (void)unused;
	context_iret(&context);
}

static void on_begin(unsigned int cpu, void *unused)
{
	(void)cpu, (void)unused;
	context_begin(&context);
}

static void on_end(unsigned int cpu, void *unused)
{
	(void)cpu, (void)unused;
	context_end(&context);
}

/* Length of the prefixes that do not change what a call, a return or a halt is. */
static size_t prefixes(const uint8_t *code, size_t n_bytes)
{
	size_t n = 0;

	while (n + 1 < n_bytes && (code[n] == 0xf3 || code[n] == 0xf2 || code[n] == 0x2e ||
				   code[n] == 0x3e || (code[n] & 0xf0) == 0x40))
		n++;
	return n;
}

static void watch_user(struct qemu_plugin_insn *insn, const uint8_t *code, size_t n_bytes)
{
	if (n_bytes != MARKER_BYTES)
		return;
	if (memcmp(code, MARKER_BEGIN, MARKER_BYTES) == 0)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
	else if (memcmp(code, MARKER_END, MARKER_BYTES) == 0)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static void watch_kernel(struct qemu_plugin_insn *insn, const uint8_t *code, size_t n_bytes)
{
	size_t n = prefixes(code, n_bytes);
	bool is_group_5 = code[n] == 0xff && n + 1 < n_bytes;
	const struct symbol *symbol = symbol_table_find(&symbols, qemu_plugin_insn_vaddr(insn));

	if (code[n] == 0xe8 || (is_group_5 && (code[n + 1] >> 3 & 7) == 2))
		watch_access(insn, on_call, &calls);
	else if (code[n] == 0xc3 || code[n] == 0xc2)
		watch_access(insn, on_return, &returns);
	else if (code[n] == 0xcf)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_iret, QEMU_PLUGIN_CB_NO_REGS, NULL);
	else if (code[n] == 0xf4)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_halt, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (symbol != NULL && symbol->kind == KIND_KERNEL_RETURN &&
	    symbol->address == qemu_plugin_insn_vaddr(insn))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_kernel_return,
						       QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n_insns = qemu_plugin_tb_n_insns(tb);
	struct block *block = block_at(qemu_plugin_tb_vaddr(tb));

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	for (size_t i = 0; i < n_insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);

		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
							   &executed, 1);
		if (block->user)
			watch_user(insn, code, qemu_plugin_insn_size(insn));
		else
			watch_kernel(insn, code, qemu_plugin_insn_size(insn));
	}
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused)
{
	(void)id, (void)unused;
	context_write(&context, output);
	fclose(output);
}

static const char *option(int argc, char **argv, const char *name)
{
	size_t length = strlen(name);

	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
			return argv[i] + length + 1;
	return NULL;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *symbols_path = option(argc, argv, "symbols");
	const char *output_path = option(argc, argv, "output");
	const char *idle_stack = option(argc, argv, "idle_stack");

	(void)info;
	if (symbols_path == NULL || output_path == NULL || idle_stack == NULL) {
		fputs("profiler: symbols=, output= and idle_stack= are needed\n", stderr);
		return -1;
	}
	if (symbol_table_read(&symbols, symbols_path) < 0) {
		fprintf(stderr, "profiler: %s: %s\n", symbols_path, strerror(errno));
		return -1;
	}
	output = fopen(output_path, "w");
	if (output == NULL) {
		fprintf(stderr, "profiler: %s: %s\n", output_path, strerror(errno));
		return -1;
	}
	context_init(&context, &executed, strtoull(idle_stack, NULL, 16));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
