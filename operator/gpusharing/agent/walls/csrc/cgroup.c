#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "files.h"

/* The only place that NVIDIA's hook looks at. */
#define MOUNT "/sys/fs/cgroup"

static bool is_version_2(void)
{
	struct statfs status;

	return statfs(MOUNT, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

/* In a file of /proc that has a line for each hierarchy. That of version 2 has the number 0 and no name. */
static const char *path_in(char *text)
{
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, "0::/", 4) == 0)
			return line + 3;
	}
	return NULL;
}

/* Of its own: a limit of the root would be one of the whole machine. */
static bool is_of_its_own(const char *path)
{
	return path && strcmp(path, "/") != 0 && strncmp(path, "/../", 4) != 0 && strcmp(path, "/..") != 0;
}

bool find_cgroup(struct container *container, struct failure *failure)
{
	char name[32], text[PATH_MAX + 4096];
	const char *path;

	if (!is_version_2())
		return fail(failure, "Boot the node with systemd.unified_cgroup_hierarchy=1",
			    MOUNT " is not cgroup v2, and the driver limits no others");
	snprintf(name, sizeof(name), "/proc/%d/cgroup", container->pid);
	if (!read_file(AT_FDCWD, name, text, sizeof(text)))
		return fail(failure, "See the container runtime's log", "%s cannot be read: %s", name, strerror(errno));
	path = path_in(text);
	if (!is_of_its_own(path) || strlen(path) >= sizeof(container->cgroup))
		return fail(failure, "Let the container runtime make one for each container",
			    "process %d has no cgroup of its own, but %s", container->pid, path ? path : "none");
	strcpy(container->cgroup, path);
	return true;
}

bool cgroup_is_live(const char *cgroup)
{
	char name[PATH_MAX + sizeof(MOUNT "/cgroup.events")], text[256];

	if ((size_t)snprintf(name, sizeof(name), MOUNT "%s/cgroup.events", cgroup) >= sizeof(name))
		return true;
	if (!read_file(AT_FDCWD, name, text, sizeof(text)))
		/* ENODEV: it went while it was read. Who cannot be asked, might be alive. */
		return errno != ENOENT && errno != ENODEV;
	return !strstr(text, "populated 0");
}
