/* What a GPU is and what the driver reports without any rule of its own. */
#include <stdio.h>

#include "driver/mig.h"
#include "nvml/call.h"

#define NUMBER_PROPERTY(function, field)                             \
	nvmlReturn_t function(nvmlDevice_t device, unsigned int *number) \
	{                                                            \
		SCOPED_CALL(call);                                   \
		nvmlReturn_t error = begin_on_gpu(&call, device);    \
                                                                     \
		if (error)                                           \
			return error;                                \
		if (!number)                                         \
			return NVML_ERROR_INVALID_ARGUMENT;          \
		*number = call.gpu->field;                           \
		return NVML_SUCCESS;                                 \
	}

NUMBER_PROPERTY(nvmlDeviceGetMinorNumber, minor)
NUMBER_PROPERTY(nvmlDeviceGetBrand, brand)
NUMBER_PROPERTY(nvmlDeviceGetArchitecture, architecture)
NUMBER_PROPERTY(nvmlDeviceGetPersistenceMode, persistence_mode)
NUMBER_PROPERTY(nvmlDeviceGetVirtualizationMode, virtualization_mode)

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *buffer, unsigned int length)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	return error ? error : return_text(call.gpu->serial, buffer, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *buffer, unsigned int length)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);

	if (error)
		return error;
	return return_text(call.compute_instance ? call.compute_instance->uuid : call.gpu->uuid, buffer, length);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *buffer, unsigned int length)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);
	char name[2 * sizeof(call.gpu->name) + sizeof(" MIG ")];

	if (error)
		return error;
	if (!call.compute_instance)
		return return_text(call.gpu->name, buffer, length);
	snprintf(name, sizeof(name), "%s MIG %s", call.gpu->name,
		 compute_profile(profile_of(call.gpu, call.gpu_instance), call.compute_instance->profile)->name);
	return return_text(name, buffer, length);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = call.gpu->compute_capability_major;
	*minor = call.gpu->compute_capability_minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!mode)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (mode->version != NVML_STRUCT_VERSION(nvmlDeviceAddressingMode_t, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	mode->value = call.gpu->addressing_mode;
	return NVML_SUCCESS;
}

/* Only coherent parts (Grace) have a NUMA node of their own; for the others sysfs names the nearest one. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	return node ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}
