#include "driver/events.h"

#include <stdlib.h>

#include "driver/clock.h"
#include "driver/limits.h"
#include "nvml/call.h"

/* What this process waits for. An event counts for a GPU only if it came after the GPU was registered. */
struct nvml_event_set {
	struct nvml_event_set *next;
	/* Everything before this one was delivered or is not for this set. */
	uint32_t seen;
	struct {
		uint64_t types;
		uint32_t since;
	} gpus[ARRAY_LENGTH(((struct node_state *)0)->gpus)];
};

/* A set that is not in this list is none. Changed and read only under the lock of the state. */
static struct nvml_event_set *sets;

static bool is_set(const struct nvml_event_set *wanted)
{
	for (const struct nvml_event_set *set = sets; set; set = set->next)
		if (set == wanted)
			return true;
	return false;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	if (error)
		return error;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	*set = calloc(1, sizeof(**set));
	if (!*set)
		return NVML_ERROR_MEMORY;
	(*set)->seen = call.state->events_made;
	(*set)->next = sets;
	sets = *set;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	if (error)
		return error;
	for (struct nvml_event_set **place = &sets; *place; place = &(*place)->next) {
		if (*place == set) {
			*place = set->next;
			free(set);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!types)
		return NVML_ERROR_INVALID_ARGUMENT;
	*types = call.gpu->supported_events;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!is_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (types & ~call.gpu->supported_events)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!set->gpus[call.device.gpu].types)
		set->gpus[call.device.gpu].since = call.state->events_made;
	set->gpus[call.device.gpu].types |= types;
	return NVML_SUCCESS;
}

static bool is_wanted(const struct nvml_event_set *set, const struct event_state *event, uint32_t number)
{
	return (set->gpus[event->gpu].types & event->type) && (int32_t)(number - set->gpus[event->gpu].since) >= 0;
}

/* The next event for this set, or NULL. */
static const struct event_state *take_event(const struct node_state *state, struct nvml_event_set *set)
{
	/* Of those that came meanwhile only the last ones are kept. */
	if (state->events_made - set->seen > ARRAY_LENGTH(state->events))
		set->seen = state->events_made - ARRAY_LENGTH(state->events);
	while (set->seen != state->events_made) {
		uint32_t number = set->seen++;
		const struct event_state *event = &state->events[number % ARRAY_LENGTH(state->events)];

		if (is_wanted(set, event, number))
			return event;
	}
	return NULL;
}

static bool waits_for_lost_gpu(const struct node_state *state, const struct nvml_event_set *set)
{
	for (unsigned int gpu = 0; gpu < state->gpu_count; gpu++)
		if (set->gpus[gpu].types && state->gpus[gpu].lost)
			return true;
	return false;
}

static nvmlReturn_t poll_events(struct call *call, struct nvml_event_set *set, nvmlEventData_t *data)
{
	const struct event_state *event = take_event(call->state, set);

	if (!event)
		return waits_for_lost_gpu(call->state, set) ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
	*data = (nvmlEventData_t){
		.device = gpu_handle(call->state, event->gpu),
		.eventType = event->type,
		.eventData = event->data,
		.gpuInstanceId = event->gpu_instance,
		.computeInstanceId = event->compute_instance,
	};
	return NVML_SUCCESS;
}

static nvmlReturn_t wait_until(struct call *call, nvmlEventSet_t set, nvmlEventData_t *data, uint64_t deadline)
{
	for (;;) {
		nvmlReturn_t error = is_set(set) ? poll_events(call, set, data) : NVML_ERROR_INVALID_ARGUMENT;
		uint64_t now = milliseconds_now();
		const struct node_state *state = call->state;
		uint32_t known;

		if (error != NVML_ERROR_TIMEOUT || now >= deadline)
			return error;
		known = state->events_made;
		end_call(call);
		wait_for_events(state, known, deadline - now);
		error = begin_search(call);
		if (error)
			return error;
	}
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int milliseconds)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	if (error)
		return error;
	if (!data)
		return NVML_ERROR_INVALID_ARGUMENT;
	return wait_until(&call, set, data, milliseconds_now() + milliseconds);
}

/* From before there was MIG. */
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int milliseconds)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);
	nvmlEventData_t whole;

	if (error)
		return error;
	if (!data)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = wait_until(&call, set, &whole, milliseconds_now() + milliseconds);
	if (!error)
		*data = (nvmlEventData_v1_t){whole.device, whole.eventType, whole.eventData};
	return error;
}
