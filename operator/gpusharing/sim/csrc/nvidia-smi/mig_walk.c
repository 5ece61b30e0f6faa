#include "mig.h"

struct gpu_walk {
	const struct selection *selection;
	const char *what;
	gpu_instance_action *action;
	void *argument;
	unsigned int found;
};

static nvmlReturn_t walk_gpu(nvmlDevice_t gpu, struct gpu_walk *walk)
{
	struct gpu_instances instances;
	nvmlReturn_t error = read_gpu_instances(gpu, walk->selection, &instances);

	if (error)
		return report_failure(walk->what, error);
	walk->found += instances.count;
	for (unsigned int i = 0; !error && i < instances.count; i++)
		error = walk->action(&instances.items[i], walk->argument);
	return error;
}

nvmlReturn_t for_gpu_instances(const struct selection *selection, const char *what, gpu_instance_action *action,
			       void *argument)
{
	struct gpu_walk walk = {selection, what, action, argument, 0};
	struct gpus gpus;
	nvmlReturn_t error = select_mig_gpus(selection, &gpus);

	for (unsigned int i = 0; !error && i < gpus.count; i++)
		error = walk_gpu(gpus.devices[i], &walk);
	return error || walk.found ? error : report_none("GPU instances");
}

struct compute_walk {
	const struct selection *selection;
	const char *what;
	compute_instance_action *action;
	void *argument;
	unsigned int found;
};

static nvmlReturn_t walk_gpu_instance(const struct gpu_instance *parent, void *argument)
{
	struct compute_walk *walk = argument;
	struct compute_instances instances;
	nvmlReturn_t error = read_compute_instances(parent, walk->selection, &instances);

	if (error)
		return report_failure(walk->what, error);
	walk->found += instances.count;
	for (unsigned int i = 0; !error && i < instances.count; i++)
		error = walk->action(parent, &instances.items[i], walk->argument);
	return error;
}

nvmlReturn_t for_compute_instances(const struct selection *selection, const char *what,
				   compute_instance_action *action, void *argument)
{
	struct compute_walk walk = {selection, what, action, argument, 0};
	nvmlReturn_t error = for_gpu_instances(selection, what, walk_gpu_instance, &walk);

	return error || walk.found ? error : report_none("compute instances");
}
