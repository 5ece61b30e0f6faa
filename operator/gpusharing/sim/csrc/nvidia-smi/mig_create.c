/* -cgi and -cci. What was made before something fails stays, as with the real tool. */
#include "mig.h"

#define CREATE_COMPUTE "create compute instances"

static nvmlReturn_t create_at(const struct gpu_instance *parent, const nvmlComputeInstanceProfileInfo_v2_t *profile,
			      const struct request *request, nvmlComputeInstance_t *handle)
{
	nvmlComputeInstancePlacement_t placement = {.size = profile->sliceCount};

	if (!request || !request->has_start)
		return nvmlGpuInstanceCreateComputeInstance(parent->handle, profile->id, handle);
	placement.start = request->start;
	return nvmlGpuInstanceCreateComputeInstanceWithPlacement(parent->handle, profile->id, &placement, handle);
}

static const nvmlComputeInstanceProfileInfo_v2_t *choose_compute_profile(const struct compute_profiles *profiles,
									  const struct gpu_instance *parent,
									  const struct request *request)
{
	for (unsigned int i = 0; i < profiles->count; i++) {
		const nvmlComputeInstanceProfileInfo_v2_t *profile = &profiles->items[i];

		if (request ? is_requested(request, profile->id, profile->name) : is_default(profile, parent))
			return profile;
	}
	return NULL;
}

static nvmlReturn_t refuse_compute_instance(const struct gpu_instance *parent, const struct request *request,
					    nvmlReturn_t error)
{
	printf("Unable to create a compute instance on GPU %2u GPU instance ID %2u using profile %s: %s\n",
	       gpu_index(parent->info.device), parent->info.id, request ? request->profile : parent->profile.name,
	       nvmlErrorString(error));
	return report_failure(CREATE_COMPUTE, error);
}

/* The default one without a request. */
static nvmlReturn_t create_compute_instance(const struct gpu_instance *parent, const struct request *request)
{
	struct compute_profiles profiles;
	const nvmlComputeInstanceProfileInfo_v2_t *profile = NULL;
	nvmlComputeInstance_t handle;
	nvmlComputeInstanceInfo_t info;
	nvmlReturn_t error = read_compute_profiles(parent->handle, &profiles);

	if (!error) {
		profile = choose_compute_profile(&profiles, parent, request);
		error = profile ? create_at(parent, profile, request, &handle) : NVML_ERROR_INVALID_ARGUMENT;
	}
	if (!error)
		error = nvmlComputeInstanceGetInfo_v2(handle, &info);
	if (error)
		return refuse_compute_instance(parent, request, error);
	printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using profile MIG %s "
	       "(ID %2u)\n",
	       info.id, gpu_index(parent->info.device), parent->info.id, profile->name, profile->id);
	return NVML_SUCCESS;
}

static nvmlReturn_t create_all_compute_instances(const struct gpu_instance *parent, void *argument)
{
	const char *profiles = argument;
	struct request request;
	nvmlReturn_t error = NVML_SUCCESS;

	if (!profiles)
		return create_compute_instance(parent, NULL);
	while (!error && next_request(&profiles, &request))
		error = create_compute_instance(parent, &request);
	return error;
}

nvmlReturn_t create_compute_instances(const struct selection *selection, const char *profiles)
{
	return for_gpu_instances(selection, CREATE_COMPUTE, create_all_compute_instances, (void *)profiles);
}

static nvmlReturn_t create_gpu_instance_at(nvmlDevice_t gpu, const struct request *request, unsigned int profile,
					   nvmlGpuInstance_t *handle)
{
	nvmlGpuInstancePlacement_t placement = {.start = request->start};
	nvmlGpuInstancePlacement_t possible[ARRAY_LENGTH(((struct gpu_profile_state *)0)->starts)];
	unsigned int count = ARRAY_LENGTH(possible);
	nvmlReturn_t error;

	if (!request->has_start)
		return nvmlDeviceCreateGpuInstance(gpu, profile, handle);
	error = nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, profile, possible, &count);
	if (error)
		return error;
	placement.size = possible[0].size;
	return nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, &placement, handle);
}

static nvmlReturn_t refuse_gpu_instance(nvmlDevice_t gpu, const struct request *request, nvmlReturn_t error)
{
	printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n", gpu_index(gpu), request->profile,
	       nvmlErrorString(error));
	return report_failure("create GPU instances", error);
}

static const nvmlGpuInstanceProfileInfo_v2_t *choose_gpu_profile(const struct gpu_profiles *profiles,
								  const struct request *request)
{
	for (unsigned int i = 0; i < profiles->count; i++)
		if (is_requested(request, profiles->items[i].id, profiles->items[i].name))
			return &profiles->items[i];
	return NULL;
}

static nvmlReturn_t create_gpu_instance(nvmlDevice_t gpu, const struct request *request, bool with_default)
{
	struct gpu_profiles profiles;
	const nvmlGpuInstanceProfileInfo_v2_t *profile = NULL;
	struct gpu_instance made;
	nvmlReturn_t error = read_gpu_profiles(gpu, &profiles);

	if (!error) {
		profile = choose_gpu_profile(&profiles, request);
		error = profile ? create_gpu_instance_at(gpu, request, profile->id, &made.handle)
				: NVML_ERROR_INVALID_ARGUMENT;
	}
	if (!error)
		error = nvmlGpuInstanceGetInfo(made.handle, &made.info);
	if (error)
		return refuse_gpu_instance(gpu, request, error);
	made.profile = *profile;
	printf("Successfully created GPU instance ID %2u on GPU %2u using profile MIG %s (ID %2u)\n", made.info.id,
	       gpu_index(gpu), profile->name, profile->id);
	return with_default ? create_compute_instance(&made, NULL) : NVML_SUCCESS;
}

static nvmlReturn_t create_all_gpu_instances(nvmlDevice_t gpu, const char *profiles, bool with_default)
{
	struct request request;
	nvmlReturn_t error = NVML_SUCCESS;

	while (!error && next_request(&profiles, &request))
		error = create_gpu_instance(gpu, &request, with_default);
	return error;
}

nvmlReturn_t create_gpu_instances(const struct selection *selection, const char *profiles, bool with_default)
{
	struct gpus gpus;
	nvmlReturn_t error = select_mig_gpus(selection, &gpus);

	for (unsigned int i = 0; !error && i < gpus.count; i++)
		error = create_all_gpu_instances(gpus.devices[i], profiles, with_default);
	return error;
}
