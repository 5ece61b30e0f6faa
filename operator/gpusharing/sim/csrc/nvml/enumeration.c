#include <stdio.h>
#include <string.h>

#include "call.h"
#include "device.h"

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);

	if (error)
		return error;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = store.state->gpu_count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) __attribute__((alias("nvmlDeviceGetCount_v2")));

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);

	if (error)
		return error;
	if (!device || index >= store.state->gpu_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = device_handle(index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
	__attribute__((alias("nvmlDeviceGetHandleByIndex_v2")));

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);

	if (error)
		return error;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int index = 0; index < store.state->gpu_count; index++) {
		if (strcmp(store.state->gpus[index].uuid, uuid) == 0) {
			*device = device_handle(index);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

/* Compared as numbers: sysfs writes the domain with four digits and in lower case, NVML with eight in upper case. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);
	unsigned int domain, bus, slot, function;

	if (error)
		return error;
	if (!bus_id || !device || sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int index = 0; index < store.state->gpu_count; index++) {
		const struct gpu_state *gpu = &store.state->gpus[index];

		if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == slot && function == 0) {
			*device = device_handle(index);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
	__attribute__((alias("nvmlDeviceGetHandleByPciBusId_v2")));

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = device_index(device);
	return NVML_SUCCESS;
}
