/* What translated code rests on: integers as Python has them, entries, and checks.
 *
 * With CHECK defined every index, assertion, divisor and narrow store is checked, and loops that
 * never end return to Python; what fails ends the run with the file and line of the Python source.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are shared with Python");

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* What a check has found: Failure in run.py. */
struct failure {
    const char *what;
    int64_t value, bound;
    const char *file;
    int64_t line;
};

#ifdef CHECK
static _Noreturn void fail(const char *what, int64_t value, int64_t bound, const char *file, int line);
static void return_to_python(void);
#define ENTRY(view, index)                                                                        \
    (*({                                                                                          \
        __auto_type view_ = (view);                                                               \
        int64_t index_ = (index);                                                                 \
        if (unlikely((uint64_t)index_ >= (uint64_t)view_.n)) {                                    \
            fail("index", index_, view_.n, __FILE__, __LINE__);                                   \
        }                                                                                         \
        &view_.p[index_].v;                                                                       \
    }))
#define ASSERT(condition)                                                                         \
    do {                                                                                          \
        if (unlikely(!(condition))) {                                                             \
            fail("assertion", 0, 0, __FILE__, __LINE__);                                          \
        }                                                                                         \
    } while (0)
#define STORE(place, value)                                                                       \
    do {                                                                                          \
        int64_t value_ = (value);                                                                 \
        __auto_type place_ = &(place);                                                            \
        *place_ = (__typeof__(*place_))value_;                                                    \
        if (unlikely(*place_ != value_)) {                                                        \
            fail("store", value_, 8 * (int64_t)sizeof *place_, __FILE__, __LINE__);               \
        }                                                                                         \
    } while (0)
#define DIVISOR(value)                                                                            \
    ({                                                                                            \
        int64_t divisor_ = (value);                                                               \
        if (unlikely(divisor_ == 0)) {                                                            \
            fail("division", 0, 0, __FILE__, __LINE__);                                           \
        }                                                                                         \
        divisor_;                                                                                 \
    })
#define SHIFT(value)                                                                              \
    ({                                                                                            \
        int64_t shift_ = (value);                                                                 \
        if (unlikely(shift_ < 0)) {                                                               \
            fail("shift", shift_, 0, __FILE__, __LINE__);                                         \
        }                                                                                         \
        shift_;                                                                                   \
    })
#define TURN() return_to_python()
#define shift_left(a, n) shifted_left((a), SHIFT(n))
#define shift_right(a, n) shifted_right((a), SHIFT(n))
#define floor_div(a, b) floor_quotient((a), DIVISOR(b))
#define floor_mod(a, b) floor_remainder((a), DIVISOR(b))
#else
#define ENTRY(view, index) (view).p[index].v
#define ASSERT(condition) ((void)0)
#define STORE(place, value) ((place) = (value))
#define TURN() ((void)0)
#define shift_left(a, n) shifted_left((a), (n))
#define shift_right(a, n) shifted_right((a), (n))
#define floor_div(a, b) floor_quotient((a), (b))
#define floor_mod(a, b) floor_remainder((a), (b))
#endif

static inline int64_t min_of(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

static inline int64_t max_of(int64_t a, int64_t b)
{
    return b > a ? b : a;
}

static inline int64_t abs_of(int64_t a)
{
    return a < 0 ? -a : a;
}

/* Python rounds down, C towards zero. */
static inline int64_t floor_quotient(int64_t a, int64_t b)
{
    if (unlikely(b == -1)) {
        return -a; /* INT64_MIN / -1 traps. */
    }
    int64_t quotient = a / b, rest = a % b;
    return quotient - (rest != 0 && (rest ^ b) < 0);
}

static inline int64_t floor_remainder(int64_t a, int64_t b)
{
    if (unlikely(b == -1)) {
        return 0;
    }
    int64_t rest = a % b;
    return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}

static inline int64_t shifted_left(int64_t a, int64_t n)
{
    return n > 63 ? 0 : (int64_t)((uint64_t)a << n);
}

static inline int64_t shifted_right(int64_t a, int64_t n)
{
    return a >> (n > 63 ? 63 : n);
}
