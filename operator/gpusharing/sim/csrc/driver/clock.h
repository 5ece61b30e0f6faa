#pragma once

#include <stdint.h>

/* Only differences mean something. */
uint64_t milliseconds_now(void);
