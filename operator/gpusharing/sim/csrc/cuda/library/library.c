/*
 * CUDA's driver library, as far as a program needs it that asks what it may have of a device and takes memory of it.
 * A process has one device here, and one context on it.
 */
#include <math.h>
#include <stddef.h>

#include "cuda/client/client.h"
#include "driver/processes.h"
#include "driver/store.h"

#define EXPORTED __attribute__((visibility("default")))
#define MULTIPROCESSOR_COUNT 16

struct primary_context;

static struct lease lease;
static bool initialized, has_context;

/* Declared here, because CUDA's own header is not needed to compile this. */
EXPORTED enum cuda_error cuInit(unsigned int flags);
EXPORTED enum cuda_error cuDeviceGet(int *device, int ordinal);
EXPORTED enum cuda_error cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORTED enum cuda_error cuDevicePrimaryCtxRetain(struct primary_context **context, int device);
EXPORTED enum cuda_error cuCtxSetCurrent(struct primary_context *context);
EXPORTED enum cuda_error cuMemGetInfo_v2(size_t *free, size_t *total);
EXPORTED enum cuda_error cuMemAlloc_v2(uint64_t *address, size_t size);
EXPORTED enum cuda_error cuGetErrorName(enum cuda_error error, const char **name);

static uint64_t lesser(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

enum cuda_error cuInit(unsigned int flags)
{
	static const struct lease_wish wish;
	enum cuda_error error;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (initialized)
		return CUDA_SUCCESS;
	error = choose_device(&wish, &lease);
	initialized = !error;
	return error;
}

enum cuda_error cuDeviceGet(int *device, int ordinal)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	*device = ordinal;
	return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

enum cuda_error cuDeviceGetAttribute(int *value, int attribute, int device)
{
	SCOPED_STORE(store);

	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (attribute != MULTIPROCESSOR_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	if (store_open(&store))
		return CUDA_ERROR_UNKNOWN;
	/* With MPS, those that the client may use. */
	*value = ceil(device_multiprocessors(store.state, &lease.device.place) * lease.active_thread_percentage / 100);
	return CUDA_SUCCESS;
}

enum cuda_error cuDevicePrimaryCtxRetain(struct primary_context **context, int device)
{
	static const struct lease_wish wish;
	enum cuda_error error;

	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device)
		return CUDA_ERROR_INVALID_DEVICE;
	error = has_context ? CUDA_SUCCESS : take_memory(&wish, &lease);
	has_context = !error;
	*context = (struct primary_context *)&lease;
	return error;
}

enum cuda_error cuCtxSetCurrent(struct primary_context *context)
{
	return has_context && context == (struct primary_context *)&lease ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

enum cuda_error cuMemGetInfo_v2(size_t *free, size_t *total)
{
	SCOPED_STORE(store);

	if (!has_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (store_open(&store) || !context_works(store.state, &lease.context))
		return CUDA_ERROR_UNKNOWN;
	reap_processes(store.state, lease.context.gpu);
	*total = lesser(device_memory(store.state, &lease.device.place), lease.memory_limit);
	*free = lesser(free_memory(store.state, &lease.device.place), lease.memory_limit - lease.memory);
	return CUDA_SUCCESS;
}

enum cuda_error cuMemAlloc_v2(uint64_t *address, size_t size)
{
	/* Nothing is behind it, so it only has to be another one each time. */
	static uint64_t next = 1ULL << 32;
	enum cuda_error error;

	if (!has_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	error = take_more_memory(&lease, size);
	if (error)
		return error;
	*address = next;
	next += size;
	return CUDA_SUCCESS;
}

enum cuda_error cuGetErrorName(enum cuda_error error, const char **name)
{
	*name = cuda_error_name(error);
	return CUDA_SUCCESS;
}
