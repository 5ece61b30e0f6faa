#include "device.h"

#include <stddef.h>

/* A handle is a marked number and never a pointer, so that any garbage is recognised instead of dereferenced. */
#define DEVICE_MARK 0x4750550000000000ULL
#define INDEX_MASK 0xffffffffULL

nvmlDevice_t device_handle(unsigned int index)
{
	return (nvmlDevice_t)(DEVICE_MARK | index);
}

unsigned int device_index(nvmlDevice_t device)
{
	return (uint64_t)device & INDEX_MASK;
}

struct gpu_state *device_gpu(struct node_state *state, nvmlDevice_t device)
{
	if (((uint64_t)device & ~INDEX_MASK) != DEVICE_MARK || device_index(device) >= state->gpu_count)
		return NULL;
	return &state->gpus[device_index(device)];
}
