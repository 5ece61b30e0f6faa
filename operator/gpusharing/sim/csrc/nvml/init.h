#pragma once

#include <stdbool.h>

bool is_initialized(void);
