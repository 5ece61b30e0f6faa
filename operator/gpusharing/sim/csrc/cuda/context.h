/* A process's context on a device: what makes it visible in NVML, holds its memory and keeps others out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "devices.h"
#include "driver/cgroups.h"
#include "driver/store.h"
#include "errors.h"

struct cuda_context {
	unsigned int gpu;
	struct process_state *process;
	/* The boot of the node that it belongs to. */
	uint32_t boot;
};

/* What a process wants of a device. */
struct context_wish {
	const struct cuda_device *device;
	enum process_kind kind;
	uint64_t memory;
	/* In percent. */
	unsigned int sm_utilization;
	/* NULL if no limit of a cgroup can concern it. */
	const struct cgroup_state *cgroups;
};

/* The node must be locked. The context lasts as long as the process. */
enum cuda_error create_context(struct node_state *state, const struct context_wish *wish, struct cuda_context *context);

/* So much more memory for it. */
enum cuda_error grow_context(struct node_state *state, const struct cuda_device *device, struct cuda_context *context,
			     uint64_t memory);

/* Not after a reboot, a reload of the driver, a reset of the GPU, or when it was lost. */
bool context_works(const struct node_state *state, const struct cuda_context *context);
