/* The NVLink fabric: newer GPUs tell of one, and here none is in any. */
#include <string.h>

#include "nvml/call.h"

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.gpu->fabric_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	/* All zeros: not supported by the system. */
	memset(info, 0, sizeof(*info));
	return NVML_SUCCESS;
}

static size_t size_of_version(const struct call *call, uint32_t version)
{
	if (version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
		return sizeof(nvmlGpuFabricInfo_v2_t);
	if (version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3) && call->state->driver.fabric_info_version >= 3)
		return sizeof(nvmlGpuFabricInfo_v3_t);
	return 0;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);
	size_t size;

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	size = size_of_version(&call, *(uint32_t *)info);
	if (!size)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (!call.gpu->fabric_supported)
		return NVML_ERROR_NOT_SUPPORTED;
	memset((uint32_t *)info + 1, 0, size - sizeof(uint32_t));
	return NVML_SUCCESS;
}
