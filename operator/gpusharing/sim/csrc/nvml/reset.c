#include "driver/lifecycle.h"
#include "nvml/call.h"

nvmlReturn_t gpusharingSimResetGpu(nvmlDevice_t device)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);
	unsigned int generation;

	if (error)
		return error;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	generation = call.gpu->generation;
	error = reset_gpu(call.state, call.device.gpu);
	keep_own_handles(&call, generation);
	return error;
}
