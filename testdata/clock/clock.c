/*
 * Preloaded into a dynamically linked plugin, it stops the time of day at CLOCK, in seconds. If the
 * file LATER is there, it is ten seconds later.
 */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
	const char *seconds = getenv("CLOCK");
	const char *later = getenv("LATER");

	if (!seconds || clock != CLOCK_REALTIME)
		return (int)syscall(SYS_clock_gettime, clock, time);
	time->tv_sec = atol(seconds);
	time->tv_nsec = 0;
	if (later && access(later, F_OK) == 0)
		time->tv_sec += 10;
	return 0;
}
