#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "mps/loop.h"
#include "process.h"

#define INTERVAL_MILLISECONDS 10

static int file;
static unsigned long count, last, longest_gap;

static unsigned long now_in_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000UL + now.tv_nsec;
}

/* Lines of the same length over each other, each in one write, so that nobody reads half of one. */
static void beat(struct watch *timer)
{
	unsigned long now = now_in_nanoseconds();
	char line[128];
	int length;

	if (now - last > longest_gap)
		longest_gap = now - last;
	last = now;
	count++;
	length = snprintf(line, sizeof(line), "%10d %20lu %20lu %20lu\n", getpid(), count, last, longest_gap);
	if (pwrite(file, line, length, 0) == length)
		loop_restart_timer(timer, INTERVAL_MILLISECONDS);
}

bool start_heartbeat(const char *path)
{
	static struct watch timer;
	char aside[PATH_MAX];

	if (snprintf(aside, sizeof(aside), "%s.new", path) >= (int)sizeof(aside)) {
		errno = ENAMETOOLONG;
		return false;
	}
	file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file < 0)
		return false;
	last = now_in_nanoseconds();
	loop_start_timer(&timer, beat, INTERVAL_MILLISECONDS);
	/* The first at once, and the name afterwards: whoever sees the file finds a heartbeat in it. */
	beat(&timer);
	return rename(aside, path) == 0;
}
