#ifndef DEADLINE_H
#define DEADLINE_H

/* A driver may hang. A container's start must not hang with it, so all that is waited for is waited for until then. */
void deadline_in(unsigned int seconds);

/* 0: it is over. */
int milliseconds_left(void);

#endif
