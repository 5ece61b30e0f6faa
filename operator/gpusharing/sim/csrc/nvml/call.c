#include "nvml/call.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver/clock.h"
#include "driver/faults.h"
#include "driver/limits.h"
#include "nvml/session.h"

/* In milliseconds; what NVIDIA's own driver allows for. */
enum { SLOW_MIG_STEP = 2000 };

static void sleep_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static nvmlReturn_t open_state(struct call *call)
{
	nvmlReturn_t error = store_open(&call->store);

	if (error)
		return error;
	call->state = call->store.state;
	if (!call->state->driver.loaded)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	return is_of_this_driver(call->state) ? NVML_SUCCESS : NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

static bool is_mig_step(const char *function)
{
	static const char *const STEPS[] = {"nvmlDeviceSetMigMode", "nvmlDeviceCreateGpuInstance",
					    "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy",
					    "nvmlGpuInstanceDestroy"};

	for (size_t step = 0; step < sizeof(STEPS) / sizeof(STEPS[0]); step++)
		if (strncmp(function, STEPS[step], strlen(STEPS[step])) == 0)
			return true;
	return false;
}

/* Others go on meanwhile. */
static nvmlReturn_t dawdle(struct call *call)
{
	uint64_t deadline = milliseconds_now() + SLOW_MIG_STEP;
	nvmlReturn_t error = NVML_SUCCESS;

	if (!(call->state->quirks & QUIRK_SLOW_NVML) || !is_mig_step(call->function))
		return NVML_SUCCESS;
	while (!error && milliseconds_now() < deadline) {
		store_close(&call->store);
		sleep_a_little();
		error = open_state(call);
	}
	return error;
}

/* As a call that hangs in the kernel, this one holds nobody else up. It goes on when the fault is cleared. */
static nvmlReturn_t hang(struct call *call, const struct fault_state *fault)
{
	unsigned int id = fault->id;
	uint64_t deadline = milliseconds_now() + fault->milliseconds;
	nvmlReturn_t error = NVML_SUCCESS;

	while (!error && fault->id == id && milliseconds_now() < deadline) {
		store_close(&call->store);
		sleep_a_little();
		error = open_state(call);
	}
	return error;
}

static nvmlReturn_t suffer(struct call *call, unsigned int gpu)
{
	nvmlReturn_t slow = dawdle(call);
	struct fault_state *fault;

	if (slow)
		return slow;
	fault = meet_fault(call->state, call->function, gpu, false);
	if (fault && fault->effect == FAULT_EFFECT_HANGS) {
		nvmlReturn_t error = hang(call, fault);

		if (error)
			return error;
		fault = meet_fault(call->state, call->function, gpu, true);
	}
	if (!fault)
		return NVML_SUCCESS;
	if (fault->effect == FAULT_EFFECT_FAILS)
		return fault->code;
	if (store_work_on_copy(&call->store))
		return NVML_ERROR_UNKNOWN;
	call->state = call->store.state;
	return NVML_SUCCESS;
}

nvmlReturn_t begin_search(struct call *call)
{
	return is_initialized() ? open_state(call) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t begin(struct call *call)
{
	nvmlReturn_t error = begin_search(call);

	return error ? error : suffer(call, NONE);
}

nvmlReturn_t end_search(struct call *call, unsigned int gpu)
{
	nvmlReturn_t error = suffer(call, gpu);

	if (error)
		return error;
	call->device = (struct device){.gpu = gpu, .gpu_instance = NONE, .compute_instance = NONE};
	call->gpu = &call->state->gpus[gpu];
	return call->gpu->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t begin_with_handle(struct call *call, const struct handle *handle)
{
	nvmlReturn_t error = begin_search(call);

	if (error)
		return error;
	if (handle->device.gpu >= call->state->gpu_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	error = end_search(call, handle->device.gpu);
	if (error)
		return error;
	return is_valid(call->state, handle) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static void select_gpu_instance(struct call *call, const struct handle *handle)
{
	call->device.gpu_instance = handle->device.gpu_instance;
	call->gpu_instance = &call->gpu->gpu_instances[call->device.gpu_instance];
}

static void select_compute_instance(struct call *call, const struct handle *handle)
{
	select_gpu_instance(call, handle);
	call->device.compute_instance = handle->device.compute_instance;
	call->compute_instance = &call->gpu_instance->compute_instances[call->device.compute_instance];
}

nvmlReturn_t begin_on_gpu(struct call *call, nvmlDevice_t device)
{
	struct handle handle = decode_handle(device);
	nvmlReturn_t error = begin_with_handle(call, &handle);

	if (!error && handle.kind != GPU_HANDLE)
		error = NVML_ERROR_INVALID_ARGUMENT;
	return error;
}

nvmlReturn_t begin_on_device(struct call *call, nvmlDevice_t device)
{
	struct handle handle = decode_handle(device);
	nvmlReturn_t error = begin_with_handle(call, &handle);

	if (!error && handle.kind == MIG_DEVICE_HANDLE)
		select_compute_instance(call, &handle);
	else if (!error && handle.kind != GPU_HANDLE)
		error = NVML_ERROR_INVALID_ARGUMENT;
	return error;
}

nvmlReturn_t begin_on_mig_device(struct call *call, nvmlDevice_t device)
{
	nvmlReturn_t error = begin_on_device(call, device);

	if (!error && !call->compute_instance)
		error = NVML_ERROR_INVALID_ARGUMENT;
	return error;
}

nvmlReturn_t begin_on_gpu_instance(struct call *call, nvmlGpuInstance_t gpu_instance)
{
	struct handle handle = decode_handle(gpu_instance);
	nvmlReturn_t error = begin_with_handle(call, &handle);

	if (!error && handle.kind == GPU_INSTANCE_HANDLE)
		select_gpu_instance(call, &handle);
	else if (!error)
		error = NVML_ERROR_INVALID_ARGUMENT;
	return error;
}

nvmlReturn_t begin_on_compute_instance(struct call *call, nvmlComputeInstance_t compute_instance)
{
	struct handle handle = decode_handle(compute_instance);
	nvmlReturn_t error = begin_with_handle(call, &handle);

	if (!error && handle.kind == COMPUTE_INSTANCE_HANDLE)
		select_compute_instance(call, &handle);
	else if (!error)
		error = NVML_ERROR_INVALID_ARGUMENT;
	return error;
}

void end_call(struct call *call)
{
	store_close(&call->store);
}

void keep_own_handles(const struct call *call, unsigned int former_generation)
{
	/* On a copy nothing has changed in truth. */
	if (!call->store.copy && call->gpu->generation != former_generation)
		keep_handles(call->device.gpu, former_generation, call->gpu->generation);
}

bool is_privileged(void)
{
	return geteuid() == 0;
}

nvmlReturn_t return_text(const char *text, char *buffer, unsigned int length)
{
	if (!buffer)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (length <= strlen(text))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(buffer, text);
	return NVML_SUCCESS;
}
