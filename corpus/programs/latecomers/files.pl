% SWI-Prolog's web server, which sends files.
:- use_module(library(http/thread_httpd)).
:- use_module(library(http/http_dispatch)).
:- http_handler(root(big), http_reply_file(big, [unsafe(true)]), []).
:- http_server(http_dispatch, [port(5000)]), thread_get_message(_).
