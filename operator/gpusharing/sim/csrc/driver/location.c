#include "driver/location.h"

#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char state[PATH_MAX];
static char directory[PATH_MAX];

/* DIR/lib/libnvidia-ml.so.1 and DIR/bin/nvidia-smi belong to DIR/state, so they need no environment. */
static void find_beside_own_file(void)
{
	char file[PATH_MAX];

	if (own_file(file))
		snprintf(state, sizeof(state), "%s/state", dirname(dirname(file)));
}

static void find(void)
{
	const char *configured = getenv("GPUSHARING_SIM_STATE");
	char copy[PATH_MAX];

	if (configured)
		snprintf(state, sizeof(state), "%s", configured);
	else
		find_beside_own_file();
	strcpy(copy, state);
	strcpy(directory, dirname(copy));
}

/* Found once, while a relative path of the own file still means what it meant when it was loaded. */
static void find_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
}

const char *state_path(void)
{
	find_once();
	return state;
}

const char *node_directory(void)
{
	find_once();
	return directory;
}
