/* What a GPU is and what the driver reports without any rule of its own. */
#include "call.h"

#define TEXT_PROPERTY(function, field)                                             \
	nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned int length) \
	{                                                                          \
		SCOPED_STORE(store);                                               \
		struct gpu_state *gpu;                                             \
		nvmlReturn_t error = open_gpu(&store, device, &gpu);               \
                                                                                   \
		return error ? error : return_text(gpu->field, buffer, length);    \
	}

#define NUMBER_PROPERTY(function, field)                             \
	nvmlReturn_t function(nvmlDevice_t device, unsigned int *number) \
	{                                                            \
		SCOPED_STORE(store);                                 \
		struct gpu_state *gpu;                               \
		nvmlReturn_t error = open_gpu(&store, device, &gpu); \
                                                                     \
		if (error)                                           \
			return error;                                \
		if (!number)                                         \
			return NVML_ERROR_INVALID_ARGUMENT;          \
		*number = gpu->field;                                \
		return NVML_SUCCESS;                                 \
	}

TEXT_PROPERTY(nvmlDeviceGetUUID, uuid)
TEXT_PROPERTY(nvmlDeviceGetName, name)
TEXT_PROPERTY(nvmlDeviceGetSerial, serial)
NUMBER_PROPERTY(nvmlDeviceGetMinorNumber, minor)
NUMBER_PROPERTY(nvmlDeviceGetBrand, brand)
NUMBER_PROPERTY(nvmlDeviceGetArchitecture, architecture)
NUMBER_PROPERTY(nvmlDeviceGetPersistenceMode, persistence_mode)
NUMBER_PROPERTY(nvmlDeviceGetVirtualizationMode, virtualization_mode)

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = gpu->compute_capability_major;
	*minor = gpu->compute_capability_minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!mode)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (mode->version != NVML_STRUCT_VERSION(nvmlDeviceAddressingMode_t, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	mode->value = gpu->addressing_mode;
	return NVML_SUCCESS;
}

/* Only coherent parts (Grace) have a NUMA node of their own; for the others sysfs names the nearest one. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	return node ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}
