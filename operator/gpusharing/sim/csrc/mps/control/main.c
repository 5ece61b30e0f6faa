#include <getopt.h>
#include <stdlib.h>

#include "control.h"

static const struct option OPTIONS[] = {
	{"multiuser-server", no_argument, NULL, 'm'},
	{0},
};

static int usage(void)
{
	printf("usage: nvidia-cuda-mps-control [-d | -f] [-multiuser-server]\n");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	bool background = false, foreground = false;
	int option;

	if (argc == 1)
		return run_interface();
	while ((option = getopt_long_only(argc, argv, "df", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'd': background = true; break;
		case 'f': foreground = true; break;
		case 'm': servers_have_many_users = true; break;
		default: return usage();
		}
	}
	if (optind < argc || background == foreground)
		return usage();
	return run_daemon(background);
}
