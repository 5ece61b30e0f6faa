#include "smi.h"

static nvmlReturn_t list_gpu(nvmlDevice_t device, const void *unused)
{
	char name[TEXT_LENGTH], uuid[TEXT_LENGTH];
	nvmlReturn_t error = nvmlDeviceGetName(device, name, sizeof(name));

	(void)unused;
	if (!error)
		error = nvmlDeviceGetUUID(device, uuid, sizeof(uuid));
	if (!error)
		printf("GPU %u: %s (UUID: %s)\n", gpu_index(device), name, uuid);
	return error;
}

nvmlReturn_t list_gpus(const char *id)
{
	return for_gpus(id, list_gpu, NULL);
}
