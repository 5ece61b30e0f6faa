/* The parts of the simulated nvidia-cuda-mps-control. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "mps/limits.h"
#include "mps/loop.h"
#include "mps/protocol.h"

/* What a new server takes over, and what can then be changed for its next clients. */
struct settings {
	double active_thread_percentage;
	struct memory_limits memory;
};

struct client {
	struct client *next;
	pid_t pid;
	unsigned int id;
	/* An ordinal of the server, or NO_DEVICE while the client has no context. */
	unsigned int device;
};

#define NO_DEVICE UINT32_MAX

struct server {
	struct server *next;
	struct watch watch;
	pid_t pid;
	uid_t user;
	enum mps_server_status status;
	/* Takes no more clients and ends with its last one. */
	bool leaving;
	struct settings settings;
	unsigned int device_count;
	char devices[MPS_MAX_DEVICES][MPS_UUID_LENGTH];
	struct client *clients;
	unsigned int next_client_id;
};

/* interface.c: sends the commands of standard input to the daemon; returns the exit code. */
int run_interface(void);

/* daemon.c: becomes the daemon; returns only if it cannot, with the exit code. */
int run_daemon(bool background);
void end_daemon(void);
/* Of the node, a QUIRK_. */
bool has_quirk(unsigned int quirk);
/* Where servers write. */
int server_log(void);

/* settings.c: of the next server. */
extern struct settings default_settings;
void settings_from_environment(void);

/* servers.c */
extern bool servers_have_many_users;
struct server *first_server(void);
struct server *find_server(pid_t pid);
/* The one that takes new clients of this user; NULL if there is none. */
struct server *server_for_user(uid_t user);
void start_server(uid_t user);
/* Takes no more clients and ends with the last one. */
void let_server_leave(struct server *server);
/* Also one that hangs. Its clients see it as a failure. */
void kill_server(struct server *server);
struct client *find_client(const struct server *server, pid_t pid);
/* The server gets the client's connection. */
void admit_client(struct server *server, int connection, pid_t pid);

/* pending.c: clients that wait for a server. */
void add_pending_client(int connection, pid_t pid, uid_t user);
/* To be called whenever a server is ready or has ended. */
void serve_pending_clients(void);
/* The same, a little later. */
void serve_pending_clients_later(void);
void refuse_pending_clients(void);

/* connections.c: everybody who connects to the daemon. */
struct command_line;
bool listen_for_connections(void);
void reply(struct command_line *command_line, const char *text);
/* Instead of a reply at once. */
void reply_when_client_has_gone(struct command_line *command_line, pid_t pid);
void reply_when_daemon_ends(struct command_line *command_line);
void client_has_gone(pid_t pid);
void daemon_ends(void);

/* commands.c */
void run_command(struct command_line *command_line, char *line);

/* quit.c: takes no more clients and ends the daemon after the last server. */
void quit_when_idle(void);
void quit_after(unsigned int seconds);
bool is_quitting(void);
/* To be called whenever a server has ended. */
void end_if_quitting(void);
