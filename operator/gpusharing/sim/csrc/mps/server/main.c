#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/store.h"
#include "mps/log.h"
#include "server.h"

static struct watch daemon_watch = {.file = MPS_SERVER_SOCKET};

/* Ends with its last client: because it was told to, or because there is no daemon that could bring more. */
static bool leaving;

void tell_daemon(enum mps_message_type type, pid_t pid, uint32_t number)
{
	mps_send_notice(MPS_SERVER_SOCKET, type, pid, number);
}

void end_if_unused(void)
{
	if (!leaving || has_clients())
		return;
	log_line("Server exiting");
	exit(EXIT_SUCCESS);
}

static void on_message(struct watch *watch)
{
	union mps_message message;
	int connection;

	if (!mps_receive(watch->file, &message, &connection)) {
		log_line("Lost the control daemon");
		loop_close(watch);
		leaving = true;
	} else if (message.type == MPS_ADMISSION) {
		add_client(connection, &message.admission);
	} else if (message.type == MPS_TERMINATE_CLIENT) {
		terminate_client(message.notice.pid);
	} else if (message.type == MPS_SHUTDOWN_WHEN_IDLE) {
		leaving = true;
	}
	end_if_unused();
}

static void tell_daemon_ready(void)
{
	const struct cuda_devices *devices = server_devices();
	struct mps_ready ready = {.type = MPS_READY, .device_count = devices->count};

	for (unsigned int i = 0; i < devices->count; i++)
		strcpy(ready.uuids[i], devices->devices[i].uuid);
	mps_send(MPS_SERVER_SOCKET, &ready, sizeof(ready), -1);
}

/* As when a GPU cannot be used with MPS. */
static bool may_start(void)
{
	SCOPED_STORE(store);

	if (store_open(&store) || store.state->mps_fault == MPS_FAULT_SERVER_DOES_NOT_START)
		return false;
	return !(store.state->quirks & QUIRK_LATE_UVM) || access("/dev/nvidia-uvm", R_OK | W_OK) == 0;
}

int main(void)
{
	enum cuda_error error;

	log_open("Server");
	log_line("Startup");
	log_line("Connecting to control daemon on socket: %s/control", mps_pipe_directory());
	log_line("Initializing server process");
	error = may_start() ? open_devices() : CUDA_ERROR_UNKNOWN;
	if (error) {
		log_line("Failed to start : %s", cuda_error_name(error));
		return EXIT_FAILURE;
	}
	loop_open();
	daemon_watch.ready = on_message;
	loop_watch(&daemon_watch);
	watch_devices();
	tell_daemon_ready();
	for (;;)
		loop_run_once();
}
