/*
 * The parts of the simulated CUDA process: a program that takes a device and memory of it, as any program with CUDA
 * would, and then stays until it is told to end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mps/protocol.h"
#include "cuda/context.h"
#include "cuda/devices.h"
#include "cuda/errors.h"

struct options {
	uint64_t memory;
	/* NULL: as find_devices. */
	const char *device_files;
	/* NULL: the cgroup that the process is in. */
	const char *cgroup;
	/* NULL: none. */
	const char *heartbeat;
	/* 0: until it is told to end. */
	unsigned int milliseconds;
};

/* What the process got, and on what terms. */
struct lease {
	struct cuda_device device;
	struct cuda_context context;
	uint64_t memory;
	/* MPS_NO_LIMIT for none. */
	uint64_t memory_limit;
	double active_thread_percentage;
	/* As it was when the context was made: later changes do not concern it. */
	enum timeslice timeslice;
	/* 0 without MPS. */
	pid_t mps_server;
};

/* lease.c */
enum cuda_error take_lease(const struct options *options, struct lease *lease);

/* mps_client.c: what MPS does to a process whose pipe directory has a daemon. */
bool has_mps(void);
/* The devices of the server, and the terms of each, instead of the node's. */
enum cuda_error connect_to_mps_server(struct cuda_devices *devices, struct mps_admission *terms);
enum cuda_error create_mps_context(const struct mps_admission *terms, const char *uuid);
/* -1 without MPS; readable when the server has something to say or has gone. */
int mps_connection(void);
enum cuda_error read_mps_error(void);
void report_fault_to_mps(void);

/* heartbeat.c: proves that the process was not disturbed. */
bool start_heartbeat(const char *path);

/* life.c: watches for everything that ends the process. */
void start_life(const struct options *options, const struct lease *lease);

_Noreturn void fail(enum cuda_error error);
