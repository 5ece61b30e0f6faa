#include "nvml/nvml.h"

/* For every code of the interface, since nvidia-ml-py asks for those that it has no text for itself. */
const char *nvmlErrorString(nvmlReturn_t error)
{
	switch ((int)error) {
	case 0: return "Success";
	case 1: return "Uninitialized";
	case 2: return "Invalid Argument";
	case 3: return "Not Supported";
	case 4: return "Insufficient Permissions";
	case 5: return "Already Initialized";
	case 6: return "Not Found";
	case 7: return "Insufficient Size";
	case 8: return "Insufficient External Power";
	case 9: return "Driver Not Loaded";
	case 10: return "Timeout";
	case 11: return "Interrupt Request Issue";
	case 12: return "NVML Shared Library Not Found";
	case 13: return "Function Not Found";
	case 14: return "Corrupted infoROM";
	case 15: return "GPU is lost";
	case 16: return "GPU requires reset";
	case 17: return "Operating System Blocked Request";
	case 18: return "Driver/library version mismatch";
	case 19: return "In use by another client";
	case 20: return "Insufficient Memory";
	case 21: return "No Data";
	case 22: return "vGPU ECC Not Supported";
	case 23: return "Insufficient Resources";
	case 24: return "Frequency Not Supported";
	case 25: return "Argument Version Mismatch";
	case 26: return "Deprecated";
	case 27: return "Not Ready";
	case 28: return "GPU Not Found";
	case 29: return "Invalid State";
	case 30: return "Reset Type Not Supported";
	default: return "Unknown Error";
	}
}
