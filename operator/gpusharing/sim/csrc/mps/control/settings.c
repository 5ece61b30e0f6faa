#include <stdlib.h>

#include "mps/log.h"
#include "control.h"

struct settings default_settings = {.active_thread_percentage = 100};

void settings_from_environment(void)
{
	const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	const char *memory = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");

	if (percentage && !parse_percentage(percentage, &default_settings.active_thread_percentage))
		log_line("Ignoring CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s", percentage);
	if (memory && !set_memory_limits(&default_settings.memory, memory))
		log_line("Ignoring CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s", memory);
}
