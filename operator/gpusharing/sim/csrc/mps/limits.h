/* Amounts as people give them to MPS, in commands and in environment variables. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

/* `512M`, `1G`, also with a B. */
bool parse_memory(const char *text, uint64_t *bytes);

/* `33`, `12.5`: above 0, at most 100. */
bool parse_percentage(const char *text, double *percentage);

/* Limits on the memory of devices. A device is named by its ordinal or its UUID; the name is not checked. */
struct memory_limits {
	unsigned int count;
	struct memory_limit {
		char device[MPS_UUID_LENGTH];
		uint64_t bytes;
	} limits[2 * MPS_MAX_DEVICES];
};

/* False also if there is no room for one more device. */
bool set_memory_limit(struct memory_limits *limits, const char *device, const char *amount);

/* `0=1G,GPU-...=512MB`, as in CUDA_MPS_PINNED_DEVICE_MEM_LIMIT. */
bool set_memory_limits(struct memory_limits *limits, const char *list);

bool names_device(const char *name, unsigned int ordinal, const char *uuid);

/* The one that was set last for this device, by whichever name; MPS_NO_LIMIT if none was. */
uint64_t memory_limit(const struct memory_limits *limits, unsigned int ordinal, const char *uuid);
/* The one that was set by this name. */
uint64_t memory_limit_of_name(const struct memory_limits *limits, const char *name);
