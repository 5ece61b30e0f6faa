#include "nvml/call.h"

nvmlReturn_t gpusharingSimGetTimeslice(nvmlDevice_t device, unsigned int *timeslice)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!call.gpu->timeslice_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	*timeslice = call.gpu->timeslice;
	return NVML_SUCCESS;
}

/* As the kernel module treats its TIMESLICE policy: for root only, four values, not on every chip. */
nvmlReturn_t gpusharingSimSetTimeslice(nvmlDevice_t device, unsigned int timeslice)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	if (timeslice > TIMESLICE_LONG)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.gpu->timeslice_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	call.gpu->timeslice = timeslice;
	return NVML_SUCCESS;
}
