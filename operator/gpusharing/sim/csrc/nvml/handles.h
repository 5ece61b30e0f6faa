/*
 * Handles. One is a marked number and never a pointer, so that any garbage is recognised instead of dereferenced, and
 * says which generation of its GPU or instance it is of, so that it is recognised when that is gone.
 */
#pragma once

#include <stdbool.h>

#include "driver/devices.h"
#include "nvml/nvml.h"

enum handle_kind {
	GPU_HANDLE = 0x4750,
	MIG_DEVICE_HANDLE = 0x4d44,
	GPU_INSTANCE_HANDLE = 0x4749,
	COMPUTE_INSTANCE_HANDLE = 0x4349,
};

struct handle {
	enum handle_kind kind;
	struct device device;
	unsigned int generation;
};

struct handle decode_handle(const void *handle);

nvmlDevice_t gpu_handle(const struct node_state *state, unsigned int gpu);
nvmlDevice_t mig_device_handle(const struct node_state *state, const struct device *device);
nvmlGpuInstance_t gpu_instance_handle(const struct node_state *state, unsigned int gpu, unsigned int id);
nvmlComputeInstance_t compute_instance_handle(const struct node_state *state, const struct device *device);

/* Of a GPU that there is: whether what the handle is of still is the same. */
bool is_valid(const struct node_state *state, const struct handle *handle);

/*
 * This process itself has brought the GPU from one generation to the next, and keeps its handles. Handles of other
 * processes become stale, as NVML's do when somebody else resets a GPU.
 */
void keep_handles(unsigned int gpu, unsigned int from, unsigned int to);
