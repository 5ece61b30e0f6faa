/* Small things that the whole driver uses. */
#pragma once

#include "node_state.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* No MIG instance; any GPU; without end. */
#define NONE 0xffffffffU

#define MIB (1024ULL * 1024)
