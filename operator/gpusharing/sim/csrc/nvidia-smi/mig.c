#include "mig.h"

#include <getopt.h>

enum command {
	NO_COMMAND,
	LIST_GPU_PROFILES = 256,
	LIST_GPU_PLACEMENTS,
	LIST_GPU_INSTANCES,
	LIST_COMPUTE_PROFILES,
	LIST_COMPUTE_INSTANCES,
	CREATE_GPU_INSTANCES,
	CREATE_COMPUTE_INSTANCES,
	DESTROY_GPU_INSTANCES,
	DESTROY_COMPUTE_INSTANCES,
	SHOW_USAGE,
	SELECT_GPU_INSTANCES,
	SELECT_COMPUTE_INSTANCES,
};

static const struct option OPTIONS[] = {
	{"lgip", no_argument, NULL, LIST_GPU_PROFILES},
	{"list-gpu-instance-profiles", no_argument, NULL, LIST_GPU_PROFILES},
	{"lgipp", no_argument, NULL, LIST_GPU_PLACEMENTS},
	{"list-gpu-instance-possible-placements", no_argument, NULL, LIST_GPU_PLACEMENTS},
	{"lgi", no_argument, NULL, LIST_GPU_INSTANCES},
	{"list-gpu-instances", no_argument, NULL, LIST_GPU_INSTANCES},
	{"lcip", no_argument, NULL, LIST_COMPUTE_PROFILES},
	{"list-compute-instance-profiles", no_argument, NULL, LIST_COMPUTE_PROFILES},
	{"lci", no_argument, NULL, LIST_COMPUTE_INSTANCES},
	{"list-compute-instances", no_argument, NULL, LIST_COMPUTE_INSTANCES},
	{"cgi", required_argument, NULL, CREATE_GPU_INSTANCES},
	{"create-gpu-instance", required_argument, NULL, CREATE_GPU_INSTANCES},
	{"cci", optional_argument, NULL, CREATE_COMPUTE_INSTANCES},
	{"create-compute-instance", optional_argument, NULL, CREATE_COMPUTE_INSTANCES},
	{"dgi", no_argument, NULL, DESTROY_GPU_INSTANCES},
	{"destroy-gpu-instance", no_argument, NULL, DESTROY_GPU_INSTANCES},
	{"dci", no_argument, NULL, DESTROY_COMPUTE_INSTANCES},
	{"destroy-compute-instance", no_argument, NULL, DESTROY_COMPUTE_INSTANCES},
	{"default-compute-instance", no_argument, NULL, 'C'},
	{"id", required_argument, NULL, 'i'},
	{"gi", required_argument, NULL, SELECT_GPU_INSTANCES},
	{"gpu-instance-id", required_argument, NULL, SELECT_GPU_INSTANCES},
	{"ci", required_argument, NULL, SELECT_COMPUTE_INSTANCES},
	{"compute-instance-id", required_argument, NULL, SELECT_COMPUTE_INSTANCES},
	{"help", no_argument, NULL, SHOW_USAGE},
	{"h", no_argument, NULL, SHOW_USAGE},
	{0},
};

static const char USAGE[] =
	"nvidia-smi mig: one of\n"
	"  -lgip, -lgipp           list what a GPU can be cut into, and where\n"
	"  -lcip                   list what GPU instances can be cut into\n"
	"  -lgi, -lci              list GPU instances, compute instances\n"
	"  -cgi PROFILES [-C]      create GPU instances, with -C each with its default compute instance\n"
	"  -cci [PROFILES]         create compute instances, without profiles the default one\n"
	"  -dgi, -dci              destroy GPU instances, compute instances\n"
	"on what -i (GPUs), -gi and -ci (ids of instances) name. Profiles are ids or names with commas between them, each\n"
	"with a start if wanted: 19,3g.40gb:4\n";

struct wishes {
	enum command command;
	struct selection selection;
	const char *profiles;
	bool default_compute_instance;
};

static nvmlReturn_t refuse(void)
{
	printf("Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.\n\n");
	return NVML_ERROR_INVALID_ARGUMENT;
}

/* An argument that may be missing follows after a space, which getopt does not know. */
static const char *optional_word(int argc, char **argv)
{
	if (!optarg && optind < argc && argv[optind][0] != '-')
		return argv[optind++];
	return optarg;
}

static nvmlReturn_t choose_command(struct wishes *wishes, enum command command, const char *profiles)
{
	if (wishes->command)
		return refuse();
	wishes->command = command;
	wishes->profiles = profiles;
	return NVML_SUCCESS;
}

static nvmlReturn_t parse(int argc, char **argv, struct wishes *wishes)
{
	nvmlReturn_t error = NVML_SUCCESS;
	int option;

	while (!error && (option = getopt_long_only(argc, argv, "i:C", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'i': wishes->selection.gpus = optarg; break;
		case 'C': wishes->default_compute_instance = true; break;
		case SELECT_GPU_INSTANCES: wishes->selection.gpu_instances = optarg; break;
		case SELECT_COMPUTE_INSTANCES: wishes->selection.compute_instances = optarg; break;
		case CREATE_COMPUTE_INSTANCES:
			error = choose_command(wishes, option, optional_word(argc, argv));
			break;
		case '?': return NVML_ERROR_INVALID_ARGUMENT;
		default: error = choose_command(wishes, option, optarg);
		}
	}
	if (!error && (optind < argc || wishes->command == NO_COMMAND))
		return refuse();
	return error;
}

nvmlReturn_t mig(int argc, char **argv)
{
	struct wishes wishes = {0};
	nvmlReturn_t error = parse(argc, argv, &wishes);

	if (error)
		return error;
	switch (wishes.command) {
	case LIST_GPU_PROFILES: return list_gpu_profiles(&wishes.selection);
	case LIST_GPU_PLACEMENTS: return list_gpu_placements(&wishes.selection);
	case LIST_GPU_INSTANCES: return list_gpu_instances(&wishes.selection);
	case LIST_COMPUTE_PROFILES: return list_compute_profiles(&wishes.selection);
	case LIST_COMPUTE_INSTANCES: return list_compute_instances(&wishes.selection);
	case CREATE_GPU_INSTANCES:
		return create_gpu_instances(&wishes.selection, wishes.profiles, wishes.default_compute_instance);
	case CREATE_COMPUTE_INSTANCES: return create_compute_instances(&wishes.selection, wishes.profiles);
	case DESTROY_GPU_INSTANCES: return destroy_gpu_instances(&wishes.selection);
	case DESTROY_COMPUTE_INSTANCES: return destroy_compute_instances(&wishes.selection);
	default: printf("%s", USAGE); return NVML_SUCCESS;
	}
}

nvmlReturn_t report_failure(const char *what, nvmlReturn_t error)
{
	printf("Failed to %s: %s\n", what, nvmlErrorString(error));
	return error;
}

nvmlReturn_t report_none(const char *what)
{
	printf("No %s found: %s\n", what, nvmlErrorString(NVML_ERROR_NOT_FOUND));
	return NVML_ERROR_NOT_FOUND;
}

void print_line(char character, unsigned int width)
{
	char edge = character == '=' ? '|' : '+';

	printf("%c", edge);
	while (width--)
		printf("%c", character);
	printf("%c\n", edge);
}
