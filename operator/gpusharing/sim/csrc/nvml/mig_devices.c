/* MIG devices: compute instances that are used like GPUs. */
#include "driver/limits.h"
#include "driver/mig.h"
#include "nvml/call.h"

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig_device)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);

	if (error)
		return error;
	if (!is_mig_device)
		return NVML_ERROR_INVALID_ARGUMENT;
	*is_mig_device = call.compute_instance != NULL;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_mig_device(&call, device);

	if (error)
		return error;
	if (!id)
		return NVML_ERROR_INVALID_ARGUMENT;
	*id = call.device.gpu_instance;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_mig_device(&call, device);

	if (error)
		return error;
	if (!id)
		return NVML_ERROR_INVALID_ARGUMENT;
	*id = call.device.compute_instance;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = call.gpu->mig_mode_current ? call.gpu->max_mig_devices : 0;
	return NVML_SUCCESS;
}

static bool find_by_index(const struct call *call, unsigned int index, struct device *device)
{
	for (unsigned int gi = 0; gi < ARRAY_LENGTH(call->gpu->gpu_instances); gi++) {
		const struct gpu_instance_state *gpu_instance = &call->gpu->gpu_instances[gi];

		if (!gpu_instance->exists)
			continue;
		for (unsigned int ci = 0; ci < ARRAY_LENGTH(gpu_instance->compute_instances); ci++) {
			const struct compute_instance_state *compute_instance = &gpu_instance->compute_instances[ci];

			if (compute_instance->exists && compute_instance->index == index) {
				*device = (struct device){call->device.gpu, gi, ci};
				return true;
			}
		}
	}
	return false;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);
	struct device found;

	if (error)
		return error;
	if (!call.gpu->mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!mig || !call.gpu->mig_mode_current || index >= call.gpu->max_mig_devices)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!find_by_index(&call, index, &found))
		return NVML_ERROR_NOT_FOUND;
	*mig = mig_device_handle(call.state, &found);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_mig_device(&call, mig);

	if (error)
		return error;
	if (!device)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = gpu_handle(call.state, call.device.gpu);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);
	const struct gpu_profile_state *profile;

	if (error)
		return error;
	if (!attributes)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.compute_instance)
		return NVML_ERROR_NOT_SUPPORTED;
	profile = profile_of(call.gpu, call.gpu_instance);
	*attributes = (nvmlDeviceAttributes_t){
		.multiprocessorCount = device_multiprocessors(call.state, &call.device),
		.sharedCopyEngineCount = profile->copy_engines,
		.sharedDecoderCount = profile->decoders,
		.sharedEncoderCount = profile->encoders,
		.sharedJpegCount = profile->jpegs,
		.sharedOfaCount = profile->ofas,
		.gpuInstanceSliceCount = profile->slices,
		.computeInstanceSliceCount = compute_profile(profile, call.compute_instance->profile)->slices,
		.memorySizeMB = profile->memory_mib,
	};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
	__attribute__((alias("nvmlDeviceGetAttributes_v2")));
