/** The results of one pass: which of two hosts decides for a recipient, which hosts come next, and the signal about the destination. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseReply } from '../../mail/smtp-reply.ts';
import type { RecipientResult } from '../../net/smtp-types.ts';
import { classify } from '../outcome/outcome.ts';
import type { DeliveryItem } from '../queue/delivery-item.ts';
import type { AttemptFacts } from '../record/settle.ts';
import {
  type AttemptResult,
  type ClassifiedResult,
  classifyPass,
  laterResult,
  type Pass,
  remainingHosts,
  signalOfPass,
} from './pass.ts';

const item = {} as DeliveryItem;

const ended = (code: number, host: string): ClassifiedResult => ({
  item,
  kind: 'classified',
  outcome: classify({ stage: 'rcpt', reply: { code, text: 'reply', lines: ['reply'] }, relay: false }),
  facts: { host, dialogue: [{ atMs: 0, direction: 'S', text: `${code} from ${host}` }] } as unknown as AttemptFacts,
});

const codeOf = (result: AttemptResult): number | null | undefined =>
  result.kind === 'classified' ? result.outcome.smtpCode : undefined;

test('the result at the later MX host applies', () => {
  assert.equal(codeOf(laterResult(undefined, ended(451, 'mx1'))), 451);
  assert.equal(codeOf(laterResult(ended(451, 'mx1'), ended(452, 'mx2'))), 452);
});

test('a permanent failure at a later MX host does not override an earlier deferral, and is logged', () => {
  const result = laterResult(ended(451, 'mx1'), ended(550, 'mx2'));
  assert.equal(codeOf(result), 451);
  assert.match(JSON.stringify(result), /550 from mx2/);
});

test('the reply of an earlier MX host is recorded if the later one did not reply for the recipient', () => {
  assert.equal(codeOf(laterResult(ended(451, 'mx1'), { item, kind: 'put back' })), 451);
  assert.equal(laterResult(undefined, { item, kind: 'put back' }).kind, 'put back');
});

const mailOf = (envelopeFrom: string): DeliveryItem =>
  ({ job: { envelopeFrom, recipient: 'ann@example.com' }, hop: {}, returns: 0 }) as unknown as DeliveryItem;

/** A pass over a session with one address, in which a single recipient gets this reply. */
function passOf({
  stage,
  text,
  mailFrom = 'b+1@bounces.example',
  reused = false,
}: {
  stage: RecipientResult['stage'];
  text: string;
  mailFrom?: string;
  reused?: boolean;
}): Pass {
  const reply = parseReply(text)!;
  const session = { remoteHost: 'mx.example', remoteAddress: '192.0.2.1', opening: [] };
  return {
    pooled: { session } as unknown as Pass['pooled'],
    mailFrom,
    sent: { recipients: [{ recipient: 'ann@example.com', accepted: reply.code < 300, stage, reply }], dialogue: [] },
    reused,
    earlier: [],
    clocked: { startedAtMs: 0, durationMs: 1 },
  };
}

test('a limit of one sender does not pause the destination for the others', () => {
  const signalOf = (text: string, { envelopeFrom, mailFrom }: { envelopeFrom: string; mailFrom: string }): string => {
    const pass = passOf({ stage: 'rcpt', text, mailFrom });
    const results = classifyPass({ group: [mailOf(envelopeFrom)], destination: 'relay' }, pass);
    return signalOfPass(pass, results).kind;
  };
  const own = { envelopeFrom: 's@c.example', mailFrom: 'b+1@bounces.c.example' };
  for (const limited of ['Domain c.example', 'User s@c.example', 'Sender b+1@bounces.c.example', 'bounces.c.example']) {
    const text = `550 ${limited} has exceeded the max emails per hour`;
    assert.equal(signalOf(text, own), 'answered', text);
  }
  const shared = { envelopeFrom: 's@c.example', mailFrom: 'b+1@bounces.example' };
  assert.equal(signalOf('450 bounces.example: rate limit exceeded', shared), 'wait');
  assert.equal(signalOf('450 too many messages, try again in 5 minutes', shared), 'wait');
  const internal = { envelopeFrom: 's@example.com', mailFrom: 's@example.com' };
  assert.equal(signalOf('450 example.com: rate limit exceeded', internal), 'wait');
});

test('a refusal of RSET bounces no message: it is sent again over another session', () => {
  for (const text of [
    '554 Too many nonmail commands',
    '502 5.5.1 Command not implemented',
    '500 what',
    '550 5.1.1 User unknown',
  ]) {
    const pass = passOf({ stage: 'reset', text, reused: true });
    const resultOf = (item: DeliveryItem): AttemptResult | undefined =>
      classifyPass({ group: [item], destination: 'mx.example' }, pass)[0];
    assert.equal(resultOf(mailOf('s@c.example'))?.kind, 'put back', text);
    const tired = resultOf({ ...mailOf('s@c.example'), returns: 3 });
    assert.equal(tired?.kind === 'classified' && tired.outcome.kind, 'temporary', text);
  }
});

test('a session keeps the other addresses of its host for the next message', () => {
  const other = { host: 'mx.example', addresses: ['192.0.2.2'] };
  const next = { host: 'mx2.example', addresses: ['192.0.2.3'] };
  const delivered = passOf({ stage: 'dot', text: '250 ok' });
  const pooled = { ...delivered.pooled, rest: [other, next] } as unknown as Pass['pooled'];
  assert.deepEqual(remainingHosts({ ...delivered, pooled }, []), [other, next]);
  const going = (category: 'remote-error' | 'mailbox-full', owner: 'remote' | 'recipient'): AttemptResult[] => {
    const one = ended(451, 'mx.example');
    return [{ ...one, outcome: { ...one.outcome, category, owner } }];
  };
  assert.deepEqual(remainingHosts({ ...delivered, pooled }, going('remote-error', 'remote')), [other, next]);
  assert.deepEqual(remainingHosts({ ...delivered, pooled }, going('mailbox-full', 'recipient')), [next]);
});
