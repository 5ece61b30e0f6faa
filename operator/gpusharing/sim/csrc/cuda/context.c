#include "context.h"

#include <string.h>
#include <unistd.h>

#include "driver/limits.h"
#include "driver/processes.h"

static bool is_on(const struct process_state *process, const struct cuda_device *device)
{
	return process->pid && process->gpu_instance == device->place.gpu_instance &&
	       process->compute_instance == device->place.compute_instance;
}

/* A client of MPS does not count: it is there through its server, which does. */
static bool is_taken(const struct gpu_state *gpu, const struct cuda_device *device)
{
	for (unsigned int i = 0; i < ARRAY_LENGTH(gpu->processes); i++)
		if (is_on(&gpu->processes[i], device) && gpu->processes[i].kind == PROCESS_KIND_COMPUTE)
			return true;
	return false;
}

static bool compute_mode_allows(const struct gpu_state *gpu, const struct context_wish *wish)
{
	if (gpu->compute_mode == COMPUTE_MODE_PROHIBITED)
		return false;
	if (gpu->compute_mode == COMPUTE_MODE_EXCLUSIVE_PROCESS && wish->kind == PROCESS_KIND_COMPUTE)
		return !is_taken(gpu, wish->device);
	return true;
}

static bool cgroup_allows(struct node_state *state, unsigned int gpu, const struct cgroup_state *cgroups,
			  uint64_t memory)
{
	const struct memory_limit_state *limit;

	if (!cgroups)
		return true;
	limit = memory_limit_of(state, gpu, cgroups);
	return !limit || memory_used_under(state, limit) + memory <= limit->hard;
}

static bool has_memory(struct node_state *state, const struct device *place, const struct cgroup_state *cgroups,
		       uint64_t memory)
{
	return memory <= free_memory(state, place) && cgroup_allows(state, place->gpu, cgroups, memory);
}

enum cuda_error create_context(struct node_state *state, const struct context_wish *wish, struct cuda_context *context)
{
	struct process_state process = {
		.pid = getpid(),
		.kind = wish->kind,
		.gpu_instance = wish->device->place.gpu_instance,
		.compute_instance = wish->device->place.compute_instance,
		.sm_utilization = wish->sm_utilization,
		.memory = wish->memory,
	};

	reap_processes(state, wish->device->place.gpu);
	if (!compute_mode_allows(&state->gpus[wish->device->place.gpu], wish))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (!has_memory(state, &wish->device->place, wish->cgroups, wish->memory))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (wish->cgroups)
		memcpy(process.cgroups, wish->cgroups, sizeof(process.cgroups));
	context->gpu = wish->device->place.gpu;
	context->process = attach_process(state, wish->device->place.gpu, &process);
	context->boot = state->boot;
	return context->process ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

enum cuda_error grow_context(struct node_state *state, const struct cuda_device *device, struct cuda_context *context,
			     uint64_t memory)
{
	reap_processes(state, context->gpu);
	if (!has_memory(state, &device->place, context->process->cgroups, memory))
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->process->memory += memory;
	return CUDA_SUCCESS;
}

bool context_works(const struct node_state *state, const struct cuda_context *context)
{
	return state->driver.loaded && state->boot == context->boot && !state->gpus[context->gpu].lost &&
	       context->process->pid == (uint32_t)getpid();
}
