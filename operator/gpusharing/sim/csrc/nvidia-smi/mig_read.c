/* What there is, as the commands need it. */
#include <stdlib.h>
#include <string.h>

#include "mig.h"

/* Smaller ones first. */
static int compare_profiles(const void *one, const void *other)
{
	const nvmlGpuInstanceProfileInfo_v2_t *a = one, *b = other;

	if (a->sliceCount != b->sliceCount)
		return a->sliceCount < b->sliceCount ? -1 : 1;
	if (a->memorySizeMB != b->memorySizeMB)
		return a->memorySizeMB < b->memorySizeMB ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

nvmlReturn_t read_gpu_profiles(nvmlDevice_t gpu, struct gpu_profiles *profiles)
{
	profiles->count = 0;
	for (unsigned int number = 0; number < MAX_GPU_PROFILES; number++) {
		nvmlGpuInstanceProfileInfo_v2_t *profile = &profiles->items[profiles->count];
		nvmlReturn_t error;

		profile->version = NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2);
		error = nvmlDeviceGetGpuInstanceProfileInfoV(gpu, number, profile);
		/* More than this driver knows. */
		if (error == NVML_ERROR_INVALID_ARGUMENT)
			break;
		if (error && error != NVML_ERROR_NOT_SUPPORTED)
			return error;
		profiles->count += !error;
	}
	qsort(profiles->items, profiles->count, sizeof(profiles->items[0]), compare_profiles);
	return NVML_SUCCESS;
}

nvmlReturn_t read_compute_profiles(nvmlGpuInstance_t gpu_instance, struct compute_profiles *profiles)
{
	profiles->count = 0;
	for (unsigned int number = 0; number < MAX_COMPUTE_PROFILES; number++) {
		nvmlComputeInstanceProfileInfo_v2_t *profile = &profiles->items[profiles->count];
		nvmlReturn_t error;

		profile->version = NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2);
		error = nvmlGpuInstanceGetComputeInstanceProfileInfoV(gpu_instance, number, 0, profile);
		if (error == NVML_ERROR_INVALID_ARGUMENT)
			break;
		if (error && error != NVML_ERROR_NOT_SUPPORTED)
			return error;
		profiles->count += !error;
	}
	return NVML_SUCCESS;
}

bool is_default(const nvmlComputeInstanceProfileInfo_v2_t *profile, const struct gpu_instance *parent)
{
	return profile->sliceCount == parent->profile.sliceCount;
}

/* In a list of numbers with commas between them; all numbers are in none. */
static bool is_listed(const char *list, unsigned int number)
{
	if (!list)
		return true;
	while (*list) {
		size_t length = strcspn(list, ",");
		char *end;

		if (strtoul(list, &end, 10) == number && end != list && end == list + length)
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

static int compare_gpu_instances(const void *one, const void *other)
{
	const struct gpu_instance *a = one, *b = other;

	return (a->info.id > b->info.id) - (a->info.id < b->info.id);
}

static nvmlReturn_t read_of_profile(nvmlDevice_t gpu, const nvmlGpuInstanceProfileInfo_v2_t *profile,
				    const struct selection *selection, struct gpu_instances *found)
{
	nvmlGpuInstance_t handles[MAX_GPU_INSTANCES];
	unsigned int count = 0, before = found->count;
	nvmlReturn_t error = nvmlDeviceGetGpuInstances(gpu, profile->id, handles, &count);

	for (unsigned int i = 0; !error && i < count; i++) {
		struct gpu_instance *item = &found->items[found->count];

		item->handle = handles[i];
		item->profile = *profile;
		error = nvmlGpuInstanceGetInfo(handles[i], &item->info);
		found->count += !error && is_listed(selection->gpu_instances, item->info.id);
	}
	qsort(&found->items[before], found->count - before, sizeof(found->items[0]), compare_gpu_instances);
	return error;
}

nvmlReturn_t read_gpu_instances(nvmlDevice_t gpu, const struct selection *selection, struct gpu_instances *found)
{
	struct gpu_profiles profiles;
	nvmlReturn_t error = read_gpu_profiles(gpu, &profiles);

	found->count = 0;
	for (unsigned int i = 0; !error && i < profiles.count; i++)
		error = read_of_profile(gpu, &profiles.items[i], selection, found);
	return error;
}

static int compare_compute_instances(const void *one, const void *other)
{
	const struct compute_instance *a = one, *b = other;

	return (a->info.id > b->info.id) - (a->info.id < b->info.id);
}

static nvmlReturn_t read_of_compute_profile(const struct gpu_instance *parent,
					    const nvmlComputeInstanceProfileInfo_v2_t *profile,
					    const struct selection *selection, struct compute_instances *found)
{
	nvmlComputeInstance_t handles[MAX_COMPUTE_INSTANCES];
	unsigned int count = 0;
	nvmlReturn_t error = nvmlGpuInstanceGetComputeInstances(parent->handle, profile->id, handles, &count);

	for (unsigned int i = 0; !error && i < count; i++) {
		struct compute_instance *item = &found->items[found->count];

		item->handle = handles[i];
		item->profile = *profile;
		error = nvmlComputeInstanceGetInfo_v2(handles[i], &item->info);
		found->count += !error && is_listed(selection->compute_instances, item->info.id);
	}
	return error;
}

nvmlReturn_t read_compute_instances(const struct gpu_instance *parent, const struct selection *selection,
				    struct compute_instances *found)
{
	struct compute_profiles profiles;
	nvmlReturn_t error = read_compute_profiles(parent->handle, &profiles);

	found->count = 0;
	for (unsigned int i = 0; !error && i < profiles.count; i++)
		error = read_of_compute_profile(parent, &profiles.items[i], selection, found);
	qsort(found->items, found->count, sizeof(found->items[0]), compare_compute_instances);
	return error;
}

nvmlReturn_t select_mig_gpus(const struct selection *selection, struct gpus *gpus)
{
	struct gpus all;
	nvmlReturn_t error = select_gpus(selection->gpus, &all);

	gpus->count = 0;
	for (unsigned int i = 0; !error && i < all.count; i++) {
		unsigned int current = 0, pending;

		error = nvmlDeviceGetMigMode(all.devices[i], &current, &pending);
		if (error == NVML_ERROR_NOT_SUPPORTED)
			error = NVML_SUCCESS;
		if (!error && current)
			gpus->devices[gpus->count++] = all.devices[i];
	}
	if (error || gpus->count)
		return error;
	printf("No MIG-enabled devices found.\n");
	return NVML_ERROR_NOT_FOUND;
}
