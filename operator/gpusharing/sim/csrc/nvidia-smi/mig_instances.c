/* -lgi and -lci */
#include "mig.h"

#define GPU_INSTANCES_WIDTH 57
#define COMPUTE_INSTANCES_WIDTH 68

static const char *write_placement(const nvmlGpuInstancePlacement_t *placement, char text[TEXT_LENGTH])
{
	snprintf(text, TEXT_LENGTH, "%u:%u", placement->start, placement->size);
	return text;
}

static void print_gpu_instances_heading(void)
{
	print_line('-', GPU_INSTANCES_WIDTH);
	printf("| GPU instances:                                          |\n"
	       "| GPU   Name               Profile  Instance   Placement  |\n"
	       "|                            ID       ID       Start:Size |\n");
	print_line('=', GPU_INSTANCES_WIDTH);
}

static nvmlReturn_t print_gpu_instance(const struct gpu_instance *instance, void *argument)
{
	bool *has_heading = argument;
	char placement[TEXT_LENGTH];

	if (!*has_heading)
		print_gpu_instances_heading();
	*has_heading = true;
	printf("|%4u  MIG %-18s%2u       %2u          %-8s|\n", gpu_index(instance->info.device),
	       instance->profile.name, instance->profile.id, instance->info.id,
	       write_placement(&instance->info.placement, placement));
	print_line('-', GPU_INSTANCES_WIDTH);
	return NVML_SUCCESS;
}

nvmlReturn_t list_gpu_instances(const struct selection *selection)
{
	bool has_heading = false;

	return for_gpu_instances(selection, "display GPU instances", print_gpu_instance, &has_heading);
}

static void print_compute_instances_heading(void)
{
	print_line('-', COMPUTE_INSTANCES_WIDTH);
	printf("| Compute instances:                                                 |\n"
	       "| GPU     GPU       Name             Profile   Instance   Placement  |\n"
	       "|       Instance                       ID        ID       Start:Size |\n"
	       "|         ID                                                         |\n");
	print_line('=', COMPUTE_INSTANCES_WIDTH);
}

static nvmlReturn_t print_compute_instance(const struct gpu_instance *parent, const struct compute_instance *instance,
					   void *argument)
{
	bool *has_heading = argument;
	char placement[TEXT_LENGTH];

	if (!*has_heading)
		print_compute_instances_heading();
	*has_heading = true;
	printf("|%4u%7u       MIG %-16s %u        %2u          %-8s|\n", gpu_index(parent->info.device),
	       parent->info.id, instance->profile.name, instance->profile.id, instance->info.id,
	       write_placement(&instance->info.placement, placement));
	print_line('-', COMPUTE_INSTANCES_WIDTH);
	return NVML_SUCCESS;
}

nvmlReturn_t list_compute_instances(const struct selection *selection)
{
	bool has_heading = false;

	return for_compute_instances(selection, "display compute instances", print_compute_instance, &has_heading);
}
