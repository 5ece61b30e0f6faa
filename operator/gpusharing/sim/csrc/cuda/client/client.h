/* A program that uses a device by CUDA: what it asks for, and what it gets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda/context.h"
#include "cuda/devices.h"
#include "cuda/errors.h"
#include "mps/protocol.h"

struct lease_wish {
	uint64_t memory;
	/* In percent of the GPU. */
	unsigned int sm_utilization;
	/* NULL: as find_devices. */
	const char *device_files;
	/* NULL: the cgroup that the process is in. */
	const char *cgroup;
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

/* lease.c: first the device, by the node or by the server of MPS, then a context with memory on it. */
enum cuda_error choose_device(const struct lease_wish *wish, struct lease *lease);
enum cuda_error take_memory(const struct lease_wish *wish, struct lease *lease);
enum cuda_error take_more_memory(struct lease *lease, uint64_t memory);

/* mps_client.c: what MPS does to a process whose pipe directory has a daemon. */
bool has_mps(void);
/* The devices of the server, and the terms of each, instead of the node's. */
enum cuda_error connect_to_mps_server(struct cuda_devices *devices, struct mps_admission *terms);
enum cuda_error create_mps_context(const struct mps_admission *terms, const char *uuid);
/* -1 without MPS; readable when the server has something to say or has gone. */
int mps_connection(void);
enum cuda_error read_mps_error(void);
void report_fault_to_mps(void);
