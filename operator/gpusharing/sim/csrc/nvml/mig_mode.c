#include "call.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!gpu->mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	*current = gpu->mig_mode_current;
	*pending = gpu->mig_mode_pending;
	return NVML_SUCCESS;
}
