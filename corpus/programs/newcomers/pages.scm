;; Guile's web server, a page of so many bytes. Arguments: port, bytes.
(use-modules (web server) (rnrs bytevectors))
(define asked (command-line))
(define page (make-bytevector (string->number (caddr asked)) 120))
(run-server (lambda (request body) (values '((content-type . (application/octet-stream))) page))
            'http (list #:port (string->number (cadr asked)) #:addr 0))
