/*
 * The parts of the simulated CUDA process: a program that takes a device and memory of it, as any program with CUDA
 * would, and then stays until it is told to end.
 */
#pragma once

#include <stdbool.h>

#include "cuda/client/client.h"

struct options {
	struct lease_wish wish;
	/* NULL: none. */
	const char *heartbeat;
	/* 0: until it is told to end. */
	unsigned int milliseconds;
};

/* heartbeat.c: proves that the process was not disturbed. */
bool start_heartbeat(const char *path);

/* life.c: watches for everything that ends the process. */
void start_life(const struct options *options, const struct lease *lease);

_Noreturn void fail(enum cuda_error error);
