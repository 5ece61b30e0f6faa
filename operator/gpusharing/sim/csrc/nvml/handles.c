#include "nvml/handles.h"

#include "driver/limits.h"

/* From the left: 16 bits of kind, 8 each of GPU, GPU instance and compute instance, 24 of generation. */
#define KIND_SHIFT 48
#define GPU_SHIFT 40
#define GPU_INSTANCE_SHIFT 32
#define COMPUTE_INSTANCE_SHIFT 24
#define BYTE_MASK 0xffU
#define GENERATION_MASK 0xffffffU

/* The generations of each GPU that this process has gone through itself, under the lock of the state. */
static struct {
	unsigned int first;
	unsigned int last;
} kept[ARRAY_LENGTH(((struct node_state *)0)->gpus)];

static void *encode(enum handle_kind kind, const struct device *device, unsigned int generation)
{
	return (void *)((uint64_t)kind << KIND_SHIFT | (uint64_t)device->gpu << GPU_SHIFT |
			(uint64_t)(device->gpu_instance & BYTE_MASK) << GPU_INSTANCE_SHIFT |
			(uint64_t)(device->compute_instance & BYTE_MASK) << COMPUTE_INSTANCE_SHIFT |
			(generation & GENERATION_MASK));
}

struct handle decode_handle(const void *handle)
{
	uint64_t number = (uint64_t)handle;

	return (struct handle){
		.kind = number >> KIND_SHIFT,
		.device = {
			.gpu = number >> GPU_SHIFT & BYTE_MASK,
			.gpu_instance = number >> GPU_INSTANCE_SHIFT & BYTE_MASK,
			.compute_instance = number >> COMPUTE_INSTANCE_SHIFT & BYTE_MASK,
		},
		.generation = number & GENERATION_MASK,
	};
}

static const struct gpu_instance_state *gpu_instance_at(const struct node_state *state, const struct device *device)
{
	return &state->gpus[device->gpu].gpu_instances[device->gpu_instance];
}

static const struct compute_instance_state *compute_instance_at(const struct node_state *state,
								const struct device *device)
{
	return &gpu_instance_at(state, device)->compute_instances[device->compute_instance];
}

nvmlDevice_t gpu_handle(const struct node_state *state, unsigned int gpu)
{
	return encode(GPU_HANDLE, &(struct device){.gpu = gpu}, state->gpus[gpu].generation);
}

nvmlDevice_t mig_device_handle(const struct node_state *state, const struct device *device)
{
	return encode(MIG_DEVICE_HANDLE, device, compute_instance_at(state, device)->generation);
}

nvmlGpuInstance_t gpu_instance_handle(const struct node_state *state, unsigned int gpu, unsigned int id)
{
	struct device device = {.gpu = gpu, .gpu_instance = id};

	return encode(GPU_INSTANCE_HANDLE, &device, gpu_instance_at(state, &device)->generation);
}

nvmlComputeInstance_t compute_instance_handle(const struct node_state *state, const struct device *device)
{
	return encode(COMPUTE_INSTANCE_HANDLE, device, compute_instance_at(state, device)->generation);
}

static bool is_gpu_valid(const struct node_state *state, const struct handle *handle)
{
	unsigned int gpu = handle->device.gpu, current = state->gpus[gpu].generation & GENERATION_MASK;

	return handle->generation == current ||
	       (kept[gpu].last == current && handle->generation >= kept[gpu].first && handle->generation < current);
}

static bool is_gpu_instance_valid(const struct node_state *state, const struct handle *handle)
{
	const struct gpu_instance_state *gpu_instance;

	if (handle->device.gpu_instance >= ARRAY_LENGTH(state->gpus[0].gpu_instances))
		return false;
	gpu_instance = gpu_instance_at(state, &handle->device);
	return gpu_instance->exists && (gpu_instance->generation & GENERATION_MASK) == handle->generation;
}

static bool is_compute_instance_valid(const struct node_state *state, const struct handle *handle)
{
	const struct compute_instance_state *compute_instance;

	if (handle->device.gpu_instance >= ARRAY_LENGTH(state->gpus[0].gpu_instances) ||
	    handle->device.compute_instance >= ARRAY_LENGTH(state->gpus[0].gpu_instances[0].compute_instances))
		return false;
	compute_instance = compute_instance_at(state, &handle->device);
	return gpu_instance_at(state, &handle->device)->exists && compute_instance->exists &&
	       (compute_instance->generation & GENERATION_MASK) == handle->generation;
}

bool is_valid(const struct node_state *state, const struct handle *handle)
{
	switch (handle->kind) {
	case GPU_HANDLE: return is_gpu_valid(state, handle);
	case GPU_INSTANCE_HANDLE: return is_gpu_instance_valid(state, handle);
	case MIG_DEVICE_HANDLE:
	case COMPUTE_INSTANCE_HANDLE: return is_compute_instance_valid(state, handle);
	default: return false;
	}
}

void keep_handles(unsigned int gpu, unsigned int from, unsigned int to)
{
	if (kept[gpu].last != from)
		kept[gpu].first = from;
	kept[gpu].last = to;
}
