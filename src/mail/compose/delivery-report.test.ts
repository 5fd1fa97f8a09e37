/** Delivery reports, read back by Postrider's bounce parser, by an email parser, and line by line. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import { type Address, parseAddress } from '../address.ts';
import { readReport } from '../report/report.ts';
import { composeDeliveryReport, type DeliveryReport } from './delivery-report.ts';

const AT = Date.UTC(2026, 10, 20, 9, 44);

function address(text: string): Address {
  const parsed = parseAddress(text);
  assert.ok(parsed.ok, text);
  return parsed.value;
}

function report(change: Partial<DeliveryReport> = {}): DeliveryReport {
  return {
    action: 'failed',
    from: address('Mail Delivery System <postmaster@mail.shop.example>'),
    to: address('orders@shop.example'),
    messageId: '<report@mail.shop.example>',
    dateMs: AT,
    reportingMta: 'mail.shop.example',
    envid: undefined,
    arrivalMs: AT - 60_000,
    recipient: 'ann@example.com',
    originalRecipient: undefined,
    status: '5.1.1',
    remoteMta: 'mx.example.com',
    diagnostic: '550 5.1.1 no such user',
    isReply: true,
    lastAttemptMs: AT,
    willRetryUntilMs: undefined,
    advice: 'Check the address.',
    original: {
      subject: 'Your order',
      messageId: '<order@shop.example>',
      returned: { headersOnly: true, content: Buffer.from('From: orders@shop.example\r\nSubject: Your order\r\n') },
    },
    ...change,
  };
}

const textOf = (change: Partial<DeliveryReport>): string =>
  composeDeliveryReport(report(change)).content.toString('utf8');
const linesOf = (text: string): string[] => {
  assert.ok(text.endsWith('\r\n'));
  return text.slice(0, -2).split('\r\n');
};

test('the bounce parser reads back what was reported', async () => {
  const { content } = composeDeliveryReport(report({ originalRecipient: 'rfc822;list@example.com' }));
  const read = await readReport(content);
  assert.ok(read.kind === 'bounce');
  const [recipient] = read.recipients;
  assert.deepEqual(
    [
      recipient!.action,
      recipient!.finalRecipient,
      recipient!.originalRecipient,
      recipient!.status,
      recipient!.smtpCode,
    ],
    ['failed', 'ann@example.com', 'list@example.com', '5.1.1', 550],
  );
});

test('each action has readable text and its own fields', async () => {
  const cases: [action: DeliveryReport['action'], text: RegExp][] = [
    ['failed', /could not be delivered[\s\S]*Postrider will not try again/],
    ['delayed', /not been delivered yet[\s\S]*until Fri, 20 Nov 2026/],
    ['delivered', /was delivered to the mail server of ann@example\.com/],
    ['relayed', /handed to a relay/],
  ];
  for (const [action, expected] of cases) {
    const willRetryUntilMs = action === 'delayed' ? AT + 3_600_000 : undefined;
    const { content, subject } = composeDeliveryReport(report({ action, willRetryUntilMs }));
    const parsed = await PostalMime.parse(content);
    assert.match(parsed.text ?? '', expected, action);
    assert.equal(parsed.subject, subject);
    const text = content.toString('latin1');
    assert.ok(text.includes(`\r\nAction: ${action}\r\n`), action);
    assert.equal(text.includes('\r\nWill-Retry-Until: '), action === 'delayed');
  }
});

test('text from a remote server or submitter adds no field and no long line', () => {
  const nasty = [
    '550 5.1.1 a\r\nAction: delivered\r\n\r\nX: y',
    '550 \u0000\u0007bell\ttab',
    `550 ${'x'.repeat(3_000)}`,
    `550 ${'word '.repeat(600)}`,
    '550 unbekannter Empfänger 用户不存在',
    '',
  ];
  for (const diagnostic of nasty) {
    for (const change of [{ diagnostic }, { envid: diagnostic }, { remoteMta: diagnostic }]) {
      const lines = linesOf(textOf({ ...change, recipient: 'ann@example.com' }));
      assert.deepEqual(
        lines.filter((line) => /^Action:/i.test(line)),
        ['Action: failed'],
      );
      assert.ok(lines.every((line) => Buffer.byteLength(line) <= 998 && !/[\r\n\0]/.test(line)));
    }
  }
});

test('non-ASCII addresses are written as in RFC 6533', () => {
  const text = textOf({ recipient: 'änn@münchen.example', originalRecipient: 'utf-8;a+ö@x.example' });
  assert.ok(text.includes('\r\nFinal-Recipient: utf-8; \\x{E4}nn@m\\x{FC}nchen.example\r\n'), text);
  assert.ok(text.includes('\r\nOriginal-Recipient: utf-8; a\\x{2B}\\x{F6}@x.example\r\n'), text);
  assert.ok(
    textOf({ recipient: 'ann@münchen.example' }).includes('Final-Recipient: rfc822; ann@xn--mnchen-3ya.example'),
  );
  const toUtf8 = composeDeliveryReport(report({ to: address('änn@example.com') }));
  assert.deepEqual([toUtf8.smtpUtf8, toUtf8.eightBit], [true, true]);
  assert.deepEqual(
    [composeDeliveryReport(report()).smtpUtf8, composeDeliveryReport(report()).eightBit],
    [false, false],
  );
});

test('the message is returned byte for byte with the right content type', () => {
  const cases: [content: string, headersOnly: boolean, type: string, encoding: string][] = [
    ['Subject: a\r\n\r\nplain\r\n', false, 'message/rfc822', '7bit'],
    ['Subject: a\r\n\r\nGrüße\r\n', false, 'message/rfc822', '8bit'],
    ['Subject: Grüße\r\n\r\nplain\r\n', false, 'message/global', '8bit'],
    ['Subject: a\r\n', true, 'text/rfc822-headers', '7bit'],
    ['Subject: Grüße\r\n', true, 'message/global-headers', '8bit'],
  ];
  for (const [original, headersOnly, type, encoding] of cases) {
    const returned = { headersOnly, content: Buffer.from(original) };
    const composed = composeDeliveryReport(
      report({ original: { subject: 'a', messageId: '<a@b.example>', returned } }),
    );
    const text = composed.content.toString('utf8');
    assert.ok(
      text.includes(`\r\nContent-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${original}\r\n--=_d.`),
      text,
    );
    assert.equal(composed.eightBit, encoding === '8bit');
  }
});
