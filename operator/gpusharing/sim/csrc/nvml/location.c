#include "location.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static char path[PATH_MAX];

/* DIR/lib/libnvidia-ml.so.1 belongs to DIR/state, so a program that loads it by path needs no environment. */
static void find_beside_library(void)
{
	char library[PATH_MAX];
	Dl_info info;

	if (dladdr(path, &info) && realpath(info.dli_fname, library))
		snprintf(path, sizeof(path), "%s/state", dirname(dirname(library)));
}

static void find(void)
{
	const char *configured = getenv("GPUSHARING_SIM_STATE");

	if (configured)
		snprintf(path, sizeof(path), "%s", configured);
	else
		find_beside_library();
}

/* Found once, while a relative path of the library still means what it meant when it was loaded. */
const char *state_path(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return path;
}
