#include "driver/capabilities.h"

unsigned int gpu_instance_capability(const struct gpu_state *gpu, unsigned int gpu_instance)
{
	return CAPABILITY_FIRST_INSTANCE + gpu->minor * CAPABILITY_PER_GPU +
	       gpu_instance * CAPABILITY_PER_GPU_INSTANCE;
}

unsigned int compute_instance_capability(const struct gpu_state *gpu, unsigned int gpu_instance,
					 unsigned int compute_instance)
{
	return gpu_instance_capability(gpu, gpu_instance) + 1 + compute_instance;
}
