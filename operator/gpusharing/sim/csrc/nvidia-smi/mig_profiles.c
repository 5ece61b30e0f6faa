/* -lgip, -lgipp and -lcip: into what GPUs and GPU instances can be cut. */
#include <string.h>

#include "mig.h"

#define GPU_PROFILES_WIDTH 79
#define COMPUTE_PROFILES_WIDTH 86
#define COMPUTE_PROFILES "display compute instance profiles"

typedef nvmlReturn_t print_profile(nvmlDevice_t gpu, const nvmlGpuInstanceProfileInfo_v2_t *profile);

/* Prints the profiles of a GPU that can do MIG; older drivers know none before it does. */
static nvmlReturn_t print_profiles(nvmlDevice_t gpu, print_profile *print, void (*print_heading)(void),
				   unsigned int *printed)
{
	struct gpu_profiles profiles;
	nvmlReturn_t error = read_gpu_profiles(gpu, &profiles);

	for (unsigned int i = 0; !error && i < profiles.count; i++) {
		if (!(*printed)++)
			print_heading();
		error = print(gpu, &profiles.items[i]);
	}
	return error;
}

static nvmlReturn_t report_no_profiles(const struct gpus *gpus)
{
	bool capable = false;

	for (unsigned int i = 0; i < gpus->count; i++) {
		unsigned int current, pending;

		capable |= nvmlDeviceGetMigMode(gpus->devices[i], &current, &pending) == NVML_SUCCESS;
	}
	printf("No MIG-%s devices found.\n", capable ? "enabled" : "supported");
	return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t for_profiles(const struct selection *selection, print_profile *print, void (*print_heading)(void),
				 const char *what)
{
	struct gpus gpus;
	unsigned int printed = 0;
	nvmlReturn_t error = select_gpus(selection->gpus, &gpus);

	if (error)
		return error;
	for (unsigned int i = 0; !error && i < gpus.count; i++)
		error = print_profiles(gpus.devices[i], print, print_heading, &printed);
	if (error)
		return report_failure(what, error);
	return printed ? NVML_SUCCESS : report_no_profiles(&gpus);
}

static void print_gpu_profiles_heading(void)
{
	print_line('-', GPU_PROFILES_WIDTH);
	printf("| GPU instance profiles:                                                        |\n"
	       "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
	       "|                                Free/Total   GiB              CE    JPEG  OFA  |\n");
	print_line('=', GPU_PROFILES_WIDTH);
}

static nvmlReturn_t print_gpu_profile(nvmlDevice_t gpu, const nvmlGpuInstanceProfileInfo_v2_t *profile)
{
	unsigned int free = 0;
	nvmlReturn_t error = nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile->id, &free);

	/* Nothing can be made where MIG mode is off. */
	if (error && error != NVML_ERROR_NOT_SUPPORTED)
		return error;
	printf("|%4u  MIG %-16s%2u     %u/%u        %-11.2f%-7s%-7u%-6u%-4u|\n", gpu_index(gpu), profile->name,
	       profile->id, free, profile->instanceCount, profile->memorySizeMB / 1024.0,
	       profile->isP2pSupported ? "Yes" : "No", profile->multiprocessorCount, profile->decoderCount,
	       profile->encoderCount);
	printf("|%64u     %-6u%-4u|\n", profile->copyEngineCount, profile->jpegCount, profile->ofaCount);
	print_line('-', GPU_PROFILES_WIDTH);
	return NVML_SUCCESS;
}

nvmlReturn_t list_gpu_profiles(const struct selection *selection)
{
	return for_profiles(selection, print_gpu_profile, print_gpu_profiles_heading, "display GPU instance profiles");
}

static void print_no_heading(void)
{
}

static nvmlReturn_t print_placements(nvmlDevice_t gpu, const nvmlGpuInstanceProfileInfo_v2_t *profile)
{
	nvmlGpuInstancePlacement_t placements[ARRAY_LENGTH(((struct gpu_profile_state *)0)->starts)];
	unsigned int count = ARRAY_LENGTH(placements);
	nvmlReturn_t error = nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, profile->id, placements, &count);

	if (error)
		return error;
	printf("GPU %2u Profile ID %2u Placement%s: {", gpu_index(gpu), profile->id, count == 1 ? " " : "s");
	for (unsigned int i = 0; i < count; i++)
		printf("%s%u", i ? "," : "", placements[i].start);
	printf("}:%u\n", placements[0].size);
	return NVML_SUCCESS;
}

nvmlReturn_t list_gpu_placements(const struct selection *selection)
{
	return for_profiles(selection, print_placements, print_no_heading,
			    "display GPU instance possible placements");
}

static void print_compute_profiles_heading(void)
{
	print_line('-', COMPUTE_PROFILES_WIDTH);
	printf("| Compute instance profiles:                                                           |\n"
	       "| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |\n"
	       "|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |\n"
	       "|         ID                                                          CE    JPEG       |\n");
	print_line('=', COMPUTE_PROFILES_WIDTH);
}

static nvmlReturn_t print_compute_profile(const struct gpu_instance *parent,
					  const nvmlComputeInstanceProfileInfo_v2_t *profile)
{
	unsigned int free;
	nvmlReturn_t error =
		nvmlGpuInstanceGetComputeInstanceRemainingCapacity(parent->handle, profile->id, &free);

	if (error)
		return error;
	printf("|%4u%7u       MIG %-16s %u%c     %u/%u           %-10u%-6u%-6u%-4u|\n", gpu_index(parent->info.device),
	       parent->info.id, profile->name, profile->id, is_default(profile, parent) ? '*' : ' ', free,
	       profile->instanceCount, profile->multiprocessorCount, profile->sharedDecoderCount,
	       profile->sharedEncoderCount, profile->sharedOfaCount);
	printf("|%70s%-6u%-10u|\n", "", profile->sharedCopyEngineCount, profile->sharedJpegCount);
	print_line('-', COMPUTE_PROFILES_WIDTH);
	return NVML_SUCCESS;
}

static nvmlReturn_t print_compute_profiles(const struct gpu_instance *parent, void *argument)
{
	bool *has_heading = argument;
	struct compute_profiles profiles;
	nvmlReturn_t error = read_compute_profiles(parent->handle, &profiles);

	if (!error && !*has_heading)
		print_compute_profiles_heading();
	*has_heading = true;
	for (unsigned int i = 0; !error && i < profiles.count; i++)
		error = print_compute_profile(parent, &profiles.items[i]);
	return error ? report_failure(COMPUTE_PROFILES, error) : error;
}

nvmlReturn_t list_compute_profiles(const struct selection *selection)
{
	bool has_heading = false;

	return for_gpu_instances(selection, COMPUTE_PROFILES, print_compute_profiles, &has_heading);
}
