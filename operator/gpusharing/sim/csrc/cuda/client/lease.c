/* How the process comes to its device. */
#include <stdlib.h>
#include <string.h>

#include "driver/cgroups.h"
#include "driver/store.h"
#include "mps/limits.h"
#include "client.h"

/* What the container toolkit left in the container; `void` says that something else decided it. */
static const char *devices_of_container(void)
{
	const char *list = getenv("NVIDIA_VISIBLE_DEVICES");

	if (!list || strcmp(list, "all") == 0 || strcmp(list, "void") == 0)
		return NULL;
	return list;
}

static enum cuda_error find_devices_of_node(const char *device_files, struct cuda_devices *devices)
{
	SCOPED_STORE(store);

	if (store_open(&store))
		return CUDA_ERROR_NO_DEVICE;
	find_devices(store.state, device_files, devices);
	select_devices(devices, devices_of_container());
	return CUDA_SUCCESS;
}

static enum cuda_error choose_first(struct cuda_devices *devices, struct lease *lease)
{
	select_devices(devices, getenv("CUDA_VISIBLE_DEVICES"));
	apply_rule_of_mig(devices);
	if (!devices->count)
		return CUDA_ERROR_NO_DEVICE;
	lease->device = devices->devices[0];
	return CUDA_SUCCESS;
}

/* The client's own environment can only lower what the server grants. */
static void lower_terms_by_environment(struct lease *lease)
{
	const char *percentage_text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	const char *limits_text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	struct memory_limits limits = {0};
	double percentage;
	uint64_t limit;

	if (percentage_text && parse_percentage(percentage_text, &percentage) &&
	    percentage < lease->active_thread_percentage)
		lease->active_thread_percentage = percentage;
	if (!limits_text || !set_memory_limits(&limits, limits_text))
		return;
	limit = memory_limit(&limits, lease->device.ordinal, lease->device.uuid);
	if (limit < lease->memory_limit)
		lease->memory_limit = limit;
}

static enum cuda_error become_mps_client(const struct mps_admission *terms, struct lease *lease)
{
	lease->mps_server = terms->server;
	lease->active_thread_percentage = terms->active_thread_percentage;
	for (unsigned int i = 0; i < terms->device_count; i++)
		if (strcmp(terms->devices[i].uuid, lease->device.uuid) == 0)
			lease->memory_limit = terms->devices[i].memory_limit;
	lower_terms_by_environment(lease);
	return create_mps_context(terms, lease->device.uuid);
}

/* Those of the process, unless it is to be held to the limit of another one. */
static bool find_cgroups(const char *configured, struct cgroup_state *cgroups)
{
	if (configured)
		return cgroups_of_path(configured, cgroups);
	own_cgroups(cgroups);
	return true;
}

enum cuda_error choose_device(const struct lease_wish *wish, struct lease *lease)
{
	static struct cuda_devices devices;
	static struct mps_admission terms;
	enum cuda_error error = find_devices_of_node(wish->device_files, &devices);
	bool with_mps = !error && has_mps();

	lease->memory_limit = MPS_NO_LIMIT;
	lease->active_thread_percentage = 100;
	if (with_mps)
		error = connect_to_mps_server(&devices, &terms);
	if (!error)
		error = choose_first(&devices, lease);
	if (!error && with_mps)
		error = become_mps_client(&terms, lease);
	return error;
}

enum cuda_error take_memory(const struct lease_wish *wish, struct lease *lease)
{
	SCOPED_STORE(store);
	struct cgroup_state cgroups[CGROUP_LEVELS];
	struct context_wish context = {
		.device = &lease->device,
		.kind = lease->mps_server ? PROCESS_KIND_MPS_CLIENT : PROCESS_KIND_COMPUTE,
		.memory = wish->memory,
		.sm_utilization = wish->sm_utilization,
		.cgroups = cgroups,
	};

	if (wish->memory > lease->memory_limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!find_cgroups(wish->cgroup, cgroups))
		return CUDA_ERROR_UNKNOWN;
	if (store_open(&store))
		return CUDA_ERROR_NO_DEVICE;
	lease->memory = wish->memory;
	lease->timeslice = store.state->gpus[lease->device.place.gpu].timeslice;
	return create_context(store.state, &context, &lease->context);
}

enum cuda_error take_more_memory(struct lease *lease, uint64_t memory)
{
	SCOPED_STORE(store);
	enum cuda_error error;

	if (memory > lease->memory_limit - lease->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (store_open(&store) || !context_works(store.state, &lease->context))
		return CUDA_ERROR_UNKNOWN;
	error = grow_context(store.state, &lease->device, &lease->context, memory);
	if (!error)
		lease->memory += memory;
	return error;
}
