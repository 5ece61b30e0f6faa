#include <time.h>

#include "driver/events.h"
#include "nvml/call.h"

#define IS_RESETLESS_MIG_SUPPORTED 184
#define IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE 199
#define GET_GPU_RECOVERY_ACTION 230

#define UNSIGNED_INT 1

static nvmlReturn_t read_field(const struct call *call, uint32_t field, unsigned int *value)
{
	if (field == GET_GPU_RECOVERY_ACTION && call->gpu->supported_events & EVENT_RECOVERY_ACTION) {
		*value = call->gpu->recovery_action;
		return NVML_SUCCESS;
	}
	if (!call->gpu->mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	if (field == IS_RESETLESS_MIG_SUPPORTED)
		*value = !call->gpu->mig_mode_needs_reset;
	else if (field == IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE && call->state->driver.profiles_without_mig)
		*value = 1;
	else
		return NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

static int64_t microseconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Whether there is a value, each field says for itself. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!values || count < 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++) {
		values[i].nvmlReturn = read_field(&call, values[i].fieldId, &values[i].value.uiVal);
		values[i].valueType = UNSIGNED_INT;
		values[i].timestamp = microseconds_now();
		values[i].latencyUsec = 0;
	}
	return NVML_SUCCESS;
}
