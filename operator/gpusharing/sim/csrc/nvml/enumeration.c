#include <stdio.h>
#include <string.h>

#include "nvml/call.h"

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	if (error)
		return error;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = call.state->gpu_count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) __attribute__((alias("nvmlDeviceGetCount_v2")));

static nvmlReturn_t found_gpu(struct call *call, unsigned int gpu, nvmlDevice_t *device)
{
	nvmlReturn_t error = end_search(call, gpu);

	if (!error)
		*device = gpu_handle(call->state, gpu);
	return error;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_search(&call);

	if (error)
		return error;
	if (!device || index >= call.state->gpu_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	return found_gpu(&call, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
	__attribute__((alias("nvmlDeviceGetHandleByIndex_v2")));

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_search(&call);
	struct device found;

	if (error)
		return error;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!find_device(call.state, uuid, &found))
		return NVML_ERROR_NOT_FOUND;
	error = found_gpu(&call, found.gpu, device);
	if (!error && strncmp(uuid, "MIG-", 4) == 0)
		*device = mig_device_handle(call.state, &found);
	return error;
}

/* Compared as numbers: sysfs writes the domain with four digits and in lower case, NVML with eight in upper case. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_search(&call);
	unsigned int domain, bus, slot, function;

	if (error)
		return error;
	if (!bus_id || !device || sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int index = 0; index < call.state->gpu_count; index++) {
		const struct gpu_state *gpu = &call.state->gpus[index];

		if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == slot && function == 0)
			return found_gpu(&call, index, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
	__attribute__((alias("nvmlDeviceGetHandleByPciBusId_v2")));

/* Of a MIG device, among those of its GPU. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);

	if (error)
		return error;
	if (!index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = call.compute_instance ? call.compute_instance->index : call.device.gpu;
	return NVML_SUCCESS;
}
