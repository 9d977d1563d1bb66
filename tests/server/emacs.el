;;; emacs.el --- drives Eglot: sees the diagnostics of a file, applies the fix at one of them, and saves  -*- lexical-binding: t -*-

;; Writes what was seen to the file $SEEN as JSON.

(require 'eglot)
(require 'json)
(load (getenv "CONFIGURATION"))

(defun seen ()
  "The diagnostics of the buffer: texts with their lines."
  (mapcar (lambda (diagnostic)
            (list (line-number-at-pos (flymake-diagnostic-beg diagnostic))
                  (substring-no-properties (flymake-diagnostic-text diagnostic))))
          (flymake-diagnostics)))

(defun wait-until (condition what)
  "Let things happen until CONDITION, which is called WHAT, holds."
  (let ((end (+ (float-time) 60)))
    (while (not (funcall condition))
      (when (> (float-time) end) (error "No %s" what))
      (accept-process-output nil 0.1))))

(defun shows (code)
  "Whether there is a diagnostic with CODE."
  (seq-some (lambda (each) (string-match-p code (cadr each))) (seen)))

(let ((line (string-to-number (getenv "LINE")))
      (eglot-sync-connect 60)
      (eglot-connect-timeout 60)
      before)
  (find-file (getenv "FILE"))
  (apply #'eglot (eglot--guess-contact))
  (wait-until (lambda () (shows (getenv "CODE"))) "diagnostics")
  (setq before (seen))
  (goto-char (point-min))
  (forward-line (1- line))
  (let ((action (seq-find (lambda (each) (string-match-p (getenv "TITLE") (plist-get each :title)))
                          (append (eglot-code-actions (line-beginning-position) (line-end-position)) nil))))
    (unless action (error "No such action"))
    (eglot--apply-workspace-edit (plist-get action :edit)))
  (eglot--signal-textDocument/didChange)
  (wait-until (lambda () (not (shows (getenv "CODE")))) "diagnostics without the finding")
  (save-buffer)
  (with-temp-file (getenv "SEEN")
    (insert (json-encode (list (cons 'before (vconcat before)) (cons 'after (vconcat (with-current-buffer (get-file-buffer (getenv "FILE")) (seen)))))))))
