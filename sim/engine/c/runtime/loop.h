/* The loop, the same as that of sim/engine/reference.py. It runs on the stack of the worker that spends,
 * until the program of a worker has to go on; only if that is another one the stack is switched.
 */
#define ENDED (-(INT64_C(1) << 62)) /* no step that a program could yield */
#define NONE INT64_C(-1)

static inline bool needs_python(struct R_World *world)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    return --calendar->m_n_until_return < 0 || calendar->m_n >= calendar->m_full ||
           world->m_next_row >= world->m_refill_row;
}

/* The next step ends in the loop, which has the calendar enlarged. Only a program whose calls cost
 * nothing fills the margin within one step: it waits here. */
static __attribute__((noinline, cold)) void make_room(struct R_World *world)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    calendar->m_quiet_ns = -1;
    if (calendar->m_n >= calendar->m_subjects.n) {
        go_to_python(engine_of(world), NEEDS_ROOM);
    }
}

static inline void happen_next(struct R_World *world)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    uint64_t order = (uint64_t)keys_of(calendar)[0];
    int64_t subject = calendar->m_subjects.p[0].v;
    world->m_now_ns = first_ns(calendar);
    drop_first(calendar);
    model_happen(world, (int64_t)(order >> SEQUENCE_BITS), subject);
    (void)model_tell(world);
}

/* Return the CPU whose program goes on, after all that happens before. */
static inline struct R_Cpu *next_cpu(struct R_World *world)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    while (unlikely(calendar->m_n_begun < N_CPUS(world))) {
        struct R_Cpu *cpu = ENTRY(world->m_cpus, calendar->m_n_begun);
        calendar->m_n_begun++;
        if (cpu->m_running != NONE && model_resumes(world, cpu)) {
            return cpu;
        }
    }
    for (;;) {
        /* Before anything goes on: steps plan what follows from them, too. */
        if (unlikely(needs_python(world))) {
            go_to_python(engine_of(world), NEEDS_PYTHON);
        }
        struct R_Cpu *cpu = N_CPUS(world) > 1 ? model_first_due(world) : ENTRY(world->m_cpus, 0);
        int64_t at_ns = model_due_ns(cpu), next_ns = first_ns(calendar);
        if (next_ns <= at_ns && next_ns <= calendar->m_stop_ns) {
            happen_next(world);
        } else if (unlikely(at_ns > calendar->m_stop_ns)) {
            leave(engine_of(world), OVER);
        } else {
            world->m_now_ns = at_ns;
            model_end_step(world, cpu);
            if (model_resumes(world, cpu)) {
                return cpu;
            }
        }
    }
}

/* Finish the step at once if no event and no other worker comes before its end; return whether it
 * was finished. */
static inline bool is_undisturbed(struct R_World *world, struct R_Worker *worker, int64_t step_ns)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    struct R_Cpu *cpu = worker->m_cpu;
    int64_t done_ns = world->m_now_ns + step_ns;
    if (step_ns < 0 || first_ns(calendar) <= done_ns || done_ns > calendar->m_stop_ns ||
        cpu->m_n_runnable > 0 || world->m_n_others != 0 || calendar->m_n >= calendar->m_full ||
        calendar->m_n_begun < N_CPUS(world)) {
        return false;
    }
    for (int64_t k = 0; k < N_CPUS(world); k++) {
        if (k != cpu->m_number && model_due_ns(ENTRY(world->m_cpus, k)) <= done_ns) {
            return false;
        }
    }
    world->m_waker = cpu->m_number;
    worker->m_done_ns = 0;
    world->m_now_ns = done_ns;
    ENTRY(cpu->m_ledger_ns, worker->m_activity) += step_ns;
    return true;
}

static __attribute__((noinline)) void take_turns(struct R_World *world, struct R_Worker *worker,
                                                 int64_t step_ns)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    struct R_Cpu *cpu = worker->m_cpu;
    bool alone = N_WORKERS(world) == 1;
    if (!alone && is_undisturbed(world, worker, step_ns)) {
        return;
    }
    bool goes_on = step_ns == ENDED ? model_block(world, cpu) : model_begin_step(world, cpu, step_ns);
    if (!(goes_on && model_resumes(world, cpu))) {
        cpu = next_cpu(world);
    }
    if (!alone && cpu->m_running != worker->m_number) {
        go_to_stack(world, cpu->m_running);
        return;
    }
    calendar->m_quiet_ns = alone && world->m_n_others == 0 && calendar->m_n < calendar->m_full
                               ? min_of(first_ns(calendar) - 1, calendar->m_stop_ns)
                               : -1;
}

static void run_worker(struct engine *engine, int64_t number)
{
    struct R_Worker *worker = engine->world->m_workers.p[number].v;
    model_serve(engine->world, worker);
    for (;;) {
        take_turns(engine->world, worker, ENDED);
    }
}

static void begin_run(struct engine *engine, int64_t number)
{
    struct R_World *world = engine->world;
    (void)number;
    model_begin(world, engine->warm_up_ns);
    if (engine->n_workers == 1) {
        model_start_other_cpus(world);
        world->m_calendar->m_n_begun = N_CPUS(world);
        go_to_stack(world, 0);
    } else {
        go_to_stack(world, next_cpu(world)->m_running);
    }
    abort();
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void run_end(struct engine *engine)
{
    if (engine->memory != NULL) {
        munmap(engine->memory, (size_t)(engine->n_workers + 1) * engine->bytes_each);
    }
    free(engine->stacks);
    free(engine);
}

/* Return an engine that is about to begin, or NULL where there is no memory for its stacks. */
EXPORTED struct engine *run_begin(struct R_World *world, int64_t warm_up_ns)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return NULL;
    }
    int64_t n = world->m_workers.n;
    engine->world = world;
    engine->warm_up_ns = warm_up_ns;
    engine->n_workers = n;
    engine->current = n;
    engine->page_bytes = getauxval(AT_PAGESZ);
    engine->bytes_each = (STACK_BYTES / engine->page_bytes + 2) * engine->page_bytes;
    engine->stacks = calloc((size_t)n + 1, sizeof *engine->stacks);
    void *memory = mmap(NULL, (size_t)(n + 1) * engine->bytes_each, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    engine->memory = memory == MAP_FAILED ? NULL : memory;
    if (engine->stacks == NULL || engine->memory == NULL) {
        run_end(engine);
        return NULL;
    }
    for (int64_t i = 0; i <= n; i++) {
        char *low = engine->memory + (size_t)i * engine->bytes_each;
        if (n <= GUARDED_MAX && mprotect(low, engine->page_bytes, PROT_NONE) != 0) {
            run_end(engine);
            return NULL;
        }
        engine->stacks[i] = new_stack(low + engine->bytes_each, i < n ? run_worker : begin_run, engine, i);
    }
    world->m_calendar->m_engine = (int64_t)(intptr_t)engine;
    world->m_calendar->m_quiet_ns = -1;
    return engine;
}

/* Go on until Python is wanted; return why. */
EXPORTED int64_t run_on(struct engine *engine)
{
#ifdef CHECK
    running = engine;
#endif
    switch_stack(&engine->python_stack, engine->stacks[engine->current]);
    return engine->status;
}

EXPORTED const struct failure *run_failure(const struct engine *engine)
{
    return &engine->failure;
}
