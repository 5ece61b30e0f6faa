/* Choosing and naming GPUs. */
#include <stdlib.h>
#include <string.h>

#include "smi.h"

static bool is_number(const char *text)
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

static nvmlReturn_t explain(const char *id, nvmlReturn_t error)
{
	if (error == NVML_ERROR_NOT_FOUND || error == NVML_ERROR_INVALID_ARGUMENT) {
		printf("No devices were found\n");
		return NVML_ERROR_NOT_FOUND;
	}
	printf("Unable to determine the device handle for GPU%s: %s\n", id, nvmlErrorString(error));
	return error;
}

static nvmlReturn_t add_gpu(struct gpus *gpus, const char *id)
{
	nvmlReturn_t error = NVML_ERROR_NOT_FOUND;

	if (gpus->count < MAX_GPUS)
		error = find_gpu(id, &gpus->devices[gpus->count]);
	if (error)
		return explain(id, error);
	gpus->count++;
	return NVML_SUCCESS;
}

static nvmlReturn_t select_named(const char *ids, struct gpus *gpus)
{
	char *copy = strdup(ids), *position = NULL;
	nvmlReturn_t error = NVML_SUCCESS;

	for (char *id = strtok_r(copy, ",", &position); id && !error; id = strtok_r(NULL, ",", &position))
		error = add_gpu(gpus, id);
	free(copy);
	return error;
}

static nvmlReturn_t select_all(struct gpus *gpus)
{
	unsigned int count;
	nvmlReturn_t error = nvmlDeviceGetCount_v2(&count);

	for (unsigned int index = 0; !error && index < count; index++) {
		char id[16];

		snprintf(id, sizeof(id), "%u", index);
		error = add_gpu(gpus, id);
	}
	return error;
}

nvmlReturn_t select_gpus(const char *ids, struct gpus *gpus)
{
	gpus->count = 0;
	return ids ? select_named(ids, gpus) : select_all(gpus);
}

nvmlReturn_t for_gpus(const char *ids, gpu_action *action, const void *argument)
{
	struct gpus gpus;
	nvmlReturn_t error = select_gpus(ids, &gpus);

	for (unsigned int i = 0; !error && i < gpus.count; i++)
		error = action(gpus.devices[i], argument);
	return error;
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

bool has_quirk(unsigned int quirk)
{
	unsigned int quirks = 0;

	gpusharingSimGetQuirks(&quirks);
	return quirks & quirk;
}
