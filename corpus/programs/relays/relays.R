# Rscript relays.R takes HOST PORT BYTES PAUSE, or gives PORT BYTES PAUSE.
args <- commandArgs(TRUE)
number <- function(at) as.numeric(args[at])
if (args[1] == "takes") {
  con <- socketConnection(args[2], number(3), open = "r+b", blocking = TRUE)
  writeBin(as.raw(1), con)
  while (length(readBin(con, "raw", number(4))) > 0) Sys.sleep(number(5))
} else {
  con <- socketConnection(port = number(2), server = TRUE, open = "r+b", blocking = TRUE, timeout = 600)
  repeat { writeBin(raw(number(3)), con); Sys.sleep(number(4)) }
}
