/* A stack for each worker, and the switch between them: the registers that a function must keep,
 * and the stack pointer.
 *
 * All stacks lie in one mapping, which takes memory only where it is touched. Below each lies a page
 * that faults, up to GUARDED_MAX workers: each such page costs two mappings, of which a process may
 * have 65,530 (vm.max_map_count). Beyond that the bound of translate.py alone keeps stacks apart.
 */
enum { GUARDED_MAX = 1000 };
enum status { OVER, NEEDS_PYTHON, NEEDS_ROOM, RETURNS_TO_PYTHON, FAILED };

struct engine {
    struct R_World *world;
    void *python_stack;
    void **stacks; /* of each worker that does not run; the last is that of the beginning */
    int64_t n_workers, current;
    int64_t warm_up_ns;
    char *memory;
    size_t page_bytes; /* of the kernel: 4096, but up to 65,536 on aarch64 */
    size_t bytes_each;
    enum status status;
    int64_t turns;
    struct failure failure;
};

typedef void entry_point(struct engine *engine, int64_t number);

#if defined __x86_64__ && !defined PORTABLE_STACKS
void switch_stack(void **save, void *load) __attribute__((visibility("hidden")));
void begin_stack(void) __attribute__((visibility("hidden")));
/* Jumping to the return address instead of returning keeps the processor's prediction in step. */
__asm__(".text\n.p2align 4\n"
        ".globl switch_stack\n.hidden switch_stack\n.type switch_stack,@function\nswitch_stack:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\npop %rcx\njmp *%rcx\n"
        ".size switch_stack,.-switch_stack\n"
        ".globl begin_stack\n.hidden begin_stack\n.type begin_stack,@function\nbegin_stack:\n"
        "mov %r12,%rdi\nmov %r13,%rsi\ncall *%rbx\nud2\n.size begin_stack,.-begin_stack\n"
        ".section .note.GNU-stack,\"\",@progbits\n.text\n");
enum { R15, R14, R13, R12, RBX, RBP, RETURN, N_SAVED };

static void *new_stack(char *top, entry_point *entry, struct engine *engine, int64_t number)
{
    void **stack = (void **)(void *)top - N_SAVED - 2; /* begin_stack calls: 16 bytes apart */
    stack[R12] = engine;
    stack[R13] = (void *)(intptr_t)number;
    stack[RBX] = (void *)(intptr_t)entry;
    stack[RETURN] = (void *)(intptr_t)begin_stack;
    return stack;
}
#elif defined __aarch64__ && !defined PORTABLE_STACKS
void switch_stack(void **save, void *load) __attribute__((visibility("hidden")));
void begin_stack(void) __attribute__((visibility("hidden")));
__asm__(".text\n.p2align 4\n"
        ".globl switch_stack\n.hidden switch_stack\n.type switch_stack,%function\nswitch_stack:\n"
        "stp x19,x20,[sp,#-160]!\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\n"
        "stp x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "ldp x19,x20,[sp],#160\nret\n.size switch_stack,.-switch_stack\n"
        ".globl begin_stack\n.hidden begin_stack\n.type begin_stack,%function\nbegin_stack:\n"
        "mov x0,x19\nmov x1,x20\nblr x21\nbrk #0\n.size begin_stack,.-begin_stack\n"
        ".section .note.GNU-stack,\"\",%progbits\n.text\n");
enum { X19, X20, X21, X30 = 11, N_SAVED = 20 };

static void *new_stack(char *top, entry_point *entry, struct engine *engine, int64_t number)
{
    void **stack = (void **)(void *)top - N_SAVED;
    stack[X19] = engine;
    stack[X20] = (void *)(intptr_t)number;
    stack[X21] = (void *)(intptr_t)entry;
    stack[X30] = (void *)(intptr_t)begin_stack;
    return stack;
}
#else
/* Any other processor: the C library's contexts, some twenty times slower. */
#include <string.h>
#include <ucontext.h>

static void switch_stack(void **save, void *load)
{
    ucontext_t here;
    *save = &here;
    if (swapcontext(&here, load) != 0) {
        abort();
    }
}

static void begin_context(unsigned low, unsigned high, unsigned low_entry, unsigned high_entry, int number)
{
    struct engine *engine = (struct engine *)(uintptr_t)((uint64_t)high << 32 | low);
    ((entry_point *)(uintptr_t)((uint64_t)high_entry << 32 | low_entry))(engine, number);
    abort();
}

static void *new_stack(char *top, entry_point *entry, struct engine *engine, int64_t number)
{
    uint64_t at = (uint64_t)(uintptr_t)engine, called = (uint64_t)(uintptr_t)entry;
    char *first = top - (sizeof(ucontext_t) + 63) / 64 * 64;
    ucontext_t *context = (ucontext_t *)(void *)first;
    if (getcontext(context) != 0) {
        abort();
    }
    context->uc_stack.ss_sp = top - engine->bytes_each + engine->page_bytes;
    context->uc_stack.ss_size = (size_t)(first - (char *)context->uc_stack.ss_sp);
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))begin_context, 5, (unsigned)at, (unsigned)(at >> 32),
                (unsigned)called, (unsigned)(called >> 32), (int)number);
    return context;
}
#endif

static inline struct engine *engine_of(struct R_World *world)
{
    return (struct engine *)(intptr_t)world->m_calendar->m_engine;
}

/* Go on where that worker stopped; come back when it is this one's turn again. */
static inline void go_to_stack(struct R_World *world, int64_t number)
{
    struct engine *engine = engine_of(world);
    void **save = &engine->stacks[engine->current];
    engine->current = number;
    switch_stack(save, engine->stacks[number]);
}

/* Return to Python, which may call again; then this goes on. */
static inline void go_to_python(struct engine *engine, enum status status)
{
    engine->status = status;
    switch_stack(&engine->stacks[engine->current], engine->python_stack);
}

/* Return to Python for good: the run is over, or has failed. */
static _Noreturn void leave(struct engine *engine, enum status status)
{
    go_to_python(engine, status);
    abort();
}

#ifdef CHECK
static _Thread_local struct engine *running;
enum { TURNS = 20000000 };

static _Noreturn void fail(const char *what, int64_t value, int64_t bound, const char *file, int line)
{
    running->failure = (struct failure){what, value, bound, file, line};
    leave(running, FAILED);
}

/* A turn of a loop: the number of turns between returns takes a tenth of a second. */
static inline void return_to_python(void)
{
    if (unlikely(--running->turns < 0)) {
        running->turns = TURNS;
        go_to_python(running, RETURNS_TO_PYTHON);
    }
}
#endif
