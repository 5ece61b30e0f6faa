#include <stdio.h>

#include "driver/change.h"
#include "driver/limits.h"
#include "driver/mig.h"
#include "driver/placement.h"
#include "driver/processes.h"

const struct compute_profile_state *compute_profile(const struct gpu_profile_state *profile, unsigned int id)
{
	if (id >= ARRAY_LENGTH(profile->compute_profiles) || !profile->compute_profiles[id].exists)
		return NULL;
	return &profile->compute_profiles[id];
}

static const struct compute_profile_state *profile_of_compute(const struct gpu_profile_state *profile,
							      const struct compute_instance_state *compute_instance)
{
	return &profile->compute_profiles[compute_instance->profile];
}

static bool is_compute_occupied(const struct gpu_instance_state *gpu_instance, const struct gpu_profile_state *profile,
				unsigned int start, unsigned int slices)
{
	for (unsigned int id = 0; id < ARRAY_LENGTH(gpu_instance->compute_instances); id++) {
		const struct compute_instance_state *other = &gpu_instance->compute_instances[id];

		if (other->exists && overlap(start, slices, other->start, profile_of_compute(profile, other)->slices))
			return true;
	}
	return false;
}

unsigned int compute_instance_capacity(const struct gpu_instance_state *gpu_instance,
				       const struct gpu_profile_state *profile,
				       const struct compute_profile_state *compute_profile)
{
	unsigned int places = 0;

	for (unsigned int i = 0; i < compute_profile->start_count; i++)
		places += !is_compute_occupied(gpu_instance, profile, compute_profile->starts[i],
					       compute_profile->slices);
	return places;
}

static unsigned int choose_compute_start(const struct gpu_instance_state *gpu_instance,
					 const struct gpu_profile_state *profile,
					 const struct compute_profile_state *compute_profile)
{
	for (unsigned int i = 0; i < compute_profile->start_count; i++)
		if (!is_compute_occupied(gpu_instance, profile, compute_profile->starts[i], compute_profile->slices))
			return compute_profile->starts[i];
	return NONE;
}

static bool is_index_free(const struct gpu_state *gpu, unsigned int index)
{
	for (unsigned int gi = 0; gi < ARRAY_LENGTH(gpu->gpu_instances); gi++) {
		const struct gpu_instance_state *gpu_instance = &gpu->gpu_instances[gi];

		for (unsigned int ci = 0; gpu_instance->exists && ci < ARRAY_LENGTH(gpu_instance->compute_instances); ci++)
			if (gpu_instance->compute_instances[ci].exists &&
			    gpu_instance->compute_instances[ci].index == index)
				return false;
	}
	return true;
}

static unsigned int free_index(const struct gpu_state *gpu)
{
	unsigned int index = 0;

	while (!is_index_free(gpu, index))
		index++;
	return index;
}

static uint64_t scramble(uint64_t number)
{
	number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9ULL;
	number = (number ^ number >> 27) * 0x94d049bb133111ebULL;
	return number ^ number >> 31;
}

/* A new one each time, and the same ones again for a node with the same seed. */
static void write_uuid(char *uuid, size_t size, uint64_t seed, unsigned int count)
{
	uint64_t high = scramble(seed + 2 * count), low = scramble(seed + 2 * count + 1);

	snprintf(uuid, size, "MIG-%08x-%04x-5%03x-%04x-%012llx", (unsigned int)(high >> 32),
		 (unsigned int)(high >> 16 & 0xffff), (unsigned int)(high & 0xfff),
		 (unsigned int)(0x8000 | (low >> 48 & 0x3fff)), (unsigned long long)(low & 0xffffffffffff));
}

static void add_compute_instance(struct node_state *state, unsigned int index, unsigned int gi, unsigned int profile,
				 unsigned int start, unsigned int ci)
{
	struct gpu_state *gpu = &state->gpus[index];
	struct compute_instance_state *compute_instance = &gpu->gpu_instances[gi].compute_instances[ci];
	unsigned int device_index = free_index(gpu);

	begin_change(state, index);
	*compute_instance = (struct compute_instance_state){
		.exists = 1,
		.profile = profile,
		.start = start,
		.index = device_index,
		.generation = ++gpu->instances_made,
		.compute_mode = COMPUTE_MODE_DEFAULT,
	};
	write_uuid(compute_instance->uuid, sizeof(compute_instance->uuid), gpu->mig_uuid_seed, gpu->instances_made);
	end_mig_change(state, index);
}

static unsigned int free_compute_id(const struct gpu_instance_state *gpu_instance)
{
	unsigned int id = 0;

	while (gpu_instance->compute_instances[id].exists)
		id++;
	return id;
}

nvmlReturn_t create_compute_instance(struct node_state *state, unsigned int index, unsigned int gi,
				     unsigned int profile_id, unsigned int start, unsigned int *id)
{
	struct gpu_state *gpu = &state->gpus[index];
	struct gpu_instance_state *gpu_instance = &gpu->gpu_instances[gi];
	const struct gpu_profile_state *profile = profile_of(gpu, gpu_instance);
	const struct compute_profile_state *wanted = compute_profile(profile, profile_id);

	if (!wanted)
		return NVML_ERROR_NOT_SUPPORTED;
	if (start == NONE)
		start = choose_compute_start(gpu_instance, profile, wanted);
	else if (!allows_start(wanted->starts, wanted->start_count, start))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (start == NONE || is_compute_occupied(gpu_instance, profile, start, wanted->slices))
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	*id = free_compute_id(gpu_instance);
	add_compute_instance(state, index, gi, profile_id, start, *id);
	return NVML_SUCCESS;
}

bool has_compute_instances(const struct gpu_instance_state *gpu_instance)
{
	for (unsigned int id = 0; id < ARRAY_LENGTH(gpu_instance->compute_instances); id++)
		if (gpu_instance->compute_instances[id].exists)
			return true;
	return false;
}

nvmlReturn_t destroy_compute_instance(struct node_state *state, unsigned int gpu, unsigned int gpu_instance,
				      unsigned int id)
{
	reap_processes(state, gpu);
	if (has_processes(&state->gpus[gpu], gpu_instance, id))
		return NVML_ERROR_IN_USE;
	begin_change(state, gpu);
	state->gpus[gpu].gpu_instances[gpu_instance].compute_instances[id].exists = 0;
	end_mig_change(state, gpu);
	return NVML_SUCCESS;
}
