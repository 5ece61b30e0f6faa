#include "call.h"

#include <string.h>
#include <unistd.h>

#include "device.h"
#include "init.h"

nvmlReturn_t open_node(struct store *store)
{
	return is_initialized() ? store_open(store) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t open_gpu(struct store *store, nvmlDevice_t device, struct gpu_state **gpu)
{
	nvmlReturn_t error = open_node(store);

	if (error)
		return error;
	*gpu = device_gpu(store->state, device);
	return *gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

bool is_privileged(void)
{
	return geteuid() == 0;
}

nvmlReturn_t return_text(const char *text, char *buffer, unsigned int length)
{
	if (!buffer)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (length <= strlen(text))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(buffer, text);
	return NVML_SUCCESS;
}
