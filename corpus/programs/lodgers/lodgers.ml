(* Channels of OCaml: `serve PORT BYTES` gives what each connection is for, in a process of its own;
   `fetch HOST PORT RCVBUF` takes it again and again, with a receive buffer of that size if it is not 0. *)
let serve port bytes =
  let block = String.make 65536 'x' in
  Unix.establish_server
    (fun _ out ->
      let rec give left =
        if left > 0 then (
          output_substring out block 0 (min left 65536);
          give (left - 65536))
      in
      give bytes;
      flush out)
    (Unix.ADDR_INET (Unix.inet_addr_any, port))

let fetch host port rcvbuf =
  let block = Bytes.create 65536 in
  while true do
    let socket = Unix.socket Unix.PF_INET Unix.SOCK_STREAM 0 in
    if rcvbuf > 0 then Unix.setsockopt_int socket Unix.SO_RCVBUF rcvbuf;
    Unix.connect socket (Unix.ADDR_INET (Unix.inet_addr_of_string host, port));
    let inp = Unix.in_channel_of_descr socket in
    while input inp block 0 65536 > 0 do
      ()
    done;
    close_in inp
  done

let () =
  let word = Array.get Sys.argv in
  match word 1 with
  | "serve" -> serve (int_of_string (word 2)) (int_of_string (word 3))
  | _ -> fetch (word 2) (int_of_string (word 3)) (int_of_string (word 4))
