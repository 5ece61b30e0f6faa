#include "driver/files.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "driver/capabilities.h"
#include "driver/limits.h"

/* What is being made, and directories that were needed before. */
#define UNSEEN ".driver"

#define TEXT_LENGTH 512

/* Declares a path within the node's directory, which `node` is a descriptor of. */
#define PATH(name, ...)                            \
	char name[128];                            \
	snprintf(name, sizeof(name), __VA_ARGS__)

static bool is_there(int node, const char *path)
{
	return faccessat(node, path, F_OK, 0) == 0;
}

static bool has_content(int node, const char *path, const char *content)
{
	char current[TEXT_LENGTH];
	int file = openat(node, path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (file < 0)
		return false;
	length = read(file, current, sizeof(current) - 1);
	close(file);
	current[length < 0 ? 0 : length] = '\0';
	return strcmp(current, content) == 0;
}

/* Whole at once, as files of the kernel are, whoever reads it meanwhile. Not without need: it takes milliseconds. */
static void write_file(int node, const char *path, const char *content)
{
	int file;

	if (has_content(node, path, content))
		return;
	/* Of a process that was killed: who is not root could not write into it. */
	unlinkat(node, UNSEEN "/file", 0);
	file = openat(node, UNSEEN "/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	if (file < 0)
		return;
	dprintf(file, "%s", content);
	close(file);
	renameat(node, UNSEEN "/file", node, path);
}

/* An ordinary file where the process may not make device nodes. In sight only with its mode, which a umask cuts. */
static void make_device(int node, const char *path, mode_t mode, unsigned int major, unsigned int minor)
{
	int file;

	if (is_there(node, path))
		return;
	unlinkat(node, UNSEEN "/device", 0);
	/* Not mknodat, which a C library before 2.33 does not have by this name. */
	if (syscall(SYS_mknodat, node, UNSEEN "/device", S_IFCHR | mode, makedev(major, minor)) < 0) {
		file = openat(node, UNSEEN "/device", O_CREAT | O_CLOEXEC, mode);
		if (file >= 0)
			close(file);
	}
	fchmodat(node, UNSEEN "/device", mode, 0);
	renameat(node, UNSEEN "/device", node, path);
}

/*
 * To make a directory is what takes a file system longest. So each capability's is made once, aside and with what is in
 * it, and from then on moved into sight and out of it.
 */
static void make_directory(int node, const char *directory, unsigned int minor)
{
	char content[TEXT_LENGTH];

	snprintf(content, sizeof(content), "DeviceFileMinor: %u\nDeviceFileMode: 256\nDeviceFileModify: 1\n", minor);
	mkdirat(node, UNSEEN "/new", 0755);
	write_file(node, UNSEEN "/new/access", content);
	renameat(node, UNSEEN "/new", node, directory);
}

/* The directory comes last and goes last: it says to whoever comes after a killed process that there is a device. */
static void show_capability(int node, const char *directory, unsigned int minor)
{
	PATH(aside, UNSEEN "/%u", minor);
	PATH(device, "dev/nvidia-caps/nvidia-cap%u", minor);

	make_device(node, device, 0400, MAJOR_CAPABILITIES, minor);
	if (!is_there(node, directory) && renameat(node, aside, node, directory) < 0)
		make_directory(node, directory, minor);
}

static void hide_capability(int node, const char *directory, unsigned int minor)
{
	PATH(aside, UNSEEN "/%u", minor);
	PATH(device, "dev/nvidia-caps/nvidia-cap%u", minor);

	unlinkat(node, device, 0);
	renameat(node, directory, node, aside);
}

static void write_compute_instances(int node, const char *parent, const struct gpu_state *gpu, unsigned int gi)
{
	const struct gpu_instance_state *gpu_instance = &gpu->gpu_instances[gi];

	for (unsigned int ci = 0; ci < ARRAY_LENGTH(gpu_instance->compute_instances); ci++) {
		PATH(directory, "%.100s/ci%u", parent, ci);

		if (gpu_instance->exists && gpu_instance->compute_instances[ci].exists)
			show_capability(node, directory, compute_instance_capability(gpu, gi, ci));
		else if (is_there(node, directory))
			hide_capability(node, directory, compute_instance_capability(gpu, gi, ci));
	}
}

static void write_gpu_instances(int node, const struct gpu_state *gpu)
{
	for (unsigned int gi = 0; gi < ARRAY_LENGTH(gpu->gpu_instances); gi++) {
		PATH(directory, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u", gpu->minor, gi);

		if (gpu->gpu_instances[gi].exists) {
			show_capability(node, directory, gpu_instance_capability(gpu, gi));
			write_compute_instances(node, directory, gpu, gi);
		} else if (is_there(node, directory)) {
			write_compute_instances(node, directory, gpu, gi);
			hide_capability(node, directory, gpu_instance_capability(gpu, gi));
		}
	}
}

static void write_information(int node, const struct gpu_state *gpu)
{
	PATH(address, "%04x:%02x:%02x.0", gpu->pci_domain, gpu->pci_bus, gpu->pci_device);
	PATH(directory, "proc/driver/nvidia/gpus/%.20s", address);
	PATH(file, "%.100s/information", directory);
	char content[TEXT_LENGTH];

	mkdirat(node, directory, 0755);
	snprintf(content, sizeof(content),
		 "Model: \t\t %s\nIRQ:   \t\t %u\nGPU UUID: \t %s\nVideo BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n"
		 "DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %u\n"
		 "GPU Excluded:\t No\n",
		 gpu->name, 100 + gpu->pci_bus, gpu->uuid, address, gpu->minor);
	write_file(node, file, content);
}

static void write_gpu_files(int node, const struct gpu_state *gpu)
{
	PATH(device, "dev/nvidia%u", gpu->minor);
	PATH(capabilities, "proc/driver/nvidia/capabilities/gpu%u", gpu->minor);
	PATH(mig, "%.100s/mig", capabilities);

	make_device(node, device, 0666, MAJOR_NVIDIA, gpu->minor);
	write_information(node, gpu);
	if (!gpu->mig_capable)
		return;
	mkdirat(node, capabilities, 0755);
	mkdirat(node, mig, 0755);
	write_gpu_instances(node, gpu);
}

void mark_files_stale(struct node_state *state, unsigned int gpu)
{
	state->files_stale |= 1U << gpu;
}

void write_stale_files(struct node_state *state, const char *directory)
{
	int node;

	/* Left to somebody who may write them. */
	if (!state->files_stale || access(directory, W_OK) < 0)
		return;
	node = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned int gpu = 0; gpu < state->gpu_count; gpu++)
		if (state->files_stale & 1U << gpu)
			write_gpu_files(node, &state->gpus[gpu]);
	if (node >= 0)
		close(node);
	state->files_stale = 0;
}
