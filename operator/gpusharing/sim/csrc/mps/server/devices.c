#include <stdlib.h>

#include "cuda/context.h"
#include "driver/limits.h"
#include "driver/store.h"
#include "mps/log.h"
#include "server.h"

/* What NVML shows for a server without clients. */
#define SERVER_MEMORY (30ULL << 20)

#define CHECK_MILLISECONDS 100

static struct cuda_devices devices;
static struct cuda_context contexts[MPS_MAX_DEVICES];
static unsigned int client_limits[MPS_MAX_DEVICES];

const struct cuda_devices *server_devices(void)
{
	return &devices;
}

unsigned int most_clients(unsigned int device)
{
	return client_limits[device];
}

static unsigned int most_slices(const struct gpu_state *gpu)
{
	unsigned int slices = 0;

	for (unsigned int i = 0; i < ARRAY_LENGTH(gpu->gpu_profiles); i++)
		if (gpu->gpu_profiles[i].exists && gpu->gpu_profiles[i].slices > slices)
			slices = gpu->gpu_profiles[i].slices;
	return slices;
}

/* A MIG device takes its part of the GPU's clients. */
static unsigned int find_client_limit(const struct node_state *state, const struct cuda_device *device)
{
	unsigned int limit = state->driver.mps_max_clients;
	const struct gpu_state *gpu = &state->gpus[device->place.gpu];
	const struct gpu_instance_state *instance;
	const struct compute_profile_state *profile;

	if (device->place.gpu_instance == NONE)
		return limit;
	instance = &gpu->gpu_instances[device->place.gpu_instance];
	profile = &gpu->gpu_profiles[instance->profile]
			   .compute_profiles[instance->compute_instances[device->place.compute_instance].profile];
	return limit * profile->slices / most_slices(gpu);
}

static enum cuda_error open_device(struct node_state *state, unsigned int index)
{
	struct context_wish wish = {
		.device = &devices.devices[index],
		.kind = PROCESS_KIND_COMPUTE,
		.memory = SERVER_MEMORY,
	};

	log_line("Creating server context on device %u", index);
	client_limits[index] = find_client_limit(state, wish.device);
	return create_context(state, &wish, &contexts[index]);
}

enum cuda_error open_devices(void)
{
	SCOPED_STORE(store);
	enum cuda_error error = CUDA_SUCCESS;

	if (store_open(&store))
		return CUDA_ERROR_NO_DEVICE;
	find_devices(store.state, NULL, &devices);
	select_devices(&devices, getenv("CUDA_VISIBLE_DEVICES"));
	apply_rule_of_mig(&devices);
	if (!devices.count)
		return CUDA_ERROR_NO_DEVICE;
	for (unsigned int index = 0; !error && index < devices.count; index++)
		error = open_device(store.state, index);
	return error;
}

static void check(struct watch *timer)
{
	SCOPED_STORE(store);
	bool works = !store_open(&store);

	for (unsigned int index = 0; works && index < devices.count; index++)
		works = context_works(store.state, &contexts[index]);
	if (!works) {
		log_line("Server lost its devices. Shutting down");
		exit(EXIT_FAILURE);
	}
	loop_restart_timer(timer, CHECK_MILLISECONDS);
}

void watch_devices(void)
{
	static struct watch timer;

	loop_start_timer(&timer, check, CHECK_MILLISECONDS);
}
