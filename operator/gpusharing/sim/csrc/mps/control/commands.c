/* What can be asked of the daemon. The answers to wrong questions are in our words: NVIDIA's are not documented. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"

#define MAX_WORDS 4
#define MOST_SECONDS 1000000

struct command {
	struct command_line *command_line;
	/* The answer. */
	FILE *out;
	/* The answer comes later. */
	bool deferred;
	unsigned int count;
	/* Without the command's name. */
	char *arguments[MAX_WORDS];
};

static bool parse_number(const char *text, unsigned int *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || value > INT_MAX)
		return false;
	*number = value;
	return true;
}

/* The server whose PID is the first argument. */
static struct server *named_server(const struct command *command)
{
	unsigned int pid;
	struct server *server = parse_number(command->arguments[0], &pid) ? find_server(pid) : NULL;

	if (!server)
		fprintf(command->out, "Server %s not found\n", command->arguments[0]);
	return server;
}

static void get_server_list(struct command *command)
{
	for (const struct server *server = first_server(); server; server = server->next)
		fprintf(command->out, "%d\n", server->pid);
}

static void get_server_status(struct command *command)
{
	static const char *const NAMES[] = {
		[MPS_INITIALIZING] = "INITIALIZING",
		[MPS_ACTIVE] = "ACTIVE",
		[MPS_FAULT] = "FAULT",
	};
	const struct server *server = named_server(command);

	if (server)
		fprintf(command->out, "%s\n", NAMES[server->status]);
}

static void start_server_command(struct command *command)
{
	unsigned int user;

	if (strcmp(command->arguments[0], "-uid") != 0 || !parse_number(command->arguments[1], &user))
		fprintf(command->out, "Usage: start_server -uid <user id>\n");
	else if (is_quitting())
		fprintf(command->out, "The daemon is shutting down\n");
	else if (server_for_user(user))
		fprintf(command->out, "A server of user %u is already running\n", user);
	else
		start_server(user);
}

static void shutdown_server(struct command *command)
{
	struct server *server = named_server(command);

	if (!server)
		return;
	if (command->count == 2 && strcmp(command->arguments[1], "-f") == 0)
		kill_server(server);
	else
		let_server_leave(server);
}

static void get_client_list(struct command *command)
{
	const struct server *server = named_server(command);

	if (!server)
		return;
	for (const struct client *client = server->clients; client; client = client->next)
		fprintf(command->out, "%d\n", client->pid);
}

static void print_device_clients(const struct server *server, FILE *out)
{
	for (unsigned int device = 0; device < server->device_count; device++)
		for (const struct client *client = server->clients; client; client = client->next)
			if (client->device == device)
				fprintf(out, "%s %d\n", server->devices[device], client->pid);
}

static void get_device_client_list(struct command *command)
{
	const struct server *server;

	if (command->count == 1) {
		server = named_server(command);
		if (server)
			print_device_clients(server, command->out);
		return;
	}
	for (server = first_server(); server; server = server->next)
		print_device_clients(server, command->out);
}

static void terminate_client(struct command *command)
{
	struct server *server = named_server(command);
	unsigned int pid;

	if (!server)
		return;
	if (!parse_number(command->arguments[1], &pid) || !find_client(server, pid)) {
		fprintf(command->out, "Client %s not found\n", command->arguments[1]);
		return;
	}
	mps_send_notice(server->watch.file, MPS_TERMINATE_CLIENT, pid, 0);
	reply_when_client_has_gone(command->command_line, pid);
	command->deferred = true;
}

/* As NVIDIA's: the kernel calls it pid:[4026531836]. */
static void read_pid_namespace(pid_t pid, char *number, size_t size)
{
	char path[64], link[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	length = readlink(path, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	if (sscanf(link, "pid:[%15[0-9]]", number) != 1)
		snprintf(number, size, "-");
}

static void read_program(pid_t pid, char *program, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	snprintf(program, size, "-");
	file = fopen(path, "re");
	if (!file)
		return;
	/* The program ends with a zero, which is also where the text ends for C. */
	if (!fgets(program, size, file))
		snprintf(program, size, "-");
	fclose(file);
}

static void print_process(const struct server *server, const struct client *client, FILE *out)
{
	char namespace[16], program[256];

	read_pid_namespace(client->pid, namespace, sizeof(namespace));
	read_program(client->pid, program, sizeof(program));
	fprintf(out, "%-9d %-5u %-9d %-22.22s %-14s %s\n", client->pid, client->id, server->pid,
		server->devices[client->device], namespace, program);
}

static void ps(struct command *command)
{
	unsigned int only = 0;

	if (command->count && (command->count != 2 || strcmp(command->arguments[0], "-p") != 0 ||
			       !parse_number(command->arguments[1], &only))) {
		fprintf(command->out, "Usage: ps [-p <PID>]\n");
		return;
	}
	fprintf(command->out, "%-9s %-5s %-9s %-22s %-14s %s\n", "PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND");
	for (const struct server *server = first_server(); server; server = server->next)
		for (const struct client *client = server->clients; client; client = client->next)
			if (client->device != NO_DEVICE && (!only || client->pid == (pid_t)only))
				print_process(server, client, command->out);
}

static void set_percentage(struct settings *settings, const char *text, FILE *out)
{
	if (parse_percentage(text, &settings->active_thread_percentage))
		fprintf(out, "%.1f\n", settings->active_thread_percentage);
	else
		fprintf(out, "Invalid active thread percentage %s\n", text);
}

static void set_default_active_thread_percentage(struct command *command)
{
	set_percentage(&default_settings, command->arguments[0], command->out);
}

static void get_default_active_thread_percentage(struct command *command)
{
	fprintf(command->out, "%.1f\n", default_settings.active_thread_percentage);
}

static void set_active_thread_percentage(struct command *command)
{
	struct server *server = named_server(command);

	if (server)
		set_percentage(&server->settings, command->arguments[1], command->out);
}

static void get_active_thread_percentage(struct command *command)
{
	const struct server *server = named_server(command);

	if (server)
		fprintf(command->out, "%.1f\n", server->settings.active_thread_percentage);
}

static void set_limit(struct settings *settings, const char *device, const char *amount, FILE *out)
{
	if (has_quirk(QUIRK_MPS_INDEX_ONLY) && !isdigit(*device))
		return;
	if (!set_memory_limit(&settings->memory, device, amount))
		fprintf(out, "Invalid memory limit %s\n", amount);
}

static void print_limit(uint64_t bytes, FILE *out)
{
	if (bytes == MPS_NO_LIMIT)
		fprintf(out, "No limit\n");
	else if (has_quirk(QUIRK_MPS_ECHO_GIB))
		fprintf(out, "%luG\n", bytes >> 30);
	else
		fprintf(out, "%luM\n", bytes >> 20);
}

static void set_default_device_pinned_mem_limit(struct command *command)
{
	set_limit(&default_settings, command->arguments[0], command->arguments[1], command->out);
}

static void get_default_device_pinned_mem_limit(struct command *command)
{
	print_limit(memory_limit_of_name(&default_settings.memory, command->arguments[0]), command->out);
}

static void set_device_pinned_mem_limit(struct command *command)
{
	struct server *server = named_server(command);

	if (server)
		set_limit(&server->settings, command->arguments[1], command->arguments[2], command->out);
}

/* For a device of the server both of its names count. */
static void get_device_pinned_mem_limit(struct command *command)
{
	const struct server *server = named_server(command);
	const char *name = command->arguments[1];

	if (!server)
		return;
	for (unsigned int device = 0; device < server->device_count; device++) {
		if (!names_device(name, device, server->devices[device]))
			continue;
		print_limit(memory_limit(&server->settings.memory, device, server->devices[device]), command->out);
		return;
	}
	print_limit(memory_limit_of_name(&server->settings.memory, name), command->out);
}

static void quit(struct command *command)
{
	unsigned int seconds = 0;

	if (command->count && (command->count != 2 || strcmp(command->arguments[0], "-t") != 0 ||
			       !parse_number(command->arguments[1], &seconds) || seconds > MOST_SECONDS)) {
		fprintf(command->out, "Usage: quit [-t <seconds>]\n");
		return;
	}
	command->deferred = true;
	reply_when_daemon_ends(command->command_line);
	if (command->count)
		quit_after(seconds);
	else
		quit_when_idle();
}

static const struct {
	const char *name;
	unsigned int least_arguments, most_arguments;
	void (*run)(struct command *command);
} COMMANDS[] = {
	{"get_server_list", 0, 0, get_server_list},
	{"get_server_status", 1, 1, get_server_status},
	{"start_server", 2, 2, start_server_command},
	{"shutdown_server", 1, 2, shutdown_server},
	{"get_client_list", 1, 1, get_client_list},
	{"get_device_client_list", 0, 1, get_device_client_list},
	{"terminate_client", 2, 2, terminate_client},
	{"ps", 0, 2, ps},
	{"set_default_active_thread_percentage", 1, 1, set_default_active_thread_percentage},
	{"get_default_active_thread_percentage", 0, 0, get_default_active_thread_percentage},
	{"set_active_thread_percentage", 2, 2, set_active_thread_percentage},
	{"get_active_thread_percentage", 1, 1, get_active_thread_percentage},
	{"set_default_device_pinned_mem_limit", 2, 2, set_default_device_pinned_mem_limit},
	{"get_default_device_pinned_mem_limit", 1, 1, get_default_device_pinned_mem_limit},
	{"set_device_pinned_mem_limit", 3, 3, set_device_pinned_mem_limit},
	{"get_device_pinned_mem_limit", 2, 2, get_device_pinned_mem_limit},
	{"quit", 0, 2, quit},
};

/* One word more than any command has would be too many all the same. */
static const char *split(char *line, struct command *command)
{
	const char *name = strtok(line, " \t");
	char *word;

	while (name && command->count < MAX_WORDS && (word = strtok(NULL, " \t")))
		command->arguments[command->count++] = word;
	return name;
}

static void execute(const char *name, struct command *command)
{
	for (unsigned int i = 0; i < ARRAY_LENGTH(COMMANDS); i++) {
		if (strcmp(name, COMMANDS[i].name) != 0)
			continue;
		if (command->count < COMMANDS[i].least_arguments || command->count > COMMANDS[i].most_arguments)
			fprintf(command->out, "Wrong number of arguments for %s\n", name);
		else
			COMMANDS[i].run(command);
		return;
	}
	fprintf(command->out, "Unknown command: %s\n", name);
}

void run_command(struct command_line *command_line, char *line)
{
	struct command command = {.command_line = command_line};
	char *answer = NULL;
	size_t size;
	const char *name = split(line, &command);

	command.out = open_memstream(&answer, &size);
	if (name)
		execute(name, &command);
	fclose(command.out);
	if (!command.deferred)
		reply(command_line, answer);
	free(answer);
}
