/* Into what a GPU can be cut. */
#include <string.h>

#include "driver/limits.h"
#include "driver/mig.h"
#include "nvml/call.h"

/* On a GPU that can do MIG; older drivers answer only while it does. */
static nvmlReturn_t begin_on_profiles(struct call *call, nvmlDevice_t device)
{
	nvmlReturn_t error = begin_on_gpu(call, device);

	if (error)
		return error;
	if (!call->gpu->mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!call->gpu->mig_mode_current && !call->state->driver.profiles_without_mig)
		return NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

static nvmlReturn_t find_by_number(const struct call *call, unsigned int number,
				   const struct gpu_profile_state **profile)
{
	if (number >= call->state->driver.gpu_profile_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*profile = number < ARRAY_LENGTH(call->gpu->gpu_profiles) ? &call->gpu->gpu_profiles[number] : NULL;
	return *profile && (*profile)->exists ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static void fill(nvmlGpuInstanceProfileInfo_t *info, const struct gpu_profile_state *profile)
{
	*info = (nvmlGpuInstanceProfileInfo_t){
		.id = profile->id,
		.sliceCount = profile->slices,
		.instanceCount = profile->max_instances,
		.multiprocessorCount = profile->multiprocessors,
		.copyEngineCount = profile->copy_engines,
		.decoderCount = profile->decoders,
		.encoderCount = profile->encoders,
		.jpegCount = profile->jpegs,
		.ofaCount = profile->ofas,
		.memorySizeMB = profile->memory_mib,
	};
}

static void fill_v2(nvmlGpuInstanceProfileInfo_v2_t *info, const struct gpu_profile_state *profile)
{
	*info = (nvmlGpuInstanceProfileInfo_v2_t){
		.version = info->version,
		.id = profile->id,
		.sliceCount = profile->slices,
		.instanceCount = profile->max_instances,
		.multiprocessorCount = profile->multiprocessors,
		.copyEngineCount = profile->copy_engines,
		.decoderCount = profile->decoders,
		.encoderCount = profile->encoders,
		.jpegCount = profile->jpegs,
		.ofaCount = profile->ofas,
		.memorySizeMB = profile->memory_mib,
	};
	strcpy(info->name, profile->name);
}

static void fill_v3(nvmlGpuInstanceProfileInfo_v3_t *info, const struct gpu_profile_state *profile)
{
	*info = (nvmlGpuInstanceProfileInfo_v3_t){
		.version = info->version,
		.id = profile->id,
		.sliceCount = profile->slices,
		.instanceCount = profile->max_instances,
		.multiprocessorCount = profile->multiprocessors,
		.copyEngineCount = profile->copy_engines,
		.decoderCount = profile->decoders,
		.encoderCount = profile->encoders,
		.jpegCount = profile->jpegs,
		.ofaCount = profile->ofas,
		.memorySizeMB = profile->memory_mib,
		.capabilities = profile->capabilities,
	};
	strcpy(info->name, profile->name);
}

/* `info` begins with its version. */
static nvmlReturn_t fill_versioned(const struct call *call, void *info, const struct gpu_profile_state *profile)
{
	uint32_t version = *(uint32_t *)info;

	if (version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
		fill_v2(info, profile);
	else if (version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v3_t, 3) &&
		 call->state->driver.profile_info_version >= 3)
		fill_v3(info, profile);
	else
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int number,
						 nvmlGpuInstanceProfileInfo_t *info)
{
	SCOPED_CALL(call);
	const struct gpu_profile_state *profile;
	nvmlReturn_t error = begin_on_profiles(&call, device);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = find_by_number(&call, number, &profile);
	if (!error)
		fill(info, profile);
	return error;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int number, void *info)
{
	SCOPED_CALL(call);
	const struct gpu_profile_state *profile;
	nvmlReturn_t error = begin_on_profiles(&call, device);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = find_by_number(&call, number, &profile);
	return error ? error : fill_versioned(&call, info, profile);
}

static nvmlReturn_t find_by_id(const struct call *call, unsigned int id, const struct gpu_profile_state **profile)
{
	*profile = gpu_profile(call->gpu, id);
	return *profile ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id, void *info)
{
	SCOPED_CALL(call);
	const struct gpu_profile_state *profile;
	nvmlReturn_t error = begin_on_profiles(&call, device);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = find_by_id(&call, id, &profile);
	return error ? error : fill_versioned(&call, info, profile);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
							   nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
	SCOPED_CALL(call);
	const struct gpu_profile_state *profile;
	nvmlReturn_t error = begin_on_profiles(&call, device);

	if (error)
		return error;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	error = find_by_id(&call, id, &profile);
	if (error)
		return error;
	*count = profile->start_count;
	for (unsigned int i = 0; placements && i < profile->start_count; i++)
		placements[i] = (nvmlGpuInstancePlacement_t){.start = profile->starts[i], .size = profile->size};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
							nvmlGpuInstancePlacement_t *placements, unsigned int *count)
	__attribute__((alias("nvmlDeviceGetGpuInstancePossiblePlacements_v2")));

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
	SCOPED_CALL(call);
	const struct gpu_profile_state *profile;
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.gpu->mig_mode_current)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	error = find_by_id(&call, id, &profile);
	if (!error)
		*count = gpu_instance_capacity(call.gpu, profile);
	return error;
}
