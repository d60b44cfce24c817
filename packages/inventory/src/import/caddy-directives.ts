/** https://caddyserver.com/docs/caddyfile/directives */
const DIRECTIVES = new Set(
  `
  abort acme_server basic_auth basicauth bind copy_response copy_response_headers encode
  error file_server forward_auth fs handle handle_errors handle_path handle_response
  header intercept invoke log log_append log_name log_skip map method metrics php_fastcgi
  push redir request_body request_header respond reverse_proxy rewrite root route
  skip_log templates tls tracing try_files uri vars
  `
    .trim()
    .split(/\s+/),
);

/** Whether a word is a directive, or a matcher of requests: Caddy takes neither for the address of a site. */
export function isDirective(word: string): boolean {
  return DIRECTIVES.has(word) || word.startsWith('@');
}
