#include "job.h"

#include "../../c/servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ARGUMENTS_MAX = 256,
    TEXT_BYTES_MAX = 65536,
};

/* The text of *path*, in memory that stays for the life of the process. */
static char *read_text(const char *path)
{
    char *text = malloc(TEXT_BYTES_MAX + 1);
    FILE *file = fopen(path, "re");
    if (text == NULL || file == NULL) {
        fail("cannot read %s: %s", path, strerror(errno));
    }
    size_t length = fread(text, 1, TEXT_BYTES_MAX, file);
    text[length] = '\0';
    (void)fclose(file);
    return text;
}

/* Empty lines are padding: the host keeps the file's size, and so the memory's layout, constant. */
static char **read_arguments(void)
{
    char **arguments = calloc(ARGUMENTS_MAX + 2, sizeof *arguments);
    char *rest = read_text(FILE_ARGUMENTS);
    if (arguments == NULL) {
        fail("out of memory");
    }
    static char name[] = FILE_PROGRAM;
    size_t n = 0;
    arguments[n++] = name;
    for (char *line = strtok_r(rest, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (n > ARGUMENTS_MAX) {
            fail("a program can have at most %d arguments", ARGUMENTS_MAX);
        }
        arguments[n++] = line;
    }
    return arguments;
}

int64_t job_setting(const char *name)
{
    static char *settings;
    if (settings == NULL) {
        settings = read_text(FILE_SETTINGS);
    }
    size_t length = strlen(name);
    for (const char *line = settings; line != NULL; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            return strtoll(line + length + 1, NULL, 10);
        }
    }
    fail("the settings lack %s", name);
}

static void redirect(int fd, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || dup2(file, fd) < 0) {
        fail("cannot write to %s: %s", path, strerror(errno));
    }
}

pid_t job_start_program(const char *output_path, const char *error_path)
{
    char **arguments = read_arguments();
    pid_t pid = fork();
    if (pid < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        static char *const environment[] = {NULL};
        redirect(STDOUT_FILENO, output_path);
        if (error_path != NULL) {
            redirect(STDERR_FILENO, error_path);
        }
        (void)execve(FILE_PROGRAM, arguments, environment);
        fail("cannot start the program: %s", strerror(errno));
    }
    return pid;
}
