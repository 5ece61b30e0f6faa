#include "call.h"

nvmlReturn_t gpusharingSimGetTimeslice(nvmlDevice_t device, unsigned int *timeslice)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!gpu->timeslice_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	*timeslice = gpu->timeslice;
	return NVML_SUCCESS;
}

/* As the kernel module treats its TIMESLICE policy: for root only, four values, not on every chip. */
nvmlReturn_t gpusharingSimSetTimeslice(nvmlDevice_t device, unsigned int timeslice)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	if (timeslice > TIMESLICE_LONG)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!gpu->timeslice_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	gpu->timeslice = timeslice;
	return NVML_SUCCESS;
}
