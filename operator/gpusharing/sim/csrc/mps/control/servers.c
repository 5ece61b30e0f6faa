/* The servers: processes that this daemon has started. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/location.h"
#include "driver/store.h"
#include "mps/log.h"
#include "control.h"

#define PROGRAM "nvidia-cuda-mps-server"

bool servers_have_many_users;

static struct server *servers;

struct server *first_server(void)
{
	return servers;
}

struct server *find_server(pid_t pid)
{
	struct server *server = servers;

	while (server && server->pid != pid)
		server = server->next;
	return server;
}

struct server *server_for_user(uid_t user)
{
	struct server *server = servers;

	while (server && (server->leaving || (server->user != user && !servers_have_many_users)))
		server = server->next;
	return server;
}

struct client *find_client(const struct server *server, pid_t pid)
{
	struct client *client = server->clients;

	while (client && client->pid != pid)
		client = client->next;
	return client;
}

static void forget_client(struct server *server, pid_t pid)
{
	for (struct client **link = &server->clients; *link; link = &(*link)->next) {
		struct client *client = *link;

		if (client->pid != pid)
			continue;
		*link = client->next;
		free(client);
		client_has_gone(pid);
		return;
	}
}

static void forget_server(struct server *server)
{
	struct server **link = &servers;

	while (server->clients)
		forget_client(server, server->clients->pid);
	while (*link != server)
		link = &(*link)->next;
	*link = server->next;
	free(server);
}

static void become_ready(struct server *server, const struct mps_ready *ready)
{
	server->device_count = ready->device_count;
	memcpy(server->devices, ready->uuids, sizeof(server->devices));
	server->status = MPS_ACTIVE;
	log_line("NEW SERVER %d: Ready", server->pid);
	serve_pending_clients();
}

static void handle(struct server *server, const union mps_message *message)
{
	struct client *client;

	switch (message->type) {
	case MPS_READY:
		become_ready(server, &message->ready);
		break;
	case MPS_STATUS:
		server->status = message->notice.number;
		break;
	case MPS_CLIENT_CONTEXT:
		client = find_client(server, message->notice.pid);
		if (client)
			client->device = message->notice.number;
		break;
	case MPS_CLIENT_GONE:
		forget_client(server, message->notice.pid);
		break;
	}
}

static void report_end(pid_t pid, int status)
{
	if (WIFSIGNALED(status)) {
		log_line("Server %d exited with signal %d", pid, WTERMSIG(status));
		return;
	}
	if (WEXITSTATUS(status))
		log_line("Server encountered a fatal exception. Shutting down");
	log_line("Server %d exited with status %d", pid, WEXITSTATUS(status));
}

static void on_end(struct server *server)
{
	bool was_ready = server->status != MPS_INITIALIZING;
	int status;

	waitpid(server->pid, &status, 0);
	report_end(server->pid, status);
	loop_close(&server->watch);
	forget_server(server);
	end_if_quitting();
	/* One that cannot start is tried again and again while a client waits for it, as the real daemon does. */
	if (was_ready)
		serve_pending_clients();
	else
		serve_pending_clients_later();
}

/* All that is there: a command that comes after what the server said must find it known. */
static void on_message(struct watch *watch)
{
	struct server *server = OWNER_OF(watch, struct server, watch);
	union mps_message message;

	do {
		if (!mps_receive(watch->file, &message, NULL)) {
			on_end(server);
			return;
		}
		handle(server, &message);
	} while (mps_has_message(watch->file));
}

/* It lies beside this program. */
static void execute_program(void)
{
	char own[PATH_MAX], program[PATH_MAX + sizeof(PROGRAM)];

	if (!own_file(own))
		return;
	snprintf(program, sizeof(program), "%s/%s", dirname(own), PROGRAM);
	execl(program, PROGRAM, NULL);
	log_line("Cannot start %s: %s", program, strerror(errno));
}

static bool become_user(uid_t user)
{
	if (user == geteuid())
		return true;
	return setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0;
}

static void run_server(int connection, uid_t user)
{
	log_line("Starting new server %d for user %u", getpid(), user);
	dup2(connection, MPS_SERVER_SOCKET);
	dup2(server_log(), STDERR_FILENO);
	if (become_user(user))
		execute_program();
	_exit(EXIT_FAILURE);
}

void start_server(uid_t user)
{
	struct server *server = calloc(1, sizeof(*server));
	int connection[2];

	server->user = servers_have_many_users ? geteuid() : user;
	server->settings = default_settings;
	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, connection);
	server->pid = fork();
	if (server->pid == 0)
		run_server(connection[1], server->user);
	close(connection[1]);
	server->watch = (struct watch){.file = connection[0], .ready = on_message};
	server->next = servers;
	servers = server;
	loop_watch(&server->watch);
}

void let_server_leave(struct server *server)
{
	server->leaving = true;
	mps_send_notice(server->watch.file, MPS_SHUTDOWN_WHEN_IDLE, 0, 0);
}

void kill_server(struct server *server)
{
	server->leaving = true;
	kill(server->pid, SIGKILL);
}

static bool limits_apply(void)
{
	SCOPED_STORE(store);

	return store_open(&store) || store.state->mps_fault != MPS_FAULT_LIMITS_NOT_APPLIED;
}

static void write_terms(const struct server *server, pid_t client, struct mps_admission *terms)
{
	*terms = (struct mps_admission){
		.type = MPS_ADMISSION,
		.server = server->pid,
		.client = client,
		.device_count = server->device_count,
		.active_thread_percentage = limits_apply() ? server->settings.active_thread_percentage : 100,
	};
	for (unsigned int i = 0; i < server->device_count; i++) {
		strcpy(terms->devices[i].uuid, server->devices[i]);
		terms->devices[i].memory_limit = limits_apply()
							 ? memory_limit(&server->settings.memory, i, server->devices[i])
							 : MPS_NO_LIMIT;
	}
}

void admit_client(struct server *server, int connection, pid_t pid)
{
	struct client **end = &server->clients;
	struct mps_admission terms;

	while (*end)
		end = &(*end)->next;
	*end = malloc(sizeof(**end));
	**end = (struct client){.pid = pid, .id = server->next_client_id++, .device = NO_DEVICE};
	write_terms(server, pid, &terms);
	mps_send(server->watch.file, &terms, sizeof(terms), connection);
	close(connection);
}
