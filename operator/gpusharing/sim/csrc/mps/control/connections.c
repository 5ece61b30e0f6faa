/* Everybody who connects: command lines stay here, CUDA processes are handed to a server. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "driver/store.h"
#include "mps/log.h"
#include "control.h"

#define BACKLOG 128

/* A connection is one from the start; the first message tells whether it is a client instead. */
struct command_line {
	struct command_line *next;
	struct watch watch;
	/* Its command is answered when this client has gone, if it is not 0. */
	pid_t awaited_client;
	bool awaits_end;
	bool has_asked;
	/* Came by the socket that is for root. */
	bool is_privileged;
};

static struct command_line *command_lines;
static struct watch control, control_privileged;

static void forget(struct command_line *command_line)
{
	struct command_line **link = &command_lines;

	while (*link != command_line)
		link = &(*link)->next;
	*link = command_line->next;
	free(command_line);
}

static bool daemon_hangs(void)
{
	SCOPED_STORE(store);

	return !store_open(&store) && store.state->mps_fault == MPS_FAULT_HANGS;
}

static void become_client(struct command_line *connection)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	int file = connection->watch.file;

	getsockopt(file, SOL_SOCKET, SO_PEERCRED, &who, &size);
	loop_forget(&connection->watch);
	forget(connection);
	if (is_quitting())
		close(file);
	else
		add_pending_client(file, who.pid, who.uid);
}

static void on_message(struct watch *watch)
{
	struct command_line *connection = OWNER_OF(watch, struct command_line, watch);
	union mps_message message;

	if (!mps_receive(watch->file, &message, NULL)) {
		log_line("UI closed");
		loop_close(watch);
		forget(connection);
	} else if (daemon_hangs()) {
		log_line("Hanging, as the simulated node demands");
	} else if (message.type == MPS_CONNECT) {
		become_client(connection);
	} else if (message.type == MPS_COMMAND && !connection->is_privileged) {
		log_line("User did not send valid credentials");
		loop_close(watch);
		forget(connection);
	} else if (message.type == MPS_COMMAND) {
		if (!connection->has_asked)
			log_line("NEW UI");
		connection->has_asked = true;
		log_line("Cmd:%s", message.text.text);
		run_command(connection, message.text.text);
	}
}

static void on_connection(struct watch *listener)
{
	int file = accept4(listener->file, NULL, NULL, SOCK_CLOEXEC);
	struct command_line *connection;

	log_line("Accepting connection...");
	if (file < 0)
		return;
	connection = calloc(1, sizeof(*connection));
	connection->watch = (struct watch){.file = file, .ready = on_message};
	connection->is_privileged = listener == &control_privileged;
	connection->next = command_lines;
	command_lines = connection;
	loop_watch(&connection->watch);
}

static bool listen_on(struct watch *listener, const char *name, mode_t mode)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[2 * sizeof(address.sun_path)];

	mps_pipe_path(name, path, sizeof(path));
	if (strlen(path) >= sizeof(address.sun_path))
		return false;
	strcpy(address.sun_path, path);
	/* One of a daemon that was killed: nobody else has the lock. */
	unlink(path);
	listener->file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	listener->ready = on_connection;
	if (bind(listener->file, (struct sockaddr *)&address, sizeof(address)) < 0)
		return false;
	chmod(path, mode);
	if (listen(listener->file, BACKLOG) < 0)
		return false;
	loop_watch(listener);
	return true;
}

bool listen_for_connections(void)
{
	return listen_on(&control, "control", 0666) && listen_on(&control_privileged, "control_privileged", 0755);
}

static void log_lines(const char *text)
{
	for (size_t length; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		log_line("%.*s", (int)length, text);
	}
}

void reply(struct command_line *command_line, const char *text)
{
	struct mps_text answer = {.type = MPS_REPLY};

	log_lines(text);
	snprintf(answer.text, sizeof(answer.text), "%s", text);
	mps_send(command_line->watch.file, &answer, offsetof(struct mps_text, text) + strlen(answer.text) + 1, -1);
}

void reply_when_client_has_gone(struct command_line *command_line, pid_t pid)
{
	command_line->awaited_client = pid;
}

void reply_when_daemon_ends(struct command_line *command_line)
{
	command_line->awaits_end = true;
}

void client_has_gone(pid_t pid)
{
	for (struct command_line *each = command_lines; each; each = each->next) {
		if (each->awaited_client != pid)
			continue;
		each->awaited_client = 0;
		reply(each, "0\n");
	}
}

void daemon_ends(void)
{
	for (struct command_line *each = command_lines; each; each = each->next)
		if (each->awaits_end)
			mps_send_notice(each->watch.file, MPS_GOODBYE, 0, 0);
}
