#include "deadline.h"

#include <stdint.h>
#include <time.h>

static int64_t deadline;

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

void deadline_in(unsigned int seconds)
{
	deadline = now() + (int64_t)seconds * 1000;
}

int milliseconds_left(void)
{
	int64_t left = deadline - now();

	return left > 0 ? (int)left : 0;
}
