/*
 * Where the C library is 2.34 or newer, programs are linked to a start that only such systems have. They still have the
 * start of before: with it, the tool also runs on older systems. The linker leads here (--wrap).
 */
#include <features.h>

typedef int (*main_function)(int, char **, char **);
typedef void (*function)(void);

int __real___libc_start_main(main_function, int, char **, function, function, function, void *);
int __wrap___libc_start_main(main_function, int, char **, function, function, function, void *);

#if defined(__GLIBC__) && defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#endif

#ifdef FIRST_VERSION
int first_start(main_function, int, char **, function, function, function, void *);
__asm__(".symver first_start, __libc_start_main@" FIRST_VERSION);
#else
#define first_start __real___libc_start_main
#endif

int __wrap___libc_start_main(main_function program, int count, char **arguments, function init, function fini,
			     function unload, void *stack)
{
	return first_start(program, count, arguments, init, fini, unload, stack);
}
