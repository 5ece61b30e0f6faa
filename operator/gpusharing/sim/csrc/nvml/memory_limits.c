#include <stdatomic.h>
#include <string.h>

#include "driver/cgroups.h"
#include "driver/limits.h"
#include "driver/processes.h"
#include "nvml/call.h"

#define NO_LIMIT UINT64_MAX

/* What both calls refuse, before they look at the cgroup. */
static nvmlReturn_t begin_on_cgroup(struct call *call, nvmlDevice_t device, const char *name_space)
{
	nvmlReturn_t error = begin_on_device(call, device);

	if (error)
		return error;
	if (!name_space)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (call->gpu->mig_mode_current || !call->gpu->memory_limits_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

static struct memory_limit_state *free_slot(struct node_state *state)
{
	for (unsigned int i = 0; i < ARRAY_LENGTH(state->memory_limits); i++) {
		struct memory_limit_state *limit = &state->memory_limits[i];
		struct cgroup_state cgroups[CGROUP_LEVELS];

		/* The kernel tells the driver of a cgroup that is removed; here it is noticed when there is need. */
		if (!limit->cgroup.inode || !cgroups_of_path(limit->path, cgroups))
			return limit;
	}
	return NULL;
}

static nvmlReturn_t add_limit(struct call *call, const struct cgroup_state *cgroup,
			      const nvmlSetMemoryLimits_v1_t *wanted)
{
	struct memory_limit_state *limit = free_slot(call->state);

	if (!limit)
		return NVML_ERROR_MEMORY;
	limit->cgroup = (struct cgroup_state){0};
	limit->gpu = call->device.gpu;
	limit->soft = wanted->softLimit;
	limit->hard = wanted->hardLimit;
	strncpy(limit->path, wanted->nameSpace, sizeof(limit->path) - 1);
	call->state->memory_limits_made++;
	atomic_signal_fence(memory_order_seq_cst);
	limit->cgroup = *cgroup;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, const nvmlSetMemoryLimits_v1_t *limits)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_cgroup(&call, device, limits ? limits->nameSpace : NULL);
	struct cgroup_state cgroups[CGROUP_LEVELS];
	struct memory_limit_state *limit;

	if (error)
		return error;
	if (limits->softLimit > limits->hardLimit || limits->softLimit > call.gpu->memory ||
	    (limits->hardLimit > call.gpu->memory && limits->hardLimit != NO_LIMIT))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	if (!cgroups_of_path(limits->nameSpace, cgroups))
		return NVML_ERROR_OPERATING_SYSTEM;
	limit = memory_limit_of_cgroup(call.state, call.device.gpu, &cgroups[0]);
	if (limits->softLimit == 0 && limits->hardLimit == NO_LIMIT) {
		if (limit)
			limit->cgroup = (struct cgroup_state){0};
		return NVML_SUCCESS;
	}
	if (!limit)
		return add_limit(&call, &cgroups[0], limits);
	limit->soft = limits->softLimit;
	limit->hard = limits->hardLimit;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_cgroup(&call, device, limits ? limits->nameSpace : NULL);
	struct cgroup_state cgroups[CGROUP_LEVELS];
	struct memory_limit_state *limit;

	if (error)
		return error;
	if (!cgroups_of_path(limits->nameSpace, cgroups))
		return NVML_ERROR_OPERATING_SYSTEM;
	limit = memory_limit_of_cgroup(call.state, call.device.gpu, &cgroups[0]);
	if (!limit)
		return NVML_ERROR_NOT_FOUND;
	reap_processes(call.state, call.device.gpu);
	limits->softLimit = limit->soft;
	limits->hardLimit = limit->hard;
	limits->currentUsed = memory_used_under(call.state, limit);
	return NVML_SUCCESS;
}
