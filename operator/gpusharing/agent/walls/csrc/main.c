/* A createRuntime hook: holds a container to what its claim has of a GPU's memory, before its program starts. This is
 * static and starts nothing but NVIDIA's hook, because it runs on the host, whatever that is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cgroup.h"
#include "container.h"
#include "deadline.h"
#include "nvidia_hook.h"
#include "notes.h"
#include "wall.h"

static bool build(struct wall *wall, struct container *container, struct failure *failure)
{
	bool alone;

	if (!read_state(container, failure) || !find_cgroup(container, failure) || !lock_notes(wall, failure))
		return false;
	alone = is_alone(wall, container, failure);
	if (!alone && wall->required)
		return false;
	/* Noted first: from then on nobody else gets in, whatever happens to us. */
	if (!note_container(wall, container, failure))
		return false;
	if (limit_by_nvidia_hook(wall, container, failure))
		return alone;
	if (wall->required)
		forget_container(wall, container);
	return false;
}

static int refuse(const struct wall *wall, const struct failure *failure)
{
	fprintf(stderr, "memory wall: claim %s may have %s MiB of %s, which cannot be held, so the container does not "
		"start: %s. %s.\n", wall->claim, wall->limit, wall->gpu, failure->reason, failure->remedy);
	return EXIT_FAILURE;
}

static int let_in(const struct wall *wall, const struct failure *failure)
{
	char text[2048];

	snprintf(text, sizeof(text), "%s. %s.", failure->reason, failure->remedy);
	note_failure(wall, text);
	fprintf(stderr, "memory wall: claim %s is not held to %s MiB of %s: %s\n", wall->claim, wall->limit, wall->gpu,
		text);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct wall wall;
	static struct container container;
	static struct failure failure;

	if (argc != 2) {
		fprintf(stderr, "usage: gpusharing-wall DIRECTORY < STATE\n");
		return EXIT_FAILURE;
	}
	/* Nobody knows what was wanted. It might have been required. */
	if (!read_wall(argv[1], &wall, &failure)) {
		fprintf(stderr, "memory wall: the container does not start: %s. %s.\n", failure.reason, failure.remedy);
		return EXIT_FAILURE;
	}
	deadline_in(wall.seconds);
	if (build(&wall, &container, &failure)) {
		forget_failure(&wall);
		return EXIT_SUCCESS;
	}
	return wall.required ? refuse(&wall, &failure) : let_in(&wall, &failure);
}
