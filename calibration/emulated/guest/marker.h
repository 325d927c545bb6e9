/* The window of a profile (../instructions) begins and ends with a no-operation that no compiler
 * emits.
 *
 * The guest executes them whether or not a profiler is there, so that a profiled run is the same
 * run to the instruction.
 */
#ifndef MARKER_H
#define MARKER_H

#define MARKER_BYTES 7
#define MARKER_BEGIN "\x0f\x1f\x80\x62\x65\x67\x6e" /* nopl 0x6e676562(%rax): "begn" */
#define MARKER_END "\x0f\x1f\x80\x65\x6e\x64\x77" /* nopl 0x77646e65(%rax): "endw" */

static inline void marker_begin(void)
{
    __asm__ volatile("nopl 0x6e676562(%%rax)" ::: "memory");
}

static inline void marker_end(void)
{
    __asm__ volatile("nopl 0x77646e65(%%rax)" ::: "memory");
}

#endif
