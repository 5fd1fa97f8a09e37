/**
 * Readable sentences for errors of a socket, of TLS, of HTTP, or of the resolver: in the reply of an attempt, in the error of a webhook
 * delivery, and in the reason for a TLS fallback. Node, undici, and OpenSSL describe such errors with codes, routine names, and paths of
 * source files; the first matching row of this table replaces them. Messages of Postrider's own clients are readable and stay unchanged.
 */

/** Error code if a TLS policy was not met. The message explains why. */
export const POLICY_UNMET = 'EPOLICY';

/** An error as Node or Postrider's own client reports it. */
export interface ConnectionError {
  /** For example `ECONNRESET`, `ERR_SSL_WRONG_VERSION_NUMBER` or `CERT_HAS_EXPIRED`. */
  cause?: string;
  message?: string;
}

/** Matched against code and message in lower case, with spaces for `_`: `err ssl wrong version number 4013…:error:0a00010b:…`. */
const rows: readonly [pattern: RegExp, sentence: string][] = [
  [/cert has expired|certificate has expired|alert certificate expired/, 'the certificate of the server has expired'],
  [/cert not yet valid|certificate is not yet valid/, 'the certificate of the server is not valid yet'],
  [/altname invalid|does not match certificate/, 'the certificate of the server is for another name'],
  [/self[- ]signed/, 'the certificate of the server is self-signed'],
  [
    /unable to (get|verify)|unknown ca\b|cert untrusted|cert chain/,
    'the certificate of the server is from an issuer that is not trusted',
  ],
  [/cert revoked|certificate revoked/, 'the certificate of the server was revoked'],
  [/key too small|key too short|md too weak|too weak/, 'the server uses a key or certificate that is too weak'],
  [
    /cert (signature|reject)|invalid (ca|purpose)|certificate verify failed/,
    'the certificate of the server is not valid',
  ],
  [
    /alert (bad certificate|certificate unknown|unsupported certificate|certificate required)/,
    'the server rejected the TLS handshake because of a certificate',
  ],
  [/unrecognized name/, 'the server does not support TLS for its own name'],
  [
    /(unsupported|alert) protocol|protocol version|version too low|no protocols available/,
    'the server only supports outdated TLS versions (TLS 1.2 or newer is required)',
  ],
  [
    /wrong version number|packet length too long|http request|record layer failure|unknown protocol/,
    'the server answered the TLS handshake with something that is not TLS',
  ],
  [
    /no shared cipher|handshake failure|insufficient security|no ciphers|wrong cipher|no suitable/,
    'the server and this service have no TLS cipher in common',
  ],
  [/unsafe legacy renegotiation/, 'the server only supports insecure legacy TLS renegotiation'],
  [
    /bad record mac|decrypt|bad ?ecpoint|wrong signature|bad signature|bad digest|illegal parameter|decode error|unexpected message|length mismatch/,
    'the server violated the TLS protocol',
  ],
  [/alert internal error/, 'the server reported an internal error in the TLS handshake'],
  [
    /before secure tls connection|unexpected eof|closed during the tls|close notify/,
    'the server closed the connection during the TLS handshake',
  ],
  [/error:[0-9a-f]{8}:|ssl routines|^err ssl|^err tls/, 'the TLS handshake with the server failed'],
  [/econnrefused/, 'the server refused the connection'],
  [/response does not match the http|^hpe /, 'the response of the server is not valid HTTP'],
  [/headers overflow/, 'the headers of the response are too long'],
  [
    /econnreset|epipe|econnaborted|socket hang up|err stream|enotconn|other side closed|und err socket/,
    'the connection to the server was closed before the exchange was complete',
  ],
  [/etimedout|esockettimedout|connect timeout/, 'the server did not answer in time'],
  [/ehostunreach|enetunreach|ehostdown|enetdown/, 'there is no network route to the server'],
  [
    /eaddrnotavail|eaddrinuse|emfile|enfile|enobufs|enomem/,
    'this host cannot open more connections (no free addresses, ports or file descriptors)',
  ],
  [/eacces|eperm/, 'this host does not allow the connection (a firewall or a missing permission)'],
  [/enotfound|enodata|enoaddress/, 'the server has no address in the DNS'],
  [
    /eai again|eservfail|etimeout|erefused|enoname|ebadresp|eformerr|enotimp|elame|ecnameloop/,
    'the DNS did not answer',
  ],
  [/eproto\b/, 'the TLS handshake with the server failed'],
];

/** Technical terms of Node, undici, OpenSSL, and the resolver. */
const MACHINE =
  /^(other side closed|Connect Timeout|Headers Overflow|Response does not match|Parse Error)|^(connect|read|write|shutdown|bind|getaddrinfo|query[A-Za-z0-9]*) E[A-Z]|error:[0-9A-F]{8}:|SSL routines|^[A-Z][A-Z0-9_]+$|^Client network socket|^socket hang up|^Hostname\/IP|certificate|^This socket|^write after/;

/** Returns one sentence for an error, without capital and full stop, in the style of replies. */
export function errorSentence({ cause = '', message = '' }: ConnectionError): string {
  if (message !== '' && (cause === POLICY_UNMET || !MACHINE.test(message))) return message;
  const text = `${cause} ${message}`.toLowerCase().replaceAll('_', ' ').replaceAll('/', ' ');
  const row = rows.find(([pattern]) => pattern.test(text));
  return row?.[1] ?? 'the connection to the server failed';
}

/** Text of OpenSSL, whose code says the same in fewer words. */
const OPENSSL = /error:[0-9A-F]{8}:/;

/**
 * Returns the sentence for an error, with the original text in parentheses if it says more: the owner of a server sees which address was
 * tried, or which names the certificate has.
 */
export function errorSentenceWithDetail(error: ConnectionError): string {
  const { cause = '', message = '' } = error;
  const sentence = errorSentence(error);
  const detail = message === '' || OPENSSL.test(message) ? cause : message;
  return detail === '' || detail === sentence ? sentence : `${sentence} (${detail})`;
}
