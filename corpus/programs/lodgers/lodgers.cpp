// Calls over Asio: `answer PORT`, or `ask HOST PORT nagle|nodelay`, which writes the length and the body apart.
#include <asio.hpp>
#include <string>
#include <vector>

using asio::ip::tcp;

int main(int, char **words)
{
    asio::io_context context;
    std::vector<char> body(700);
    char length[4] = {0, 0, 2, 110};
    if (std::string(words[1]) == "answer") {
        tcp::acceptor acceptor(context, {tcp::v4(), static_cast<unsigned short>(std::stoi(words[2]))});
        tcp::socket socket = acceptor.accept();
        for (;;) {
            asio::read(socket, asio::buffer(length));
            asio::read(socket, asio::buffer(body));
            asio::write(socket, asio::buffer(length));
        }
    }
    tcp::socket socket(context);
    asio::connect(socket, tcp::resolver(context).resolve(words[2], words[3]));
    socket.set_option(tcp::no_delay(std::string(words[4]) == "nodelay"));
    for (;;) {
        asio::write(socket, asio::buffer(length));
        asio::write(socket, asio::buffer(body));
        asio::read(socket, asio::buffer(length));
    }
}
