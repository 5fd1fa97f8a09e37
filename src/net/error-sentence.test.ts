/** Readable messages for errors of sockets, TLS, and DNS: a table of Node's errors, and real failing handshakes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { errorSentence, errorSentenceWithDetail } from './error-sentence.ts';
import { openSmtpSession } from './smtp-client.ts';

const rows: [cause: string, message: string, sentence: RegExp][] = [
  [
    'EPROTO',
    'write EPROTO 4013A7FB947F0000:error:0A00042E:SSL routines:ssl3_read_bytes:tlsv1 alert protocol version:../deps/openssl/openssl/ssl/record/rec_layer_s3.c:909:SSL alert number 70\n',
    /outdated TLS/,
  ],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', '…:error:0A000102:SSL routines::unsupported protocol', /outdated TLS/],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'x:error:0A00042E:SSL routines:x', /outdated TLS/],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'x:error:0A00010B:SSL routines:ssl3_get_record:wrong version number', /not TLS/],
  ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'x:error:0A0000C6:SSL routines::packet length too long', /not TLS/],
  ['ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE', 'x:error:0A000410:SSL routines:', /no TLS cipher/],
  ['ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE', 'x:error:0A000410:SSL routines:', /no TLS cipher/],
  ['ERR_SSL_DH_KEY_TOO_SMALL', 'x:error:0A00018A:SSL routines:tls_process_ske_dhe:dh key too small', /too weak/],
  ['ERR_SSL_UNSAFE_LEGACY_RENEGOTIATION_DISABLED', 'x:error:0A000152:SSL routines:', /insecure legacy/],
  ['ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC', 'x:error:0A000119:SSL routines:', /violated the TLS protocol/],
  ['ERR_SSL_UNEXPECTED_EOF_WHILE_READING', 'x:error:0A000126:SSL routines:', /closed the connection during/],
  ['ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR', 'x:error:0A000438:SSL routines:', /internal error/],
  ['ERR_SSL_SOMETHING_NEW', 'x:error:0A0FFFFF:SSL routines:', /^the TLS handshake with the server failed$/],
  ['EPROTO', 'write EPROTO', /TLS handshake/],
  ['CERT_HAS_EXPIRED', 'certificate has expired', /has expired/],
  ['CERT_NOT_YET_VALID', 'certificate is not yet valid', /not valid yet/],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate', /self-signed/],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'self-signed certificate in certificate chain', /self-signed/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unable to verify the first certificate', /not trusted/],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unable to get local issuer certificate', /not trusted/],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    "Hostname/IP does not match certificate's altnames: Host: mx.example. is not in the cert's altnames: DNS:other.example",
    /another name/,
  ],
  [
    'ECONNRESET',
    'Client network socket disconnected before secure TLS connection was established',
    /during the TLS handshake/,
  ],
  ['ECONNREFUSED', 'connect ECONNREFUSED 203.0.113.7:25', /refused the connection/],
  ['ECONNRESET', 'read ECONNRESET', /closed before/],
  ['EPIPE', 'write EPIPE', /closed before/],
  ['ETIMEDOUT', 'connect ETIMEDOUT 203.0.113.7:25', /did not answer in time/],
  ['EHOSTUNREACH', 'connect EHOSTUNREACH 203.0.113.7:25 - Local (192.0.2.1:0)', /no network route/],
  ['ENETUNREACH', 'connect ENETUNREACH 2001:db8::1:25', /no network route/],
  ['EADDRNOTAVAIL', 'bind EADDRNOTAVAIL 192.0.2.9', /cannot open more connections/],
  ['EMFILE', 'connect EMFILE 203.0.113.7:25', /cannot open more connections/],
  ['ENOTFOUND', 'getaddrinfo ENOTFOUND mx.example', /no address in the DNS/],
  ['EAI_AGAIN', 'getaddrinfo EAI_AGAIN mx.example', /DNS did not answer/],
  ['ESERVFAIL', '', /DNS did not answer/],
  ['UND_ERR_SOCKET', 'other side closed', /closed before/],
  ['UND_ERR_CONNECT_TIMEOUT', 'Connect Timeout Error (attempted address: 203.0.113.7:443)', /did not answer in time/],
  ['UND_ERR_HEADERS_OVERFLOW', 'Headers Overflow Error', /headers of the response are too long/],
  ['', 'Response does not match the HTTP/1.1 protocol (Expected HTTP/, RTSP/ or ICE/)', /not valid HTTP/],
  ['EVERYTHINGELSE', 'read EVERYTHINGELSE', /^the connection to the server failed$/],
];

/** Technical details. */
const INTERNALS = /\b(?!HTTP\b)[A-Z][A-Z_]{3,}\b|error:|routines|openssl|\d{4,}/;

for (const [cause, message, sentence] of rows) {
  test(`${cause}: ${message.slice(0, 80).trim()}`, () => {
    const words = errorSentence({ cause, message });
    assert.match(words, sentence);
    assert.doesNotMatch(words, INTERNALS);
  });
}

test("errors of Postrider's own client are unchanged", () => {
  for (const message of [
    'no connection to 203.0.113.7 port 25 within 10000 ms',
    'the peer closed the connection',
    'the stored content of the message is missing',
    'the MX records of a.example cannot be looked up (ESERVFAIL)',
  ]) {
    assert.equal(errorSentence({ cause: 'ETIMEDOUT', message }), message);
  }
});

test('the original text is a detail, unless it is that of OpenSSL, which is replaced by its code', () => {
  const detailed = [
    [
      { cause: 'ECONNREFUSED', message: 'connect ECONNREFUSED 203.0.113.7:443' },
      'the server refused the connection (connect ECONNREFUSED 203.0.113.7:443)',
    ],
    [
      { cause: 'ERR_SSL_WRONG_VERSION_NUMBER', message: '00:error:0A00010B:SSL routines:x:../deps/openssl/x.c:78:' },
      'the server answered the TLS handshake with something that is not TLS (ERR_SSL_WRONG_VERSION_NUMBER)',
    ],
    [{ message: 'the name shop.example has no address' }, 'the name shop.example has no address'],
  ] as const;
  for (const [error, text] of detailed) assert.equal(errorSentenceWithDetail(error), text);
});

/** Starts a server that offers STARTTLS and then misbehaves. */
async function brokenServer(answer: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.write('220 broken.example ESMTP\r\n');
    let handed = false;
    socket.on('data', (data) => {
      if (handed) return;
      const line = data.toString('latin1');
      if (/^EHLO/i.test(line)) socket.write('250-broken.example\r\n250 STARTTLS\r\n');
      else if (/^STARTTLS/i.test(line)) {
        handed = true;
        socket.write('220 2.0.0 go ahead\r\n');
        socket.once('data', () => answer(socket));
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => server.close());
  return (server.address() as { port: number }).port;
}

const handshakes: [name: string, answer: (socket: Socket) => void, sentence: RegExp][] = [
  ['closes', (socket) => socket.destroy(), /closed/],
  // A fatal alert, protocol_version (70), as sent by servers that only support old versions.
  ['alerts the version', (socket) => socket.end(Buffer.from([21, 3, 1, 0, 2, 2, 70])), /outdated TLS/],
  ['alerts a failure', (socket) => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 40])), /no TLS cipher/],
  ['goes on in the clear', (socket) => socket.end('250 mail for you, in the clear and at some length\r\n'), /not TLS/],
];

for (const [name, answer, sentence] of handshakes) {
  test(`a server that ${name} instead of a handshake gets a readable message`, async () => {
    const port = await brokenServer(answer);
    const opened = await openSmtpSession({
      ...{
        host: 'broken.example',
        addresses: ['127.0.0.1'],
        port,
        helo: 'me.example',
        tls: 'opportunistic',
        verifyCertificate: false,
      },
    });
    assert.equal(opened.ok, false);
    if (opened.ok) return;
    const words = errorSentence(opened.error);
    assert.match(words, sentence, `${opened.error.cause}: ${opened.error.message}`);
    assert.doesNotMatch(words, INTERNALS);
  });
}
