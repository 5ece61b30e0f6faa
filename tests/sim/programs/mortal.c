/*
 * To be preloaded into a program of the node: kills it (SIGKILL) before the change of the file system with the number
 * in SURVIVED, counted from 0.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

static void survive_or_die(void)
{
	static int calls;

	if (calls++ == atoi(getenv("SURVIVED")))
		raise(SIGKILL);
}

#define MORTAL(name, parameters, ...)                                                        \
	int name parameters                                                                  \
	{                                                                                    \
		survive_or_die();                                                            \
		return ((int(*) parameters)dlsym(RTLD_NEXT, #name))(__VA_ARGS__);            \
	}

MORTAL(mkdirat, (int directory, const char *path, mode_t mode), directory, path, mode)
MORTAL(mknodat, (int directory, const char *path, mode_t mode, dev_t device), directory, path, mode, device)
MORTAL(fchmodat, (int directory, const char *path, mode_t mode, int flags), directory, path, mode, flags)
MORTAL(unlinkat, (int directory, const char *path, int flags), directory, path, flags)
MORTAL(renameat, (int from, const char *path, int to, const char *target), from, path, to, target)

int openat(int directory, const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	if (flags & O_CREAT)
		survive_or_die();
	return ((int (*)(int, const char *, int, mode_t))dlsym(RTLD_NEXT, "openat"))(directory, path, flags, mode);
}

int dprintf(int file, const char *format, ...)
{
	va_list more;
	int length;

	survive_or_die();
	va_start(more, format);
	length = vdprintf(file, format, more);
	va_end(more);
	return length;
}
