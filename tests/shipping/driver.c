/* Run an engine over a world that another process has laid out, on this processor or another.
 *
 *     driver ENGINE.so < world before > world after
 *
 * Both are 8-byte words. Before: numbers of regions and of pointers, the length of the warm-up, the
 * address of the world; address and size of each region; the address of each pointer; then the
 * content of each region. After: the status, then the content of each region, with pointers of here.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { OVER, NEEDS_PYTHON, CACHE_LINE = 64 };

struct region {
    uint64_t address, size;
    char *here;
};

static struct region *regions;
static uint64_t n_regions;

static void take(void *content, uint64_t size)
{
    if (fread(content, 1, size, stdin) != size) {
        fprintf(stderr, "the world is cut short\n");
        exit(1);
    }
}

static void give(const void *content, uint64_t size)
{
    if (fwrite(content, 1, size, stdout) != size) {
        perror("stdout");
        exit(1);
    }
}

static void *need(void *found, const char *what)
{
    if (found == NULL) {
        fprintf(stderr, "%s: %s\n", what, dlerror());
        exit(1);
    }
    return found;
}

/* Return where the byte of that address is here; NULL where it is in no region. */
static void *place(uint64_t address)
{
    for (uint64_t i = 0; i < n_regions; i++) {
        if (address - regions[i].address < regions[i].size) {
            return regions[i].here + (address - regions[i].address);
        }
    }
    return NULL;
}

int main(int n_arguments, char **arguments)
{
    if (n_arguments != 2) {
        fprintf(stderr, "usage: driver ENGINE.so < world before > world after\n");
        return 2;
    }
    void *engine = need(dlopen(arguments[1], RTLD_NOW), arguments[1]);
    void *(*run_begin)(void *, int64_t) = need(dlsym(engine, "run_begin"), "run_begin");
    int64_t (*run_on)(void *) = need(dlsym(engine, "run_on"), "run_on");
    void (*run_end)(void *) = need(dlsym(engine, "run_end"), "run_end");

    uint64_t head[4];
    take(head, sizeof head);
    n_regions = head[0];
    regions = need(calloc(n_regions, sizeof *regions), "memory");
    for (uint64_t i = 0; i < n_regions; i++) {
        take(&regions[i], 2 * sizeof(uint64_t));
        /* As before the region begins somewhere in a cache line. */
        uint64_t in_line = regions[i].address % CACHE_LINE;
        uint64_t room = (in_line + regions[i].size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        regions[i].here = (char *)need(aligned_alloc(CACHE_LINE, room), "memory") + in_line;
    }
    uint64_t *pointers = need(calloc(head[1], sizeof *pointers), "memory");
    take(pointers, head[1] * sizeof *pointers);
    for (uint64_t i = 0; i < n_regions; i++) {
        take(regions[i].here, regions[i].size);
    }
    for (uint64_t i = 0; i < head[1]; i++) {
        uint64_t *pointer = need(place(pointers[i]), "pointer");
        *pointer = (uint64_t)(uintptr_t)place(*pointer);
    }

    void *run = need(run_begin(place(head[3]), (int64_t)head[2]), "run_begin");
    int64_t status = run_on(run);
    run_end(run);
    give(&status, sizeof status);
    for (uint64_t i = 0; i < n_regions; i++) {
        give(regions[i].here, regions[i].size);
    }
    return 0;
}
