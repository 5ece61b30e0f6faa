/* Whether this process has initialised NVML, and with which driver. */
#pragma once

#include <stdbool.h>

#include "node_state.h"

bool is_initialized(void);

/* A library that is loaded stays, also when another driver is installed; it cannot talk to that one's kernel module. */
bool is_of_this_driver(const struct node_state *state);
