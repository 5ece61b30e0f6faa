#include "nvml/session.h"

#include <stdatomic.h>

#include "nvml/call.h"

/* NVML counts: only as many shutdowns as inits end it. */
static atomic_uint users;

/* The driver that the node had when this process first asked. */
static uint32_t known_driver;
static bool knows_driver;

bool is_initialized(void)
{
	return users > 0;
}

bool is_of_this_driver(const struct node_state *state)
{
	if (!knows_driver)
		known_driver = state->driver.exchanged;
	knows_driver = true;
	return known_driver == state->driver.exchanged;
}

/* The flags only soften failures that do not exist here: no GPU at all, GPUs that cannot be attached. */
nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	SCOPED_CALL(call);
	nvmlReturn_t error;

	(void)flags;
	/* The call is one of those that need an initialised library, until it has failed. */
	users++;
	error = begin(&call);
	if (error)
		users--;
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
