/* How the functions of the interface begin and what they return. */
#pragma once

#include <stdbool.h>

#include "store.h"

/* For a call on the node: NVML must be initialised; then the state is open. */
nvmlReturn_t open_node(struct store *store);

/* For a call on a GPU: as above, and the handle must be one of ours. */
nvmlReturn_t open_gpu(struct store *store, nvmlDevice_t device, struct gpu_state **gpu);

/* What changes a setting of the driver is for root only. */
bool is_privileged(void);

/* Into the caller's buffer, which may be too small. */
nvmlReturn_t return_text(const char *text, char *buffer, unsigned int length);
