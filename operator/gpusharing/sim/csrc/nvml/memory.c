#include "call.h"
#include "processes.h"

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memory->total = gpu->memory;
	memory->reserved = gpu->memory_reserved;
	memory->used = memory_of_processes(gpu);
	memory->free = memory->total - memory->reserved - memory->used;
	return NVML_SUCCESS;
}

/* The first version does not know reserved memory and counts it as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	memory->total = gpu->memory;
	memory->used = gpu->memory_reserved + memory_of_processes(gpu);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}
