// The local process behind the proxies: echo, sink and source, in one thread around one epoll.
//
//   backend -t         on TCP ports of the kernel's choice
//   backend -x FOLDER  on Unix stream sockets there
//   backend -u FOLDER  by hand-over: a receiver's socket for each role there
//   backend -T ca.pem,certificate.pem,key.pem   echo and sink over TLS, on TCP ports of the kernel's choice
//
// Prints one line of JSON with the addresses, written as the sidecar's `upstream` takes them, and serves until its
// standard input ends.
#include "loop.h"
#include "receiver.h"
#include "roles.h"
#include "tls_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096
#define ADDRESSES_BYTES 4096

struct listener {
    struct watch watch;
    enum role role;
};

static char addresses[ADDRESSES_BYTES]; // what is printed

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void usage(void)
{
    fprintf(stderr, "backend [-t] [-x FOLDER] [-u FOLDER] [-T ca.pem,certificate.pem,key.pem]\n");
    exit(2);
}

static void say(const char *text)
{
    if (strlen(addresses) + strlen(text) >= sizeof addresses)
        abort();
    strcat(addresses, text);
}

static void say_address(const char *role, const char *address)
{
    char text[256];
    char last = addresses[strlen(addresses) - 1];
    snprintf(text, sizeof text, "%s\"%s\":\"%s\"", last == '{' ? "" : ",", role, address);
    say(text);
}

static void begin_kind(const char *kind)
{
    char text[32];
    snprintf(text, sizeof text, "%s\"%s\":{", strlen(addresses) > 1 ? "," : "", kind);
    say(text);
}

static void listener_ready(struct watch *watch, uint32_t events)
{
    struct listener *listener = (struct listener *)watch;
    int on = 1;
    (void)events;

    for (;;) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // means nothing to a Unix socket, and harms none
        connection_serve(fd, listener->role, NULL);
    }
}

static void accept_from(int listening, enum role role)
{
    struct listener *listener = calloc(1, sizeof *listener);
    listener->watch.fd = listening;
    listener->watch.ready = listener_ready;
    listener->role = role;
    watch_add(&listener->watch, EPOLLIN);
}

static int listen_on_loopback(int type, char *address, size_t room)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof own;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | type, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) || listen(fd, BACKLOG))
        fail("listen");
    getsockname(fd, (struct sockaddr *)&own, &length);
    snprintf(address, room, "127.0.0.1:%d", ntohs(own.sin_port));
    return fd;
}

static int listen_on_path(int type, const char *folder, enum role role, char *path, size_t room)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(path, room, "%s/%s", folder, role_name(role));
    if (strlen(path) >= sizeof own.sun_path) {
        fprintf(stderr, "%s is too long for a Unix socket\n", path);
        exit(2);
    }
    strcpy(own.sun_path, path);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) || listen(fd, BACKLOG))
        fail(path);
    chmod(path, 0666); // the proxies may run as another user
    return fd;
}

static void open_tcp(void)
{
    char address[64];
    begin_kind("tcp");
    for (enum role role = ECHO; role < ROLES; role++) {
        accept_from(listen_on_loopback(SOCK_NONBLOCK, address, sizeof address), role);
        say_address(role_name(role), address);
    }
    say("}");
}

static void open_unix(const char *folder)
{
    char address[128] = "unix:";
    begin_kind("unix");
    for (enum role role = ECHO; role < ROLES; role++) {
        accept_from(listen_on_path(SOCK_STREAM, folder, role, address + 5, sizeof address - 5), role);
        say_address(role_name(role), address);
    }
    say("}");
}

static void open_handoff(const char *folder)
{
    char address[128] = "handoff:";
    begin_kind("handoff");
    for (enum role role = ECHO; role < ROLES; role++) {
        receiver_open(listen_on_path(SOCK_SEQPACKET, folder, role, address + 8, sizeof address - 8), role);
        say_address(role_name(role), address);
    }
    say("}");
}

static void open_tls(char *files)
{
    char address[64];
    char *ca = strtok(files, ",");
    char *certificate = strtok(NULL, ",");
    char *key = strtok(NULL, ",");
    if (!ca || !certificate || !key)
        usage();
    tls_server_open(ca, certificate, key);
    begin_kind("tls");
    for (enum role role = ECHO; role <= SINK; role++) {
        tls_server_serve(listen_on_loopback(0, address, sizeof address), role);
        say_address(role_name(role), address);
    }
    say("}");
}

// Whoever started it has gone, or wants it to go.
static void input_ready(struct watch *watch, uint32_t events)
{
    char byte;
    (void)events;
    if (read(watch->fd, &byte, 1) <= 0)
        exit(0);
}

int main(int count, char **arguments)
{
    static struct watch input = {.fd = STDIN_FILENO, .ready = input_ready};
    int option;

    signal(SIGPIPE, SIG_IGN);
    loop_open();
    say("{");
    while ((option = getopt(count, arguments, "tx:u:T:")) > 0) {
        switch (option) {
        case 't':
            open_tcp();
            break;
        case 'x':
            open_unix(optarg);
            break;
        case 'u':
            open_handoff(optarg);
            break;
        case 'T':
            open_tls(optarg);
            break;
        default:
            usage();
        }
    }
    if (strlen(addresses) == 1)
        usage();
    say("}");
    puts(addresses);
    fflush(stdout);
    watch_add(&input, EPOLLIN);
    loop_run();
}
