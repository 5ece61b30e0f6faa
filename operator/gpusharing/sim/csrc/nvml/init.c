#include "init.h"

#include <stdatomic.h>

#include "store.h"

/* NVML counts: only as many shutdowns as inits end it. */
static atomic_uint users;

bool is_initialized(void)
{
	return users > 0;
}

/* The flags only soften failures that do not exist here: no GPU at all, GPUs that cannot be attached. */
nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = store_open(&store);

	(void)flags;
	if (!error)
		users++;
	return error;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void) __attribute__((alias("nvmlInit_v2")));

nvmlReturn_t nvmlShutdown(void)
{
	unsigned int current = users;

	do {
		if (current == 0)
			return NVML_ERROR_UNINITIALIZED;
	} while (!atomic_compare_exchange_weak(&users, &current, current - 1));
	return NVML_SUCCESS;
}
