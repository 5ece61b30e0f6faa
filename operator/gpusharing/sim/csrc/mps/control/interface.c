/* The side of the person: sends what it reads to the daemon and prints the answers. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"

static int daemon_is_missing(void)
{
	printf("Cannot find MPS control daemon process\n");
	return EXIT_FAILURE;
}

/* Without a deadline, as the real program: a daemon that hangs holds it. */
static bool ask(int daemon, const char *command)
{
	struct mps_text request = {.type = MPS_COMMAND};
	union mps_message answer;

	snprintf(request.text, sizeof(request.text), "%s", command);
	if (!mps_send(daemon, &request, offsetof(struct mps_text, text) + strlen(request.text) + 1, -1))
		return false;
	if (!mps_receive(daemon, &answer, NULL))
		return false;
	if (answer.type == MPS_GOODBYE)
		exit(EXIT_SUCCESS);
	fputs(answer.text.text, stdout);
	fflush(stdout);
	return true;
}

int run_interface(void)
{
	int daemon = mps_connect("control_privileged");
	size_t room = 0;
	char *line = NULL;

	if (daemon < 0)
		return daemon_is_missing();
	while (getline(&line, &room, stdin) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (!ask(daemon, line))
			return daemon_is_missing();
	}
	return EXIT_SUCCESS;
}
