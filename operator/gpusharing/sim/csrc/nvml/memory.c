#include "driver/cgroups.h"
#include "driver/processes.h"
#include "nvml/call.h"

struct amounts {
	uint64_t total;
	uint64_t reserved;
	uint64_t used;
};

/* With MIG, what goes on in all instances together is for root only. */
static bool may_see_memory(const struct call *call)
{
	return call->compute_instance || !call->gpu->mig_mode_current || is_privileged();
}

static struct amounts measure(const struct call *call)
{
	uint64_t usable = device_memory(call->state, &call->device);

	reap_processes(call->state, call->device.gpu);
	return (struct amounts){
		.total = call->compute_instance ? usable : call->gpu->memory,
		.reserved = call->compute_instance ? 0 : call->gpu->memory_reserved,
		.used = memory_of_processes(call->gpu, call->device.gpu_instance),
	};
}

/* To a process in a limited cgroup the second version shows what that has. */
static void apply_limit(const struct call *call, struct amounts *amounts)
{
	struct cgroup_state cgroups[CGROUP_LEVELS];
	const struct memory_limit_state *limit;

	if (!call->state->memory_limits_made || call->compute_instance)
		return;
	own_cgroups(cgroups);
	limit = memory_limit_of(call->state, call->device.gpu, cgroups);
	if (!limit || limit->hard >= amounts->total)
		return;
	*amounts = (struct amounts){.total = limit->hard, .used = memory_used_under(call->state, limit)};
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);
	struct amounts amounts;

	if (error)
		return error;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (call.state->quirks & QUIRK_MEMORY_INFO_UNSUPPORTED)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!may_see_memory(&call))
		return NVML_ERROR_NO_PERMISSION;
	amounts = measure(&call);
	apply_limit(&call, &amounts);
	memory->total = amounts.total;
	memory->reserved = amounts.reserved;
	memory->used = amounts.used;
	memory->free = amounts.total - amounts.reserved - amounts.used;
	return NVML_SUCCESS;
}

/* The first version does not know reserved memory and counts it as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);
	struct amounts amounts;

	if (error)
		return error;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (call.state->quirks & QUIRK_MEMORY_INFO_UNSUPPORTED)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!may_see_memory(&call))
		return NVML_ERROR_NO_PERMISSION;
	amounts = measure(&call);
	memory->total = amounts.total;
	memory->used = amounts.reserved + amounts.used;
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}
