/* nvidia-smi mig ... */
#pragma once

#include "smi.h"

#define MAX_GPU_PROFILES ARRAY_LENGTH(((struct gpu_state *)0)->gpu_profiles)
#define MAX_COMPUTE_PROFILES ARRAY_LENGTH(((struct gpu_profile_state *)0)->compute_profiles)
#define MAX_GPU_INSTANCES ARRAY_LENGTH(((struct gpu_state *)0)->gpu_instances)
#define MAX_COMPUTE_INSTANCES ARRAY_LENGTH(((struct gpu_instance_state *)0)->compute_instances)

/* On what a command is to act; NULL is on everything. Numbers with commas between them. */
struct selection {
	const char *gpus;
	const char *gpu_instances;
	const char *compute_instances;
};

/* What one can be cut into, in the order of the real tool's lists. */
struct gpu_profiles {
	unsigned int count;
	nvmlGpuInstanceProfileInfo_v2_t items[MAX_GPU_PROFILES];
};

struct compute_profiles {
	unsigned int count;
	nvmlComputeInstanceProfileInfo_v2_t items[MAX_COMPUTE_PROFILES];
};

struct gpu_instance {
	nvmlGpuInstance_t handle;
	nvmlGpuInstanceInfo_t info;
	nvmlGpuInstanceProfileInfo_v2_t profile;
};

/* Of one GPU. */
struct gpu_instances {
	unsigned int count;
	struct gpu_instance items[MAX_GPU_INSTANCES];
};

struct compute_instance {
	nvmlComputeInstance_t handle;
	nvmlComputeInstanceInfo_t info;
	nvmlComputeInstanceProfileInfo_v2_t profile;
};

/* Of one GPU instance. */
struct compute_instances {
	unsigned int count;
	struct compute_instance items[MAX_COMPUTE_INSTANCES];
};

nvmlReturn_t read_gpu_profiles(nvmlDevice_t gpu, struct gpu_profiles *profiles);
nvmlReturn_t read_compute_profiles(nvmlGpuInstance_t gpu_instance, struct compute_profiles *profiles);

/* The profile of a compute instance that is as large as its GPU instance. */
bool is_default(const nvmlComputeInstanceProfileInfo_v2_t *profile, const struct gpu_instance *parent);

/* Those that are selected. */
nvmlReturn_t read_gpu_instances(nvmlDevice_t gpu, const struct selection *selection, struct gpu_instances *found);
nvmlReturn_t read_compute_instances(const struct gpu_instance *parent, const struct selection *selection,
				    struct compute_instances *found);

/* The selected GPUs that are in MIG mode. Without any it has been said. */
nvmlReturn_t select_mig_gpus(const struct selection *selection, struct gpus *gpus);

/*
 * Something done with one instance. `for_...` walk through what is selected, say when there is nothing, and end at the
 * first error. `what` it is all for is said when nothing can be read.
 */
typedef nvmlReturn_t gpu_instance_action(const struct gpu_instance *gpu_instance, void *argument);
typedef nvmlReturn_t compute_instance_action(const struct gpu_instance *parent,
					     const struct compute_instance *compute_instance, void *argument);
nvmlReturn_t for_gpu_instances(const struct selection *selection, const char *what, gpu_instance_action *action,
			       void *argument);
nvmlReturn_t for_compute_instances(const struct selection *selection, const char *what,
				   compute_instance_action *action, void *argument);

/* An entry of a list like `19,1g.10gb,9:4`. */
struct request {
	/* As it was written, without the start. */
	char profile[TEXT_LENGTH];
	bool has_start;
	unsigned int start;
};

/* The next entry, which `*text` is moved behind; false at the end. */
bool next_request(const char **text, struct request *request);
bool is_requested(const struct request *request, unsigned int id, const char *name);

/* "Failed to <what>: <error>", the last line of a command that fails. */
nvmlReturn_t report_failure(const char *what, nvmlReturn_t error);
nvmlReturn_t report_none(const char *what);

/* A frame of a table is so wide inside. */
void print_line(char character, unsigned int width);

/* Commands. */
nvmlReturn_t list_gpu_profiles(const struct selection *selection);
nvmlReturn_t list_gpu_placements(const struct selection *selection);
nvmlReturn_t list_compute_profiles(const struct selection *selection);
nvmlReturn_t list_gpu_instances(const struct selection *selection);
nvmlReturn_t list_compute_instances(const struct selection *selection);
nvmlReturn_t create_gpu_instances(const struct selection *selection, const char *profiles, bool with_default);
nvmlReturn_t create_compute_instances(const struct selection *selection, const char *profiles);
nvmlReturn_t destroy_gpu_instances(const struct selection *selection);
nvmlReturn_t destroy_compute_instances(const struct selection *selection);
