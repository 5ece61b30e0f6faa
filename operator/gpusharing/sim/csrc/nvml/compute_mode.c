#include "nvml/call.h"

/* EXCLUSIVE_THREAD: still has its number, but no driver supports it any more. */
#define REMOVED_MODE 1

/*
 * With MIG a GPU has no mode of its own. Newer drivers have one for each MIG device instead and say that the handle is
 * wrong, older ones say that there is no such thing.
 */
static nvmlReturn_t find_mode(struct call *call, nvmlDevice_t device, uint32_t **mode)
{
	nvmlReturn_t error = begin_on_device(call, device);
	bool of_mig_devices = !error && call->state->driver.compute_mode_of_mig_devices;

	if (error)
		return error;
	if (call->compute_instance) {
		*mode = &call->compute_instance->compute_mode;
		return of_mig_devices ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
	}
	*mode = &call->gpu->compute_mode;
	if (call->gpu->mig_mode_current)
		return of_mig_devices ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
	SCOPED_CALL(call);
	uint32_t *current;
	nvmlReturn_t error = find_mode(&call, device, &current);

	if (error)
		return error;
	if (!mode)
		return NVML_ERROR_INVALID_ARGUMENT;
	*mode = *current;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
	SCOPED_CALL(call);
	uint32_t *current;
	nvmlReturn_t error = find_mode(&call, device, &current);

	if (error)
		return error;
	if (mode > COMPUTE_MODE_EXCLUSIVE_PROCESS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (mode == REMOVED_MODE)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	*current = mode;
	return NVML_SUCCESS;
}
