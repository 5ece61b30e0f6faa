#include "driver/mig.h"

#include <string.h>

#include "driver/change.h"
#include "driver/limits.h"
#include "driver/placement.h"
#include "driver/processes.h"

const struct gpu_profile_state *gpu_profile(const struct gpu_state *gpu, unsigned int id)
{
	for (unsigned int i = 0; i < ARRAY_LENGTH(gpu->gpu_profiles); i++)
		if (gpu->gpu_profiles[i].exists && gpu->gpu_profiles[i].id == id)
			return &gpu->gpu_profiles[i];
	return NULL;
}

const struct gpu_profile_state *profile_of(const struct gpu_state *gpu, const struct gpu_instance_state *gpu_instance)
{
	return &gpu->gpu_profiles[gpu_instance->profile];
}

static bool is_occupied(const struct gpu_state *gpu, unsigned int start, unsigned int size)
{
	for (unsigned int id = 0; id < ARRAY_LENGTH(gpu->gpu_instances); id++) {
		const struct gpu_instance_state *other = &gpu->gpu_instances[id];

		if (other->exists && overlap(start, size, other->start, profile_of(gpu, other)->size))
			return true;
	}
	return false;
}

/* A GPU has one full set of engines for video and pictures: one instance may have it, or all of what there is. */
static bool media_exclude(uint32_t one, uint32_t other)
{
	if (one == MEDIA_ALL || other == MEDIA_ALL)
		return one != MEDIA_NONE && other != MEDIA_NONE;
	return one == MEDIA_ONE && other == MEDIA_ONE;
}

static bool media_are_taken(const struct gpu_state *gpu, const struct gpu_profile_state *profile)
{
	for (unsigned int id = 0; id < ARRAY_LENGTH(gpu->gpu_instances); id++) {
		const struct gpu_instance_state *other = &gpu->gpu_instances[id];

		if (other->exists && media_exclude(profile->media, profile_of(gpu, other)->media))
			return true;
	}
	return false;
}

static unsigned int count_instances(const struct gpu_state *gpu, const struct gpu_profile_state *profile)
{
	unsigned int count = 0;

	for (unsigned int id = 0; id < ARRAY_LENGTH(gpu->gpu_instances); id++)
		count += gpu->gpu_instances[id].exists && profile_of(gpu, &gpu->gpu_instances[id]) == profile;
	return count;
}

/* The places of a profile do not overlap each other. */
unsigned int gpu_instance_capacity(const struct gpu_state *gpu, const struct gpu_profile_state *profile)
{
	unsigned int places = 0, left = profile->max_instances - count_instances(gpu, profile);

	if (media_are_taken(gpu, profile))
		return 0;
	for (unsigned int i = 0; i < profile->start_count; i++)
		places += !is_occupied(gpu, profile->starts[i], profile->size);
	return places < left ? places : left;
}

static unsigned int choose_start(const struct gpu_state *gpu, const struct gpu_profile_state *profile)
{
	for (unsigned int i = 0; i < profile->start_count; i++)
		if (!is_occupied(gpu, profile->preference[i], profile->size))
			return profile->preference[i];
	return NONE;
}

/* The place in the tree of halves: the whole GPU is 0, its halves are 1 and 2. So ids have gaps, as the real ones. */
static unsigned int id_of_place(const struct gpu_state *gpu, const struct gpu_profile_state *profile, unsigned int start)
{
	return gpu->memory_slices / profile->size - 1 + start / profile->size;
}

static void add_gpu_instance(struct node_state *state, unsigned int index, const struct gpu_profile_state *profile,
			     unsigned int start, unsigned int id)
{
	struct gpu_state *gpu = &state->gpus[index];

	begin_change(state, index);
	gpu->gpu_instances[id] = (struct gpu_instance_state){
		.exists = 1,
		.profile = profile - gpu->gpu_profiles,
		.start = start,
		.generation = ++gpu->instances_made,
	};
	end_mig_change(state, index);
}

nvmlReturn_t create_gpu_instance(struct node_state *state, unsigned int index, unsigned int profile_id,
				 unsigned int start, unsigned int *id)
{
	struct gpu_state *gpu = &state->gpus[index];
	const struct gpu_profile_state *profile = gpu_profile(gpu, profile_id);

	if (!profile)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (start != NONE && !allows_start(profile->starts, profile->start_count, start))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!gpu_instance_capacity(gpu, profile))
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	if (start == NONE)
		start = choose_start(gpu, profile);
	else if (is_occupied(gpu, start, profile->size))
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	*id = id_of_place(gpu, profile, start);
	add_gpu_instance(state, index, profile, start, *id);
	return NVML_SUCCESS;
}

nvmlReturn_t destroy_gpu_instance(struct node_state *state, unsigned int gpu, unsigned int id)
{
	struct gpu_instance_state *gpu_instance = &state->gpus[gpu].gpu_instances[id];

	reap_processes(state, gpu);
	if (has_compute_instances(gpu_instance) || has_processes(&state->gpus[gpu], id, NONE))
		return NVML_ERROR_IN_USE;
	begin_change(state, gpu);
	gpu_instance->exists = 0;
	end_mig_change(state, gpu);
	return NVML_SUCCESS;
}

bool has_gpu_instances(const struct gpu_state *gpu)
{
	for (unsigned int id = 0; id < ARRAY_LENGTH(gpu->gpu_instances); id++)
		if (gpu->gpu_instances[id].exists)
			return true;
	return false;
}

void forget_all_instances(struct gpu_state *gpu)
{
	memset(gpu->gpu_instances, 0, sizeof(gpu->gpu_instances));
}
