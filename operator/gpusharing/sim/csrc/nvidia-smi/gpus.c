/* Choosing and naming GPUs. */
#include <stdlib.h>
#include <string.h>

#include "smi.h"

static int is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

static nvmlReturn_t find_gpu(const char *id, nvmlDevice_t *device)
{
	if (is_number(id))
		return nvmlDeviceGetHandleByIndex_v2(strtoul(id, NULL, 10), device);
	if (strchr(id, ':'))
		return nvmlDeviceGetHandleByPciBusId_v2(id, device);
	return nvmlDeviceGetHandleByUUID(id, device);
}

static nvmlReturn_t for_one_gpu(const char *id, gpu_action *action, const void *argument)
{
	nvmlDevice_t device;

	if (find_gpu(id, &device)) {
		printf("No devices were found\n");
		return NVML_ERROR_NOT_FOUND;
	}
	return action(device, argument);
}

static nvmlReturn_t for_each_gpu(gpu_action *action, const void *argument)
{
	unsigned int count;
	nvmlDevice_t device;
	nvmlReturn_t error = nvmlDeviceGetCount_v2(&count);

	for (unsigned int index = 0; !error && index < count; index++) {
		error = nvmlDeviceGetHandleByIndex_v2(index, &device);
		if (!error)
			error = action(device, argument);
	}
	return error;
}

nvmlReturn_t for_gpus(const char *id, gpu_action *action, const void *argument)
{
	return id ? for_one_gpu(id, action, argument) : for_each_gpu(action, argument);
}

unsigned int gpu_index(nvmlDevice_t device)
{
	unsigned int index = 0;

	nvmlDeviceGetIndex(device, &index);
	return index;
}

const char *bus_id(nvmlDevice_t device, nvmlPciInfo_t *buffer)
{
	return nvmlDeviceGetPciInfo_v3(device, buffer) ? "Unknown" : buffer->busId;
}
