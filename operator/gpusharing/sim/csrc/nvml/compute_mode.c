#include "call.h"

/* EXCLUSIVE_THREAD: still has its number, but no driver supports it any more. */
#define REMOVED_MODE 1

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!mode)
		return NVML_ERROR_INVALID_ARGUMENT;
	*mode = gpu->compute_mode;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (mode > COMPUTE_MODE_EXCLUSIVE_PROCESS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (mode == REMOVED_MODE)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	gpu->compute_mode = mode;
	return NVML_SUCCESS;
}
