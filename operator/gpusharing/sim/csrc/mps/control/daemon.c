/* How the daemon starts and ends: one for each pipe directory. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/store.h"
#include "mps/log.h"
#include "control.h"

#define DEFAULT_LOG_DIRECTORY "/var/log/nvidia-mps"
#define PID_FILE "nvidia-cuda-mps-control.pid"
#define LOG_PIPE "log"
#define BOOT_CHECK_MILLISECONDS 100

static int server_log_file = STDERR_FILENO;

static int lock;

/* The boot of the node in which the daemon runs. */
static uint32_t boot;
static int32_t cuda_version;
static uint32_t quirks;

bool has_quirk(unsigned int quirk)
{
	return quirks & quirk;
}

int server_log(void)
{
	return server_log_file;
}

/* The kernel drops the lock with the process, however it ends; the file stays. */
static bool is_only_daemon(void)
{
	char path[PATH_MAX];

	mps_pipe_path("control_lock", path, sizeof(path));
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0;
}

/* A full disk or a missing directory costs the log, not the daemon. */
static int open_log_file(const char *name)
{
	const char *directory = getenv("CUDA_MPS_LOG_DIRECTORY");
	char path[PATH_MAX];
	int file;

	if (!directory)
		directory = DEFAULT_LOG_DIRECTORY;
	mkdir(directory, 0755);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return file >= 0 ? file : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/* The parent waits for nothing: a command that comes at once may find no daemon yet. */
static void go_to_background(void)
{
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t child = fork();

	if (child != 0)
		_exit(child < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	setsid();
	dup2(nowhere, STDIN_FILENO);
	dup2(nowhere, STDOUT_FILENO);
	dup2(open_log_file("control.log"), STDERR_FILENO);
	server_log_file = open_log_file("server.log");
}

static void make_files(void)
{
	char path[PATH_MAX];
	FILE *file;

	mps_pipe_path(LOG_PIPE, path, sizeof(path));
	mkfifo(path, 0666);
	mps_pipe_path(PID_FILE, path, sizeof(path));
	file = fopen(path, "we");
	if (!file)
		return;
	fprintf(file, "%d\n", getpid());
	fclose(file);
}

/* Unless the node wants it to fail. */
static bool enter_node(void)
{
	SCOPED_STORE(store);

	if (store_open(&store) || store.state->mps_fault == MPS_FAULT_DOES_NOT_START)
		return false;
	boot = store.state->boot;
	cuda_version = store.state->driver.cuda_version;
	quirks = store.state->quirks;
	return true;
}

static void announce(void)
{
	log_line("Starting control daemon using socket %s/control", mps_pipe_directory());
	log_line("To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=%s",
		 mps_pipe_directory());
	log_line("CUDA MPS Control binary version: %d", cuda_version);
}

static void check_boot(struct watch *timer)
{
	SCOPED_STORE(store);

	/* A reboot leaves no chance to tidy up. */
	if (store_open(&store) || store.state->boot != boot)
		exit(EXIT_FAILURE);
	loop_restart_timer(timer, BOOT_CHECK_MILLISECONDS);
}

int run_daemon(bool background)
{
	static struct watch boot_checks;

	mkdir(mps_pipe_directory(), 0755);
	if (!enter_node()) {
		printf("Failed to start the MPS control daemon\n");
		return EXIT_FAILURE;
	}
	if (!is_only_daemon()) {
		printf("An instance of this daemon is already running\n");
		return EXIT_FAILURE;
	}
	if (background)
		go_to_background();
	log_open("Control");
	loop_open();
	settings_from_environment();
	if (!listen_for_connections()) {
		log_line("Failed to listen on socket %s/control", mps_pipe_directory());
		return EXIT_FAILURE;
	}
	make_files();
	announce();
	loop_start_timer(&boot_checks, check_boot, BOOT_CHECK_MILLISECONDS);
	for (;;)
		loop_run_once();
}

void end_daemon(void)
{
	static const char *const FILES[] = {"control", "control_privileged", LOG_PIPE, PID_FILE};
	char path[PATH_MAX];

	for (unsigned int i = 0; i < ARRAY_LENGTH(FILES); i++) {
		mps_pipe_path(FILES[i], path, sizeof(path));
		unlink(path);
	}
	log_line("Exiting");
	close(lock);
	daemon_ends();
	exit(EXIT_SUCCESS);
}
