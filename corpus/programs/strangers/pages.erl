%% Answers each line with a length and then as many bytes: two writes, Nagle's algorithm on.
%% Arguments of start: port and bytes, as atoms.
-module(pages).
-export([start/1]).

start([Port, Bytes]) ->
    {ok, Listener} = gen_tcp:listen(number(Port), [binary, {packet, line}, {active, false},
                                                   {reuseaddr, true}]),
    accept(Listener, binary:copy(<<"x">>, number(Bytes))).

number(Atom) -> list_to_integer(atom_to_list(Atom)).

accept(Listener, Page) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    spawn(fun() -> answer(Socket, Page) end),
    accept(Listener, Page).

answer(Socket, Page) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} ->
            ok = gen_tcp:send(Socket, <<(byte_size(Page)):32>>),
            ok = gen_tcp:send(Socket, Page),
            answer(Socket, Page);
        {error, _} ->
            ok
    end.
