/* A step of a program: its CPU time passes. */
static void take_turns(struct R_World *world, struct R_Worker *worker, int64_t step_ns);

/* An addition, where nothing disturbs the worker until the step is over. */
static inline __attribute__((always_inline)) void step(struct R_World *world, struct R_Worker *worker,
                                                       int64_t step_ns)
{
    int64_t done_ns = world->m_now_ns + step_ns;
    if (likely(done_ns <= world->m_calendar->m_quiet_ns && world->m_n_others == 0) && step_ns >= 0) {
        world->m_now_ns = done_ns;
        ENTRY(worker->m_cpu->m_ledger_ns, worker->m_activity) += step_ns;
        return;
    }
    take_turns(world, worker, step_ns);
}
