#include <getopt.h>
#include <string.h>

#include "smi.h"

static const struct option OPTIONS[] = {
	{"list-gpus", no_argument, NULL, 'L'},
	{"id", required_argument, NULL, 'i'},
	{"compute-mode", required_argument, NULL, 'c'},
	{"query-gpu", required_argument, NULL, 'q'},
	{"format", required_argument, NULL, 'f'},
	{0},
};

static nvmlReturn_t run_options(int argc, char **argv)
{
	const char *id = NULL, *mode = NULL, *fields = NULL, *format = NULL;
	int option, list = 0;

	while ((option = getopt_long(argc, argv, "Li:c:", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'L': list = 1; break;
		case 'i': id = optarg; break;
		case 'c': mode = optarg; break;
		case 'q': fields = optarg; break;
		case 'f': format = optarg; break;
		default: return NVML_ERROR_INVALID_ARGUMENT;
		}
	}
	if (list)
		return list_gpus(id);
	if (mode)
		return set_compute_mode(id, mode);
	if (fields)
		return query_gpus(id, fields, format);
	printf("The simulated nvidia-smi needs -L, -c or --query-gpu.\n");
	return NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t run(int argc, char **argv)
{
	if (argc == 1)
		return show_table();
	if (strcmp(argv[1], "compute-policy") == 0)
		return compute_policy(argc - 1, argv + 1);
	return run_options(argc, argv);
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
