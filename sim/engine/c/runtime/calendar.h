/* The calendar and the free descriptors.
 *
 * An entry of the calendar is its own key of 128 bits: time (64), kind (6), sequence number (58);
 * its subject lies beside. The heap has four children a node, whose keys share a cache line; those
 * behind the last are never due. A step that ends by quiet_ns meets no other event.
 */
__extension__ typedef unsigned __int128 wide;
typedef wide __attribute__((may_alias)) key;
enum { SEQUENCE_BITS = 58, CHILDREN = 4 };

static inline key *keys_of(const struct R_HeapCalendar *calendar)
{
    return (key *)(void *)calendar->m_keys.p;
}

static inline int64_t first_ns(const struct R_HeapCalendar *calendar)
{
    return (int64_t)(keys_of(calendar)[0] >> 64);
}

static void make_room(struct R_World *world);

static inline void schedule(struct R_World *world, int64_t at_ns, int64_t kind, int64_t subject)
{
    struct R_HeapCalendar *calendar = world->m_calendar;
    if (at_ns <= calendar->m_quiet_ns) {
        calendar->m_quiet_ns = at_ns - 1;
    }
    if (unlikely(calendar->m_n + 1 >= calendar->m_full)) {
        make_room(world);
    }
    key *keys = keys_of(calendar);
    uint64_t order = (uint64_t)kind << SEQUENCE_BITS | (uint64_t)++calendar->m_sequence;
    wide pushed = (wide)(uint64_t)at_ns << 64 | order;
    uint64_t i = (uint64_t)calendar->m_n++;
    while (i > 0 && pushed < keys[(i - 1) / CHILDREN]) {
        keys[i] = keys[(i - 1) / CHILDREN];
        calendar->m_subjects.p[i] = calendar->m_subjects.p[(i - 1) / CHILDREN];
        i = (i - 1) / CHILDREN;
    }
    keys[i] = pushed;
    calendar->m_subjects.p[i].v = subject;
}

static inline void drop_first(struct R_HeapCalendar *calendar)
{
    key *keys = keys_of(calendar);
    uint64_t n = (uint64_t)--calendar->m_n, i = 0;
    wide moved = keys[n];
    int64_t subject = calendar->m_subjects.p[n].v;
    keys[n] = ~(wide)0 >> 1; /* never due */
    for (uint64_t child = 1; child < n; child = CHILDREN * i + 1) {
        uint64_t left = child + (keys[child + 1] < keys[child]);
        uint64_t right = child + 2 + (keys[child + 3] < keys[child + 2]);
        uint64_t least = keys[right] < keys[left] ? right : left;
        if (moved < keys[least]) {
            break;
        }
        keys[i] = keys[least];
        calendar->m_subjects.p[i] = calendar->m_subjects.p[least];
        i = least;
    }
    if (n > 0) {
        keys[i] = moved;
        calendar->m_subjects.p[i].v = subject;
    }
}

static inline int64_t first_due_ns(struct R_World *world)
{
    return min_of(first_ns(world->m_calendar), world->m_calendar->m_stop_ns);
}

/* Free descriptors: a bit each, a bit for each word that has any, and where to look first. They lie
 * in the memory of the column, which has 32 bits for each. */
typedef uint64_t __attribute__((may_alias)) bits;

struct free_fds {
    bits *hint, *words, *fds;
};

static inline struct free_fds free_fds_of(struct C_World_free_fds column)
{
    uint64_t n_words = ((uint64_t)column.n + 63) / 64;
    bits *hint = (bits *)(void *)column.p;
    return (struct free_fds){hint, hint + 1, hint + 1 + (n_words + 63) / 64};
}

/* Remove and return the lowest free descriptor; there is one. */
static inline int64_t take_fd(struct C_World_free_fds column, int64_t n)
{
    struct free_fds free = free_fds_of(column);
    (void)n;
    while (free.words[*free.hint] == 0) {
        ++*free.hint;
    }
    uint64_t word = *free.hint * 64 + (uint64_t)__builtin_ctzll(free.words[*free.hint]);
    uint64_t fd = word * 64 + (uint64_t)__builtin_ctzll(free.fds[word]);
    free.fds[word] &= free.fds[word] - 1;
    if (free.fds[word] == 0) {
        free.words[word / 64] &= ~(UINT64_C(1) << word % 64);
    }
    return (int64_t)fd;
}

static inline void give_fd(struct C_World_free_fds column, int64_t n, int64_t fd)
{
    struct free_fds free = free_fds_of(column);
    uint64_t word = (uint64_t)fd / 64;
    (void)n;
    free.fds[word] |= UINT64_C(1) << fd % 64;
    free.words[word / 64] |= UINT64_C(1) << word % 64;
    if (word / 64 < *free.hint) {
        *free.hint = word / 64;
    }
}
