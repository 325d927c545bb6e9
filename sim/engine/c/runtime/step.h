enum { LEAST_STEP = -1 }; /* SLEEP of sim/state/kinds.py */

/* A step of a program: its CPU time passes. */
static void take_turns(struct R_World *world, struct R_Worker *worker, int64_t step_ns);

/* An addition, where nothing disturbs the worker until the step is over. */
static inline __attribute__((always_inline)) void step(struct R_World *world, struct R_Worker *worker,
                                                       int64_t step_ns)
{
    int64_t quiet_for_ns = world->m_calendar->m_quiet_ns - world->m_now_ns;
    if (likely(step_ns <= quiet_for_ns && world->m_n_others == 0) && step_ns >= 0) {
        world->m_now_ns += step_ns;
        ENTRY(worker->m_cpu->m_ledger_ns, worker->m_activity) += step_ns;
        return;
    }
    take_turns(world, worker, step_ns);
}

#ifdef CHECK
/* A program's own line is where it is used. */
#define step(world, worker, step_ns)                                                              \
    ({                                                                                            \
        int64_t checked_ns_ = (step_ns);                                                          \
        if (unlikely(checked_ns_ < LEAST_STEP)) {                                                 \
            fail("step", checked_ns_, 0, __FILE__, __LINE__);                                     \
        }                                                                                         \
        step((world), (worker), checked_ns_);                                                     \
    })
#endif

/* A step before time 0: no call costs anything there. */
static inline void no_step(struct R_World *world, struct R_Worker *worker, int64_t step_ns)
{
    (void)world, (void)worker, (void)step_ns;
}
