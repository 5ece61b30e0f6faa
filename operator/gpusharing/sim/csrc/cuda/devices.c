#include "devices.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/capabilities.h"
#include "driver/limits.h"

static bool has_file(const char *directory, const char *format, unsigned int number)
{
	char name[32], path[4096];

	if (!directory)
		return true;
	snprintf(name, sizeof(name), format, number);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) == 0;
}

static bool has_instance_files(const char *directory, const struct gpu_state *gpu, unsigned int gi, unsigned int ci)
{
	return has_file(directory, "nvidia-caps/nvidia-cap%u", gpu_instance_capability(gpu, gi)) &&
	       has_file(directory, "nvidia-caps/nvidia-cap%u", compute_instance_capability(gpu, gi, ci));
}

static void add(struct cuda_devices *devices, struct cuda_device device, const char *uuid)
{
	if (devices->count == ARRAY_LENGTH(devices->devices))
		return;
	snprintf(device.uuid, sizeof(device.uuid), "%s", uuid);
	devices->devices[devices->count++] = device;
}

static void add_mig_devices(const struct gpu_state *gpu, struct cuda_device device, const char *device_files,
			    struct cuda_devices *devices)
{
	for (unsigned int gi = 0; gi < ARRAY_LENGTH(gpu->gpu_instances); gi++) {
		const struct gpu_instance_state *instance = &gpu->gpu_instances[gi];

		for (unsigned int ci = 0; instance->exists && ci < ARRAY_LENGTH(instance->compute_instances); ci++) {
			if (!instance->compute_instances[ci].exists || !has_instance_files(device_files, gpu, gi, ci))
				continue;
			device.place.gpu_instance = gi;
			device.place.compute_instance = ci;
			add(devices, device, instance->compute_instances[ci].uuid);
		}
	}
}

void find_devices(const struct node_state *state, const char *device_files, struct cuda_devices *devices)
{
	unsigned int ordinal = 0;

	devices->count = 0;
	for (unsigned int index = 0; state->driver.loaded && index < state->gpu_count; index++) {
		const struct gpu_state *gpu = &state->gpus[index];
		struct cuda_device device = {
			.place = {.gpu = index, .gpu_instance = NONE, .compute_instance = NONE},
		};

		if (gpu->lost || !has_file(device_files, "nvidia%u", gpu->minor))
			continue;
		device.ordinal = ordinal++;
		if (gpu->mig_mode_current)
			add_mig_devices(gpu, device, device_files, devices);
		else
			add(devices, device, gpu->uuid);
	}
}

/* UUIDs may be abbreviated. */
static bool names(const char *entry, const struct cuda_device *device)
{
	char *end;
	unsigned long ordinal = strtoul(entry, &end, 10);

	if (*entry && !*end)
		return ordinal == device->ordinal;
	return *entry && strncmp(device->uuid, entry, strlen(entry)) == 0;
}

static const struct cuda_device *find(const struct cuda_devices *devices, const char *entry)
{
	for (unsigned int i = 0; i < devices->count; i++)
		if (names(entry, &devices->devices[i]))
			return &devices->devices[i];
	return NULL;
}

void select_devices(struct cuda_devices *devices, const char *list)
{
	static struct cuda_devices all;
	char copy[4096], *position = copy, *entry;

	if (!list)
		return;
	all = *devices;
	devices->count = 0;
	snprintf(copy, sizeof(copy), "%s", list);
	while ((entry = strsep(&position, ","))) {
		const struct cuda_device *found = find(&all, entry);

		if (!found)
			return;
		add(devices, *found, found->uuid);
		devices->devices[devices->count - 1].ordinal = devices->count - 1;
	}
}

void apply_rule_of_mig(struct cuda_devices *devices)
{
	for (unsigned int i = 0; i < devices->count; i++) {
		if (devices->devices[i].place.gpu_instance == NONE)
			continue;
		devices->devices[0] = devices->devices[i];
		devices->count = 1;
	}
}
