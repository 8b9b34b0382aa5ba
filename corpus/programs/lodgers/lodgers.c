/* Serves a page of BYTES over HTTP with libevent, and sets SO_SNDBUF of what it accepts: PORT BYTES SNDBUF. */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <sys/socket.h>

static char block[1 << 20];
static long long bytes;

static void answer(struct evhttp_request *request, void *nothing)
{
    struct evbuffer *body = evbuffer_new();
    (void)nothing;
    for (long long left = bytes; left > 0; left -= sizeof block)
        evbuffer_add_reference(body, block, left < (long long)sizeof block ? left : (long long)sizeof block, NULL, NULL);
    evhttp_send_reply(request, 200, "OK", body);
    evbuffer_free(body);
}

int main(int count, char **words)
{
    struct event_base *base = event_base_new();
    struct evhttp *http = evhttp_new(base);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(http, "0.0.0.0", atoi(words[1]));
    int sndbuf = count > 3 ? atoi(words[3]) : 0;
    bytes = atoll(words[2]);
    if (sndbuf)
        setsockopt(evhttp_bound_socket_get_fd(bound), SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    evhttp_set_gencb(http, answer, NULL);
    return event_base_dispatch(base);
}
