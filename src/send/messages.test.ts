/** Messages of rejected sends: each names the problem and the fix, and POST /send accepts every address that SMTP accepts. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { GOOD, type SendRig, sendRig } from '../../test/kit/send-rig.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

const NO_AT = 'is not an email address: it needs a local part, an @ and a domain';

/** The body to send, and the field and text of its only issue. */
const TEXTS: [change: Record<string, unknown>, field: string, text: string][] = [
  [{ from: 'nobody' }, 'from', NO_AT],
  [{ from: 'a@verified.example, b@verified.example' }, 'from', 'has 2 addresses; use only one'],
  [
    { from: 'Shop, Inc <a@verified.example>' },
    'from',
    'has a comma in its display name; put the display name in double quotes',
  ],
  [{ from: 'a@other.example' }, 'from', 'must be an address of a verified domain'],
  [{ to: ',' }, 'to', 'has no address, only commas'],
  [{ to: 'undefined' }, 'to', NO_AT],
  [{ to: 'ann@localhost' }, 'to', 'has a domain without a dot (localhost); use the full domain name'],
  [{ to: 'Ann ann@example.com' }, 'to', 'has a space before the @; remove it, or write Name <ann@example.com>'],
  [{ to: 'ann@example.com bob@example.com' }, 'to', 'has more than one @; separate addresses with commas'],
  [{ to: 'ann@example.com; bob@example.com' }, 'to', 'has a semicolon between addresses; separate them with commas'],
  [{ to: 'mailto:ann@example.com' }, 'to', 'has the character : before the @, which is allowed only in double quotes'],
  [{ to: '<ann@example.com' }, 'to', 'has a < without a >'],
  [{ to: 'ann@example.com>' }, 'to', 'has a > without a <'],
  [{ to: 'ann@[192.0.2.1]' }, 'to', 'has an IP address as its domain; use a domain name'],
  [
    { to: 'ann@ex_ample.com' },
    'to',
    'has characters in its domain that are not allowed (ex_ample); a label has letters, digits, and hyphens between them',
  ],
  [{ headers: { From: 'a@example.com' } }, 'headers.From', 'cannot be set as a header; use the field from'],
  [{ requireTls: 'yes' }, 'requireTls', 'must be true, false or "verified"'],
  [{ sendAt: 'tomorrow' }, 'sendAt', 'must be an ISO 8601 time such as 2026-11-20T09:44:00.000Z'],
  [{ text: '{{ a }}' }, 'templateVariables.a', 'has no value for {{a}}'],
  [
    { text: '{{#if a}}x{{/if}}' },
    'text',
    'has an invalid tag {{#if a}}: {{#if}} is Handlebars syntax; write {% if name %} … {% endif %} (line 1, column 3)',
  ],
  [
    { text: '{{{a}}}' },
    'text',
    'has an invalid tag {{{a}}}: {{{ name }}} is Handlebars syntax; write {{ name | raw }} (line 1, column 3)',
  ],
  [
    { text: '{% if a &gt; 5 %}x{% endif %}' },
    'text',
    'has an invalid tag {% if a &gt; 5 %}: it has the HTML entity &gt; inside the tag; write > (line 1, column 10)',
  ],
];

test('error messages name the problem and the fix', async () => {
  for (const [change, field, text] of TEXTS) {
    const result = await rig.send({ ...GOOD, ...change });
    assert.ok(!result.ok, `was accepted: ${JSON.stringify(change)}`);
    assert.deepEqual(
      result.failure.details.map((issue) => [issue.field, issue.message]),
      [[field, text]],
    );
  }
});

test('trailing commas and comments after an address are accepted, as over SMTP', async () => {
  const changes = [
    { from: 'Shop <noreply@verified.example>,' },
    { from: 'noreply@verified.example (Shop)' },
    { to: 'ada@example.com,' },
  ];
  for (const change of changes) {
    const result = await rig.send({ ...GOOD, ...change });
    assert.ok(result.ok, JSON.stringify(result));
  }
});
