#include <string.h>

#include "driver/limits.h"
#include "driver/mig.h"
#include "nvml/call.h"

static nvmlReturn_t begin_privileged(struct call *call, nvmlGpuInstance_t gpu_instance, const void *result)
{
	nvmlReturn_t error = begin_on_gpu_instance(call, gpu_instance);

	if (error)
		return error;
	if (!result)
		return NVML_ERROR_INVALID_ARGUMENT;
	return is_privileged() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

static nvmlComputeInstance_t handle_of(const struct call *call, unsigned int id)
{
	struct device device = {call->device.gpu, call->device.gpu_instance, id};

	return compute_instance_handle(call->state, &device);
}

static nvmlReturn_t create(struct call *call, unsigned int profile, unsigned int start,
			   nvmlComputeInstance_t *compute_instance)
{
	unsigned int id;
	nvmlReturn_t error = create_compute_instance(call->state, call->device.gpu, call->device.gpu_instance, profile,
						     start, &id);

	if (!error)
		*compute_instance = handle_of(call, id);
	return error;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpu_instance, unsigned int profile,
						  nvmlComputeInstance_t *compute_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_privileged(&call, gpu_instance, compute_instance);

	return error ? error : create(&call, profile, NONE, compute_instance);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t gpu_instance, unsigned int id,
							       const nvmlComputeInstancePlacement_t *placement,
							       nvmlComputeInstance_t *compute_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_privileged(&call, gpu_instance, compute_instance);
	const struct compute_profile_state *profile;

	if (error)
		return error;
	profile = compute_profile(profile_of(call.gpu, call.gpu_instance), id);
	if (!profile)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!placement || placement->size != profile->slices || placement->start == NONE)
		return NVML_ERROR_INVALID_ARGUMENT;
	return create(&call, id, placement->start, compute_instance);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_compute_instance(&call, compute_instance);

	if (error)
		return error;
	if (!is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	return destroy_compute_instance(call.state, call.device.gpu, call.device.gpu_instance,
					call.device.compute_instance);
}

/* The caller has room for as many as there can be. */
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpu_instance, unsigned int profile,
						nvmlComputeInstance_t *compute_instances, unsigned int *count)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_privileged(&call, gpu_instance, count);

	if (error)
		return error;
	if (!compute_instances)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!compute_profile(profile_of(call.gpu, call.gpu_instance), profile))
		return NVML_ERROR_NOT_SUPPORTED;
	*count = 0;
	for (unsigned int id = 0; id < ARRAY_LENGTH(call.gpu_instance->compute_instances); id++) {
		const struct compute_instance_state *compute_instance = &call.gpu_instance->compute_instances[id];

		if (compute_instance->exists && compute_instance->profile == profile)
			compute_instances[(*count)++] = handle_of(&call, id);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gpu_instance, unsigned int id,
						   nvmlComputeInstance_t *compute_instance)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_privileged(&call, gpu_instance, compute_instance);

	if (error)
		return error;
	if (id >= ARRAY_LENGTH(call.gpu_instance->compute_instances) || !call.gpu_instance->compute_instances[id].exists)
		return NVML_ERROR_NOT_FOUND;
	*compute_instance = handle_of(&call, id);
	return NVML_SUCCESS;
}

static void fill(const struct call *call, nvmlComputeInstanceInfo_t *info, nvmlDevice_t device)
{
	const struct compute_profile_state *profile =
		compute_profile(profile_of(call->gpu, call->gpu_instance), call->compute_instance->profile);

	*info = (nvmlComputeInstanceInfo_t){
		.device = device,
		.gpuInstance = gpu_instance_handle(call->state, call->device.gpu, call->device.gpu_instance),
		.id = call->device.compute_instance,
		.profileId = call->compute_instance->profile,
		.placement = {.start = call->compute_instance->start, .size = profile->slices},
	};
}

/* Names the MIG device. */
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute_instance, nvmlComputeInstanceInfo_t *info)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_compute_instance(&call, compute_instance);

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	fill(&call, info, mig_device_handle(call.state, &call.device));
	return NVML_SUCCESS;
}

/* Names the GPU, and has no placement. */
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute_instance, nvmlComputeInstanceInfo_t *info)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_compute_instance(&call, compute_instance);
	nvmlComputeInstanceInfo_t whole;

	if (error)
		return error;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	fill(&call, &whole, gpu_handle(call.state, call.device.gpu));
	memcpy(info, &whole, offsetof(nvmlComputeInstanceInfo_t, placement));
	return NVML_SUCCESS;
}
