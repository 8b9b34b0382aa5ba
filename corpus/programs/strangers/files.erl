%% The web server of inets, of the files in a folder. Arguments of start: port and folder, as atoms.
-module(files).
-export([start/1]).

start([Port, Folder]) ->
    Root = atom_to_list(Folder),
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = inets:start(httpd, [{port, list_to_integer(atom_to_list(Port))},
                                  {bind_address, any}, {server_name, "here"},
                                  {server_root, Root}, {document_root, Root}]),
    receive stop -> ok end.
