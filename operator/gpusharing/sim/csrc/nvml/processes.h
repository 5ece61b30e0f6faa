#pragma once

#include "node_state.h"

uint64_t memory_of_processes(const struct gpu_state *gpu);
