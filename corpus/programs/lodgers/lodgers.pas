{ Pascal's sockets: `calls HOST PORT PIECES` writes a call of 40 + 900 bytes, in one or two pieces, and waits for its
  answer; `answers PORT` gives it; `gives HOST PORT BYTES MILLIS` writes so many bytes at a time. }
program lodgers;
uses sockets, sysutils, baseunix;
var
  block: array[0..1048575] of byte;

function dial(host: string; port: word): longint;
var a: TInetSockAddr;
begin
  dial := fpsocket(AF_INET, SOCK_STREAM, 0);
  a.sin_family := AF_INET;
  a.sin_port := htons(port);
  a.sin_addr := StrToNetAddr(host);
  fpconnect(dial, @a, sizeof(a));
end;

procedure take(s, bytes: longint);
var got: longint;
begin
  while bytes > 0 do begin
    got := fprecv(s, @block, bytes, 0);
    if got <= 0 then halt(0);
    bytes := bytes - got;
  end;
end;

procedure give(s, bytes: longint);
var sent: longint;
begin
  while bytes > 0 do begin
    sent := fpsend(s, @block, bytes, 0);
    if sent <= 0 then halt(0);
    bytes := bytes - sent;
  end;
end;

procedure answers(port: word);
var a: TInetSockAddr; l, s, one: longint;
begin
  l := fpsocket(AF_INET, SOCK_STREAM, 0);
  one := 1;
  fpsetsockopt(l, SOL_SOCKET, SO_REUSEADDR, @one, sizeof(one));
  a.sin_family := AF_INET;
  a.sin_port := htons(port);
  a.sin_addr.s_addr := 0;
  fpbind(l, @a, sizeof(a));
  fplisten(l, 5);
  s := fpaccept(l, nil, nil);
  while true do begin
    take(s, 940);
    give(s, 30);
  end;
end;

var s: longint;
begin
  if paramstr(1) = 'answers' then answers(strtoint(paramstr(2)));
  s := dial(paramstr(2), strtoint(paramstr(3)));
  while true do
    if paramstr(1) = 'calls' then begin
      if paramstr(4) = '2' then begin give(s, 40); give(s, 900); end else give(s, 940);
      take(s, 30);
    end else begin
      give(s, strtoint(paramstr(4)));
      sleep(strtoint(paramstr(5)));
    end;
end.
