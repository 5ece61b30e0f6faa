/* Why NVIDIA's hook rather than the driver's library: the library has to be loaded, which a static program cannot, and
 * a dynamic one would need a C library on the host that suits it. Their hook is on each node that has walls at all, was
 * made for its host, finds the library below the driver's root, and is called here with the words of their own CDI
 * spec. The agent has the library open, but containers start also while there is no agent.
 *
 * What it sets it takes from the environment in the container's bundle, in which a tenant's variables come first. So it
 * is given another bundle: ours, with nothing but our limit. The cgroup it finds by the pid, and that is the
 * container's.
 */
#include "nvidia_hook.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadline.h"
#include "files.h"

#define TOOLKIT "Install nvidia-container-toolkit 1.20.1 or newer and let it write its CDI spec anew"
#define SELFTEST "On the node, `gpusharing agent selftest` tells what is in the way"

/* The end of what it says. */
struct words {
	char text[4096];
	size_t length;
	bool over;
};

static bool write_bundle(const struct wall *wall)
{
	char text[512];

	/* The guarantee is the same: what containers may have of a GPU is never more than it has. */
	snprintf(text, sizeof(text),
		 "{\"ociVersion\":\"1.0.2\",\"process\":{\"cwd\":\"/\",\"env\":["
		 "\"NVIDIA_GPU_MEMORY_REQUEST=%s\",\"NVIDIA_GPU_MEMORY_LIMIT=%s\"]}}",
		 wall->limit, wall->limit);
	return write_file(wall->directory, "config.json", text);
}

/* The end to read from. */
static int state_for_it(const struct wall *wall, const struct container *container)
{
	char text[PATH_MAX + NAME_MAX + 256];
	size_t length = snprintf(text, sizeof(text),
				 "{\"ociVersion\":\"1.0.2\",\"id\":\"%s\",\"status\":\"creating\",\"pid\":%d,"
				 "\"bundle\":\"%s\"}",
				 container->id, container->pid, wall->path);
	int ends[2];
	bool written;

	if (length >= sizeof(text) || pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	/* A pipe takes this much before anybody reads. */
	written = write(ends[1], text, length) == (ssize_t)length;
	close(ends[1]);
	if (written)
		return ends[0];
	close(ends[0]);
	return -1;
}

static _Noreturn void become_it(const struct wall *wall, int input, int output)
{
	/* A group of its own, so that all of it can be ended; and it ends with us. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	execve(wall->program, wall->arguments, wall->environment);
	dprintf(STDERR_FILENO, "%s\n", strerror(errno));
	_exit(127);
}

static pid_t start(const struct wall *wall, int input, int *listening)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	child = fork();
	if (child == 0)
		become_it(wall, input, ends[1]);
	close(ends[1]);
	*listening = ends[0];
	return child;
}

/* Only the last words count. */
static void make_room(struct words *words)
{
	size_t half = sizeof(words->text) / 2;

	if (words->length + 1 < sizeof(words->text))
		return;
	memmove(words->text, words->text + words->length - half, half);
	words->length = half;
}

/* Waits for some a little while; false if none came. */
static bool listen_to_it(int listening, struct words *words, int patience)
{
	struct pollfd output = {.fd = words->over ? -1 : listening, .events = POLLIN};
	ssize_t count;

	if (poll(&output, 1, patience) <= 0)
		return false;
	make_room(words);
	count = read(listening, words->text + words->length, sizeof(words->text) - 1 - words->length);
	words->over = count <= 0;
	words->length += words->over ? 0 : count;
	words->text[words->length] = '\0';
	return !words->over;
}

static bool await_it(pid_t child, int listening, struct words *words, int *status)
{
	while (milliseconds_left()) {
		/* Shorter when it has closed its output: then it is about to end. */
		listen_to_it(listening, words, words->over ? 1 : 20);
		if (waitpid(child, status, WNOHANG) == child) {
			while (listen_to_it(listening, words, 0))
				;
			return true;
		}
	}
	/* It is not awaited: a process that hangs in the driver does not even die. */
	kill(-child, SIGKILL);
	return false;
}

static const char *last_line(struct words *words)
{
	char *start = words->text;

	while (words->length && isspace((unsigned char)words->text[words->length - 1]))
		words->text[--words->length] = '\0';
	for (char *at = words->text; *at; at++) {
		if (*at == '\n')
			start = at + 1;
		else if (iscntrl((unsigned char)*at))
			*at = ' ';
	}
	return *start ? start : "it does not say why";
}

static bool judge(const struct wall *wall, int status, struct words *words, struct failure *failure)
{
	/* When it cannot read its bundle, it warns and calls that a success. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !strstr(words->text, "skipping"))
		return true;
	if (WIFSIGNALED(status))
		return fail(failure, SELFTEST, "%s was ended by signal %d", wall->program, WTERMSIG(status));
	return fail(failure, SELFTEST, "%s: %.500s", wall->program, last_line(words));
}

static bool run(const struct wall *wall, int input, struct failure *failure)
{
	struct words words = {0};
	int status, listening;
	pid_t child = start(wall, input, &listening);
	bool ended;

	if (child < 0)
		return fail(failure, SELFTEST, "%s cannot be started: %s", wall->program, strerror(errno));
	ended = await_it(child, listening, &words, &status);
	close(listening);
	if (!ended)
		return fail(failure, SELFTEST, "%s does not end within %u s", wall->program, wall->seconds);
	return judge(wall, status, &words, failure);
}

bool limit_by_nvidia_hook(const struct wall *wall, const struct container *container, struct failure *failure)
{
	int input;
	bool done;

	if (access(wall->program, X_OK) < 0)
		return fail(failure, TOOLKIT, "%s: %s", wall->program, strerror(errno));
	if (!write_bundle(wall))
		return fail(failure, "Look at the disk of the node", "%s/config.json cannot be written: %s", wall->path,
			    strerror(errno));
	input = state_for_it(wall, container);
	if (input < 0)
		return fail(failure, SELFTEST, "%s cannot be told of the container", wall->program);
	done = run(wall, input, failure);
	close(input);
	return done;
}
