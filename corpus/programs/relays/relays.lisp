; clisp relays.lisp: answers each line with a head and a body, which are flushed apart.
(let ((listener (socket:socket-server 5000 :interface "0.0.0.0"))
      (head (make-string 100 :initial-element #\h))
      (body (make-string 600 :initial-element #\b)))
  (loop
    (let ((s (socket:socket-accept listener :external-format :unix)))
      (loop while (read-line s nil)
            do (write-string head s) (finish-output s)
               (write-string body s) (finish-output s)))))
