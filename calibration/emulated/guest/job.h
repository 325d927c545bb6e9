/* The two jobs a guest can do. Each prints its frames, or ends its process with one line on
 * standard error, which init prints as the frame `error`.
 */
#ifndef GUEST_JOB_H
#define GUEST_JOB_H

#include <stdint.h>
#include <sys/types.h>

#define FILE_ARGUMENTS "/arguments" /* one argument a line */
#define FILE_SETTINGS "/settings"   /* `name value`, one a line: the numbers of a job */
#define FILE_TRACE "/trace"
#define FILE_PROGRAM "/program"

/* Run the program once and give back what it printed: frames `stdout` and `clock`. */
void job_exec(void);

/* Run the server under the load of a trace: frames `counters_before`, ... (see job_macro.c). */
void job_macro(void);

/* Start the program with its arguments, its standard output (and, with *error_path*, its
 * standard error) going to files. Returns its process number. */
pid_t job_start_program(const char *output_path, const char *error_path);

/* A number of the settings; ends the program if there is none of that name. */
int64_t job_setting(const char *name);

#endif
