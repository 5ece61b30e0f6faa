#include "notes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "deadline.h"
#include "files.h"

#define CONTAINERS "containers"
#define FAILURE "failure"
#define REMEDY "Look at the disk of the node"

bool lock_notes(struct wall *wall, struct failure *failure)
{
	while (flock(wall->directory, LOCK_EX | LOCK_NB) < 0) {
		if (!milliseconds_left())
			return fail(failure, "See whether the GPU's driver hangs",
				    "another container of this claim has been starting for %u s", wall->seconds);
		poll(NULL, 0, 10);
	}
	if (mkdirat(wall->directory, CONTAINERS, 0700) < 0 && errno != EEXIST)
		return fail(failure, REMEDY, "%s/" CONTAINERS " cannot be made: %s", wall->path, strerror(errno));
	return true;
}

static int open_containers(const struct wall *wall)
{
	return openat(wall->directory, CONTAINERS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* False if it is gone, or was the same: then the two share one limit. */
static bool is_another(int containers, const char *id, const struct container *container)
{
	char cgroup[PATH_MAX];

	if (!read_file(containers, id, cgroup, sizeof(cgroup)))
		return true;
	if (!cgroup_is_live(cgroup)) {
		unlinkat(containers, id, 0);
		return false;
	}
	return strcmp(cgroup, container->cgroup) != 0;
}

static bool find_another(DIR *containers, const struct container *container, struct failure *failure)
{
	struct dirent *entry;

	while ((entry = readdir(containers))) {
		if (*entry->d_name != '.' && is_another(dirfd(containers), entry->d_name, container)) {
			fail(failure, "Give each container a claim of its own",
			     "container %s of this claim still runs, and each of the two could take all of it",
			     entry->d_name);
			return true;
		}
	}
	return false;
}

bool is_alone(const struct wall *wall, const struct container *container, struct failure *failure)
{
	int directory = open_containers(wall);
	DIR *containers = directory < 0 ? NULL : fdopendir(directory);
	bool found;

	if (!containers)
		return fail(failure, REMEDY, "%s/" CONTAINERS " cannot be read: %s", wall->path, strerror(errno));
	found = find_another(containers, container, failure);
	closedir(containers);
	return !found;
}

bool note_container(const struct wall *wall, const struct container *container, struct failure *failure)
{
	int containers = open_containers(wall);
	bool written = containers >= 0 && write_file(containers, container->id, container->cgroup);

	if (!written)
		fail(failure, REMEDY, "%s/" CONTAINERS "/%s cannot be written: %s", wall->path, container->id,
		     strerror(errno));
	close(containers);
	return written;
}

void forget_container(const struct wall *wall, const struct container *container)
{
	int containers = open_containers(wall);

	unlinkat(containers, container->id, 0);
	close(containers);
}

void note_failure(const struct wall *wall, const char *text)
{
	write_file(wall->directory, FAILURE, text);
}

void forget_failure(const struct wall *wall)
{
	unlinkat(wall->directory, FAILURE, 0);
}
