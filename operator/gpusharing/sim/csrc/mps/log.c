#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *program;

void log_open(const char *name)
{
	program = name;
}

/* One write for each line, because several processes write to one file. */
void log_line(const char *format, ...)
{
	char date[32], text[1024];
	struct timeval now;
	va_list arguments;

	gettimeofday(&now, NULL);
	strftime(date, sizeof(date), "%F %T", localtime(&now.tv_sec));
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	dprintf(STDERR_FILENO, "[%s.%03ld %s %5d] %s\n", date, now.tv_usec / 1000, program, getpid(), text);
}
