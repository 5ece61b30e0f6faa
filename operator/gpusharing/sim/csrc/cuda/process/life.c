/* What can happen to the process while it has its context. */
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "driver/store.h"
#include "mps/loop.h"
#include "process.h"

#define CHECK_MILLISECONDS 100

static struct cuda_context context;

static void on_signal(struct watch *watch)
{
	struct signalfd_siginfo signal;

	if (read(watch->file, &signal, sizeof(signal)) != sizeof(signal))
		return;
	if (signal.ssi_signo != SIGUSR1)
		exit(EXIT_SUCCESS);
	/* With MPS the server answers to all that are affected, this one too. */
	if (mps_connection() < 0)
		fail(CUDA_ERROR_LAUNCH_FAILED);
	report_fault_to_mps();
}

static void on_mps_message(struct watch *watch)
{
	(void)watch;
	fail(read_mps_error());
}

static void on_end_of_time(struct watch *watch)
{
	(void)watch;
	exit(EXIT_SUCCESS);
}

static void check(struct watch *timer)
{
	SCOPED_STORE(store);

	if (store_open(&store) || !context_works(store.state, &context))
		fail(CUDA_ERROR_UNKNOWN);
	loop_restart_timer(timer, CHECK_MILLISECONDS);
}

static void watch_signals(void)
{
	static struct watch signals = {.ready = on_signal};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals.file = signalfd(-1, &set, SFD_CLOEXEC);
	loop_watch(&signals);
}

static void watch_mps(void)
{
	static struct watch server = {.ready = on_mps_message};

	if (mps_connection() < 0)
		return;
	server.file = mps_connection();
	loop_watch(&server);
}

void start_life(const struct options *options, const struct lease *lease)
{
	static struct watch end, checks;

	context = lease->context;
	watch_signals();
	watch_mps();
	loop_start_timer(&checks, check, CHECK_MILLISECONDS);
	if (options->milliseconds)
		loop_start_timer(&end, on_end_of_time, options->milliseconds);
}
