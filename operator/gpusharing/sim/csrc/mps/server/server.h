/* The parts of the simulated nvidia-cuda-mps-server. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cuda/devices.h"
#include "cuda/errors.h"
#include "mps/loop.h"
#include "mps/protocol.h"

/* devices.c */
/* Takes the devices of CUDA_VISIBLE_DEVICES, with a context on each. */
enum cuda_error open_devices(void);
const struct cuda_devices *server_devices(void);
/* How many clients can have a context on this device. */
unsigned int most_clients(unsigned int device);
/* Ends the process when its contexts do. */
void watch_devices(void);

/* clients.c */
void add_client(int connection, const struct mps_admission *terms);
void terminate_client(pid_t pid);
bool has_clients(void);

/* main.c */
void tell_daemon(enum mps_message_type type, pid_t pid, uint32_t number);
/* To be called when a client has gone. */
void end_if_unused(void);
