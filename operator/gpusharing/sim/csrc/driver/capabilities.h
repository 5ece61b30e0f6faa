/* Who may open the node with this number below dev/nvidia-caps may use the MIG instance. */
#pragma once

#include "node_state.h"

unsigned int gpu_instance_capability(const struct gpu_state *gpu, unsigned int gpu_instance);
unsigned int compute_instance_capability(const struct gpu_state *gpu, unsigned int gpu_instance,
					 unsigned int compute_instance);
