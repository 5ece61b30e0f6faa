#ifndef WALL_H
#define WALL_H

#include <stdbool.h>

#include "failure.h"

#define MAX_WORDS 64

/* What the agent has written for one device of a claim. */
struct wall {
	int directory;
	const char *path;

	const char *claim;
	const char *gpu;
	/* In MiB; a text, because it is only passed on. */
	const char *limit;
	bool required;
	unsigned int seconds;

	/* NVIDIA's hook, as their own CDI spec calls it for this GPU. */
	const char *program;
	char *arguments[MAX_WORDS + 1];
	char *environment[MAX_WORDS + 1];

	char text[32768];
};

bool read_wall(const char *path, struct wall *wall, struct failure *failure);

#endif
