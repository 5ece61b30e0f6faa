#include "driver/limits.h"
#include "driver/mig.h"
#include "nvml/call.h"

/* What all calls on instances need: a place for the result, MIG mode, and root. */
static nvmlReturn_t begin_with_mig(struct call *call, nvmlDevice_t device, const void *result)
{
	nvmlReturn_t error = begin_on_gpu(call, device);

	if (error)
		return error;
	if (!result)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call->gpu->mig_mode_current)
		return NVML_ERROR_NOT_SUPPORTED;
	return is_privileged() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

static nvmlReturn_t create(struct call *call, unsigned int profile, unsigned int start, nvmlGpuInstance_t *gpu_instance)
{
	unsigned int id;
	nvmlReturn_t error = create_gpu_instance(call->state, call->device.gpu, profile, start, &id);

	if (!error)
		*gpu_instance = gpu_instance_handle(call->state, call->device.gpu, id);
	return error;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile, nvmlGpuInstance_t *gpu_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_with_mig(&call, device, gpu_instance);

	return error ? error : create(&call, profile, NONE, gpu_instance);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
						      const nvmlGpuInstancePlacement_t *placement,
						      nvmlGpuInstance_t *gpu_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_with_mig(&call, device, gpu_instance);
	const struct gpu_profile_state *profile;

	if (error)
		return error;
	profile = gpu_profile(call.gpu, id);
	if (!placement || !profile || placement->size != profile->size || placement->start == NONE)
		return NVML_ERROR_INVALID_ARGUMENT;
	return create(&call, id, placement->start, gpu_instance);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpu_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu_instance(&call, gpu_instance);

	if (error)
		return error;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	return destroy_gpu_instance(call.state, call.device.gpu, call.device.gpu_instance);
}

/* The caller has room for as many as there can be. */
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *gpu_instances,
				       unsigned int *count)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_with_mig(&call, device, count);
	const struct gpu_profile_state *profile;

	if (error)
		return error;
	profile = gpu_profile(call.gpu, id);
	if (!profile || !gpu_instances)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	for (unsigned int gi = 0; gi < ARRAY_LENGTH(call.gpu->gpu_instances); gi++) {
		const struct gpu_instance_state *gpu_instance = &call.gpu->gpu_instances[gi];

		if (gpu_instance->exists && profile_of(call.gpu, gpu_instance) == profile)
			gpu_instances[(*count)++] = gpu_instance_handle(call.state, call.device.gpu, gi);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *gpu_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_with_mig(&call, device, gpu_instance);

	if (error)
		return error;
	if (id >= ARRAY_LENGTH(call.gpu->gpu_instances) || !call.gpu->gpu_instances[id].exists)
		return NVML_ERROR_NOT_FOUND;
	*gpu_instance = gpu_instance_handle(call.state, call.device.gpu, id);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpu_instance, nvmlGpuInstanceInfo_t *info)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu_instance(&call, gpu_instance);
	const struct gpu_profile_state *profile;

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	profile = profile_of(call.gpu, call.gpu_instance);
	*info = (nvmlGpuInstanceInfo_t){
		.device = gpu_handle(call.state, call.device.gpu),
		.id = call.device.gpu_instance,
		.profileId = profile->id,
		.placement = {.start = call.gpu_instance->start, .size = profile->size},
	};
	return NVML_SUCCESS;
}
