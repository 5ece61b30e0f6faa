#include "wall.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

#define FILE_NAME "wall"
#define REMEDY "Restart the gpusharing agent of this node, which writes it anew"

static bool add(char *words[MAX_WORDS + 1], char *word)
{
	for (unsigned int i = 0; i < MAX_WORDS; i++) {
		if (!words[i]) {
			words[i] = word;
			return true;
		}
	}
	return false;
}

static bool is_number(const char *text)
{
	return *text && strlen(text) < 10 && strspn(text, "0123456789") == strlen(text) && atoi(text) > 0;
}

static bool put_enforcement(struct wall *wall, const char *value)
{
	wall->required = strcmp(value, "Required") == 0;
	return wall->required || strcmp(value, "Preferred") == 0;
}

static bool put_seconds(struct wall *wall, const char *value)
{
	wall->seconds = is_number(value) ? atoi(value) : 0;
	return wall->seconds;
}

/* What it does not know it does not accept either: it would be of another version than the agent, and might be wrong
 * about the rest as well. */
static bool put(struct wall *wall, const char *name, char *value)
{
	if (strcmp(name, "claim") == 0)
		return (wall->claim = value);
	if (strcmp(name, "gpu") == 0)
		return (wall->gpu = value);
	if (strcmp(name, "limit") == 0)
		return is_number(wall->limit = value);
	if (strcmp(name, "enforcement") == 0)
		return put_enforcement(wall, value);
	if (strcmp(name, "seconds") == 0)
		return put_seconds(wall, value);
	if (strcmp(name, "program") == 0)
		return (wall->program = value);
	if (strcmp(name, "argument") == 0)
		return add(wall->arguments, value);
	if (strcmp(name, "environment") == 0)
		return add(wall->environment, value);
	return false;
}

static bool parse(struct wall *wall)
{
	char *rest = wall->text, *line;

	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');

		if (!*line && !rest)
			return true;
		if (!value)
			return false;
		*value++ = '\0';
		if (!put(wall, line, value))
			return false;
	}
	return false;
}

static bool is_complete(const struct wall *wall)
{
	return wall->claim && wall->gpu && wall->limit && wall->seconds && wall->program && wall->arguments[0];
}

/* The path becomes part of a JSON text as it is. */
static bool is_plain(const char *path)
{
	for (const char *at = path; *at; at++) {
		if (*at < ' ' || *at == '"' || *at == '\\')
			return false;
	}
	return *path == '/';
}

bool read_wall(const char *path, struct wall *wall, struct failure *failure)
{
	if (!is_plain(path))
		return fail(failure, REMEDY, "%s is no path of a directory that the agent writes", path);
	wall->path = path;
	wall->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (wall->directory < 0 || !read_file(wall->directory, FILE_NAME, wall->text, sizeof(wall->text)))
		return fail(failure, REMEDY, "%s/" FILE_NAME " cannot be read: %s", path, strerror(errno));
	if (!parse(wall) || !is_complete(wall))
		return fail(failure, REMEDY, "%s/" FILE_NAME " is not what this program can read", path);
	return true;
}
