/** Link tokens: they reveal no personal data, reject any change, and keep working for messages already sent. */
import assert from 'node:assert/strict';
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealedText, createTrackingLinks, createUnsubscribeLinks } from './engagement.ts';

const secretKey = randomBytes(32);
const baseUrl = 'https://mail.test';
const copy = { accountId: 'acc_00VW4yjdQm3sN8xKzR2tB', mode: 'live' as const, messageId: 'msg_00VW4yjdXk9pL1cVbN5mQ' };

/** A token in the format of earlier versions: the text in Base64, a dot, and a signature. */
function signedToken(text: string, purpose: string): string {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', `postrider ${purpose}`, 32));
  const payload = Buffer.from(text).toString('base64url');
  return `${payload}.${createHmac('sha256', key).update(payload).digest().subarray(0, 18).toString('base64url')}`;
}

/** Base64 of the text at any of the four alignments. */
function readable(token: string): string {
  return [0, 1, 2, 3].map((skip) => Buffer.from(token.slice(skip), 'base64url').toString('latin1')).join('\n');
}

test('a link is short and reveals no account, message, or address', () => {
  const links = createUnsubscribeLinks({ secretKey, baseUrl });
  const claim = { ...copy, recipient: 'ann.smith@example.com' };
  const token = links.url(claim).slice(`${baseUrl}/unsubscribe/`.length);
  assert.match(token, /^[\w-]+$/);
  for (const secret of [copy.accountId, copy.messageId, 'ann.smith', 'example.com', 'live']) {
    assert.ok(!token.includes(secret) && !readable(token).includes(secret), secret);
  }
  assert.deepEqual(links.open(token), claim);
  const text = `${claim.accountId} ${claim.mode} ${claim.messageId} ${claim.recipient}`;
  const old = signedToken(text, 'unsubscribe links');
  assert.ok(readable(old).includes('ann.smith@example.com'), 'control: the old format was readable');
  assert.ok(token.length < old.length, `${token.length} characters instead of ${old.length}`);

  const tracking = createTrackingLinks({ secretKey, baseUrl });
  const click = tracking.trackingOf(copy, { opens: false, clicks: true }).rewriteLink!(
    'https://shop.example/order/17',
  )!;
  assert.ok(!readable(click.slice(`${baseUrl}/t/`.length)).includes('shop.example'));
});

test('links in the previous format still work', () => {
  const links = createUnsubscribeLinks({ secretKey, baseUrl });
  const claim = { ...copy, recipient: 'ann@example.com' };
  const text = `${claim.accountId} ${claim.mode} ${claim.messageId} ${claim.recipient}`;
  assert.deepEqual(links.open(signedToken(text, 'unsubscribe links')), claim);
  const tracking = createTrackingLinks({ secretKey, baseUrl });
  const token = signedToken(`c ${copy.accountId} live ${copy.messageId} https://shop.example/17`, 'tracking links');
  assert.deepEqual(tracking.open(token), { ...copy, kind: 'click', url: 'https://shop.example/17' });
  assert.equal(tracking.open(token.replace('.', '.A')), undefined);
  assert.equal(links.open(token), undefined, 'a token of another purpose is rejected');
});

test('a changed, shortened, lengthened, or re-encoded token is rejected', () => {
  const sealed = createSealedText(secretKey, 'test');
  for (const text of ['', 'a', 'ü ☃', 'x'.repeat(4_000)]) {
    const token = sealed.seal(text);
    assert.equal(sealed.open(token), text);
    const bytes = Buffer.from(token, 'base64url');
    for (let at = 0; at < Math.min(bytes.length, 64); at += 1) {
      const other = Buffer.from(bytes);
      other[at]! ^= 1 << (at % 8);
      assert.equal(sealed.open(other.toString('base64url')), undefined, `byte ${at}`);
    }
    for (const other of [token.slice(0, -1), token.slice(1), `${token}A`, `${token}=`, ` ${token}`, `${token}.`, '']) {
      assert.equal(sealed.open(other), undefined, JSON.stringify(other));
    }
    assert.equal(createSealedText(secretKey, 'other').open(token), undefined);
    assert.equal(createSealedText(randomBytes(32), 'test').open(token), undefined);
  }
});

test('a text always has the same token, and similar texts have unrelated tokens', () => {
  const sealed = createSealedText(secretKey, 'test');
  assert.equal(sealed.seal('ann@example.com'), sealed.seal('ann@example.com'));
  const [one, two] = [sealed.seal('ann@example.com'), sealed.seal('anm@example.com')];
  const same = [...one].filter((letter, at) => letter === two[at]).length;
  assert.ok(same < one.length / 2, `${same} of ${one.length} characters are equal`);
});
