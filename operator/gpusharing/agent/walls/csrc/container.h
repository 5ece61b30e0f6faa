#ifndef CONTAINER_H
#define CONTAINER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "failure.h"

/* The container that is about to start. */
struct container {
	/* Is the name of a file, also with a dot before it. */
	char id[NAME_MAX];
	pid_t pid;
	/* As the kernel has it: begins with a slash, and is below where the hierarchy is mounted. */
	char cgroup[PATH_MAX];
};

/* From the state that runtimes write to a hook's standard input. */
bool read_state(struct container *container, struct failure *failure);

#endif
