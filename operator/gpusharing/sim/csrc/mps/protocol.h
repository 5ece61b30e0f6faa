/*
 * What a simulated control daemon, its servers, their clients and its command line say to each other: packets over
 * Unix sockets. The real programs' protocol is not public; only what people see of it is imitated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "driver/limits.h"
#include "node_state.h"

#define MPS_MAX_DEVICES ARRAY_LENGTH(((struct node_state *)0)->gpus)
#define MPS_UUID_LENGTH 96
#define MPS_TEXT_LENGTH 16384
#define MPS_NO_LIMIT UINT64_MAX

/* The server finds its connection to the daemon here. */
#define MPS_SERVER_SOCKET 3

enum mps_message_type {
	/* Command line to daemon and back (mps_text). */
	MPS_COMMAND,
	MPS_REPLY,
	/* The daemon has given up its pipe directory: another one can be started. */
	MPS_GOODBYE,
	/* Client to daemon (mps_notice): wants to use a server. */
	MPS_CONNECT,
	/* Daemon to server with the client's connection, and from there to the client (mps_admission). */
	MPS_ADMISSION,
	/* Client to server (mps_notice): a context on device `number`; the answer is an MPS_RESULT. */
	MPS_CREATE_CONTEXT,
	/* Client to server (mps_notice): its work has damaged the context that all clients share. */
	MPS_FATAL_FAULT,
	/* Server to client (mps_notice): `number` is the CUDA error of its request, or one that ends it. */
	MPS_RESULT,
	/* Server to daemon (mps_ready): can admit clients to these devices. */
	MPS_READY,
	/* Server to daemon (mps_notice): now in the state `number`. */
	MPS_STATUS,
	/* Server to daemon (mps_notice): client `pid` has a context on device `number`; client `pid` has left. */
	MPS_CLIENT_CONTEXT,
	MPS_CLIENT_GONE,
	/* Daemon to server (mps_notice). */
	MPS_TERMINATE_CLIENT,
	MPS_SHUTDOWN_WHEN_IDLE,
};

enum mps_server_status { MPS_INITIALIZING, MPS_ACTIVE, MPS_FAULT };

struct mps_text {
	uint32_t type;
	char text[MPS_TEXT_LENGTH];
};

struct mps_notice {
	uint32_t type;
	uint32_t pid;
	uint32_t number;
};

struct mps_ready {
	uint32_t type;
	uint32_t device_count;
	char uuids[MPS_MAX_DEVICES][MPS_UUID_LENGTH];
};

/* On what terms a client uses its server. */
struct mps_admission {
	uint32_t type;
	uint32_t server;
	uint32_t client;
	uint32_t device_count;
	double active_thread_percentage;
	struct {
		char uuid[MPS_UUID_LENGTH];
		uint64_t memory_limit;
	} devices[MPS_MAX_DEVICES];
};

union mps_message {
	uint32_t type;
	struct mps_text text;
	struct mps_notice notice;
	struct mps_ready ready;
	struct mps_admission admission;
};

/* `file` goes along unless it is negative. False if the other side is gone. */
bool mps_send(int socket, const void *message, size_t size, int file);
bool mps_send_notice(int socket, enum mps_message_type type, pid_t pid, uint32_t number);

/* False if the other side is gone. `file` may be NULL where none is expected. */
bool mps_receive(int socket, union mps_message *message, int *file);

/* Whether a message is there, without waiting for one. */
bool mps_has_message(int socket);

const char *mps_pipe_directory(void);

/* A file of the pipe directory. */
void mps_pipe_path(const char *name, char *path, size_t size);

/* A socket that is connected to this one of the daemon, or -1 if there is no daemon. */
int mps_connect(const char *name);
