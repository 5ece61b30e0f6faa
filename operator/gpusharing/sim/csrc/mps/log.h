/* Lines as the real programs' logs have them. */
#pragma once

/* `program` stands in each line; standard error takes them. */
void log_open(const char *program);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
