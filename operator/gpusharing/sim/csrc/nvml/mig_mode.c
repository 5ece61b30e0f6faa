#include "driver/lifecycle.h"
#include "nvml/call.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.gpu->mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	*current = call.gpu->mig_mode_current;
	*pending = call.gpu->mig_mode_pending;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);
	unsigned int generation;

	if (error)
		return error;
	if (!activation || mode > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.gpu->mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	if (call.state->quirks & QUIRK_VGPU_GUEST)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	generation = call.gpu->generation;
	error = set_mig_mode(call.state, call.device.gpu, mode, activation);
	keep_own_handles(&call, generation);
	return error;
}
