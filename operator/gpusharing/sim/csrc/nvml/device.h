/* Handles of GPUs. */
#pragma once

#include "nvml.h"
#include "node_state.h"

nvmlDevice_t device_handle(unsigned int index);

/* NULL for what is no handle of a GPU of this node. */
struct gpu_state *device_gpu(struct node_state *state, nvmlDevice_t device);

unsigned int device_index(nvmlDevice_t device);
