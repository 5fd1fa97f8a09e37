/** Explains in one line why a command got no response of the API: the address, the cause, and what to try. */

interface SystemError extends Error {
  code?: string;
  cause?: SystemError;
  errors?: SystemError[];
}

/** Returns the innermost error with a code: fetch wraps it, and a host with several addresses has one error per address. */
function origin(error: SystemError): SystemError {
  const inner = error.cause ?? error.errors?.find(({ code }) => code !== undefined);
  return inner === undefined ? error : origin(inner);
}

const CHECK_URL = 'check --url';

/** Cause and hint, by the error code of the system, OpenSSL, or fetch. */
const KNOWN: Record<string, [what: string, hint: string]> = {
  ECONNREFUSED: ['connection refused', 'start the service (postrider serve), or set its address with --url'],
  ECONNRESET: ['the server closed the connection', 'check that --url has the right port and scheme (http or https)'],
  EPIPE: ['the server closed the connection', 'repeat the command'],
  UND_ERR_SOCKET: [
    'the server closed the connection',
    'check that --url has the right port and scheme (http or https)',
  ],
  ENOTFOUND: ['the host name does not exist', 'check the host name in --url'],
  EAI_AGAIN: ['the DNS lookup of the host name failed', 'check the DNS server of this machine'],
  ETIMEDOUT: ['the connection timed out', 'check the address in --url and the firewall'],
  UND_ERR_CONNECT_TIMEOUT: ['the connection timed out', 'check the address in --url and the firewall'],
  UND_ERR_HEADERS_TIMEOUT: ['the server did not respond in time', 'repeat the command'],
  UND_ERR_BODY_TIMEOUT: ['the server did not respond in time', 'repeat the command'],
  EHOSTUNREACH: ['the host is unreachable', 'check the network and the address in --url'],
  ENETUNREACH: ['the network is unreachable', 'check the network and the address in --url'],
  EADDRNOTAVAIL: ['the address cannot be used', CHECK_URL],
  EACCES: ['this machine does not allow the connection', 'check the firewall of this machine'],
  EPERM: ['this machine does not allow the connection', 'check the firewall of this machine'],
  CERT_HAS_EXPIRED: ['the TLS certificate has expired', 'renew the certificate of the server'],
  CERT_NOT_YET_VALID: ['the TLS certificate is not valid yet', 'check the clock of this machine'],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    'the TLS certificate is for another host name',
    'use the name in the certificate in --url',
  ],
  EPROTO: ['the server does not speak TLS on this port', 'use http:// in --url, or the port with TLS'],
  ERR_SSL_WRONG_VERSION_NUMBER: [
    'the server does not speak TLS on this port',
    'use http:// in --url, or the port with TLS',
  ],
  ERR_SSL_PACKET_LENGTH_TOO_LONG: [
    'the server does not speak TLS on this port',
    'use http:// in --url, or the port with TLS',
  ],
};

const UNTRUSTED = /SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET)|CERT_UNTRUSTED|CERT_SIGNATURE|CERT_REVOKED/;

function reasonOf(error: SystemError): [what: string, hint: string] {
  if (error.name === 'TimeoutError')
    return ['the server did not respond in time', 'repeat the command, or check the service'];
  const { code = '', name, message } = origin(error);
  const known = KNOWN[code];
  if (known) return known;
  const trust = 'add its authority with NODE_EXTRA_CA_CERTS=FILE';
  if (UNTRUSTED.test(code)) return ['the TLS certificate is not trusted', trust];
  if (code.startsWith('ERR_SSL') || code.startsWith('ERR_TLS'))
    return ['TLS failed', 'check the scheme and port in --url'];
  if (name === 'HTTPParserError' || code.startsWith('HPE_'))
    return ['the response is not HTTP', 'check that --url has the HTTP port'];
  if (message === 'bad port') return ['this port is not allowed for HTTP', 'check the port in --url'];
  return [code === '' ? lastResort(message) : code, CHECK_URL];
}

function lastResort(message: string): string {
  return message === 'fetch failed' ? 'the request failed' : message;
}

/** Returns the line for an error that fetch or a request threw. */
export function networkError(base: string, error: unknown): string {
  const [what, hint] = reasonOf(error as SystemError);
  return `cannot connect to ${base}: ${what}. Try: ${hint}`;
}

/** Errors after which the service may have processed the request. */
const UNCERTAIN = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Returns the line for an error of a send with an idempotency key, which can be repeated. */
export function sendError(base: string, error: unknown): string {
  const isUncertain =
    (error as SystemError).name === 'TimeoutError' || UNCERTAIN.has(origin(error as SystemError).code ?? '');
  if (!isUncertain) return networkError(base, error);
  return `no response from ${base}: ${networkReason(error)}. The email may have been accepted. Try: repeat the same command within 10 minutes, which does not send the email twice`;
}

/** Returns only the reason, for a line that already names the address. */
export function networkReason(error: unknown): string {
  return reasonOf(error as SystemError)[0];
}

/** Returns the line for a response that is not JSON from the API. */
export function notTheApi(url: string, status: number, contentType: string | null): string {
  const kind = contentType?.split(';')[0]?.trim().toLowerCase() ?? '';
  if (status >= 502 && status <= 504) {
    return `${url} returned ${status}: the proxy cannot reach the service. Try: check that the service is running`;
  }
  if (status >= 300 && status < 400) {
    return `${url} returned a redirect (${status}). Try: set --url to the address that it redirects to`;
  }
  const form = kind === 'text/html' ? 'an HTML page' : kind === '' ? 'content of unknown type' : kind;
  return `${url} returned ${status} with ${form} instead of JSON from the Postrider API. Try: check the host, port and path in --url`;
}
