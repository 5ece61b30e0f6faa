#include <string.h>

#include "smi.h"

/* A MIG device's name ends with that of its profile. */
static const char *profile_of_name(const char *name)
{
	const char *profile = strstr(name, " MIG ");

	return profile ? profile + strlen(" MIG ") : name;
}

static nvmlReturn_t list_mig_device(nvmlDevice_t device, unsigned int index)
{
	char name[2 * TEXT_LENGTH], uuid[TEXT_LENGTH];
	nvmlReturn_t error = nvmlDeviceGetName(device, name, sizeof(name));

	if (!error)
		error = nvmlDeviceGetUUID(device, uuid, sizeof(uuid));
	if (!error)
		printf("  MIG %-11s Device %2u: (UUID: %s)\n", profile_of_name(name), index, uuid);
	return error;
}

static nvmlReturn_t list_mig_devices(nvmlDevice_t gpu)
{
	unsigned int count;
	nvmlReturn_t error = nvmlDeviceGetMaxMigDeviceCount(gpu, &count);

	for (unsigned int index = 0; !error && index < count; index++) {
		nvmlDevice_t device;

		error = nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, &device);
		if (!error)
			error = list_mig_device(device, index);
		else if (error == NVML_ERROR_NOT_FOUND)
			error = NVML_SUCCESS;
	}
	return error;
}

static nvmlReturn_t list_gpu(nvmlDevice_t device, const void *unused)
{
	char name[TEXT_LENGTH], uuid[TEXT_LENGTH];
	nvmlReturn_t error = nvmlDeviceGetName(device, name, sizeof(name));

	(void)unused;
	if (!error)
		error = nvmlDeviceGetUUID(device, uuid, sizeof(uuid));
	if (error)
		return error;
	printf("GPU %u: %s (UUID: %s)\n", gpu_index(device), name, uuid);
	return list_mig_devices(device);
}

nvmlReturn_t list_gpus(const char *ids)
{
	return for_gpus(ids, list_gpu, NULL);
}
