// TLS without a proxy between, the bound of what any proxy could do: echo and sink, a thread a connection.
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include "roles.h"

void tls_server_open(const char *ca, const char *certificate, const char *key);
void tls_server_serve(int listening, enum role role); // in a thread of its own
#endif
