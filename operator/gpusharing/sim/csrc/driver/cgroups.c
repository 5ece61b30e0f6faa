#include "driver/cgroups.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "driver/limits.h"

#define MOUNT "/sys/fs/cgroup"

static bool identify(const char *path, struct cgroup_state *cgroup)
{
	struct statx status;

	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME | STATX_TYPE, &status) < 0 || !S_ISDIR(status.stx_mode))
		return false;
	*cgroup = (struct cgroup_state){
		.device = makedev(status.stx_dev_major, status.stx_dev_minor),
		.inode = status.stx_ino,
		.born = (uint64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec,
	};
	return true;
}

/* A file system of its own begins where the cgroups begin. */
static bool is_above(const struct cgroup_state *upper, const struct cgroup_state *lower)
{
	return upper->device == lower->device && upper->inode != lower->inode;
}

bool cgroups_of_path(const char *path, struct cgroup_state cgroups[CGROUP_LEVELS])
{
	char level[PATH_MAX];

	memset(cgroups, 0, CGROUP_LEVELS * sizeof(*cgroups));
	if (!identify(path, &cgroups[0]))
		return false;
	snprintf(level, sizeof(level), "%s", path);
	for (unsigned int i = 1; i < CGROUP_LEVELS && strlen(level) + sizeof("/..") <= sizeof(level); i++) {
		struct cgroup_state cgroup;

		strcat(level, "/..");
		if (!identify(level, &cgroup) || !is_above(&cgroup, &cgroups[i - 1]))
			break;
		cgroups[i] = cgroup;
	}
	return true;
}

void own_cgroups(struct cgroup_state cgroups[CGROUP_LEVELS])
{
	char line[PATH_MAX], path[2 * PATH_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");

	memset(cgroups, 0, CGROUP_LEVELS * sizeof(*cgroups));
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		/* Those of version 1 have a number and the names of their controllers. */
		if (strncmp(line, "0::", 3) == 0) {
			snprintf(path, sizeof(path), MOUNT "%s", line + 3);
			cgroups_of_path(path, cgroups);
		}
	}
	fclose(file);
}

static bool is_same(const struct cgroup_state *one, const struct cgroup_state *other)
{
	return one->device == other->device && one->inode == other->inode && one->born == other->born;
}

struct memory_limit_state *memory_limit_of_cgroup(struct node_state *state, unsigned int gpu,
						  const struct cgroup_state *cgroup)
{
	for (unsigned int i = 0; cgroup->inode && i < ARRAY_LENGTH(state->memory_limits); i++) {
		struct memory_limit_state *limit = &state->memory_limits[i];

		if (limit->gpu == gpu && is_same(&limit->cgroup, cgroup))
			return limit;
	}
	return NULL;
}

struct memory_limit_state *memory_limit_of(struct node_state *state, unsigned int gpu,
					   const struct cgroup_state cgroups[CGROUP_LEVELS])
{
	for (unsigned int level = 0; level < CGROUP_LEVELS; level++) {
		struct memory_limit_state *limit = memory_limit_of_cgroup(state, gpu, &cgroups[level]);

		if (limit)
			return limit;
	}
	return NULL;
}

uint64_t memory_used_under(struct node_state *state, const struct memory_limit_state *limit)
{
	const struct gpu_state *gpu = &state->gpus[limit->gpu];
	uint64_t used = 0;

	for (unsigned int slot = 0; slot < ARRAY_LENGTH(gpu->processes); slot++) {
		const struct process_state *process = &gpu->processes[slot];

		if (process->pid && memory_limit_of(state, limit->gpu, process->cgroups) == limit)
			used += process->memory;
	}
	return used;
}
