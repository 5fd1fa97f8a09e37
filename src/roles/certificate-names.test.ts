import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Config, readConfig } from '../config.ts';
import { assertPublicNames, certificateNames } from './certificate-names.ts';

function namesBy(config: Config): string[] {
  assertPublicNames(config);
  return certificateNames(config);
}

test('certificates are ordered only for public names of ports with TLS', () => {
  const email = { POSTRIDER_ACME_EMAIL: 'a@b.example' };
  const namesOf = (env: Record<string, string>): string[] =>
    namesBy(readConfig({ POSTRIDER_SMTP_HOSTNAME: 'mail.shop.example', ...env }));
  const https = { POSTRIDER_HTTPS_PORT: '443', POSTRIDER_BASE_URL: 'https://API.shop.example/x' };
  assert.deepEqual(namesOf({}), []);
  assert.deepEqual(namesOf({ ...email, POSTRIDER_BASE_URL: 'https://proxy.example' }), ['mail.shop.example']);
  assert.deepEqual(namesOf({ ...email, ...https }), ['mail.shop.example', 'api.shop.example']);
  assert.deepEqual(namesOf({ ...email, ...https, POSTRIDER_ROLES: 'api' }), ['api.shop.example']);
  assert.deepEqual(namesOf({ ...email, ...https, POSTRIDER_ROLES: 'delivery' }), []);
  assert.deepEqual(namesOf({ ...email, ...https, POSTRIDER_SMTP_HOSTNAME: 'api.shop.example' }), ['api.shop.example']);
  const files = { POSTRIDER_SMTP_TLS_CERT: '/c.pem', POSTRIDER_SMTP_TLS_KEY: '/k.pem' };
  assert.deepEqual(namesOf({ ...email, ...https, ...files }), [], 'certificate files take precedence');
  for (const POSTRIDER_SMTP_HOSTNAME of ['vm', 'localhost', '192.0.2.1']) {
    const message = `POSTRIDER_SMTP_HOSTNAME names "${POSTRIDER_SMTP_HOSTNAME}", and POSTRIDER_ACME_EMAIL needs`;
    assert.throws(
      () => namesOf({ ...email, POSTRIDER_SMTP_HOSTNAME }),
      (error: Error) => error.message.startsWith(message),
    );
    assert.deepEqual(namesOf({ POSTRIDER_SMTP_HOSTNAME }), []);
  }
  for (const url of ['http://localhost:3000', 'https://[2001:db8::1]', 'https://192.0.2.1']) {
    assert.throws(
      () => namesOf({ ...email, ...https, POSTRIDER_BASE_URL: url }),
      /^ConfigError: POSTRIDER_BASE_URL names/,
    );
  }
  assert.throws(
    () => namesOf({ ...email, POSTRIDER_HTTPS_PORT: '443' }),
    /^ConfigError: POSTRIDER_BASE_URL is not set/,
  );
});
