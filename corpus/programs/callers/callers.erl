%% A process of one node that takes what a process of another one sends it.
-module(callers).
-export([sink/0, source/0]).

sink() ->
    register(sink, self()),
    take().

take() ->
    receive _ -> take() end.

source() ->
    [Node] = init:get_plain_arguments(),
    To = {sink, list_to_atom(Node)},
    pong = net_adm:ping(element(2, To)),
    send(To, binary:copy(<<"x">>, 300000)).

send(To, Block) ->
    To ! Block,
    send(To, Block).
