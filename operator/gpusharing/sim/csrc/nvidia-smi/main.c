#include <getopt.h>
#include <string.h>

#include "smi.h"

enum { QUERY_GPU = 256, QUERY_COMPUTE_APPS, FORMAT, MIG_MODE };

static const struct option OPTIONS[] = {
	{"list-gpus", no_argument, NULL, 'L'},
	{"id", required_argument, NULL, 'i'},
	{"compute-mode", required_argument, NULL, 'c'},
	{"gpu-reset", no_argument, NULL, 'r'},
	{"mig", required_argument, NULL, MIG_MODE},
	{"multi-instance-gpu", required_argument, NULL, MIG_MODE},
	{"query-gpu", required_argument, NULL, QUERY_GPU},
	{"query-compute-apps", required_argument, NULL, QUERY_COMPUTE_APPS},
	{"format", required_argument, NULL, FORMAT},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char USAGE[] =
	"NVIDIA-SMI (simulated): what scripts use of NVIDIA's tool\n"
	"  nvidia-smi                                    an overview\n"
	"  nvidia-smi -L                                 the GPUs and MIG devices\n"
	"  nvidia-smi --query-gpu=FIELDS --format=csv[,noheader][,nounits]\n"
	"  nvidia-smi --query-compute-apps=FIELDS --format=csv[,noheader][,nounits]\n"
	"  nvidia-smi -c MODE                            compute mode: 0=DEFAULT, 2=PROHIBITED, 3=EXCLUSIVE_PROCESS\n"
	"  nvidia-smi -mig MODE                          MIG mode: 0=DISABLED, 1=ENABLED\n"
	"  nvidia-smi --gpu-reset                        also -r\n"
	"  nvidia-smi compute-policy -l | --set-timeslice SLICE\n"
	"  nvidia-smi mig ...                            see nvidia-smi mig -h\n"
	"All take -i with indexes, UUIDs or bus ids.\n";

struct wishes {
	const char *ids;
	const char *compute_mode;
	const char *mig_mode;
	const char *gpu_fields;
	const char *app_fields;
	const char *format;
	bool list;
	bool reset;
	bool help;
};

static nvmlReturn_t parse(int argc, char **argv, struct wishes *wishes)
{
	int option;

	while ((option = getopt_long_only(argc, argv, "hLri:c:", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'h': wishes->help = true; break;
		case 'L': wishes->list = true; break;
		case 'r': wishes->reset = true; break;
		case 'i': wishes->ids = optarg; break;
		case 'c': wishes->compute_mode = optarg; break;
		case MIG_MODE: wishes->mig_mode = optarg; break;
		case QUERY_GPU: wishes->gpu_fields = optarg; break;
		case QUERY_COMPUTE_APPS: wishes->app_fields = optarg; break;
		case FORMAT: wishes->format = optarg; break;
		default: return NVML_ERROR_INVALID_ARGUMENT;
		}
	}
	if (optind == argc)
		return NVML_SUCCESS;
	printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n");
	return NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t fulfil(const struct wishes *wishes)
{
	if (wishes->help) {
		printf("%s", USAGE);
		return NVML_SUCCESS;
	}
	if (wishes->list)
		return list_gpus(wishes->ids);
	if (wishes->compute_mode)
		return set_compute_mode(wishes->ids, wishes->compute_mode);
	if (wishes->mig_mode)
		return set_mig_mode(wishes->ids, wishes->mig_mode);
	if (wishes->reset)
		return reset_gpus(wishes->ids);
	if (wishes->gpu_fields)
		return query_gpus(wishes->ids, wishes->gpu_fields, wishes->format);
	if (wishes->app_fields)
		return query_compute_apps(wishes->ids, wishes->app_fields, wishes->format);
	printf("%s", USAGE);
	return NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t run(int argc, char **argv)
{
	struct wishes wishes = {0};
	nvmlReturn_t error;

	if (argc == 1)
		return show_table();
	if (strcmp(argv[1], "compute-policy") == 0)
		return compute_policy(argc - 1, argv + 1);
	if (strcmp(argv[1], "mig") == 0)
		return mig(argc - 1, argv + 1);
	error = parse(argc, argv, &wishes);
	return error ? error : fulfil(&wishes);
}

static int exit_code(nvmlReturn_t error)
{
	/* What does not fit into an exit code is 255, "other error". */
	return error > 255 ? 255 : (int)error;
}

int main(int argc, char **argv)
{
	nvmlReturn_t error = nvmlInit_v2();

	if (error) {
		printf("Failed to initialize NVML: %s\n", nvmlErrorString(error));
		return exit_code(error);
	}
	return exit_code(run(argc, argv));
}
