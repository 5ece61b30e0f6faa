#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mps/limits.h"
#include "mps/loop.h"
#include "process.h"

#define DEFAULT_MEMORY (256ULL << 20)
#define USAGE_ERROR 2

static const struct option OPTIONS[] = {
	{"gpu", required_argument, NULL, 'g'},
	{"memory", required_argument, NULL, 'm'},
	{"utilization", required_argument, NULL, 'u'},
	{"mps-pipe", required_argument, NULL, 'p'},
	{"cgroup", required_argument, NULL, 'c'},
	{"dev", required_argument, NULL, 'd'},
	{"heartbeat", required_argument, NULL, 'b'},
	{"seconds", required_argument, NULL, 's'},
	{0},
};

static _Noreturn void usage(void)
{
	fprintf(stderr,
		"usage: cuda-process [OPTION]...\n"
		"Takes memory of a simulated GPU until it gets SIGTERM. Says in a line of JSON what it got.\n"
		"  --gpu DEVICE        index or UUID of a GPU or MIG device (CUDA_VISIBLE_DEVICES)\n"
		"  --memory AMOUNT     as 512M or 4G (256M)\n"
		"  --utilization N     percent of the GPU that its work keeps busy (0)\n"
		"  --mps-pipe DIR      of an MPS control daemon (CUDA_MPS_PIPE_DIRECTORY)\n"
		"  --cgroup DIR        instead of the cgroup that it is in\n"
		"  --dev DIR           only the devices that have files there, as in /dev of a container\n"
		"  --heartbeat FILE    is written again and again\n"
		"  --seconds NUMBER    ends by itself\n"
		"SIGUSR1 makes its work fail as a faulty kernel does.\n");
	exit(USAGE_ERROR);
}

static unsigned int parse_seconds(const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds < 1e6))
		usage();
	/* Nothing would be without end. */
	return seconds < 0.001 ? 1 : (unsigned int)(seconds * 1000);
}

static unsigned int parse_utilization(const char *text)
{
	char *end;
	long percent = strtol(text, &end, 10);

	if (end == text || *end || percent < 0 || percent > 100)
		usage();
	return percent;
}

static struct options parse_options(int argc, char **argv)
{
	struct options options = {.wish.memory = DEFAULT_MEMORY};
	int option;

	while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'g': setenv("CUDA_VISIBLE_DEVICES", optarg, 1); break;
		case 'm':
			if (!parse_memory(optarg, &options.wish.memory))
				usage();
			break;
		case 'u': options.wish.sm_utilization = parse_utilization(optarg); break;
		case 'p': setenv("CUDA_MPS_PIPE_DIRECTORY", optarg, 1); break;
		case 'c': options.wish.cgroup = optarg; break;
		case 'd': options.wish.device_files = optarg; break;
		case 'b': options.heartbeat = optarg; break;
		case 's': options.milliseconds = parse_seconds(optarg); break;
		default: usage();
		}
	}
	if (optind < argc)
		usage();
	return options;
}

static void print_memory_limit(uint64_t limit)
{
	if (limit == MPS_NO_LIMIT)
		printf("null");
	else
		printf("%lu", limit);
}

static void print_lease(const struct lease *lease)
{
	printf("{\"pid\": %d, \"device\": \"%s\", \"memory\": %lu, \"memory_limit\": ", getpid(), lease->device.uuid,
	       lease->memory);
	print_memory_limit(lease->memory_limit);
	printf(", \"active_thread_percentage\": %.2f, \"timeslice\": %d, \"mps_server\": ",
	       lease->active_thread_percentage, lease->timeslice);
	if (lease->mps_server)
		printf("%d}\n", lease->mps_server);
	else
		printf("null}\n");
	fflush(stdout);
}

void fail(enum cuda_error error)
{
	fprintf(stderr, "CUDA error %d: %s\n", error, cuda_error_name(error));
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct lease lease = {0};
	enum cuda_error error = choose_device(&options.wish, &lease);

	if (!error)
		error = take_memory(&options.wish, &lease);
	if (error)
		fail(error);
	loop_open();
	/* Before it says that it runs: from then on it ends in order. */
	start_life(&options, &lease);
	if (options.heartbeat && !start_heartbeat(options.heartbeat)) {
		fprintf(stderr, "%s: %s\n", options.heartbeat, strerror(errno));
		return USAGE_ERROR;
	}
	print_lease(&lease);
	for (;;)
		loop_run_once();
}
