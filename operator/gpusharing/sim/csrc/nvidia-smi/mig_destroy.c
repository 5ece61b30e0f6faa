/* -dgi and -dci */
#include "mig.h"

#define DESTROY_GPU "destroy GPU instances"
#define DESTROY_COMPUTE "destroy compute instances"

static nvmlReturn_t destroy_gpu_instance(const struct gpu_instance *instance, void *unused)
{
	unsigned int id = instance->info.id, gpu = gpu_index(instance->info.device);
	nvmlReturn_t error = nvmlGpuInstanceDestroy(instance->handle);

	(void)unused;
	if (error) {
		printf("Unable to destroy GPU instance ID %2u from GPU %2u: %s\n", id, gpu, nvmlErrorString(error));
		return report_failure(DESTROY_GPU, error);
	}
	printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", id, gpu);
	return NVML_SUCCESS;
}

nvmlReturn_t destroy_gpu_instances(const struct selection *selection)
{
	return for_gpu_instances(selection, DESTROY_GPU, destroy_gpu_instance, NULL);
}

static nvmlReturn_t destroy_compute_instance(const struct gpu_instance *parent,
					     const struct compute_instance *instance, void *unused)
{
	unsigned int id = instance->info.id, gpu = gpu_index(parent->info.device);
	nvmlReturn_t error = nvmlComputeInstanceDestroy(instance->handle);

	(void)unused;
	if (error) {
		printf("Unable to destroy compute instance ID %2u from GPU %2u GPU instance ID %2u: %s\n", id, gpu,
		       parent->info.id, nvmlErrorString(error));
		return report_failure(DESTROY_COMPUTE, error);
	}
	printf("Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID %2u\n", id, gpu,
	       parent->info.id);
	return NVML_SUCCESS;
}

nvmlReturn_t destroy_compute_instances(const struct selection *selection)
{
	return for_compute_instances(selection, DESTROY_COMPUTE, destroy_compute_instance, NULL);
}
