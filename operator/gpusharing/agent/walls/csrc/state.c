/* The state of a container as the OCI's runtime specification has it. Of all that is in it we want two members, and
 * what a tenant could choose, such as annotations, must not be taken for them. */
#include "container.h"

#include <ctype.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"

#define MAX_SIZE (1 << 20)
#define MAX_DEPTH 64
#define REMEDY "Container runtimes that follow the OCI's runtime specification work: runc and crun"

struct json {
	const char *at;
	const char *end;
};

struct span {
	const char *start;
	size_t length;
};

static char next(struct json *json)
{
	while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
		json->at++;
	return json->at < json->end ? *json->at : '\0';
}

static bool take(struct json *json, char wanted)
{
	if (next(json) != wanted)
		return false;
	json->at++;
	return true;
}

/* As it stands between the quotes. Neither member that we look for can need an escape. */
static bool take_string(struct json *json, struct span *string)
{
	if (!take(json, '"'))
		return false;
	string->start = json->at;
	for (; json->at < json->end && (unsigned char)*json->at >= ' '; json->at++) {
		if (*json->at == '"') {
			string->length = json->at++ - string->start;
			return true;
		}
		if (*json->at == '\\' && ++json->at == json->end)
			return false;
	}
	return false;
}

static bool take_characters(struct json *json, const char *wanted, struct span *taken)
{
	next(json);
	taken->start = json->at;
	while (json->at < json->end && *json->at && strchr(wanted, *json->at))
		json->at++;
	taken->length = json->at - taken->start;
	return taken->length;
}

static bool is(const struct span *span, const char *text)
{
	return span->length == strlen(text) && memcmp(span->start, text, span->length) == 0;
}

static bool skip_literal(struct json *json)
{
	struct span word;

	return take_characters(json, "aeflnrstu", &word) && (is(&word, "true") || is(&word, "false") || is(&word, "null"));
}

static bool skip_value(struct json *json, unsigned int depth);

static bool skip_elements(struct json *json, unsigned int depth, bool have_names)
{
	do {
		struct span name;

		if (have_names && !(take_string(json, &name) && take(json, ':')))
			return false;
		if (!skip_value(json, depth))
			return false;
	} while (take(json, ','));
	return true;
}

static bool skip_value(struct json *json, unsigned int depth)
{
	struct span ignored;

	if (depth > MAX_DEPTH)
		return false;
	switch (next(json)) {
	case '{':
		json->at++;
		return take(json, '}') || (skip_elements(json, depth + 1, true) && take(json, '}'));
	case '[':
		json->at++;
		return take(json, ']') || (skip_elements(json, depth + 1, false) && take(json, ']'));
	case '"':
		return take_string(json, &ignored);
	default:
		return take_characters(json, "+-.0123456789eE", &ignored) || skip_literal(json);
	}
}

/* It becomes the name of a file, and a part of a JSON text. */
static bool is_plain(const struct span *id)
{
	for (size_t i = 0; i < id->length; i++) {
		if (!isalnum((unsigned char)id->start[i]) && !strchr("_+-.", id->start[i]))
			return false;
	}
	return id->length && *id->start != '.';
}

static bool take_id(struct json *json, struct container *container)
{
	struct span id;

	if (*container->id || !take_string(json, &id) || !is_plain(&id) || id.length >= sizeof(container->id))
		return false;
	memcpy(container->id, id.start, id.length);
	container->id[id.length] = '\0';
	return true;
}

static bool take_pid(struct json *json, struct container *container)
{
	struct span digits;

	/* None has more than 22 bits. */
	if (container->pid || !take_characters(json, "0123456789", &digits) || digits.length > 9)
		return false;
	container->pid = atoi(digits.start);
	return container->pid > 0;
}

static bool take_member(struct json *json, struct container *container)
{
	struct span name;

	if (!take_string(json, &name) || !take(json, ':'))
		return false;
	if (is(&name, "id"))
		return take_id(json, container);
	if (is(&name, "pid"))
		return take_pid(json, container);
	return skip_value(json, 0);
}

static bool parse(struct json *json, struct container *container)
{
	if (!take(json, '{'))
		return false;
	do {
		if (!take_member(json, container))
			return false;
	} while (take(json, ','));
	return take(json, '}') && next(json) == '\0' && json->at == json->end;
}

/* How much was read; negative if all of it does not come, or is too much. */
static ssize_t read_all(char *text, size_t size)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t length = 0;

	while (length < size && poll(&input, 1, milliseconds_left()) > 0) {
		ssize_t count = read(STDIN_FILENO, text + length, size - length);

		if (count <= 0)
			return count < 0 ? -1 : (ssize_t)length;
		length += count;
	}
	return -1;
}

bool read_state(struct container *container, struct failure *failure)
{
	/* One character more than can be parsed ends every number. */
	static char text[MAX_SIZE + 1];
	ssize_t length = read_all(text, MAX_SIZE);
	struct json json = {text, text + (length < 0 ? 0 : length)};

	if (length < 0)
		return fail(failure, REMEDY, "the container's state does not come or is longer than %d bytes", MAX_SIZE);
	if (!parse(&json, container) || !*container->id || !container->pid)
		return fail(failure, REMEDY, "the container's state has no id and pid that can be read");
	return true;
}
