#include "driver/devices.h"

#include <string.h>

#include "driver/limits.h"

static bool find_mig_device(const struct gpu_state *gpu, const char *uuid, struct device *device)
{
	for (unsigned int gi = 0; gi < ARRAY_LENGTH(gpu->gpu_instances); gi++) {
		const struct gpu_instance_state *gpu_instance = &gpu->gpu_instances[gi];

		if (!gpu_instance->exists)
			continue;
		for (unsigned int ci = 0; ci < ARRAY_LENGTH(gpu_instance->compute_instances); ci++) {
			const struct compute_instance_state *compute_instance = &gpu_instance->compute_instances[ci];

			if (compute_instance->exists && strcmp(compute_instance->uuid, uuid) == 0) {
				device->gpu_instance = gi;
				device->compute_instance = ci;
				return true;
			}
		}
	}
	return false;
}

bool find_device(const struct node_state *state, const char *uuid, struct device *device)
{
	*device = (struct device){.gpu_instance = NONE, .compute_instance = NONE};
	for (; device->gpu < state->gpu_count; device->gpu++) {
		const struct gpu_state *gpu = &state->gpus[device->gpu];

		if (strcmp(gpu->uuid, uuid) == 0 || find_mig_device(gpu, uuid, device))
			return true;
	}
	return false;
}

uint64_t device_memory(const struct node_state *state, const struct device *device)
{
	const struct gpu_state *gpu = &state->gpus[device->gpu];

	if (device->gpu_instance == NONE)
		return gpu->memory - gpu->memory_reserved;
	return gpu->gpu_profiles[gpu->gpu_instances[device->gpu_instance].profile].memory_mib * MIB;
}

unsigned int device_multiprocessors(const struct node_state *state, const struct device *device)
{
	const struct gpu_state *gpu = &state->gpus[device->gpu];
	const struct gpu_instance_state *gpu_instance;
	const struct compute_instance_state *compute_instance;

	if (device->gpu_instance == NONE)
		return gpu->multiprocessors;
	gpu_instance = &gpu->gpu_instances[device->gpu_instance];
	compute_instance = &gpu_instance->compute_instances[device->compute_instance];
	return gpu->gpu_profiles[gpu_instance->profile].compute_profiles[compute_instance->profile].multiprocessors;
}
