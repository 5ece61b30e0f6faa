#include "driver/location.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char state[PATH_MAX];
static char directory[PATH_MAX];

/* The driver's files are somewhere below the node's directory, which has the state: so they need no environment. */
static void find_above_own_file(void)
{
	char file[PATH_MAX], *above = file;

	if (!own_file(file))
		return;
	do {
		above = dirname(above);
		snprintf(state, sizeof(state), "%s/state", above);
	} while (access(state, F_OK) < 0 && above[1]);
	/* In a root that has no more than the driver, with the node's devices. */
	if (access(state, F_OK) < 0)
		snprintf(state, sizeof(state), "/dev/.sim/state");
}

/* As soon as it is loaded: a relative path of the own file still means what it meant. */
__attribute__((constructor)) static void find(void)
{
	const char *configured = getenv("GPUSHARING_SIM_STATE");
	char copy[PATH_MAX];

	if (configured)
		snprintf(state, sizeof(state), "%s", configured);
	else
		find_above_own_file();
	strcpy(copy, state);
	strcpy(directory, dirname(copy));
}

const char *state_path(void)
{
	return state;
}

const char *node_directory(void)
{
	return directory;
}
