// relays.pike HOST PORT FIRST SECOND REPLY: one or two writes, then an answer.
int main(int argc, array(string) argv) {
  Stdio.File f = Stdio.File();
  if (!f->connect(argv[1], (int)argv[2])) return 1;
  int reply = (int)argv[5];
  while (1) {
    f->write("a" * (int)argv[3]);
    if ((int)argv[4]) f->write("b" * (int)argv[4]);
    for (int n = 0; n < reply;) {
      string s = f->read(reply - n, 1);
      if (!s || s == "") return 0;
      n += sizeof(s);
    }
  }
}
