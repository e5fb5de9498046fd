#include "load.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {.mode = "roundtrip", .connections = 1, .seconds = 3};

void usage(void)
{
    fprintf(stderr,
            "loadgen -m MODE -a IP:PORT [options]\n"
            "  modes, what must listen there in brackets\n"
            "    up         write as fast as it goes [sink]\n"
            "    down       read as fast as it comes [source]\n"
            "    roundtrip  write -s bytes, read them back, again [echo]\n"
            "    churn      connect, preface, one round trip, close, again [echo]\n"
            "    reject     connect, preface, wait for the end, again [echo, which must not be reached]\n"
            "    idle       open -c connections, and say what memory the proxy took for them [echo]\n"
            "    half       8 MiB of a pattern both ways with a half-close, compared byte by byte [echo]\n"
            "    wait       try until one round trip gets through, and say when [echo]\n"
            "  -c connections (1)   -H idle connections opened before, and held (0)\n"
            "  -s bytes (up 65536, roundtrip 64)   -d seconds (3)   -n most round trips a connection (no limit)\n"
            "  -p none|pp2 (none)   -i identity   -g generation   -I instance   -A ask for an answer, and await it\n"
            "  -S write the preface apart from what follows it\n"
            "  -P pid,pid: whose processor time and memory to say\n"
            "  -T: TLS 1.3   -C ca.pem   -E certificate.pem   -K key.pem\n");
    exit(2);
}

bool is_mode(const char *name)
{
    return !strcmp(options.mode, name);
}

static void parse_address(char *text)
{
    char *colon = strrchr(text, ':');
    if (!colon)
        usage();
    *colon = 0;
    options.dial.address.sin_family = AF_INET;
    options.dial.address.sin_port = htons(atoi(colon + 1));
    if (inet_pton(AF_INET, text, &options.dial.address.sin_addr) != 1)
        usage();
}

void options_parse(int count, char **arguments)
{
    struct claim claim = {.identity = "bench/replica/0"};
    const char *preface = "none";
    const char *ca = NULL;
    const char *certificate = NULL;
    const char *key = NULL;
    bool tls = false;
    int option;

    while ((option = getopt(count, arguments, "m:a:p:i:g:I:Ac:H:s:d:n:SP:TC:E:K:")) > 0) {
        switch (option) {
        case 'm':
            options.mode = optarg;
            break;
        case 'a':
            parse_address(optarg);
            break;
        case 'p':
            preface = optarg;
            break;
        case 'i':
            claim.identity = optarg;
            break;
        case 'g':
            claim.generation = optarg;
            break;
        case 'I':
            claim.instance = optarg;
            break;
        case 'A':
            claim.wants_answer = true;
            break;
        case 'c':
            options.connections = atoi(optarg);
            break;
        case 'H':
            options.held = atoi(optarg);
            break;
        case 's':
            options.size = atoi(optarg);
            break;
        case 'd':
            options.seconds = atof(optarg);
            break;
        case 'n':
            options.most_trips = atol(optarg);
            break;
        case 'S':
            options.split = true;
            break;
        case 'P':
            processes_parse(&options.proxies, optarg);
            break;
        case 'T':
            tls = true;
            break;
        case 'C':
            ca = optarg;
            break;
        case 'E':
            certificate = optarg;
            break;
        case 'K':
            key = optarg;
            break;
        default:
            usage();
        }
    }

    if (!options.size)
        options.size = is_mode("roundtrip") ? 64 : 65536;
    if (options.size < 1 || options.size > (int)BUFFER_BYTES || options.connections < 1 || options.held < 0)
        usage();
    if (!options.dial.address.sin_port)
        usage();
    if (!strcmp(preface, "pp2")) {
        preface_write(&options.dial.preface, &claim);
        options.dial.wants_answer = claim.wants_answer;
    } else if (strcmp(preface, "none")) {
        usage();
    }
    if (tls)
        options.dial.tls = client_tls(ca, certificate, key);
}
