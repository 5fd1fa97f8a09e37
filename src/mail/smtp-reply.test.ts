import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseReply, replyClass, SmtpReplyParser } from './smtp-reply.ts';

const feed = (text: string, parser = new SmtpReplyParser()) => parser.feed(Buffer.from(text, 'latin1'));

test('parses single-line, multi-line, and pipelined replies', () => {
  const { replies, error } = feed('250 2.1.0 Ok\r\n250-mx.example.com\r\n250-SIZE 1000\r\n250 HELP\r\n354\r\n');
  assert.equal(error, undefined);
  assert.deepEqual(replies, [
    { code: 250, enhanced: '2.1.0', text: '2.1.0 Ok', lines: ['2.1.0 Ok'] },
    { code: 250, text: 'mx.example.com SIZE 1000 HELP', lines: ['mx.example.com', 'SIZE 1000', 'HELP'] },
    { code: 354, text: '', lines: [''] },
  ]);
});

test('repeated enhanced codes are written once, and codes of another class are ignored', () => {
  assert.deepEqual(parseReply('550-5.1.1 The account\r\n550-5.1.1 does not exist.\r\n550 5.1.1'), {
    code: 550,
    enhanced: '5.1.1',
    text: '5.1.1 The account does not exist.',
    lines: ['5.1.1 The account', '5.1.1 does not exist.', '5.1.1'],
  });
  assert.equal(parseReply('452 4.2.2 mailbox full')?.enhanced, '4.2.2');
  assert.equal(parseReply('550 2.0.0 odd')?.enhanced, undefined);
  assert.equal(parseReply('550 5.1 odd')?.enhanced, undefined);
  assert.equal(parseReply('550 5.1.1000 odd')?.enhanced, undefined);
});

test('bytes can arrive in any chunks', () => {
  const text = '220-mx.example.com\r\n220 ESMTP ready\r\n250 ok\r\n';
  for (let size = 1; size <= text.length; size += 1) {
    const parser = new SmtpReplyParser();
    const codes: number[] = [];
    for (let i = 0; i < text.length; i += size)
      codes.push(...feed(text.slice(i, i + size), parser).replies.map((r) => r.code));
    assert.deepEqual(codes, [220, 250], `chunks of ${size}`);
    assert.ok(!parser.hasPending());
  }
});

test('reports pending bytes, so that data injected before STARTTLS is not trusted', () => {
  const parser = new SmtpReplyParser();
  assert.ok(!parser.hasPending());
  feed('250-a\r\n', parser);
  assert.ok(parser.hasPending());
  feed('250 b\r\n2', parser);
  assert.ok(parser.hasPending());
});

test('reply text contains no control characters and is truncated', () => {
  const reply = feed('550 a\x00b\x1b[31m\tc\xff\x85\r\n').replies[0]!;
  assert.doesNotMatch(reply.text, /\p{Cc}/u);
  assert.ok(reply.text.isWellFormed());
  const long = feed(`550-${'x'.repeat(900)}\r\n550 ${'y'.repeat(900)}\r\n`).replies[0]!;
  assert.equal(long.text.length, 1000);
});

test('rejects a line that is not a reply, and everything after it', () => {
  for (const text of [
    'HTTP/1.1 400 Bad\r\n',
    '25 x\r\n',
    '2500 x\r\n',
    '150 x\r\n',
    '650 x\r\n',
    '250_x\r\n',
    '\r\n',
    'x\r\n',
  ]) {
    const parser = new SmtpReplyParser();
    assert.ok(feed(text, parser).error, JSON.stringify(text));
    assert.ok(feed('250 ok\r\n', parser).error);
    assert.deepEqual(feed('250 ok\r\n', parser).replies, []);
  }
});

test('rejects replies without an end, by lines and bytes', () => {
  assert.match(feed('250-x\r\n'.repeat(600)).error ?? '', /512 lines/);
  assert.match(feed(`250 ${'x'.repeat(70_000)}`).error ?? '', /bytes/);
  assert.match(feed(`250-${'x'.repeat(600)}\r\n`.repeat(120)).error ?? '', /bytes/);
  // The limits apply to one reply, not to a connection.
  const parser = new SmtpReplyParser();
  for (let i = 0; i < 3000; i += 1) assert.equal(feed(`250 ${'x'.repeat(100)}\r\n`, parser).error, undefined);
});

test('classifies codes, and parses stored replies', () => {
  assert.deepEqual([250, 354, 421, 550].map(replyClass), ['positive', 'intermediate', 'transient', 'permanent']);
  assert.equal(parseReply('550 5.1.1 no such user')?.code, 550);
  for (const text of ['', 'bounced', '250 a\r\n250 b', '250-a']) assert.equal(parseReply(text), undefined);
});

test('the last code of a multi-line reply applies, and all text is kept', () => {
  const { replies, error } = feed('250-mx.example.com\r\n550-5.1.1 no such user\r\n450 4.2.0 greylisted\r\n250 ok\r\n');
  assert.equal(error, undefined);
  assert.deepEqual(replies[0], {
    code: 450,
    enhanced: '4.2.0',
    text: 'mx.example.com 5.1.1 no such user 4.2.0 greylisted',
    lines: ['mx.example.com', '5.1.1 no such user', '4.2.0 greylisted'],
    codes: [250, 550, 450],
  });
  assert.deepEqual(replies[1], { code: 250, text: 'ok', lines: ['ok'] });
});

test('a rejection cut off by a closed connection keeps its code and text', () => {
  const unfinished = (text: string) => {
    const parser = new SmtpReplyParser();
    feed(text, parser);
    return parser.end();
  };
  for (const text of [
    '421-cox.net too many\r\n',
    '421-cox.net too many',
    '421 cox.net too many',
    '421 cox.net too many\r',
  ]) {
    assert.deepEqual(unfinished(text), { code: 421, text: 'cox.net too many', lines: ['cox.net too many'] }, text);
  }
  assert.equal(unfinished('554-no service\r\n554-your address is lis')?.text, 'no service your address is lis');
  assert.equal(unfinished('554-no service\r\n55')?.text, 'no service');
  for (const text of ['', '25', '250-mx.example.com\r\n', '250 queu', '354', '42', '421x no']) {
    assert.equal(unfinished(text), undefined, text);
  }
  assert.equal(parseReply('421-cox.net ESMTP 192.0.2.5 has exceeded limits')?.code, 421);
});

test('non-UTF-8 lines are decoded as Latin-1', () => {
  assert.equal(feed('550 Empf\xe4nger unbekannt\r\n').replies[0]!.text, 'Empfänger unbekannt');
  assert.equal(parseReply('550 Empfänger unbekannt')!.text, 'Empfänger unbekannt');
});
