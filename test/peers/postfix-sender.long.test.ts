/**
 * Debian's Postfix as the sender, with opportunistic TLS, to the same good and bad TLS receivers as Postrider's own test
 * (src/delivery/attempt/tls-ladder.long.test.ts): wherever Postfix delivers mail that requires no TLS, Postrider's table also delivers it
 * in the same way. A failed handshake costs Postfix another attempt, and Postrider a second connection.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openSmtpSession } from '../../src/net/smtp-client.ts';
import { missing } from '../kit/requirements.ts';
import { fateAt, startTlsPeers } from '../kit/tls-peers.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';

const skip = missing('postfix', 'openssl') || (process.getuid?.() === 0 ? false : 'a private Postfix needs root');
let postfix: PrivatePostfix;
let receivers: Awaited<ReturnType<typeof startTlsPeers>>;

before(async () => {
  if (skip) return;
  receivers = await startTlsPeers();
  const routes = receivers.peers.map(({ domain, address }) => `{ ${domain} = smtp:[${address}]:${receivers.port} }`);
  postfix = await startPostfix({
    domain: 'mailboxes.example',
    users: [],
    settings: {
      transport_maps: `inline:{ ${routes.join(', ')} }`,
      smtp_tls_security_level: 'may',
      // As for Postrider: older versions do not count as encryption.
      smtp_tls_protocols: '>=TLSv1.2',
      mynetworks: '127.0.0.0/8',
      smtpd_relay_restrictions: 'permit_mynetworks, reject_unauth_destination',
      smtp_starttls_timeout: '5s',
      minimal_backoff_time: '1s',
      maximal_backoff_time: '2s',
      queue_run_delay: '1s',
    },
  });
});

after(async () => {
  postfix?.stop();
  await receivers?.close();
});

test('delivers what Postfix delivers without a policy, with the same use of TLS', {
  skip,
  timeout: 180_000,
}, async () => {
  const opened = await openSmtpSession({
    host: 'localhost',
    addresses: ['127.0.0.1'],
    port: postfix.port,
    helo: 'tester.example',
    tls: 'never',
    verifyCertificate: false,
  });
  assert.ok(opened.ok, JSON.stringify(opened));
  const content = Buffer.from('From: a@shop.example\r\nSubject: x\r\n\r\nhello\r\n');
  for (const peer of receivers.peers) {
    const sent = await opened.session.send({
      mailFrom: 'a@shop.example',
      recipients: [`postfix@${peer.domain}`],
      content,
      sizeBytes: content.length,
      smtpUtf8: false,
      eightBit: false,
    });
    assert.equal(sent.recipients[0]!.accepted, true, JSON.stringify(sent));
  }
  await opened.session.quit();
  for (const peer of receivers.peers.filter((one) => one.fates.false !== 'waits')) {
    const delivered = (): string | false => {
      const fate = fateAt(peer, `postfix@${peer.domain}`);
      return fate !== 'waits' && fate;
    };
    const fate = await waitUntil(`Postfix to deliver to ${peer.name}`, delivered, 120_000).catch((error: Error) => {
      const log = postfix.log().split('\n');
      const ofPeer = log.filter((line) => line.includes(peer.domain)).slice(-5);
      throw new Error([error.message, ...ofPeer, postfix.queue(), ...log.slice(-10)].join('\n'));
    });
    assert.equal(fate, peer.fates.false, peer.name);
  }
});
