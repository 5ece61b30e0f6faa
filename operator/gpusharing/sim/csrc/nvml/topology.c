/* How near GPUs are to each other: each has a root port of its own, and there are no NVLinks. */
#include "nvml/call.h"

#define INTERNAL 0
#define SAME_NUMA_NODE 40
#define SAME_SYSTEM 50

#define MAX_LINKS 18

static unsigned int level_between(const struct node_state *state, unsigned int one, unsigned int other)
{
	if (one == other)
		return INTERNAL;
	return state->gpus[one].numa_node == state->gpus[other].numa_node ? SAME_NUMA_NODE : SAME_SYSTEM;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *level)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, one);
	struct handle handle = decode_handle(other);

	if (error)
		return error;
	if (!level || handle.kind != GPU_HANDLE || handle.device.gpu >= call.state->gpu_count ||
	    !is_valid(call.state, &handle))
		return NVML_ERROR_INVALID_ARGUMENT;
	*level = level_between(call.state, call.device.gpu, handle.device.gpu);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level, unsigned int *count,
					      nvmlDevice_t *devices)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);
	unsigned int found = 0, room;

	if (error)
		return error;
	if (!count || (*count && !devices) || level > SAME_SYSTEM)
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	for (unsigned int gpu = 0; gpu < call.state->gpu_count; gpu++) {
		if (gpu == call.device.gpu || level_between(call.state, call.device.gpu, gpu) > level)
			continue;
		if (found < room)
			devices[found] = gpu_handle(call.state, gpu);
		found++;
	}
	*count = room && found > room ? room : found;
	return NVML_SUCCESS;
}

static nvmlReturn_t refuse_link(struct call *call, nvmlDevice_t device, unsigned int link, const void *result)
{
	nvmlReturn_t error = begin_on_gpu(call, device);

	if (error)
		return error;
	return link < MAX_LINKS && result ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active)
{
	SCOPED_CALL(call);

	return refuse_link(&call, device, link, active);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
	SCOPED_CALL(call);

	return refuse_link(&call, device, link, version);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	SCOPED_CALL(call);

	return refuse_link(&call, device, link, pci);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
	__attribute__((alias("nvmlDeviceGetNvLinkRemotePciInfo_v2")));
