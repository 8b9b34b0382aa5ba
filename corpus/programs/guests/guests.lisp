;; Hunchentoot: a file as large as one likes.
(require :asdf)
(let ((*standard-output* (make-broadcast-stream)))
  (asdf:load-system :hunchentoot))
(eval (read-from-string "
  (progn
    (push (hunchentoot:create-static-file-dispatcher-and-handler
           \"/big\" (concatenate 'string (uiop:getenv \"W\") \"/big\"))
          hunchentoot:*dispatch-table*)
    (hunchentoot:start (make-instance 'hunchentoot:easy-acceptor
                                      :port 8080 :access-log-destination nil))
    (loop (sleep 60)))"))
