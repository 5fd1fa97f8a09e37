/** Errors of the command line if there is no response, or one that is not from the API. */
import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { freePort } from '../../test/kit/free-ports.ts';
import { apiClient } from './api-client.ts';
import { networkError } from './network-error.ts';

async function portOf(t: TestContext, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}

async function messageFor(base: string): Promise<string> {
  const client = apiClient({ base, apiKey: 'pr_test_x', accountId: 'acc_x' });
  return client.call({ method: 'POST', path: '/send', body: '{}' }).then(
    ({ status }) => `answered ${status}`,
    (error: Error & { code: string }) => {
      assert.equal(error.code, 'NO_ANSWER');
      assert.doesNotMatch(error.message, /fetch failed|\n/);
      assert.match(error.message, /Try: /);
      return error.message;
    },
  );
}

test('connection errors are reported', async (t) => {
  const base = `http://127.0.0.1:${await freePort()}`;
  assert.match(
    await messageFor(base),
    new RegExp(`^cannot connect to ${base}: connection refused\\. Try: start the service`),
  );
  const closing = await portOf(
    t,
    createServer((socket) => socket.destroy()),
  );
  assert.match(await messageFor(`http://127.0.0.1:${closing}`), /the server closed the connection/);
  const smtp = await portOf(
    t,
    createServer((socket) => {
      socket.on('error', () => undefined).end('220 mail.example.com ESMTP\r\n');
    }),
  );
  assert.match(await messageFor(`http://127.0.0.1:${smtp}`), /the response is not HTTP/);
  assert.match(await messageFor(`https://127.0.0.1:${smtp}`), /does not speak TLS on this port/);
  assert.match(await messageFor('http://127.0.0.1:25'), /this port is not allowed for HTTP/);
});

test('a response from a different service is reported', async (t) => {
  const answers: [number, string, string, RegExp][] = [
    [200, 'text/html; charset=utf-8', '<html>', /\/send returned 200 with an HTML page instead of JSON/],
    [404, 'text/html', '<html>', /returned 404 with an HTML page.*check the host, port and path in --url/],
    [502, 'text/html', '<html>', /returned 502: the proxy cannot reach the service/],
    [504, 'text/plain', 'x', /returned 504: the proxy cannot reach the service/],
    [301, 'text/html', '<html>', /returned a redirect \(301\)/],
    [200, 'application/json', '{"a"', /with application\/json instead of JSON from the Postrider API/],
    [200, 'application/json', 'null', /instead of JSON/],
    [204, '', '', /returned 204 with content of unknown type instead of JSON/],
  ];
  let current = answers[0]!;
  const server = createHttpServer((request, response) => {
    const [status, contentType, body] = current;
    request.resume();
    const location = status === 301 ? { Location: 'https://elsewhere.example/' } : {};
    response.writeHead(status, contentType === '' ? {} : { 'Content-Type': contentType, ...location }).end(body);
  });
  const port = await portOf(t, server);
  for (const answer of answers) {
    current = answer;
    assert.match(await messageFor(`http://127.0.0.1:${port}`), answer[3]);
  }
});

test('errors are described by their code, including nested ones', () => {
  const coded = (code: string): Error => Object.assign(new Error(code), { code });
  const cases: [Error, RegExp][] = [
    [new TypeError('fetch failed', { cause: coded('ENOTFOUND') }), /the host name does not exist/],
    [new TypeError('fetch failed', { cause: coded('EAI_AGAIN') }), /the DNS lookup of the host name failed/],
    [new TypeError('fetch failed', { cause: coded('UND_ERR_CONNECT_TIMEOUT') }), /timed out/],
    [new TypeError('fetch failed', { cause: coded('SELF_SIGNED_CERT_IN_CHAIN') }), /not trusted.*NODE_EXTRA_CA_CERTS/],
    [new TypeError('fetch failed', { cause: coded('DEPTH_ZERO_SELF_SIGNED_CERT') }), /not trusted/],
    [new TypeError('fetch failed', { cause: coded('UNABLE_TO_VERIFY_LEAF_SIGNATURE') }), /not trusted/],
    [new TypeError('fetch failed', { cause: coded('CERT_HAS_EXPIRED') }), /has expired/],
    [new TypeError('fetch failed', { cause: coded('ERR_TLS_CERT_ALTNAME_INVALID') }), /another host name/],
    [new TypeError('fetch failed', { cause: new AggregateError([coded('ECONNREFUSED')]) }), /connection refused/],
    [new DOMException('aborted', 'TimeoutError'), /the server did not respond in time/],
    [new TypeError('fetch failed'), /the request failed/],
    [new TypeError('fetch failed', { cause: coded('EWHATEVER') }), /EWHATEVER/],
  ];
  for (const [error, expected] of cases) assert.match(networkError('http://localhost:3000', error), expected);
});
