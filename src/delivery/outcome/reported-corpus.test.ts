/** Reports of real servers are parsed as documented in every line of test/corpus/reports/expected.txt. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { type Report, type ReportedRecipient, readReport } from '../../mail/report/report.ts';
import { reportedOutcome } from './reported-outcome.ts';

const folder = new URL('../../../test/corpus/reports/', import.meta.url);
const lines = readFileSync(new URL('expected.txt', folder), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

function recipientLine(recipient: ReportedRecipient): string {
  const { finalRecipient, action, status, smtpCode } = recipient;
  const fields = `${finalRecipient ?? '-'} ${action} ${status ?? '-'} ${smtpCode ?? '-'}`;
  if (action !== 'failed' && action !== 'delayed') return fields;
  const { category, suppress } = reportedOutcome(recipient);
  return `${fields} ${category}${suppress ? ' suppressed' : ''}`;
}

function lineOf(file: string, report: Report): string {
  if (report.kind === 'none') return `${file} | ${report.why}`;
  const id = report.mail.messageId ?? '-';
  if (report.kind === 'complaint') {
    return `${file} | complaint ${report.feedbackType} | ${report.recipients.join(' ') || '-'} | ${id}`;
  }
  return `${file} | bounce | ${report.recipients.map(recipientLine).join('; ')} | ${id}`;
}

test('every file has an entry, with at least 150 bounces and complaints', () => {
  const files = readdirSync(folder).filter((name) => name.endsWith('.eml'));
  assert.deepEqual(lines.map((line) => line.split(' | ')[0]).sort(), files.sort());
  assert.ok(lines.filter((line) => / \| (bounce|complaint)/.test(line)).length >= 150);
});

for (const line of lines) {
  const file = line.split(' | ')[0]!;
  test(`${file} is read as expected`, async () => {
    assert.equal(lineOf(file, await readReport(readFileSync(new URL(file, folder)))), line);
  });
}

test('a failed recipient has a permanent outcome, a delayed one a temporary outcome, with advice', async () => {
  for (const line of lines) {
    const report = await readReport(readFileSync(new URL(line.split(' | ')[0]!, folder)));
    for (const recipient of report.kind === 'bounce' ? report.recipients : []) {
      const { kind, advice, owner, category, smtpCode } = reportedOutcome(recipient);
      assert.equal(kind, recipient.action === 'failed' ? 'permanent' : 'temporary', line);
      assert.ok(advice.endsWith('.'), line);
      assert.ok(smtpCode !== null && smtpCode >= 400, line);
      if (category === 'blocked') assert.equal(owner, 'remote', line);
    }
  }
});

test('a report about a refusal of the sender suppresses no address', () => {
  const reported = { action: 'failed', status: '5.0.0', smtpCode: 550, finalRecipient: 'ann@b.example' } as const;
  const unavailable = { ...reported, diagnostic: '550 mailbox unavailable' };
  assert.equal(reportedOutcome(unavailable).suppress, true);
  const refused = [
    { ...unavailable, stage: 'mail' as const },
    { ...reported, diagnostic: '550 5.1.1 <b+1@bounce.example>: User unknown (in reply to MAIL FROM command)' },
    {
      ...reported,
      diagnostic: '550-Requested action not taken: mailbox unavailable 550 invalid DNS MX or A/AAAA resource record',
    },
  ];
  for (const one of refused) {
    const { category, owner, suppress } = reportedOutcome(one);
    assert.deepEqual(
      { category, owner, suppress },
      { category: 'policy', owner: 'sender', suppress: false },
      one.diagnostic,
    );
  }
});
