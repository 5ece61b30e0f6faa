/* Into what a GPU instance can be cut. */
#include <string.h>

#include "driver/limits.h"
#include "driver/mig.h"
#include "nvml/call.h"

#define SHARED_ENGINES 0

static nvmlReturn_t find_by_number(const struct call *call, unsigned int number, unsigned int engines,
				   const struct compute_profile_state **profile)
{
	if (number >= call->state->driver.compute_profile_count || engines != SHARED_ENGINES)
		return NVML_ERROR_INVALID_ARGUMENT;
	*profile = compute_profile(profile_of(call->gpu, call->gpu_instance), number);
	return *profile ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* All compute instances of a GPU instance share its engines; what they have to themselves are multiprocessors. */
static void fill(nvmlComputeInstanceProfileInfo_t *info, const struct gpu_profile_state *profile, unsigned int number)
{
	const struct compute_profile_state *own = &profile->compute_profiles[number];

	*info = (nvmlComputeInstanceProfileInfo_t){
		.id = number,
		.sliceCount = own->slices,
		.instanceCount = own->max_instances,
		.multiprocessorCount = own->multiprocessors,
		.sharedCopyEngineCount = profile->copy_engines,
		.sharedDecoderCount = profile->decoders,
		.sharedEncoderCount = profile->encoders,
		.sharedJpegCount = profile->jpegs,
		.sharedOfaCount = profile->ofas,
	};
}

/* Both versions have the fields of the first one after their own. */
static nvmlReturn_t fill_versioned(const struct call *call, void *info, unsigned int number)
{
	const struct gpu_profile_state *profile = profile_of(call->gpu, call->gpu_instance);
	nvmlComputeInstanceProfileInfo_v3_t *newest = info;
	nvmlComputeInstanceProfileInfo_t first;

	if (newest->version == NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v3_t, 3) &&
	    call->state->driver.profile_info_version >= 3)
		newest->capabilities = 0;
	else if (newest->version != NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	fill(&first, profile, number);
	memcpy(&newest->id, &first, sizeof(first));
	memset(newest->name, 0, sizeof(newest->name));
	strcpy(newest->name, profile->compute_profiles[number].name);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpu_instance, unsigned int number,
							  unsigned int engines, nvmlComputeInstanceProfileInfo_t *info)
{
	SCOPED_CALL(call);
	const struct compute_profile_state *profile;
	nvmlReturn_t error = begin_on_gpu_instance(&call, gpu_instance);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = find_by_number(&call, number, engines, &profile);
	if (!error)
		fill(info, profile_of(call.gpu, call.gpu_instance), number);
	return error;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t gpu_instance, unsigned int number,
							   unsigned int engines, void *info)
{
	SCOPED_CALL(call);
	const struct compute_profile_state *profile;
	nvmlReturn_t error = begin_on_gpu_instance(&call, gpu_instance);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = find_by_number(&call, number, engines, &profile);
	return error ? error : fill_versioned(&call, info, number);
}

/* For root only, with a profile that the GPU instance has. */
static nvmlReturn_t begin_on_profile(struct call *call, nvmlGpuInstance_t gpu_instance, unsigned int id,
				     const void *result, const struct compute_profile_state **profile)
{
	nvmlReturn_t error = begin_on_gpu_instance(call, gpu_instance);

	if (error)
		return error;
	if (!result)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	*profile = compute_profile(profile_of(call->gpu, call->gpu_instance), id);
	return *profile ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gpu_instance, unsigned int id,
								unsigned int *count)
{
	SCOPED_CALL(call);
	const struct compute_profile_state *profile;
	nvmlReturn_t error = begin_on_profile(&call, gpu_instance, id, count, &profile);

	if (!error)
		*count = compute_instance_capacity(call.gpu_instance, profile_of(call.gpu, call.gpu_instance), profile);
	return error;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t gpu_instance, unsigned int id,
								 nvmlComputeInstancePlacement_t *placements,
								 unsigned int *count)
{
	SCOPED_CALL(call);
	const struct compute_profile_state *profile;
	nvmlReturn_t error = begin_on_profile(&call, gpu_instance, id, count, &profile);

	if (error)
		return error;
	*count = profile->start_count;
	for (unsigned int i = 0; placements && i < profile->start_count; i++)
		placements[i] =
			(nvmlComputeInstancePlacement_t){.start = profile->starts[i], .size = profile->slices};
	return NVML_SUCCESS;
}
