/* GPUs and MIG devices by what they are called. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node_state.h"

/* A GPU, or one of its MIG devices; the instances of a whole GPU are NONE. */
struct device {
	unsigned int gpu;
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

/* By the UUID of a GPU or of a MIG device. */
bool find_device(const struct node_state *state, const char *uuid, struct device *device);

/* In bytes: what there is, without what the driver keeps for itself. */
uint64_t device_memory(const struct node_state *state, const struct device *device);

unsigned int device_multiprocessors(const struct node_state *state, const struct device *device);
