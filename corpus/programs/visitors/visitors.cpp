// cpp-httplib, as it comes: a page of BYTES, and a stream at /big; SNDBUF is set if it is not 0.
#include <algorithm>
#include <string>

#include <httplib.h>

int main(int, char **argv) {
    const size_t bytes = std::stoull(argv[2]);
    const int held = std::stoi(argv[3]);
    httplib::Server server;
    server.set_keep_alive_max_count(1000000000);
    if (held > 0) {
        server.set_socket_options([held](socket_t listener) {
            const int one = 1;
            setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
            setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &held, sizeof held);
        });
    }
    server.Get("/page", [bytes](const httplib::Request &, httplib::Response &answer) {
        answer.set_content(std::string(bytes, 'x'), "text/plain");
    });
    server.Get("/big", [](const httplib::Request &, httplib::Response &answer) {
        answer.set_content_provider(size_t(8) << 30, "text/plain",
                                    [](size_t, size_t left, httplib::DataSink &sink) {
            static const std::string piece(65536, 'x');
            sink.write(piece.data(), std::min(left, piece.size()));
            return true;
        });
    });
    return server.listen("0.0.0.0", std::stoi(argv[1])) ? 0 : 1;
}
