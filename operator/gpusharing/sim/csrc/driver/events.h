/* What the driver tells those that wait for it. */
#pragma once

#include <stdint.h>

#include "node_state.h"

#define EVENT_XID 0x8ULL
#define EVENT_MIG_CONFIGURATION 0x100ULL
#define EVENT_RECOVERY_ACTION 0x8000ULL

/* Instances are NONE for what concerns the whole GPU. */
void post_event(struct node_state *state, unsigned int gpu, unsigned int gpu_instance, unsigned int compute_instance,
		uint64_t type, uint64_t data);

/* Until there are more events than these, or the time is over. Without the lock. */
void wait_for_events(const struct node_state *state, uint32_t known, unsigned int milliseconds);
