/* The rules of MIG instances. */
#pragma once

#include <stdbool.h>

#include "driver/result.h"
#include "node_state.h"

/* NULL if the GPU has no such profile. */
const struct gpu_profile_state *gpu_profile(const struct gpu_state *gpu, unsigned int id);
const struct gpu_profile_state *profile_of(const struct gpu_state *gpu, const struct gpu_instance_state *gpu_instance);
const struct compute_profile_state *compute_profile(const struct gpu_profile_state *profile, unsigned int id);

/* How many more could be created. */
unsigned int gpu_instance_capacity(const struct gpu_state *gpu, const struct gpu_profile_state *profile);
unsigned int compute_instance_capacity(const struct gpu_instance_state *gpu_instance,
				       const struct gpu_profile_state *profile,
				       const struct compute_profile_state *compute_profile);

/* A start of NONE leaves the place to the driver. `id` is what the new instance is called. */
nvmlReturn_t create_gpu_instance(struct node_state *state, unsigned int gpu, unsigned int profile, unsigned int start,
				 unsigned int *id);
nvmlReturn_t create_compute_instance(struct node_state *state, unsigned int gpu, unsigned int gpu_instance,
				     unsigned int profile, unsigned int start, unsigned int *id);

nvmlReturn_t destroy_gpu_instance(struct node_state *state, unsigned int gpu, unsigned int id);
nvmlReturn_t destroy_compute_instance(struct node_state *state, unsigned int gpu, unsigned int gpu_instance,
				      unsigned int id);

bool has_gpu_instances(const struct gpu_state *gpu);
bool has_compute_instances(const struct gpu_instance_state *gpu_instance);

/* Part of a change that the caller has begun. */
void forget_all_instances(struct gpu_state *gpu);
