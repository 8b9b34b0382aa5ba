set pagination off
set confirm off
python
def ask():
    address = int(gdb.parse_and_eval("(unsigned long)$sp"))
    while True:
        gdb.selected_inferior().read_memory(address, 512)
        gdb.execute("maintenance flush dcache", to_string=True)
end
